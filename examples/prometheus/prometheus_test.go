package prometheus_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// TestPromtool: Prometheus accepts its config and the rules, and every alert does what its tests say.
func TestPromtool(t *testing.T) {
	promtool := binary(t, "promtool")
	for _, args := range []string{"check config prometheus.yml", "check rules tidemark.rules.yml", "test rules tidemark.test.yml"} {
		if out, err := exec.CommandContext(t.Context(), promtool, strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// model has a price of its own.
const model = "claude-sonnet-4-6"

// play counts one round of everything that can happen: of the bill, 3 USD without tidemark, 2 with it, 0.25 for what was needed
// again and 0.25 of tidemark's own. It comes in two groups of sessions, of which the holdout is billed 4 USD for each of two
// requests that nothing is changed in.
func play(m *observe.Metrics) {
	r := &pipeline.Request{Route: "chat", Config: &pipeline.Config{Mode: pipeline.Active}}
	o := &pipeline.Outcome{
		Level: pipeline.Decided, Format: transcript.Anthropic, Branch: 7, Session: "s", Replays: 1, Tokens: 1000, BytesIn: 4000, BytesOut: 1000,
		New:         []pipeline.DecisionMade{{Filter: "readlifecycle", Verdict: "stale", Tokens: 640, MarkerTokens: 40}},
		Gates:       map[pipeline.FilterGate]int{{Filter: "coref", Gate: filters.CachedPrefix}: 5},
		Gate:        filters.NoPipeline,
		Move:        &pipeline.Move{Kind: pipeline.Cold, Predicted: 1},
		Breakpoints: pipeline.BreakpointChanges{Kept: 1},
		Reused:      map[string]int{"shed": 60},
		Again:       []pipeline.Reused{{Filter: "readlifecycle", Kind: pipeline.RestoredIt, Tokens: 30}}, // the same tokens
		Restored:    []pipeline.Restored{{Result: pipeline.RestoreOK, Filter: "readlifecycle", Tokens: 30}},
		Duration:    2 * time.Millisecond,
		Group:       pipeline.GroupActive,
	}
	o.Stages[pipeline.StageParse] = time.Millisecond
	m.Request(r, o)
	m.Observed(r, o, &pipeline.Observation{
		Usage: &pipeline.Usage{Input: 1000, Read: 8000, Write5m: 1000, Output: 500}, Model: model, Cost: 2, Baseline: 3, Provider: 5, Expected: 10_000, MoveForecast: 1,
		Account: &pipeline.Account{First: pipeline.Priced{Input: 600, USD: 0.75}, Removal: 0.75, Levers: 0.25, Reuse: 0.25},
		Loss:    &pipeline.Loss{Cause: pipeline.CauseTidemark, Filter: "readlifecycle", Tokens: 300}, Braked: true, ColdMisjudged: true,
	})
	for range 2 {
		m.Observed(r, &pipeline.Outcome{Group: pipeline.GroupHoldout}, &pipeline.Observation{
			Usage: &pipeline.Usage{Input: 10_000}, Model: model, Cost: 4, Baseline: 4,
			Loss: &pipeline.Loss{Cause: pipeline.CauseClientTools, Tokens: 600},
		})
	}
	m.Request(r, &pipeline.Outcome{Format: transcript.Anthropic, Gate: filters.Shadow, Shadow: o})
	m.Summarized(summarize.Report{Outcome: summarize.Ready, Model: "claude-haiku-4-5", Input: 900, Output: 40, Cost: 0.25})
	m.Finished("chat", 0.2)
	m.Finished("chat", -0.1)
	m.Finished("chat", 0) // nothing was done there
	m.Events("written", 3)
	m.Began()
	m.Began()
	m.Ended(time.Second, codes.OK)
	m.Passed("path")
	m.Refused("restore", "rate_limited")
	m.ConfigLoaded("c0ffee", nil, time.Now())
	m.ConfigLoaded("", errors.New("bad"), time.Now())
	m.RouteConfigFailed("json")
	_, _ = m.Store("memory", memory.New()).Stamp(context.Background(), state.SessionKey{}) // counted, whatever it says
}

// rounds are those that panels see in full: what came before the first scrape, they don't.
const rounds = 4

// TestAgainstPrometheus has a real Prometheus scrape the real metrics, and a real Envoy that failed open. Every query of every
// panel and rule has an answer, and the panels that people look at first say what was counted.
func TestAgainstPrometheus(t *testing.T) {
	m := metrics()
	m.PriceTable(cache.Prices())
	admin := httptest.NewServer(m.Admin(func() any { return nil }))
	t.Cleanup(admin.Close)
	play(m)
	targets := map[string]string{"tidemark": strings.TrimPrefix(admin.URL, "http://")}
	if gateway := failedOpen(t); gateway != "" {
		targets["envoy"] = gateway
	}
	s := serve(t, targets)
	s.until(t, "tidemark is scraped", func() bool { return s.samples() > 0 })
	for range rounds {
		play(m)
	}
	s.until(t, "the range has many samples", func() bool { return s.samples() > 60 })
	t.Run("queries", func(t *testing.T) { answers(t, s, targets["envoy"] != "") })
	t.Run("headlines", func(t *testing.T) { headlines(t, s) })
}

// samples is how often tidemark was scraped.
func (s *server) samples() float64 {
	got, err := s.query(`count_over_time(tidemark_panics_total[5m])`)
	if err != nil || len(got) == 0 {
		return 0
	}
	return got[0].value
}

// answers: no query fails, and those of the dashboards have data.
func answers(t *testing.T, s *server, envoy bool) {
	t.Helper()
	for _, e := range panels(t) {
		got, err := s.query(e.expr)
		switch {
		case err != nil:
			t.Errorf("%s: %v", e.where, err)
		case len(got) == 0 && (envoy || !strings.Contains(e.expr, "envoy_")):
			t.Errorf("%s: no data: %s", e.where, e.expr)
		}
	}
	var groups struct {
		Groups []struct {
			Rules []struct {
				Name   string `json:"name"`
				Health string `json:"health"`
				Error  string `json:"lastError"`
			} `json:"rules"`
		} `json:"groups"`
	}
	s.until(t, "all rules were evaluated", func() bool {
		if err := s.get("/api/v1/rules", &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" && g.Rules[0].Name != "route:tidemark_net_saved_usd:increase1d" { // those are evaluated once a minute
					return false
				}
			}
		}
		return len(groups.Groups) == 2
	})
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				t.Errorf("%s: %s", r.Name, r.Error)
			}
		}
	}
	for _, r := range rules(t) {
		if _, err := s.query(r.Expr); err != nil {
			t.Errorf("%s%s: %v", r.Alert, r.Record, err)
		}
	}
}

