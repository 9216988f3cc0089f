package observe_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// saving is an observation whose account is told: prices are made to be told apart.
func saving(first, again pipeline.Priced, rewrote, reuse float64) *pipeline.Observation {
	removal := first.USD + again.USD - rewrote
	return &pipeline.Observation{
		Model: model, Usage: &pipeline.Usage{Input: 10, Read: 4000, Write5m: 500, Output: 20}, Cost: 1, Baseline: 1 + removal + 0.125, Provider: 8,
		Account: &pipeline.Account{First: first, Again: again, Rewrote: rewrote, Removal: removal, Levers: 0.125, Reuse: reuse},
	}
}

// TestSavings: what a removal saves is told once at its first removal with its pricing, later under the kind of the move that made
// it; what was needed again and what tidemark spends itself come off the net.
func TestSavings(t *testing.T) {
	m := observe.NewMetrics("")
	r := request()
	cold := &pipeline.Outcome{Session: "s", Branch: 7, Move: &pipeline.Move{Kind: pipeline.Cold}}
	m.Observed(r, cold, saving(pipeline.Priced{Written: 1000, USD: 2}, pipeline.Priced{}, 0, 0))
	value(t, m, "tidemark_net_saved_usd{route=chat} 2.125")
	value(t, m, "tidemark_removed_usd_total{pricing=CACHE_WRITE_MARGINAL,route=chat} 2")

	m.Observed(r, &pipeline.Outcome{Session: "s", Branch: 7}, saving(pipeline.Priced{}, pipeline.Priced{Read: 1000, USD: 0.5}, 0, 0))
	value(t, m, "tidemark_move_realised_usd{kind=cold} 2.5")

	warm := &pipeline.Outcome{Session: "s", Branch: 7, Move: &pipeline.Move{Kind: pipeline.Warm}}
	m.Observed(r, warm, saving(pipeline.Priced{Read: 3000, USD: 0.25}, pipeline.Priced{}, 1.25, 0))
	value(t, m, "tidemark_move_realised_usd{kind=warm} -1") // it has to earn first what it wrote again
	value(t, m, "tidemark_removed_usd_total{pricing=CACHE_READ_MARGINAL,route=chat} 0.25")

	fork := &pipeline.Outcome{Session: "s", Branch: 9, Parent: 7}
	m.Observed(r, fork, saving(pipeline.Priced{}, pipeline.Priced{Read: 4000, USD: 1}, 0, 0.75))
	value(t, m, "tidemark_move_realised_usd{kind=cold} 2.75") // by tokens: a quarter left with the cold move
	value(t, m, "tidemark_move_realised_usd{kind=warm} -0.25")
	value(t, m, "tidemark_reuse_usd_total{route=chat} 0.75")
	value(t, m, "tidemark_saved_usd{by=removal,route=chat} 2.5")
	value(t, m, "tidemark_saved_usd{by=levers,route=chat} 0.5")
	value(t, m, "tidemark_net_saved_usd{route=chat} 2.25")
	value(t, m, "tidemark_provider_saved_usd_total{route=chat} 32")

	m.Observed(r, &pipeline.Outcome{Session: "old", Branch: 1}, saving(pipeline.Priced{}, pipeline.Priced{Read: 1, USD: 1}, 0, 0))
	value(t, m, "tidemark_move_realised_usd{kind=unknown} 1")
	m.Summarized(summarize.Report{Outcome: summarize.Ready, Model: model, Input: 9, Cost: 0.5})
	value(t, m, "tidemark_net_saved_usd{route=_own} -0.5")
	value(t, m, "tidemark_own_cost_usd_total{purpose=summary} 0.5")
}

// TestMoveIsBilledLater: what a move comes to is told of its kind, and of its request, when it is billed with another one.
func TestMoveIsBilledLater(t *testing.T) {
	m := observe.NewMetrics("")
	r, again := request(), &pipeline.Outcome{Key: "k2", Session: "s", Branch: 7}
	v := saving(pipeline.Priced{Read: 3000, USD: 0.25}, pipeline.Priced{}, 1.25, 0)
	v.Move, v.Moved, v.MoveForecast = &pipeline.Move{Kind: pipeline.Warm}, "k1", 2
	m.Observed(r, again, v)
	value(t, m, "tidemark_move_realised_usd{kind=warm} -1")
	value(t, m, "tidemark_move_predicted_usd_total{kind=warm} 2")
	for own, want := range map[string]string{"k1": "", "k2": "k1"} {
		again.Key = own
		if u := m.ResponseEvents(r, again, v)[0].(*event.Usage); u.Moved != want { //nolint:forcetypeassert // it is the first
			t.Errorf("request %s bills the move of %q, want %q", own, u.Moved, want)
		}
	}
}

// TestSessionMetrics: what is asked at a scrape, and what is told of finished conversations and of events.
func TestSessionMetrics(t *testing.T) {
	m := observe.NewMetrics("")
	m.Active(func() (sessions, lineages int) { return 3, 5 })
	m.Stored(func() map[string]int64 { return map[string]int64{"index": 70, "originals": 900} }, func() int64 { return 4 })
	m.Finished("chat", -0.3)
	m.Events("dropped", 6)
	for _, want := range []string{
		"tidemark_sessions_active{} 3", "tidemark_lineages_active{} 5", "tidemark_store_bytes{kind=index} 70", "tidemark_store_bytes{kind=originals} 900",
		"tidemark_originals_evicted_total{} 4", "tidemark_session_net_ratio{route=chat} 1", "tidemark_events_total{result=dropped} 6",
	} {
		value(t, m, want)
	}
}

