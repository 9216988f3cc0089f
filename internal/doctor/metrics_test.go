package doctor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/doctor"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// model has a price of its own.
const model = "claude-sonnet-4-6"

func on(mode pipeline.Mode) *pipeline.Request {
	return &pipeline.Request{Route: "chat", Config: &pipeline.Config{Mode: mode}}
}

// requests counts n requests with an outcome.
func requests(m *observe.Metrics, n int, o *pipeline.Outcome) {
	for range n {
		m.Request(on(pipeline.Active), o)
	}
}

// bill counts one response that cost 10 USD, of which the cache's share is 9 in 10 tokens; alter changes it.
func bill(m *observe.Metrics, alter func(*pipeline.Observation)) {
	v := &pipeline.Observation{Usage: &pipeline.Usage{Input: 100_000, Read: 900_000}, Model: model, Cost: 10, Baseline: 10}
	alter(v)
	m.Observed(on(pipeline.Active), &pipeline.Outcome{}, v)
}

// loses has a response lose so many tokens by a cause.
func loses(cause pipeline.Cause, filter string, tokens int) func(m *observe.Metrics) {
	return func(m *observe.Metrics) {
		bill(m, func(v *pipeline.Observation) { v.Loss = &pipeline.Loss{Cause: cause, Filter: filter, Tokens: tokens} })
	}
}

const much = 1_000_000 // tokens, worth a third of the bill and more

// changed is the outcome of a request on which tidemark did something.
func changed() *pipeline.Outcome {
	return &pipeline.Outcome{Level: pipeline.Decided, New: []pipeline.DecisionMade{{Filter: "coref", Tokens: 100}}}
}

func since(metric string) string { return " @ tidemark_" + metric + ", since tidemark's start" }

func lost(cause string) string { return since(`cache_lost_usd_total{cause="` + cause + `"}`) }

