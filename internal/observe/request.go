package observe

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// estimated is the basis of token figures that come from transcript.Est.
const estimated = "estimated"

// Request counts one request and what became of it.
func (m *Metrics) Request(r *pipeline.Request, o *pipeline.Outcome) {
	route, format, class := m.routes.of(r.Route), o.Format.String(), o.Class()
	m.requests.WithLabelValues(route, format, r.Config.Mode.String(), class).Inc()
	m.inbound.WithLabelValues(route, format).Add(float64(o.BytesIn))
	m.outbound.WithLabelValues(route, format).Add(float64(o.BytesOut))
	m.duration.WithLabelValues("request_body", class).Observe(o.Duration.Seconds())
	for i, d := range o.Stages {
		if d > 0 {
			m.stages.WithLabelValues(pipeline.Stage(i).String()).Observe(d.Seconds())
		}
	}
	if _, counted := o.Gates[pipeline.FilterGate{Gate: o.Gate}]; o.Gate != "" && !counted {
		m.gates.WithLabelValues("", string(o.Gate)).Inc()
	}
	for g, n := range o.Gates {
		m.gates.WithLabelValues(g.Filter, string(g.Gate)).Add(float64(n))
	}
	m.faults(o)
	m.decisions(route, o)
	if o.Shadow != nil {
		for _, d := range o.Shadow.New {
			m.shadowed.WithLabelValues(route, d.Filter, estimated).Add(float64(net(&d)))
		}
	}
}

func (m *Metrics) faults(o *pipeline.Outcome) {
	if o.Desync {
		m.desyncs.Inc()
	}
	if c, ok := m.faulty[o.Gate]; ok {
		c.Inc()
	}
}

func (m *Metrics) decisions(route string, o *pipeline.Outcome) {
	replays := o.Replays
	if o.Cut > 0 {
		replays++
	}
	for _, d := range o.New {
		n, basis := counted(&d)
		m.removed.WithLabelValues(route, d.Filter, basis).Add(float64(n))
		m.latches.WithLabelValues("won").Inc()
		if d.Drop {
			replays--
		}
	}
	for _, r := range o.Restored {
		if r.Result != pipeline.RestoreOK {
			r.Tokens = 0 // of the sentence that says why
		}
		m.Restored("inline", r.Result, r.Filter, r.Tokens)
	}
	for _, a := range o.Again {
		m.reused.WithLabelValues(a.Filter, string(a.Kind)).Add(float64(a.Tokens))
	}
	for filter, n := range o.Reused {
		m.reused.WithLabelValues(filter, "used").Add(float64(n))
	}
	if n := replays; n > 0 {
		m.latches.WithLabelValues("replayed").Add(float64(n))
		m.replayed.WithLabelValues(route).Add(float64(replayed(o)))
	}
	if o.Move != nil {
		m.moves.WithLabelValues(o.Move.Kind).Inc()
		m.prefixes.WithLabelValues("true").Inc()
	}
	if o.Undeclared {
		m.prefixes.WithLabelValues("false").Inc()
	}
	for action, n := range actions(&o.Breakpoints) {
		if n > 0 {
			m.breakpoints.WithLabelValues(route, action).Add(float64(n))
		}
	}
}

// counted is how many tokens a decision left out, as the provider counts the conversation if it has.
func counted(d *pipeline.DecisionMade) (tokens int, basis string) {
	if d.Calibrated > 0 && !d.Hold {
		return d.Calibrated, calibrated
	}
	return net(d), estimated
}

// replayed is what earlier decisions left out once more.
func replayed(o *pipeline.Outcome) int {
	tokens, _ := removed(o)
	return max(0, o.Tokens-tokens)
}

// actions names what was done to breakpoints.
func actions(b *pipeline.BreakpointChanges) map[string]int {
	return map[string]int{
		"held": b.Stripped, "anchored": b.Anchored, "bridged": b.Kept, "placed": b.Placed, "ttl_raised": b.Raised, "ttl_lowered": b.Lowered,
	}
}

// net is how many tokens a decision left out; a hold leaves out none.
func net(d *pipeline.DecisionMade) int {
	if d.Hold {
		return 0
	}
	return max(0, d.Tokens-d.MarkerTokens)
}

func removed(o *pipeline.Outcome) (tokens int, names string) {
	var seen []string
	for i := range o.New {
		d := &o.New[i]
		tokens += net(d)
		if !strings.Contains(","+strings.Join(seen, ",")+",", ","+d.Filter+",") {
			seen = append(seen, d.Filter)
		}
	}
	return tokens, strings.Join(seen, ",")
}

