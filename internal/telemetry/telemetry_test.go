package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// variables of OpenTelemetry that a test must not inherit.
var variables = []string{
	disabledEnv, endpointEnv, "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_METRICS_PRODUCERS",
	"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
}

// environment sets OTEL_* variables, given as names without the prefix and values in turn. The others are unset.
func environment(t *testing.T, set ...string) {
	t.Helper()
	for _, v := range variables {
		t.Setenv(v, "")
	}
	for i := 0; i < len(set); i += 2 {
		t.Setenv("OTEL_"+set[i], set[i+1])
	}
}

// arrival is when requests of the tests arrive.
var arrival = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// clock is what a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) get() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) set(now time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.now = now }

// log keeps what is logged.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

func (l *log) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

type world struct {
	*Telemetry

	clock    clock
	log      log
	registry *prometheus.Registry
}

// start starts telemetry with words for semconv and usage.
func start(t *testing.T, semconv, usage string) *world {
	t.Helper()
	w := &world{registry: prometheus.NewRegistry()}
	w.clock.set(arrival)
	var err error
	w.Telemetry, err = Start(t.Context(), Options{
		Semconv: semconv, Usage: usage, Registry: w.registry, Now: w.clock.get, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Version: "1.2.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// close sends what is queued.
func (w *world) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.Close(ctx)
	if ctx.Err() != nil {
		t.Error("closing took too long")
	}
}

const (
	trace1 = "0af7651916cd43dd8448eb211c80319c"
	span1  = "b7ad6b7169203331"
)

// what a request holds that must not be told.
const (
	secretBody    = "the body of a request"
	secretSession = "session-4711"
	secretTenant  = "sk-ant-tenant"
	secretAgent   = "agent-0815"
)

// example is a request that had something removed, its outcome and what its response came to.
func example() (*pipeline.Request, *pipeline.Outcome, *pipeline.Observation) {
	r := &pipeline.Request{
		ID: "req-1", Route: "messages", Format: transcript.Anthropic, Body: []byte(secretBody), Session: secretSession, Tenant: secretTenant, Agent: secretAgent,
		Now: arrival, Config: &pipeline.Config{Name: "default", Hash: "c0ffee"}, Trace: "00-" + trace1 + "-" + span1 + "-01",
	}
	o := &pipeline.Outcome{
		Body: []byte(secretBody), Level: pipeline.Decided, Branch: 0xabc, Session: "5e55", Tenant: "7e4a", Model: "claude-opus-5", Format: r.Format, Turn: 3,
		New: []pipeline.DecisionMade{{Filter: "coref", Verdict: "unreferenced", Tokens: 500, MarkerTokens: 40}}, Tokens: 460,
		Move: &pipeline.Move{Kind: pipeline.Cold, From: 2}, Cache: pipeline.CacheCold, BytesIn: 4000, BytesOut: 2200,
		Duration: 8 * time.Millisecond,
	}
	for i := range o.Stages {
		o.Stages[i] = time.Duration(i) * 100 * time.Microsecond // nothing of the first
	}
	v := &pipeline.Observation{
		Usage: &pipeline.Usage{Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 50}, Model: "claude-opus-5", Expected: 4100,
		Cost: 0.01, Baseline: 0.03, Loss: &pipeline.Loss{Cause: pipeline.CauseTidemark, Filter: "coref", Tokens: 2000},
	}
	return r, o, v
}

func any1[T any](T) bool { return true }

func TestWhatIsExported(t *testing.T) {
	for name, q := range map[string]struct {
		set             []string
		traces, metrics bool
	}{
		"nothing is said":            {},
		"an endpoint":                {[]string{"EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, true, true},
		"an endpoint of traces":      {[]string{"EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1"}, true, false},
		"an exporter of metrics":     {[]string{"METRICS_EXPORTER", "otlp"}, false, true},
		"an endpoint, but no traces": {[]string{"EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "TRACES_EXPORTER", "none"}, false, true},
		"disabled":                   {[]string{"TRACES_EXPORTER", "otlp", "SDK_DISABLED", "true"}, false, false},
		"not disabled":               {[]string{"TRACES_EXPORTER", "otlp", "SDK_DISABLED", "false"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, q.set...)
			if got := wanted("traces"); got != q.traces {
				t.Errorf("traces: %v", got)
			}
			if got := wanted("metrics"); got != q.metrics {
				t.Errorf("metrics: %v", got)
			}
		})
	}
}

// Without a word of the environment nothing is made of a request, however often one comes.
func TestNothingCosts(t *testing.T) {
	environment(t)
	w := start(t, V01, Off)
	r, o, v := example()
	if n := testing.AllocsPerRun(100, func() { w.Answered(r, o); w.Observed(r, o, v) }); n != 0 {
		t.Errorf("a request costs %v allocations", n)
	}
	if families, err := w.registry.Gather(); len(families) != 0 || err != nil {
		t.Errorf("metrics: %v, %v", families, err)
	}
	w.close(t)
}

func TestUnknownWordsAreErrors(t *testing.T) {
	for name, q := range map[string]struct {
		semconv, usage string
		set            []string
	}{
		"semconv":  {"v1", Off, nil},
		"usage":    {Off, "on", nil},
		"exporter": {Off, Off, []string{"TRACES_EXPORTER", "zipkin"}},
		"metrics":  {Off, Off, []string{"TRACES_EXPORTER", "otlp", "METRICS_EXPORTER", "statsd"}}, // the tracer has been started then
		"protocol": {Off, Off, []string{"TRACES_EXPORTER", "otlp", "EXPORTER_OTLP_PROTOCOL", "json"}},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, q.set...)
			w, err := Start(t.Context(), Options{
				Semconv: q.semconv, Usage: q.usage, Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
			})
			if err == nil {
				w.Close(t.Context())
				t.Error("it was accepted")
			}
		})
	}
}

// toCollector starts a collector that all signals go to.
func toCollector(t *testing.T, more ...string) *otlptest.Collector {
	t.Helper()
	c := otlptest.Start(t)
	environment(t, append([]string{"EXPORTER_OTLP_ENDPOINT", "http://" + c.Addr, "EXPORTER_OTLP_PROTOCOL", "grpc"}, more...)...)
	return c
}

// TestSpan: everything that is told of a request, in each generation of names.
func TestSpan(t *testing.T) {
	own := map[string]any{
		"tidemark.outcome": "moved", "tidemark.pipeline": "default", "tidemark.mode": "active", "tidemark.format": "anthropic.messages",
		"tidemark.filters": "coref", "tidemark.verdicts": "coref:unreferenced=1", "tidemark.bytes_in": int64(4000), "tidemark.bytes_out": int64(2200),
		"tidemark.tokens_removed": int64(460), "tidemark.move": "cold", "tidemark.cache": "cold", "tidemark.prefix_changed": true, "tidemark.session": "5e55",
		"tidemark.lineage": "0000000000000abc", "tidemark.turn": int64(3), "tidemark.duration_us": int64(8000), "tidemark.config": "c0ffee", "tidemark.compacted": true,
		"tidemark.route": "messages", "tidemark.request_id": "req-1",
		"tidemark.input_tokens": int64(12), "tidemark.cache_read_tokens": int64(4000), "tidemark.cache_write_tokens": int64(300), "tidemark.output_tokens": int64(50),
		"tidemark.expected_cached_tokens": int64(4100), "tidemark.lost_tokens": int64(2000), "tidemark.loss_cause": "tidemark", "tidemark.loss_source": "ledger",
	}
	both := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-5",
		"gen_ai.usage.input_tokens": int64(4312), "gen_ai.usage.output_tokens": int64(50), "gen_ai.usage.cache_read.input_tokens": int64(4000),
	}
	for semconv, names := range map[string]map[string]any{
		V01:    {"gen_ai.usage.cache_write.input_tokens": int64(300), "gen_ai.conversation.compacted": true},
		Legacy: {"gen_ai.usage.cache_creation.input_tokens": int64(300), "gen_ai.system": "anthropic"},
		Off:    nil,
	} {
		t.Run(semconv, func(t *testing.T) {
			c := toCollector(t, "METRICS_EXPORTER", "none", "RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			w := start(t, semconv, Off)
			r, o, v := example()
			w.clock.set(arrival.Add(20 * time.Millisecond))
			w.Answered(r, o)
			w.clock.set(arrival.Add(3 * time.Second))
			w.Observed(r, o, v)
			w.close(t)

			spans := c.Spans(t, 8, any1)
			got := parent(t, spans)
			if got.Trace() != trace1 || got.Parent() != span1 || got.GetKind().String() != "SPAN_KIND_SERVER" {
				t.Errorf("the span is %v", got)
			}
			checkTimes(t, got, spans)
			attributes := got.Attributes()
			for name := range attributes { // what the lead adds to access logs comes here by itself
				if _, known := own[name]; !known && strings.HasPrefix(name, "tidemark.") {
					delete(attributes, name)
				}
			}
			want := map[string]any{}
			for _, m := range []map[string]any{own, names} {
				maps.Copy(want, m)
			}
			if semconv != Off {
				maps.Copy(want, both)
			}
			if d := cmp.Diff(want, attributes); d != "" {
				t.Error(d)
			}
			for _, name := range []string{"service.instance.id", "host.name", "telemetry.sdk.version"} {
				if got.Resource[name] == "" || got.Resource[name] == nil {
					t.Errorf("the resource has no %s", name)
				}
			}
			for name, want := range map[string]any{"service.name": "tidemark", "service.version": "1.2.3", "deployment.environment.name": "test"} {
				if got.Resource[name] != want {
					t.Errorf("the resource's %s is %v", name, got.Resource[name])
				}
			}
			for _, s := range spans {
				for _, secret := range []string{secretBody, secretSession, secretTenant, secretAgent} {
					if strings.Contains(s.String(), secret) {
						t.Errorf("a span holds %q", secret)
					}
				}
			}
		})
	}
}

func parent(t *testing.T, spans []otlptest.Span) otlptest.Span {
	t.Helper()
	for _, s := range spans {
		if s.GetName() == spanName {
			return s
		}
	}
	t.Fatal("there is no span of the request")
	return otlptest.Span{}
}

// checkTimes demands the times of example's spans.
func checkTimes(t *testing.T, whole otlptest.Span, spans []otlptest.Span) {
	t.Helper()
	at := func(ns uint64) time.Duration { return time.Unix(0, int64(ns)).Sub(arrival) }
	if at(whole.GetStartTimeUnixNano()) != 0 || at(whole.GetEndTimeUnixNano()) != 3*time.Second {
		t.Errorf("the span is from %v to %v", at(whole.GetStartTimeUnixNano()), at(whole.GetEndTimeUnixNano()))
	}
	begin := 12 * time.Millisecond // answered after 20 ms, of which the engine took 8
	for i := 1; i < 8; i++ {
		name, d := spanName+"."+pipeline.Stage(i).String(), time.Duration(i)*100*time.Microsecond
		var found bool
		for _, s := range spans {
			if s.GetName() != name {
				continue
			}
			found = true
			if at(s.GetStartTimeUnixNano()) != begin || at(s.GetEndTimeUnixNano()) != begin+d || s.Parent() != whole.ID() || s.Trace() != whole.Trace() {
				t.Errorf("%s is from %v to %v, child of %s", name, at(s.GetStartTimeUnixNano()), at(s.GetEndTimeUnixNano()), s.Parent())
			}
		}
		if !found {
			t.Errorf("there is no %s", name)
		}
		begin += d
	}
}

// What the trace decided holds: a trace that is not sampled gets no span, a request without one begins one.
func TestSampling(t *testing.T) {
	c := toCollector(t, "METRICS_EXPORTER", "none")
	w := start(t, Off, Off)
	for i, trace := range []string{"00-" + trace1 + "-" + span1 + "-00", "", "00-" + trace1 + "-" + span1 + "-01"} {
		r, o, v := example()
		r.Trace, r.ID = trace, fmt.Sprint(i)
		w.Answered(r, o)
		w.Observed(r, o, v)
	}
	w.close(t)
	spans := c.Spans(t, 2, func(s otlptest.Span) bool { return s.GetName() == spanName })
	ids := map[any]string{}
	for _, s := range spans {
		ids[s.Attributes()["tidemark.request_id"]] = s.Parent()
	}
	if d := cmp.Diff(map[any]string{"1": "", "2": span1}, ids); d != "" {
		t.Error(d)
	}
}

// Spans whose response nobody tells end as well: after a while, when there are too many, and when the server ends.
func TestResponsesThatNobodyTells(t *testing.T) {
	c := toCollector(t, "METRICS_EXPORTER", "none", "BSP_MAX_QUEUE_SIZE", "100000")
	w := start(t, Off, Off)
	ask := func(id string, now time.Time) {
		r, o, _ := example()
		r.ID, r.Now, o.Stages = id, now, pipeline.Stages{}
		w.clock.set(now)
		w.Answered(r, o)
	}
	ask("first", arrival)
	ask("second", arrival.Add(patience-time.Minute))
	ask("third", arrival.Add(patience))
	if w.open.Len() != 2 {
		t.Errorf("%d spans are open", w.open.Len())
	}
	for i := range maxOpen {
		ask(fmt.Sprint(i), arrival.Add(patience))
	}
	if w.open.Len() != maxOpen {
		t.Errorf("%d spans are open", w.open.Len())
	}
	w.close(t)
	first := c.Spans(t, maxOpen+3, any1)
	for _, s := range first {
		if s.Attributes()["tidemark.request_id"] == "first" && s.GetEndTimeUnixNano() != uint64(arrival.UnixNano()) {
			t.Error("a span whose response was not told lasts longer than its request")
		}
	}
}

// A panic over the response says nothing of it, and an error is shown as one.
func TestFailures(t *testing.T) {
	c := toCollector(t, "METRICS_EXPORTER", "none")
	w := start(t, V01, V01)
	r, o, _ := example()
	o.Gate, o.New, o.Tokens, o.Model = filters.Panic, nil, 0, "_other"
	w.Answered(r, o)
	w.Observed(r, o, nil)
	w.close(t)
	s := parent(t, c.Spans(t, 8, any1))
	if s.GetStatus().GetCode().String() != "STATUS_CODE_ERROR" || s.GetStatus().GetMessage() != "panic" {
		t.Errorf("the status is %v", s.GetStatus())
	}
	for _, name := range []string{"gen_ai.conversation.compacted", "gen_ai.usage.input_tokens", "gen_ai.request.model", "tidemark.input_tokens"} {
		if v, there := s.Attributes()[name]; there {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// A collector that cannot be reached changes nothing but a log line, and there is one of those per minute.
func TestDeadCollector(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			environment(t, "EXPORTER_OTLP_ENDPOINT", "http://"+lis.Addr().String(), "EXPORTER_OTLP_PROTOCOL", protocol, "EXPORTER_OTLP_TIMEOUT", "50",
				"BSP_SCHEDULE_DELAY", "1", "BSP_EXPORT_TIMEOUT", "50", "BSP_MAX_QUEUE_SIZE", "1024", "METRIC_EXPORT_INTERVAL", "20", "METRIC_EXPORT_TIMEOUT", "50")
			w := start(t, V01, V01)
			for range 5000 { // more than the queue holds
				r, o, v := example()
				w.Answered(r, o)
				w.Observed(r, o, v)
			}
			for deadline := time.Now().Add(20 * time.Second); w.report.kept.Load() < 3; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing failed")
				}
			}
			if n := strings.Count(w.log.String(), "\n"); n != 1 {
				t.Errorf("%d log lines:\n%s", n, w.log.String())
			}
			w.close(t)
		})
	}
}

