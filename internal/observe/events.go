package observe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// calibrated is the basis of token figures that follow the provider's own count of a conversation.
const calibrated = "calibrated"

// head is what all events of a request have.
func head(name string, r *pipeline.Request, o *pipeline.Outcome) event.Head {
	return event.Head{
		V: event.Version, Time: r.Now, Event: name, Key: o.Key, RequestID: clean(r.ID), TraceID: traceID(r.Trace), Tenant: o.Tenant, Session: o.Session,
		Lineage: lineage(o), Turn: int(o.Turn), N: o.N, Route: clean(r.Route), Format: o.Format.String(), Model: o.Model, Mode: r.Config.Mode.String(),
		Config: r.Config.Hash,
	}
}

// clean keeps what a client or a config says to text that every reader of JSON accepts.
func clean(s string) string { return strings.ToValidUTF8(s, "_") }

// traceID is the trace of a W3C traceparent: version, trace, parent and flags between hyphens.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// RequestEvents are the events of a request that was answered: what became of it, its move, and whatever was decided or looked
// at. The first one is the request's.
func RequestEvents(r *pipeline.Request, o *pipeline.Outcome) []event.Event {
	tokens, _ := removed(o)
	q := &event.Request{
		Head: head(event.NameRequest, r, o), Kind: o.Kind.String(), Outcome: o.Class(), Gate: string(o.Gate), Gates: gates(o.Gates),
		Pipeline: clean(r.Config.Name), Group: o.Group, Cache: o.Cache.String(), Messages: o.Messages, BytesIn: o.BytesIn, BytesOut: o.BytesOut,
		PrefixHash: o.Prefix, Undeclared: o.Undeclared, Desync: o.Desync, Side: o.Side || r.CountTokens, Compacted: o.Replays > 0 || tokens > 0 || o.Cut > 0,
		Held: o.Held, Replays: o.Replays, Filters: o.Applied, Breakpoint: changes(&o.Breakpoints), Duration: o.Duration.Microseconds(),
		Stages: stages(&o.Stages),
		Sizes: event.Sizes{
			Basis: estimated, Cached: o.Sizes.Cached, Sent: o.Sizes.Sent, Fresh: o.Sizes.Fresh, Removed: tokens, Replayed: replayed(o),
			Expected: o.Sizes.Expected,
		},
	}
	if o.Parent != 0 {
		q.Parent = hexID(o.Parent)
	}
	if o.Sizes.Calibrated {
		q.Sizes.Basis = calibrated
	}
	if s := o.Shadow; s != nil {
		n, _ := removed(s)
		q.Shadow = &event.Shadow{Outcome: s.Class(), Removed: n, Gates: gates(s.Gates)}
	}
	all := []event.Event{q}
	if m := o.Move; m != nil {
		all = append(all, &event.Move{
			Head: head(event.NameMove, r, o), Kind: m.Kind, Filter: m.Filter, Message: int(m.From), Removed: m.Tokens, Decisions: len(o.New),
			Sum: m.Sum.String(), Predicted: m.Predicted,
		})
	}
	all = append(all, decisions(r, o)...)
	for i := range o.Restored {
		e := restored(r, o, &o.Restored[i])
		all = append(all, e)
	}
	for _, a := range o.Again {
		all = append(all, &event.Reuse{
			Head: head(event.NameReuse, r, o), Call: clean(a.Call), Filter: a.Filter, Kind: string(a.Kind), Tokens: a.Tokens, Later: int(a.Turns),
		})
	}
	return all
}

func restored(r *pipeline.Request, o *pipeline.Outcome, g *pipeline.Restored) *event.Restore {
	e := &event.Restore{Head: head(event.NameRestore, r, o), Path: "inline", Result: g.Result, Filter: g.Filter}
	if g.Result == pipeline.RestoreOK {
		e.Tokens = g.Tokens
	}
	return e
}

// gates are counts of gates, sorted.
func gates(counts map[pipeline.FilterGate]int) []event.Gate {
	out := make([]event.Gate, 0, len(counts))
	for g, n := range counts {
		out = append(out, event.Gate{Filter: g.Filter, Gate: string(g.Gate), N: n})
	}
	slices.SortFunc(out, func(a, b event.Gate) int { return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Gate, b.Gate)) })
	return out
}