// headlines compares panels with what play counted. The range begins between two rounds, and Prometheus extends what it saw to
// the range's ends by at most a scrape or two, so that sums are a little too high; quotients of them are exact.
func headlines(t *testing.T, s *server) {
	t.Helper()
	const n = rounds
	for title, want := range map[string]map[string]float64{
		"Net saved (modelled bill without tidemark − observed bill − reuse − own calls)":                           {"": 0.5 * n},
		"Net saved, % of the modelled bill without tidemark":                                                       {"": 0.5 / 11},
		"Bill (observed tokens at list prices)":                                                                    {"": 10 * n},
		"tidemark's own calls (observed)":                                                                          {"": 0.25 * n},
		"Cache reads, % of all prompt tokens billed (observed)":                                                    {"": 8000.0 / 30_000},
		"Lost to tidemark, by filter (observed, tokens)":                                                           {"readlifecycle": 300 * n},
		"Saved by tidemark since its start (modelled − observed): removal and levers":                              {"removal": 0.75 * (n + 1), "levers": 0.25 * (n + 1)},
		"Removed tokens by filter, counted once at first removal (estimated)":                                      {"readlifecycle": 600 * n},
		"Removed tokens at their first removal, by what they would have been billed as (modelled, USD)":            {"FULL_INPUT": 0.75 * n},
		"Finished conversations that lost more than 1 % of their modelled bill, % of all finished ones (modelled)": {"": 1.0 / 3},
		"Given back or needed again, % of removed tokens (estimated)":                                              {"": (30.0 + 60) / 600},
		"Bill per request over the range, by group (observed, USD)":                                                {"active": 2, "holdout": 4},
		"Tokens that mode active would have removed (shadow)":                                                      {"readlifecycle": 600 * n},
		"Gates of single results, by filter":                                                                       {"coref cached_prefix": 5 * n},
		"Undeclared prefix changes":                                                                                {"": 0},
		"Conversations that braked":                                                                                {"chat": n},
		"Tokens read from the cache, % of those that tidemark expected to be read (observed ÷ expected)":           {"chat": 0.8},
	} {
		expr := ""
		for _, e := range panels(t) {
			if e.where == title {
				expr = e.expr
			}
		}
		got, err := s.query(expr)
		if expr == "" || err != nil {
			t.Errorf("%s: %q, %v", title, expr, err)
			continue
		}
		values := map[string]float64{}
		for _, x := range got {
			values[name(x.labels)] = x.value
		}
		for series, v := range want {
			if x, ok := values[series]; !ok || math.Abs(x-v) > 0.05*math.Abs(v)+1e-9 {
				t.Errorf("%s: %v, want %v", title, values, want)
			}
		}
	}
	causes(t, s)
	neverRestored(t, s)
}

// neverRestored: where nobody ever asked for an original, what was needed again is told all the same.
func neverRestored(t *testing.T, s *server) {
	t.Helper()
	for _, e := range panels(t) {
		if e.where != "Given back or needed again, % of removed tokens (estimated)" {
			continue
		}
		got, err := s.query(strings.Replace(e.expr, "tidemark_restored_tokens_total", "tidemark_not_yet_there_total", 1))
		if err != nil || len(got) != 1 || math.Abs(got[0].value-0.1) > 0.005 {
			t.Errorf("without a restore: %v, %v", got, err)
		}
	}
}

// causes: of the losses, those of the client are the greatest.
func causes(t *testing.T, s *server) {
	t.Helper()
	for _, e := range panels(t) {
		if e.where != "Cache losses by cause (observed, USD)" {
			continue
		}
		got, err := s.query(e.expr)
		if err != nil || len(got) != 2 || got[0].labels["cause"] != "client_tools" || got[0].value <= got[1].value || got[1].value <= 0 {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// name of a series: the values of those labels that panels tell series apart by.
func name(labels map[string]string) string {
	var words []string
	for _, l := range []string{"filter", "gate", "by", "pricing", "group", "route"} {
		if v := labels[l]; v != "" {
			words = append(words, v)
		}
	}
	return strings.Join(words, " ")
}

// failedOpen is the admin address of an Envoy that sent a request on without tidemark, empty if there is no Envoy here.
func failedOpen(t *testing.T) (admin string) {
	t.Helper()
	t.Run("envoy", func(inner *testing.T) { envoytest.Binary(inner); admin = "there" })
	if admin == "" {
		return ""
	}
	env := envoytest.Start(t, envoytest.Options{
		Processor: free(t), Upstream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	})
	res, err := envoytest.Client(t, false).Post(env.URL("/v1/messages"), "application/json", strings.NewReader("{}"))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	return env.Admin
}