// TestReused counts what was needed again by how it came back, and calibrated removals by the provider's own count.
func TestReused(t *testing.T) {
	m := observe.NewMetrics("")
	m.Request(request(), &pipeline.Outcome{
		Again: []pipeline.Reused{{Filter: "tiered", Kind: pipeline.Rerun, Tokens: 40}, {Filter: "tiered", Kind: pipeline.Reread, Tokens: 9}},
		New:   []pipeline.DecisionMade{{Filter: "tiered", Tokens: 500, MarkerTokens: 20, Calibrated: 610}},
	})
	value(t, m, "tidemark_reused_tokens_total{filter=tiered,kind=rerun} 40")
	value(t, m, "tidemark_reused_tokens_total{filter=tiered,kind=reread} 9")
	value(t, m, "tidemark_removed_tokens_total{basis=calibrated,filter=tiered,route=chat} 610")
}

// TestEvents: what happens to a request is told in events that keep to the schema, hold no content, and say every number of the
// outcome.
func TestEvents(t *testing.T) {
	r, o := request(), outcome()
	r.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	o.Key, o.Tenant, o.N, o.Model, o.Parent, o.Prefix = "k1", "7e", 4, model, 0xabc, "c0de"
	o.Sizes = pipeline.Sizes{Calibrated: true, Cached: 100, Sent: 20, Fresh: 3, Expected: 90}
	o.Shadow = outcome()
	o.Explain = []pipeline.Verdict{
		{Call: "c1", Tool: "Read", Path: "/secret/path", What: "/secret/path (1-20)", Msg: 3, Turn: 2, Tokens: 800, Zone: filters.Uncovered, Filter: "readlifecycle", Verdict: "stale", ID: "0123456789abcdef01234567", Marker: `"the marker"`, Saves: 700},
		{Call: "c9", Tool: "Bash \xff", Msg: 5, Turn: 2, Tokens: 80, Zone: filters.Fresh, Gates: []pipeline.FilterGate{{Filter: "tiered", Gate: filters.FreshRead}}},
	}
	o.Restored = []pipeline.Restored{{Result: pipeline.RestoreMiss, Tokens: 30}}
	o.Again = []pipeline.Reused{{Call: "c7", Filter: "shed", Kind: pipeline.RestoredIt, Tokens: 60, Turns: 2}}
	all := observe.RequestEvents(r, o)
	m := observe.NewMetrics("")
	v := observation()
	v.Account = &pipeline.Account{First: pipeline.Priced{Read: 5, Written: 6, USD: 0.25}, Removal: 0.25, Levers: 0.25, Reuse: 0.125}
	all = append(all, m.ResponseEvents(r, o, v)...)
	all = append(all, observe.RestoreEvent("mcp", "ok", "shed", 70, now), observe.SpendEvent(&summarize.Report{Input: 5, Output: 2, Cost: 0.5}, now),
		observe.ConfigEvent("c0ffee", nil, now), observe.ConfigEvent("", errors.New("line 1\nline 2"), now))
	eventtest.Check(t, all...)
	var names []string
	by := map[string]event.Event{}
	for _, e := range all {
		h := e.Of()
		names = append(names, h.Event)
		by[h.Event] = e
		switch h.Event {
		case event.NameSpend, event.NameConfig:
		case event.NameRestore:
		default:
			if h.Key != "k1" || h.TraceID != "0af7651916cd43dd8448eb211c80319c" || h.N != 4 || h.Route != "chat" || h.Session != "5e55" {
				t.Errorf("head %+v", h)
			}
		}
	}
	want := []string{"request", "move", "decision", "decision", "restore", "reuse", "usage", "loss", "restore", "spend", "config", "config"}
	if d := cmp.Diff(want, names); d != "" {
		t.Fatal(d)
	}
	q := by["request"].(*event.Request) //nolint:forcetypeassert // by its name
	if d := cmp.Diff(event.Sizes{Basis: "calibrated", Cached: 100, Sent: 20, Fresh: 3, Removed: 720, Replayed: 480, Expected: 90}, q.Sizes); d != "" {
		t.Error(d)
	}
	if q.Shadow == nil || q.Shadow.Removed != 720 || q.Parent != "0000000000000abc" || q.Breakpoint["ttl_raised"] != 3 {
		t.Errorf("request %+v", q)
	}
	decision := all[2].(*event.Decision) //nolint:forcetypeassert // by its place
	if decision.Path != "/secret/path" || decision.PathHash == "" || decision.MarkerTokens != 100 || decision.Zone != "uncovered" || decision.Marker == "" {
		t.Errorf("decision %+v", decision)
	}
	u := by["usage"].(*event.Usage) //nolint:forcetypeassert // by its name
	wantUsage := event.Usage{
		Head: u.Head, Expected: 6000,
		Observed: event.Billed{Input: 100, Read: 4000, Write5m: 900, Write1h: 1000, Output: 50, Cost: 0.25},
		Modelled: &event.Account{Baseline: 0.75, Removal: 0.25, Levers: 0.25, Reuse: 0.125, Net: 0.375, First: event.Priced{Basis: "BLENDED_MARGINAL", Read: 5, Written: 6, USD: 0.25}},
	}
	if d := cmp.Diff(wantUsage, *u); d != "" {
		t.Error(d)
	}
	if got := m.ResponseEvents(r, o, &pipeline.Observation{}); got != nil {
		t.Errorf("nothing is known, but %v", got)
	}
}