// changes are what was done to breakpoints, by the words of the metric breakpoints_total.
func changes(b *pipeline.BreakpointChanges) map[string]int {
	var out map[string]int
	for action, n := range actions(b) {
		if n == 0 {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[action] = n
	}
	return out
}

func stages(s *pipeline.Stages) map[string]int64 {
	out := make(map[string]int64, len(s))
	for i, d := range s {
		if d > 0 {
			out[pipeline.Stage(i).String()] = d.Microseconds()
		}
	}
	return out
}

// zones are the words for what the provider was believed to hold of a result.
var zones = map[filters.Zone]string{filters.Covered: "covered", filters.Uncovered: "uncovered", filters.Fresh: "fresh"}

// decisions are the events of results that something new is to be said of, and of cuts.
func decisions(r *pipeline.Request, o *pipeline.Outcome) (all []event.Event) {
	made := map[string]*pipeline.DecisionMade{}
	for i := range o.New {
		d := &o.New[i]
		made[d.Call] = d
		if d.Drop {
			all = append(all, &event.Decision{
				Head: head(event.NameDecision, r, o), Calls: cleaned(d.Calls), Message: int(d.Msg), ResultTurn: int(o.Turn), Filter: d.Filter, Verb: d.Verdict,
				First: true, Tokens: d.Tokens, MarkerTokens: d.MarkerTokens, ID: d.ID, SHA256: d.SHA256,
			})
		}
	}
	for i := range o.Explain {
		v := &o.Explain[i]
		e := &event.Decision{
			Head: head(event.NameDecision, r, o), Call: clean(v.Call), Tool: clean(v.Tool), Path: clean(v.Path), Message: int(v.Msg), ResultTurn: int(v.Turn),
			Zone: zones[v.Zone], Held: v.Held, Filter: v.Filter, Verb: v.Verdict, Tokens: v.Tokens, ID: v.ID, Sum: v.Sum,
			What: clean(v.What), Marker: clean(v.Marker),
		}
		if v.Filter != "" {
			e.MarkerTokens = max(0, v.Tokens-v.Saves)
		}
		if d := made[v.Call]; d != nil && !d.Drop {
			e.First, e.SHA256 = !d.Hold, d.SHA256
		}
		if v.Path != "" {
			sum := sha256.Sum256([]byte(v.Path))
			e.PathHash = hex.EncodeToString(sum[:8])
		}
		for _, g := range v.Gates {
			e.Gates = append(e.Gates, event.Gate{Filter: g.Filter, Gate: string(g.Gate)})
		}
		all = append(all, e)
	}
	return all
}

func cleaned(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = clean(s)
	}
	return out
}

// ResponseEvents are the events of a response: what it was billed, and what was lost.
func (m *Metrics) ResponseEvents(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation) (all []event.Event) {
	if v.Usage == nil {
		return nil
	}
	u := v.Usage.Billed()
	e := &event.Usage{
		Head: head(event.NameUsage, r, o), Expected: v.Expected,
		Observed: event.Billed{
			Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output, Merged: v.Usage.Merged, Cost: v.Cost,
		},
	}
	e.Model = v.Model
	if v.Moved != o.Key {
		e.Moved = v.Moved
	}
	if a := v.Account; a != nil {
		e.Modelled = &event.Account{
			Baseline: v.Baseline, Removal: a.Removal, Levers: a.Levers, Reuse: a.Reuse, Net: v.Net(), Provider: v.Provider,
			First: priced(&a.First), Again: priced(&a.Again),
		}
	}
	all = append(all, e)
	if l := v.Loss; l != nil {
		loss := &event.Loss{
			Head: head(event.NameLoss, r, o), Cause: string(l.Cause), Filter: l.Filter, Source: lossSource(l), Message: int(l.Message), Tokens: l.Tokens,
			Observed: v.Usage.Read, USD: m.priceOfLoss(v),
		}
		loss.Model = v.Model
		all = append(all, loss)
	}
	return all
}

func priced(p *pipeline.Priced) event.Priced {
	return event.Priced{Basis: string(p.Basis()), Read: p.Read, Written: p.Written, Input: p.Input, USD: p.USD}
}

// RestoreEvent is the event of an original that was asked for by its id.
func RestoreEvent(path, result, filter string, tokens int, now time.Time) event.Event {
	return &event.Restore{Head: event.Head{V: event.Version, Time: now, Event: event.NameRestore}, Path: path, Result: result, Filter: filter, Tokens: tokens}
}

// SpendEvent is the event of a call that tidemark made itself, nil for one that never came to be billed.
func SpendEvent(s *summarize.Report, now time.Time) event.Event {
	if s.Input+s.Output == 0 {
		return nil
	}
	h := event.Head{V: event.Version, Time: now, Event: event.NameSpend, Model: s.Model}
	return &event.Spend{Head: h, Purpose: "summary", Input: s.Input, Output: s.Output, USD: s.Cost}
}

// ConfigEvent is the event of a config that was loaded, or could not be. What is wrong with it names keys and places, never
// values that are secret.
func ConfigEvent(hash string, err error, now time.Time) event.Event {
	e := &event.Config{Head: event.Head{V: event.Version, Time: now, Event: event.NameConfig, Config: hash}, Result: "ok"}
	if err != nil {
		e.Result, e.Errors = "error", strings.Split(clean(err.Error()), "\n")
	}
	return e
}
