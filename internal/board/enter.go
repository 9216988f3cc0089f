package board

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// enter writes an event down in the conversation that it is of.
func (b *Board) enter(l *lineage, e event.Event) {
	if d, ok := e.(*event.Decision); ok {
		b.enterResult(l, d)
		return
	}
	r := b.record(l, e.Of())
	if r == nil {
		return
	}
	switch e := e.(type) {
	case *event.Request:
		r.enter(e)
	case *event.Usage:
		o := e.Observed
		r.Observed, r.Expected = &o, e.Expected
		if e.Modelled != nil {
			m := *e.Modelled
			r.Modelled = &m
		}
	case *event.Move:
		if len(r.Moves) < maxMarks {
			r.Moves = append(slices.Clip(r.Moves), Move{e.Kind, e.Filter, e.Message, e.Removed, e.Decisions, clip(e.Sum, maxSum), e.Predicted})
		}
	case *event.Loss:
		if len(r.Losses) < maxMarks {
			r.Losses = append(slices.Clip(r.Losses), Lost{e.Cause, e.Filter, e.Source, e.Message, e.Tokens, e.USD})
		}
	case *event.Reuse:
		if len(r.Reuses) < maxMarks {
			r.Reuses = append(slices.Clip(r.Reuses), Reuse{clip(e.Call, maxName), e.Filter, e.Kind, e.Tokens, e.Later})
		}
	}
	l.of.bytes -= r.bytes
	r.bytes = r.size()
	l.of.bytes += r.bytes
}

// record returns what is known of the request that an event is of. An answer may be told of before its request. It is nil for a
// request that is not kept: an event without a key, or of one that was dropped.
func (b *Board) record(l *lineage, h *event.Head) *record {
	if h.Key == "" {
		return nil
	}
	if r := b.records[h.Key]; r != nil {
		if r.of == l {
			return r
		}
		return nil
	}
	if h.Event != event.NameRequest && len(l.records) >= maxRequests && h.N <= l.records[0].N {
		return nil
	}
	r := &record{of: l, Request: Request{Key: h.Key, N: h.N, Turn: h.Turn, Time: h.Time, Model: h.Model, Mode: h.Mode}}
	if len(l.records) >= maxRequests {
		b.dropRecord(l)
	}
	b.records[r.Key] = r
	at := len(l.records)
	for at > 0 && l.records[at-1].after(r) {
		at--
	}
	l.records = slices.Insert(l.records, at, r)
	return r
}

// after reports whether r comes after o in their conversation.
func (r *record) after(o *record) bool {
	return cmp.Or(cmp.Compare(r.N, o.N), r.Time.Compare(o.Time)) > 0
}

func (r *record) enter(e *event.Request) {
	r.Known, r.Time, r.Model, r.Mode = true, e.Time, e.Model, e.Mode
	r.Kind, r.Outcome, r.Gate, r.Cache = e.Kind, e.Outcome, e.Gate, e.Cache
	r.Side, r.Undeclared, r.Desync, r.Compacted = e.Side, e.Undeclared, e.Desync, e.Compacted
	r.Messages, r.BytesIn, r.BytesOut, r.Estimated = e.Messages, e.BytesIn, e.BytesOut, e.Sizes
	if e.Shadow != nil {
		s := *e.Shadow
		s.Gates = slices.Clone(s.Gates[:min(len(s.Gates), maxGates)])
		r.Shadow = &s
	}
	all := gatesOf(e)
	r.gates = slices.Clone(all[:min(len(all), maxGates)])
	r.filters, r.pipeline, r.group = slices.Clone(e.Filters), e.Pipeline, e.Group
	r.held, r.replays, r.points = e.Held, e.Replays, maps.Clone(e.Breakpoint)
	r.duration, r.trace, r.id = time.Duration(e.Duration)*time.Microsecond, e.TraceID, clip(e.RequestID, maxName)
	if e.Parent != "" && r.of.parent == "" && e.Parent != r.of.id {
		r.of.parent = e.Parent
	}
}

// gatesOf are the gates of a request, the one of it as a whole included.
func gatesOf(e *event.Request) []event.Gate {
	if e.Gate == "" || slices.ContainsFunc(e.Gates, func(g event.Gate) bool { return g.Filter == "" && g.Gate == e.Gate }) {
		return e.Gates
	}
	return append([]event.Gate{{Gate: e.Gate, N: 1}}, e.Gates...)
}

// shownID is how much is shown of an id where content is not: whoever has a whole one may have the original.
const shownID = 8

// enterResult keeps what was said of a result.
func (b *Board) enterResult(l *lineage, e *event.Decision) {
	r := &Result{
		Call: clip(e.Call, maxName), Tool: clip(e.Tool, maxName), What: clip(e.What, maxWhat), Message: e.Message, Turn: e.ResultTurn,
		Zone: e.Zone, Held: e.Held, Filter: e.Filter, Verb: clip(e.Verb, maxName), Gates: slices.Clone(e.Gates[:min(len(e.Gates), maxGates)]),
		Tokens: e.Tokens, MarkerTokens: e.MarkerTokens, ID: e.ID, Sum: clip(e.Sum, maxSum), Told: e.N,
	}
	for _, c := range e.Calls[:min(len(e.Calls), maxCalls)] {
		r.Calls = append(r.Calls, clip(c, maxName))
	}
	if b.o.Content != nil {
		r.marker = clip(e.Marker, maxMarker)
	} else {
		r.ID = clip(e.ID, shownID)
		if e.Path == "" { // then What are arguments of the call
			r.What = ""
		}
	}
	if len(l.results) >= maxResults {
		b.dropResult(l)
	}
	l.results = append(l.results, r)
	r.at = r.size()
	l.of.bytes += r.at
	if r.ID != "" {
		b.byID[r.ID] = r
	}
}

// resultsAt are what was said of results by the time of the conversation's request n: of each result the last word, in the order
// of the transcript. What a cut left out and what is said of cuts stands with the others.
func resultsAt(all []*Result, n int) []*Result {
	last := map[string]int{}
	var list []*Result
	for _, r := range all {
		if r.Told > n {
			continue
		}
		if at, known := last[r.Call]; known && r.Call != "" {
			list[at] = r
			continue
		}
		last[r.Call] = len(list)
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b *Result) int { return cmp.Compare(a.Message, b.Message) })
	return list
}
