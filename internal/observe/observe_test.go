package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func request() *pipeline.Request {
	return &pipeline.Request{
		ID: "r1", Route: "chat", Format: transcript.Anthropic, Tenant: "key:secret-key", Session: "session-of-a-person", Agent: "agent-id",
		Body:   []byte(`{"messages":"secret body"}`),
		Config: &pipeline.Config{Name: "coding", Hash: "c0ffee", Mode: pipeline.Active},
	}
}

func outcome() *pipeline.Outcome {
	return &pipeline.Outcome{
		Body: []byte("secret outbound"), Level: pipeline.Decided, Branch: 0x2a, Replays: 3, Tokens: 1200, Session: "5e55",
		New: []pipeline.DecisionMade{
			{Filter: "readlifecycle", Verdict: "stale", Tokens: 500, MarkerTokens: 40},
			{Filter: "readlifecycle", Verdict: "stale", Tokens: 300, MarkerTokens: 40},
			{Filter: "readmaturation", Verdict: "hold", Hold: true, Tokens: 900},
		},
		Gates:       map[pipeline.FilterGate]int{{Filter: "readlifecycle", Gate: filters.FreshRead}: 4},
		Move:        &pipeline.Move{Kind: pipeline.Cold, Tokens: 720},
		Cache:       pipeline.CacheCold,
		Breakpoints: pipeline.BreakpointChanges{Stripped: 2, Kept: 1, Raised: 3},
		BytesIn:     4000, BytesOut: 1500, Turn: 9, Format: transcript.Anthropic, Duration: 1500 * time.Microsecond,
		Stages: pipeline.Stages{pipeline.StageParse: time.Millisecond},
	}
}

// everything counts one of each, so that every metric has a value.
func everything() *observe.Metrics {
	m := observe.NewMetrics("v1.2.3")
	r, o := request(), outcome()
	o.Group = pipeline.GroupActive
	o.Restored = []pipeline.Restored{{Result: pipeline.RestoreOK, Filter: "shed", Tokens: 300}, {Result: pipeline.RestoreMiss, Tokens: 20}}
	m.Request(r, o)
	for _, g := range []filters.Gate{filters.Panic, filters.Deadline, filters.ProofFailed, filters.Conflict} {
		m.Request(r, &pipeline.Outcome{Gate: g, Desync: true, Undeclared: true})
	}
	m.Request(r, &pipeline.Outcome{Gate: filters.Shadow, Gates: map[pipeline.FilterGate]int{{Gate: filters.Shadow}: 1}, Shadow: outcome()})
	m.PriceTable(cache.Prices())
	m.Observed(r, o, observation())
	m.Observed(r, &pipeline.Outcome{Group: pipeline.GroupHoldout}, &pipeline.Observation{Usage: &pipeline.Usage{Input: 1}, Cost: 0.5})
	m.Observed(r, o, nil)
	m.Began()
	m.Began()
	m.Ended(time.Second, codes.OK)
	m.Passed("path")
	m.ConfigLoaded("", errors.New("bad"), now)
	m.ConfigLoaded("c0ffee", nil, now)
	m.RouteConfigFailed("json")
	m.Refused("restore", "rate_limited")
	m.Restored("http", "ok", "readlifecycle", 250)
	m.Restored("mcp", "miss", "", 0)
	m.Summarized(summarize.Report{Outcome: summarize.Ready, Model: "claude-haiku-4-5", Input: 900, Output: 40, Cost: 0.25})
	m.Summarized(summarize.Report{Outcome: summarize.Refused, Model: "claude-haiku-4-5", Input: 100, Output: 2, Cost: 0.5})
	m.Summarized(summarize.Report{Outcome: summarize.Dropped})
	s := m.Store("memory", memory.New())
	_, _ = s.Stamp(context.Background(), state.SessionKey{})
	return m
}

func TestMetricsPassPromlint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything().Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func value(t *testing.T, m *observe.Metrics, want string) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var near []string
	for _, f := range families {
		for _, x := range f.GetMetric() {
			var labels []string
			for _, l := range x.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got := fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), number(x))
			if got == want {
				return
			}
			if name, _, _ := strings.Cut(want, "{"); f.GetName() == name {
				near = append(near, got)
			}
		}
	}
	t.Errorf("no %s, but %q", want, near)
}

func number(m *dto.Metric) any {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetHistogram().GetSampleCount()
}