// TestNonsenseInTheEnvironment: whatever sizes and times of batches it asks for, tidemark starts, and spans arrive.
func TestNonsenseInTheEnvironment(t *testing.T) {
	for _, name := range []string{"BSP_MAX_QUEUE_SIZE", "BSP_MAX_EXPORT_BATCH_SIZE", "BSP_SCHEDULE_DELAY", "BSP_EXPORT_TIMEOUT"} {
		for _, value := range []string{"-1", "0", "99999999999999", "999999999999999999999", "many"} {
			t.Run(name+"="+value, func(t *testing.T) {
				c := toCollector(t, "METRICS_EXPORTER", "none", name, value)
				w := start(t, V01, Off)
				r, o, v := example()
				w.Answered(r, o)
				w.Observed(r, o, v)
				w.close(t)
				c.Spans(t, 1, func(s otlptest.Span) bool { return s.GetName() == spanName })
			})
		}
	}
}

func TestProviders(t *testing.T) {
	for want, r := range map[string]pipeline.Request{
		"anthropic":          {Format: transcript.Anthropic},
		"openai":             {Format: transcript.Responses},
		"aws.bedrock":        {Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Bedrock}},
		"gcp.vertex_ai":      {Format: transcript.Gemini, Place: cache.Place{Platform: cache.Vertex}},
		"gcp.gemini":         {Format: transcript.Gemini},
		"azure.ai.openai":    {Format: transcript.Chat, Place: cache.Place{Platform: cache.Azure}},
		"azure.ai.inference": {Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Azure}},
		"":                   {},
	} {
		if got := provider(&r); got != want {
			t.Errorf("%v at %q is %q, want %q", r.Format, r.Place.Platform, got, want)
		}
	}
	if got := provider(&pipeline.Request{Format: transcript.Converse}); got != "aws.bedrock" {
		t.Errorf("Converse is %q", got)
	}
}
