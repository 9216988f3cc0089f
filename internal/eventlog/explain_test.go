package eventlog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/eventlog"
)

// said is what an explanation says of results: the decision's verb, and whether the request made it.
func said(x *eventlog.Explanation) map[string]string {
	out := map[string]string{}
	for _, s := range x.Results {
		out[s.Call] = fmt.Sprint(s.Verb, " ", s.Now)
	}
	return out
}

func TestExplainScene(t *testing.T) {
	path := write(t, "events.jsonl", eventtest.Lines(t, eventtest.Scene()...))
	for id, want := range map[string]map[string]string{
		"req-a11c-1111-0": {},
		"req-a11c-1111-1": {"toolu_1": " true", "toolu_2": " true"},
		"req-a11c-1111-2": {"toolu_1": " true", "toolu_2": " false"},
		"req-a11c-1111-3": {"toolu_1": "stale true", "toolu_2": " false"},
		"a11c-1111-4":     {"toolu_1": "stale false", "toolu_2": " false"},
		"req-a11c-f00d-5": {"toolu_1": "stale false", "toolu_2": " false"},
		"req-a11c-1111-5": {},
		"req-b0b0-1111-2": {"toolu_8": "cut false", "toolu_9": "cut false"},
	} {
		x, err := eventlog.Explain([]string{path}, id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, said(x)); diff != "" || x.Usage == nil {
			t.Errorf("%s: %s", id, diff)
		}
	}
	x, err := eventlog.Explain([]string{path}, "b0b0-1111-2")
	if err != nil || len(x.Reuses) != 1 || len(x.Restores) != 1 || x.Move != nil || len(x.Losses) != 0 {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err = eventlog.Explain([]string{path}, "b0b0-1111-1"); err != nil || x.Move == nil || len(x.Losses) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err = eventlog.Explain([]string{path}, "nobody"); !errors.Is(err, eventlog.ErrNoRequest) {
		t.Errorf("got %v", err)
	}
}

// Where several requests have one id, their keys tell them apart.
func TestExplainAmbiguous(t *testing.T) {
	events := eventtest.Scene()
	for _, e := range events {
		if e.Of().Session == eventtest.Worker {
			e.Of().RequestID = "again"
		}
	}
	path := write(t, "events.jsonl", eventtest.Lines(t, events...))
	if _, err := eventlog.Explain([]string{path}, "again"); err == nil || !strings.Contains(err.Error(), `"a11c-1111-3"`) {
		t.Errorf("got %v", err)
	}
	if x, err := eventlog.Explain([]string{path}, "a11c-1111-3"); err != nil || x.Request.N != 3 {
		t.Errorf("%+v, %v", x, err)
	}
}

// A usage that is told before its request is not lost.
func TestExplainUsageFirst(t *testing.T) {
	events := eventtest.Scene()
	slices.Reverse(events)
	for i, e := range events {
		e.Of().Time = time.Unix(int64(i), 0)
	}
	x, err := eventlog.Explain([]string{write(t, "events.jsonl", eventtest.Lines(t, events...))}, "a11c-1111-3")
	if err != nil || x.Usage == nil || x.Usage.Observed.Write5m != 19500 {
		t.Errorf("%+v, %v", x, err)
	}
}

// What stands for results is what was said last in the conversation, or in that which it was forked from before it was; other
// conversations say nothing of it.
func TestExplainFollowsConversations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var events []event.Event
		var requests []*event.Request
		known := map[string]map[string]map[string]string{} // by session, lineage and call
		want := map[string]map[string]string{}             // by key
		for n := range rapid.IntRange(1, 15).Draw(rt, "requests") {
			h := event.Head{V: 1, Time: time.Unix(int64(n), 0), Event: event.NameRequest, Key: fmt.Sprint(n), N: n}
			h.Session = rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "session")
			h.Lineage = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "lineage")
			r := &event.Request{Head: h, Side: rapid.IntRange(0, 9).Draw(rt, "side") == 0}
			mine := known[h.Session]
			if mine == nil {
				mine = map[string]map[string]string{}
				known[h.Session] = mine
			}
			if mine[h.Lineage] == nil {
				mine[h.Lineage] = map[string]string{}
				if len(mine) > 1 && rapid.Bool().Draw(rt, "forked") {
					r.Parent = rapid.SampledFrom(slices.Sorted(maps.Keys(mine))).Draw(rt, "parent")
					maps.Copy(mine[h.Lineage], mine[r.Parent])
				}
			}
			events = append(events, r)
			requests = append(requests, r)
			now := map[string]bool{}
			if !r.Side {
				for i := range rapid.IntRange(0, 3).Draw(rt, "decisions") {
					d := &event.Decision{Head: h, Verb: fmt.Sprintf("%d.%d", n, i)}
					d.Event = event.NameDecision
					calls := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 1, 3, rapid.ID).Draw(rt, "calls")
					if len(calls) == 1 {
						d.Call = calls[0]
					} else {
						d.Calls = calls
					}
					for _, c := range calls {
						mine[h.Lineage][c], now[c] = d.Verb, true
					}
					events = append(events, d)
				}
				want[h.Key] = map[string]string{}
				for c, verb := range mine[h.Lineage] {
					want[h.Key][c] = fmt.Sprint(verb, " ", now[c])
				}
			}
		}
		path := write(t, "events.jsonl", eventtest.Lines(t, events...))
		for _, r := range requests {
			x, err := eventlog.Explain([]string{path}, r.Key)
			if err != nil {
				rt.Fatal(err)
			}
			if w := want[r.Key]; len(w)+len(x.Results) > 0 {
				if diff := cmp.Diff(w, said(x)); diff != "" {
					rt.Fatalf("request %s: %s", r.Key, diff)
				}
			}
		}
	})
}