func TestRequestIsCounted(t *testing.T) {
	m := everything()
	for _, want := range []string{
		"tidemark_requests_total{format=anthropic.messages,mode=active,outcome=moved,route=chat} 1",
		"tidemark_requests_total{format=unknown,mode=active,outcome=error,route=chat} 4",
		"tidemark_requests_total{format=unknown,mode=active,outcome=identity,route=chat} 1",
		"tidemark_gates_total{filter=readlifecycle,gate=fresh_read} 4",
		"tidemark_gates_total{filter=,gate=shadow} 1", // also where it is among Outcome.Gates
		"tidemark_gates_total{filter=,gate=panic} 1",
		"tidemark_inbound_bytes_total{format=anthropic.messages,route=chat} 4000",
		"tidemark_outbound_bytes_total{format=anthropic.messages,route=chat} 1500",
		"tidemark_removed_tokens_total{basis=estimated,filter=readlifecycle,route=chat} 720",
		"tidemark_shadow_removed_tokens_total{basis=estimated,filter=readlifecycle,route=chat} 720",
		"tidemark_replayed_tokens_total{route=chat} 480",
		"tidemark_moves_total{kind=cold} 1",
		"tidemark_prefix_changes_total{declared=true} 1",
		"tidemark_prefix_changes_total{declared=false} 4",
		"tidemark_breakpoints_total{action=held,route=chat} 2",
		"tidemark_breakpoints_total{action=ttl_raised,route=chat} 3",
		"tidemark_latches_total{result=won} 3",
		"tidemark_latches_total{result=lost} 1",
		"tidemark_latches_total{result=replayed} 3",
		"tidemark_desyncs_total{} 4",
		"tidemark_panics_total{} 2",
		"tidemark_deadline_exceeded_total{} 1",
		"tidemark_proof_failures_total{} 1",
		"tidemark_processing_duration_seconds{outcome=moved,phase=request_body} 1",
		"tidemark_stage_duration_seconds{stage=parse} 1",
		"tidemark_extproc_streams_inflight{} 1",
		"tidemark_extproc_streams_total{code=OK} 1",
		"tidemark_passed_total{reason=path} 1",
		"tidemark_config_loads_total{result=error} 1",
		"tidemark_config_loads_total{result=ok} 1",
		"tidemark_config_info{hash=c0ffee} 1",
		"tidemark_config_route_errors_total{reason=json} 1",
		"tidemark_refused_requests_total{listener=restore,reason=rate_limited} 1",
		"tidemark_restores_total{path=http,result=ok} 1",
		"tidemark_restores_total{path=mcp,result=miss} 1",
		"tidemark_restored_tokens_total{filter=readlifecycle,path=http} 250",
		"tidemark_summaries_total{outcome=ready} 1",
		"tidemark_summaries_total{outcome=refused} 1",
		"tidemark_summaries_total{outcome=dropped} 1",
		"tidemark_summary_tokens_total{direction=input,model=claude-haiku-4-5} 1000",
		"tidemark_summary_tokens_total{direction=output,model=claude-haiku-4-5} 42",
		"tidemark_own_cost_usd_total{purpose=summary} 0.75",
	} {
		value(t, m, want)
	}
}

// A hold leaves out nothing, so a filter that only holds has removed nothing.
func TestHoldRemovesNothing(t *testing.T) {
	m := observe.NewMetrics("")
	m.Request(request(), outcome())
	value(t, m, "tidemark_removed_tokens_total{basis=estimated,filter=readmaturation,route=chat} 0")
}

func TestRoutesAreBounded(t *testing.T) {
	m := observe.NewMetrics("")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				r := request()
				r.Route = fmt.Sprintf("route-%d-%d", w, i)
				m.Request(r, &pipeline.Outcome{})
			}
		})
	}
	r := request()
	r.Route = "bad \xff utf-8"
	m.Request(r, &pipeline.Outcome{})
	r.Route = ""
	m.Request(r, &pipeline.Outcome{})
	wg.Wait()
	n, err := testutil.GatherAndCount(m.Registry, "tidemark_requests_total")
	if err != nil || n > 202 { // 200, _other and _none
		t.Errorf("%d series, %v", n, err)
	}
	value(t, m, "tidemark_requests_total{format=unknown,mode=active,outcome=identity,route=_none} 1")
}