// TestMetrics counts one thing that is wrong in real metrics: that is found, and nothing else.
func TestMetrics(t *testing.T) {
	for _, c := range []struct {
		name  string
		count func(m *observe.Metrics)
		want  []string
	}{
		{"nothing yet", func(*observe.Metrics) {}, []string{}},
		{"all is well", func(m *observe.Metrics) { requests(m, 1000, changed()); bill(m, func(*pipeline.Observation) {}) }, []string{}},
		{"undeclared", func(m *observe.Metrics) { requests(m, 1, &pipeline.Outcome{Undeclared: true}) }, []string{"error undeclared-prefix-change" + since("prefix_changes_total")}},
		{"panic", func(m *observe.Metrics) { requests(m, 1, &pipeline.Outcome{Gate: filters.Panic}) }, []string{"error panics" + since("panics_total")}},
		{"proof", func(m *observe.Metrics) { requests(m, 1, &pipeline.Outcome{Gate: filters.ProofFailed}) }, []string{"warning proof-failures" + since("proof_failures_total")}},
		{"desync", func(m *observe.Metrics) { requests(m, 1, &pipeline.Outcome{Desync: true}) }, []string{"warning desync" + since("desyncs_total")}},
		{"deadline", func(m *observe.Metrics) { requests(m, 1, &pipeline.Outcome{Gate: filters.Deadline}) }, []string{"warning deadline" + since("deadline_exceeded_total")}},
		{"deadline, now and then", func(m *observe.Metrics) {
			requests(m, 1, &pipeline.Outcome{Gate: filters.Deadline})
			requests(m, 200, changed())
			bill(m, func(*pipeline.Observation) {})
		}, []string{}},
		{"ineffective", func(m *observe.Metrics) { bill(m, func(v *pipeline.Observation) { v.Ineffective = true }) }, []string{"error mutation-ineffective @ tidemark_mutation_ineffective_total on route chat, since tidemark's start"}},
		{"brake", func(m *observe.Metrics) { bill(m, func(v *pipeline.Observation) { v.Braked = true }) }, []string{"warning brakes @ tidemark_brakes_total on route chat, since tidemark's start"}},
		{"misjudged", func(m *observe.Metrics) { bill(m, func(v *pipeline.Observation) { v.ColdMisjudged = true }) }, []string{"warning misjudgements" + since("misjudgements_total")}},
		{"store full", func(m *observe.Metrics) {
			requests(m, 1, &pipeline.Outcome{Gates: map[pipeline.FilterGate]int{{Filter: "coref", Gate: filters.StoreFull}: 1}})
		}, []string{"warning store-full" + since("gates_total")}},
		{"route config", func(m *observe.Metrics) { m.RouteConfigFailed("metadata") }, []string{"error route-config" + since("config_route_errors_total")}},
		{"config", func(m *observe.Metrics) { m.ConfigLoaded("", errors.New("bad"), time.Now()) }, []string{"warning config-reload" + since("config_loads_total")}},
		{"events", func(m *observe.Metrics) { m.Events("dropped", 3) }, []string{"warning events-dropped" + since("events_total")}},
		{"event file", func(m *observe.Metrics) { m.Events("failed", 3); m.Events("written", 5) }, []string{"warning events-failed" + since("events_total")}},
		{"replicas", func(m *observe.Metrics) {
			requests(m, 1, &pipeline.Outcome{Gate: filters.Conflict})
			requests(m, 9, changed())
		}, []string{"warning replicas-compete" + since("latches_total")}},
		{"tap", func(m *observe.Metrics) { requests(m, 60, changed()) }, []string{"error tap-dry" + since("billed_tokens_total")}},
		{"bypass", func(m *observe.Metrics) {
			requests(m, 60, &pipeline.Outcome{Gate: filters.Bypass})
			requests(m, 60, changed())
			bill(m, func(*pipeline.Observation) {})
		}, []string{"warning bypass" + since("requests_total")}},
		{"no session", func(m *observe.Metrics) {
			requests(m, 60, &pipeline.Outcome{Gate: filters.NoSession})
			requests(m, 60, changed())
			bill(m, func(*pipeline.Observation) {})
		}, []string{"warning no-session" + since("gates_total")}},
		{"unparsed", func(m *observe.Metrics) {
			requests(m, 60, &pipeline.Outcome{Gate: filters.Unparsed})
			requests(m, 60, changed())
			bill(m, func(*pipeline.Observation) {})
		}, []string{"warning unparsed" + since("gates_total")}},
		{"idle", func(m *observe.Metrics) {
			requests(m, 60, &pipeline.Outcome{Gates: map[pipeline.FilterGate]int{{Filter: "coref", Gate: filters.CachedPrefix}: 7}})
			bill(m, func(*pipeline.Observation) {})
		}, []string{"warning idle" + since("gates_total")}},
		{"no breakpoints", func(m *observe.Metrics) {
			bill(m, func(v *pipeline.Observation) { v.Usage = &pipeline.Usage{Input: 300_000} })
		}, []string{"warning no-breakpoints" + since("billed_tokens_total")}},
		{"client changes its system prompt", loses(pipeline.CauseClientSystem, "", much), []string{"warning client-system" + lost("client_system")}},
		{"client changes its tools", loses(pipeline.CauseClientTools, "", much), []string{"warning client-tools" + lost("client_tools")}},
		{"client changes the model", loses(pipeline.CauseClientModel, "", much), []string{"warning client-model" + lost("client_model")}},
		{"client changes its history", loses(pipeline.CauseClientHistory, "", much), []string{"warning client-history" + lost("client_history")}},
		{"client changes little", loses(pipeline.CauseClientHistory, "", 1000), []string{}},
		{"a first request is no loss", loses(pipeline.CauseFirst, "", much), []string{}},
		{"pauses", loses(pipeline.CauseTTL, "", much), []string{"warning ttl" + lost("ttl")}},
		{"pauses, and lifts", func(m *observe.Metrics) {
			loses(pipeline.CauseTTL, "", much)(m)
			requests(m, 1, &pipeline.Outcome{Breakpoints: pipeline.BreakpointChanges{Raised: 2}})
		}, []string{}},
		{"provider", loses(pipeline.CauseProvider, "", much), []string{"warning provider" + lost("provider")}},
		{"tidemark", loses(pipeline.CauseTidemark, "coref", much), []string{"warning tidemark-losses" + lost("tidemark")}},
		{"dearer", func(m *observe.Metrics) { bill(m, func(v *pipeline.Observation) { v.Cost = 11 }) }, []string{"warning net-negative" + since("net_saved_usd")}},
		{"dearer by cents", func(m *observe.Metrics) { bill(m, func(v *pipeline.Observation) { v.Baseline, v.Cost = 0.1, 0.2 }) }, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := observe.NewMetrics("v1.2.3")
			m.PriceTable(cache.Prices())
			c.count(m)
			if d := cmp.Diff(c.want, examine(t, doctor.Options{Admin: admin(t, m, nil)})); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestShadowLong: the process that runs the test is no week old, but at the end of next month it would be.
func TestShadowLong(t *testing.T) {
	m := observe.NewMetrics("v")
	m.Request(on(pipeline.Shadow), &pipeline.Outcome{})
	o := doctor.Options{Admin: admin(t, m, nil)}
	if got := examine(t, o); len(got) != 0 {
		t.Error(got)
	}
	o.Now = time.Now().AddDate(0, 1, 0)
	want := []string{"warning shadow-long @ tidemark_requests_total, tidemark_process_start_time_seconds"}
	if d := cmp.Diff(want, examine(t, o)); d != "" {
		t.Error(d)
	}
}