// verdicts counts new decisions by filter and verdict, which names the tier too: coref:unreferenced=2,tiered:tier2=1.
func verdicts(o *pipeline.Outcome) string {
	counts := map[string]int{}
	for i := range o.New {
		counts[o.New[i].Filter+":"+o.New[i].Verdict]++
	}
	words := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, name+"="+strconv.Itoa(counts[name]))
	}
	return strings.Join(words, ",")
}

// Result describes a request for access logs, as flat scalars: %DYNAMIC_METADATA(tidemark.result:outcome)%. Ids are
// hashes. compacted is there only if it is true, as the OpenTelemetry convention for it asks. In mode shadow, the fields
// that start with shadow_ say what mode active would have done.
func Result(o *pipeline.Outcome, r *pipeline.Request) *structpb.Struct {
	tokens, names := removed(o)
	f := map[string]*structpb.Value{
		"outcome":         structpb.NewStringValue(o.Class()),
		"pipeline":        text(r.Config.Name),
		"mode":            structpb.NewStringValue(r.Config.Mode.String()),
		"format":          structpb.NewStringValue(o.Format.String()),
		"gate":            structpb.NewStringValue(string(o.Gate)),
		"filters":         structpb.NewStringValue(names),
		"verdicts":        structpb.NewStringValue(verdicts(o)),
		"bytes_in":        structpb.NewNumberValue(float64(o.BytesIn)),
		"bytes_out":       structpb.NewNumberValue(float64(o.BytesOut)),
		"tokens_removed":  structpb.NewNumberValue(float64(tokens)),
		"tokens_replayed": structpb.NewNumberValue(float64(replayed(o))),
		"move":            structpb.NewStringValue(move(o)),
		"cache":           structpb.NewStringValue(o.Cache.String()),
		"prefix_changed":  structpb.NewBoolValue(o.Move != nil || o.Undeclared),
		"session":         text(o.Session),
		"lineage":         structpb.NewStringValue(lineage(o)),
		"turn":            structpb.NewNumberValue(float64(o.Turn)),
		"duration_us":     structpb.NewNumberValue(float64(o.Duration.Microseconds())),
		"config":          text(r.Config.Hash),
	}
	if n := o.Sizes.Expected; n > 0 {
		f["expected_cached_tokens"] = structpb.NewNumberValue(float64(n))
	}
	if o.Replays > 0 || tokens > 0 {
		f["compacted"] = structpb.NewBoolValue(true)
	}
	if o.Shadow != nil {
		tokens, names := removed(o.Shadow)
		f["shadow_outcome"] = structpb.NewStringValue(o.Shadow.Class())
		f["shadow_filters"] = structpb.NewStringValue(names)
		f["shadow_verdicts"] = structpb.NewStringValue(verdicts(o.Shadow))
		f["shadow_tokens_removed"] = structpb.NewNumberValue(float64(tokens))
	}
	return &structpb.Struct{Fields: f}
}

// text is a string that protobuf accepts.
func text(s string) *structpb.Value { return structpb.NewStringValue(strings.ToValidUTF8(s, "_")) }

func move(o *pipeline.Outcome) string {
	if o.Move == nil {
		return ""
	}
	return o.Move.Kind
}

func lineage(o *pipeline.Outcome) string {
	if o.Branch == 0 {
		return ""
	}
	return hexID(o.Branch)
}

// hexID is how the id of a branch is told.
func hexID(branch uint64) string { return fmt.Sprintf("%016x", branch) }

// LogRequest writes one line per request at level debug.
func LogRequest(ctx context.Context, log *slog.Logger, r *pipeline.Request, o *pipeline.Outcome) {
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	tokens, names := removed(o)
	log.LogAttrs(ctx, slog.LevelDebug, "request",
		slog.String("request_id", r.ID), slog.String("route", r.Route), slog.String("pipeline", r.Config.Name),
		slog.String("outcome", o.Class()), slog.String("gate", string(o.Gate)), slog.String("filters", names),
		slog.String("cache", o.Cache.String()), slog.String("session", o.Session), slog.String("lineage", lineage(o)),
		slog.Int("turn", int(o.Turn)), slog.Int("bytes_in", o.BytesIn), slog.Int("bytes_out", o.BytesOut),
		slog.Int("tokens_removed", tokens), slog.Int("tokens_replayed", o.Tokens), slog.Int("restored", len(o.Restored)), slog.Int64("duration_us", o.Duration.Microseconds()))
}