func TestResult(t *testing.T) {
	got := observe.Result(outcome(), request()).AsMap()
	want := map[string]any{
		"outcome": "moved", "pipeline": "coding", "mode": "active", "format": "anthropic.messages", "gate": "", "filters": "readlifecycle,readmaturation",
		"verdicts": "readlifecycle:stale=2,readmaturation:hold=1",
		"bytes_in": 4000.0, "bytes_out": 1500.0, "tokens_removed": 720.0, "tokens_replayed": 480.0, "move": "cold", "cache": "cold",
		"prefix_changed": true, "session": "5e55", "lineage": "000000000000002a", "turn": 9.0, "duration_us": 1500.0, "config": "c0ffee", "compacted": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	quiet := observe.Result(&pipeline.Outcome{Shadow: outcome()}, request()).AsMap()
	if _, ok := quiet["compacted"]; ok || quiet["shadow_tokens_removed"] != 720.0 || quiet["shadow_outcome"] != "moved" || quiet["tokens_removed"] != 0.0 {
		t.Errorf("%v", quiet)
	}
}

// Nothing that a client sent is found in what leaves through metrics, metadata and logs.
func TestNothingOfTheClientLeaves(t *testing.T) {
	var out bytes.Buffer
	log := observe.NewLogger(&out, slog.LevelDebug, observe.LogJSON)
	r, o := request(), outcome()
	m := everything()
	observe.LogRequest(t.Context(), log, r, o)
	observe.LogObserved(t.Context(), log, r, o, observation())
	log.Info("careless", "body", r.Body, "raw", json.RawMessage(`"secret raw"`), "long", strings.Repeat("x", 5000)+"secret end", "err", fmt.Errorf("at %s", strings.Repeat("y", 5000)+"secret end"))
	observe.NewLogger(&out, slog.LevelDebug, observe.LogText).Info("careless", "body", r.Body)
	fmt.Fprint(&out, observe.Result(o, r), observe.Account(observation()))
	w := httptest.NewRecorder()
	m.Admin(func() any { return nil }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out.Write(w.Body.Bytes())
	for _, s := range []string{"secret", "session-of-a-person", "agent-id"} {
		if strings.Contains(out.String(), s) {
			t.Errorf("%q leaves", s)
		}
	}
	for _, s := range []string{`"outcome":"moved"`, `"tokens_removed":720`, `"body":"[26 bytes]"`, `body="[26 bytes]"`} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("%s is missing in %s", s, out.String()[:3000])
		}
	}
}

func TestLogRequestIsSilentAboveDebug(t *testing.T) {
	var out bytes.Buffer
	observe.LogRequest(t.Context(), observe.NewLogger(&out, slog.LevelInfo, observe.LogText), request(), outcome())
	if out.Len() > 0 {
		t.Error(out.String())
	}
}

func TestAdmin(t *testing.T) {
	broken := errors.New("disk full")
	var fault error
	h := observe.NewMetrics("v1").Admin(func() any { return map[string]string{"hash": "c0ffee"} },
		observe.Check{Name: "ext_proc", Probe: func(context.Context) error { return nil }},
		observe.Check{Name: "store", Probe: func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("a probe without a deadline")
			}
			return fault
		}})
	get := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
	}
	for path, want := range map[string]string{"/livez": "200 ok", "/healthz": "200 ok", "/readyz": "200 ok", "/config": "200 {\n  \"hash\": \"c0ffee\"\n}", "/other": "404 404 page not found"} {
		if got := get(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	for path, want := range map[string]bool{"/livez": true, "/healthz": true, "/readyz": true, "/metrics": false, "/config": false, "/v1/mode": false, "/livez/": false} {
		if observe.Probe(path) != want {
			t.Errorf("%s is open: %v", path, !want)
		}
	}
	if got := get("/metrics"); !strings.Contains(got, `tidemark_build_info{`) {
		t.Error(got)
	}
	fault = broken
	if got := get("/readyz"); got != "503 store: disk full" {
		t.Error(got)
	}
	if got := get("/livez"); got != "200 ok" {
		t.Error(got)
	}
}

// failing is a store that answers everything with one error.
type failing struct {
	state.Store

	err error
}

func (f failing) Load(context.Context, state.SessionKey) (state.Session, error) {
	return state.Session{}, f.err
}

func TestStoreIsCountedAndPassesErrorsThrough(t *testing.T) {
	m := observe.NewMetrics("")
	for result, err := range map[string]error{
		"conflict": fmt.Errorf("commit: %w", state.ErrConflict), "not_found": state.ErrNotFound, "timeout": context.DeadlineExceeded, "error": errors.New("disk"),
	} {
		if _, got := m.Store("badger", failing{memory.New(), err}).Load(t.Context(), state.SessionKey{}); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		value(t, m, "tidemark_store_operations_total{backend=badger,op=load,result="+result+"} 1")
	}
	value(t, m, "tidemark_store_operation_duration_seconds{backend=badger,op=load} 4")
}
