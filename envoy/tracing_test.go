package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/telemetry"
	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Names of the spans of one request, from Envoy's to tidemark's.
const (
	ingressSpan = "ingress"
	egressSpan  = "async envoy.service.ext_proc.v3.ExternalProcessor.Process egress"
	ownSpan     = "tidemark"
)

// exportTo makes programs that are started from now on export to a collector, at once.
func exportTo(t *testing.T, addr string) {
	t.Helper()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + addr, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_BSP_SCHEDULE_DELAY": "20",
		"OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1000",
	} {
		t.Setenv(name, value)
	}
}

// ofRequest are the spans of a request by name; the children of tidemark's are under their own names.
func ofRequest(t *testing.T, c *otlptest.Collector, id string) map[string]otlptest.Span {
	t.Helper()
	own := c.Spans(t, 1, func(s otlptest.Span) bool { return s.Attributes()["tidemark.request_id"] == id })
	if len(own) != 1 {
		t.Fatalf("request %s has %d spans of tidemark's", id, len(own))
	}
	all := map[string]otlptest.Span{}
	for _, name := range []string{ingressSpan, egressSpan} { // Envoy sends them when it likes
		c.Spans(t, 1, func(s otlptest.Span) bool { return s.Trace() == own[0].Trace() && s.GetName() == name })
	}
	for _, s := range c.Spans(t, 1, func(s otlptest.Span) bool { return s.Trace() == own[0].Trace() }) {
		if _, twice := all[s.GetName()]; twice {
			t.Errorf("request %s has two spans %s", id, s.GetName())
		}
		all[s.GetName()] = s
	}
	return all
}

// checkTree demands that the spans of a request are one tree: Envoy's, the call to tidemark, tidemark's, and its stages.
func checkTree(t *testing.T, id string, spans map[string]otlptest.Span, root string) {
	t.Helper()
	ingress, egress, own := spans[ingressSpan], spans[egressSpan], spans[ownSpan]
	if ingress.Parent() != root || egress.Parent() != ingress.ID() || own.Parent() != egress.ID() {
		t.Errorf("request %s: spans %s in %q, %s in %s, %s in %s", id, ingress.ID(), ingress.Parent(), egress.ID(), egress.Parent(), own.ID(), own.Parent())
	}
	if k := own.GetKind().String() + " " + egress.GetKind().String(); k != "SPAN_KIND_SERVER SPAN_KIND_CLIENT" {
		t.Errorf("request %s: %s", id, k)
	}
	at := own.GetStartTimeUnixNano()
	for i := pipeline.StageParse; i <= pipeline.StageCommit; i++ {
		s, there := spans[ownSpan+"."+i.String()]
		if !there {
			continue
		}
		if s.Parent() != own.ID() || s.GetStartTimeUnixNano() < at || s.GetEndTimeUnixNano() > own.GetEndTimeUnixNano() {
			t.Errorf("request %s: %s lies outside of its place", id, s.GetName())
		}
		at = s.GetEndTimeUnixNano()
	}
	for _, stage := range []pipeline.Stage{pipeline.StageParse, pipeline.StageLoad} {
		if own.Attributes()["tidemark.gate"] == "unparsed" {
			break
		}
		if _, there := spans[ownSpan+"."+stage.String()]; !there {
			t.Errorf("request %s has no span of stage %v", id, stage)
		}
	}
}

// TestTracing plays a session through an Envoy that traces, to the real program that exports: what both send is one trace for each
// request, and the tags that Envoy makes of the dynamic metadata are what tidemark's own span says.
func TestTracing(t *testing.T) {
	for semconv, names := range map[string][]string{
		telemetry.V01:    {"gen_ai.usage.cache_write.input_tokens", "gen_ai.conversation.compacted"},
		telemetry.Legacy: {"gen_ai.usage.cache_creation.input_tokens", "gen_ai.system"},
		telemetry.Off:    nil,
	} {
		t.Run(semconv, func(t *testing.T) {
			c := otlptest.Start(t)
			exportTo(t, c.Addr)
			p := newProduct(t, "otel: {semconv: "+semconv+"}")
			p.through(t, readRecipe(t, "tracing").into(t, c.Addr))
			seen := map[string]bool{}
			for _, l := range p.story(t, newAgent("story")) {
				if l.outcome == "" || l.outcome == "untouched" {
					continue
				}
				spans := ofRequest(t, c, l.id)
				checkTree(t, l.id, spans, "")
				own := spans[ownSpan].Attributes()
				compareTags(t, l.name, spans[ingressSpan].Attributes(), own)
				compareUsage(t, &l, semconv, own)
				for name := range own {
					if strings.HasPrefix(name, "gen_ai.") {
						seen[name] = true
					}
				}
				if got := own["gen_ai.conversation.compacted"]; got != nil && (got != true || len(l.shortened) == 0) {
					t.Errorf("%s: gen_ai.conversation.compacted is %v with %d results left out", l.name, got, len(l.shortened))
				}
			}
			want := map[string]bool{}
			if semconv != telemetry.Off {
				names = append(names, "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.usage.input_tokens",
					"gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens")
			}
			for _, name := range names {
				want[name] = true
			}
			if d := cmp.Diff(want, seen); d != "" {
				t.Error(d)
			}
		})
	}
}

// compareTags demands that Envoy's tags say what tidemark's attributes say. Envoy's are text.
func compareTags(t *testing.T, name string, envoys, own map[string]any) {
	t.Helper()
	n := 0
	for tag, v := range envoys {
		if !strings.HasPrefix(tag, "tidemark.") {
			continue
		}
		n++
		want := own[tag]
		if usd, ok := want.(float64); ok { // of which Envoy writes six digits
			want = strconv.FormatFloat(usd, 'g', 6, 64)
		}
		if fmt.Sprint(v) != fmt.Sprint(want) && (want != nil || v != "") {
			t.Errorf("%s: Envoy says %s is %v, tidemark %v", name, tag, v, want)
		}
	}
	if n < 5 {
		t.Errorf("%s: Envoy's span has %d tags of tidemark's: %v", name, n, slices.Sorted(maps.Keys(envoys)))
	}
}

// compareUsage demands that the span counts what the provider billed: the whole prompt as input.
func compareUsage(t *testing.T, l *logged, semconv string, own map[string]any) {
	t.Helper()
	if semconv == telemetry.Off || l.status != http.StatusOK {
		return
	}
	want := map[string]int{"input_tokens": l.prompt, "output_tokens": l.usage.Output, "cache_read.input_tokens": l.usage.Read}
	want[map[string]string{telemetry.V01: "cache_write.input_tokens", telemetry.Legacy: "cache_creation.input_tokens"}[semconv]] = l.usage.Write5m + l.usage.Write1h
	for name, n := range want {
		if got, there := own["gen_ai.usage."+name]; n > 0 && got != int64(n) || n == 0 && there && got != int64(0) {
			t.Errorf("%s: %s is %v, want %d", l.name, name, got, n)
		}
	}
}

// TestTraceOfTheClient: a client that traces, too, is the root; where Envoy does not trace, tidemark's span is the client's child;
// and what is not sampled is not told.
func TestTraceOfTheClient(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	c := otlptest.Start(t)
	exportTo(t, c.Addr)
	p := newProduct(t, "")
	ask := func(name, flags string) string {
		a := newAgent(name)
		r := a.request("/v1/messages")
		r.header = map[string]string{"traceparent": "00-" + trace[:31] + name[:1] + "-" + span + "-" + flags}
		return p.send(t, r).ok(t).id
	}
	untold, direct := ask("a", "00"), ask("b", "01")
	spans := c.Spans(t, 1, func(s otlptest.Span) bool { return s.Attributes()["tidemark.request_id"] == direct })
	if spans[0].Trace() != trace[:31]+"b" || spans[0].Parent() != span {
		t.Errorf("without Envoy's tracer the span is in %s of %s", spans[0].Parent(), spans[0].Trace())
	}
	p.through(t, readRecipe(t, "tracing").into(t, c.Addr))
	silent, traced := ask("c", "00"), ask("d", "01")
	checkTree(t, traced, ofRequest(t, c, traced), span)
	for _, s := range c.Spans(t, 1, func(otlptest.Span) bool { return true }) {
		if id := s.Attributes()["tidemark.request_id"]; id == untold || id == silent {
			t.Errorf("%s of a trace that is not sampled was told", s.GetName())
		}
	}
}

// both tells two observers.
type both struct {
	*recorder

	t *telemetry.Telemetry
}

func (b both) Answered(r *pipeline.Request, o *pipeline.Outcome) {
	b.recorder.Answered(r, o)
	b.t.Answered(r, o)
}

func (b both) Observed(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation) {
	b.recorder.Observed(r, o, v)
	b.t.Observed(r, o, v)
}

// TestSpanBeginsWithinEnvoys: on the clock of the day, tidemark's span begins while Envoy waits for tidemark, in either body mode,
// and lasts until the response is over.
func TestSpanBeginsWithinEnvoys(t *testing.T) {
	c := otlptest.Start(t)
	exportTo(t, c.Addr)
	own, err := telemetry.Start(t.Context(), telemetry.Options{
		Semconv: telemetry.V01, Usage: telemetry.Off, Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own is over
		defer cancel()
		own.Close(ctx)
	})
	provider := &biller{more: make(chan struct{})}
	e := envoytest.Start(t, envoytest.Options{Upstream: provider, Edit: readRecipe(t, "tracing").into(t, c.Addr), Server: &extproc.Options{
		Engine: toy{}, Admit: admitToy, Result: observe.Result, Account: observe.Account, Observer: both{newRecorder(), own}, Deadline: shippedDeadline,
	}})
	w := &world{Env: e}
	for _, path := range []string{metadataPath, streamedPath, duplexUsagePath} {
		id := t.Name() + path
		r := w.request(t, path, strings.NewReader(`{"model":"claude-opus-5-5"}`), toyHeader, toySlow, "x-request-id", id, holdHeader, "wait")
		answered := make(chan string, 1)
		go func() { answered <- send(envoytest.Client(t, false), r) }()
		time.Sleep(150 * time.Millisecond) // half of the response has come, the rest takes its time
		released := time.Now()
		provider.more <- struct{}{}
		<-answered
		spans := ofRequest(t, c, id)
		egress, mine := spans[egressSpan], spans[ownSpan]
		begin := mine.GetStartTimeUnixNano()
		if begin < egress.GetStartTimeUnixNano() || begin > egress.GetEndTimeUnixNano() {
			t.Errorf("%s: tidemark's span begins at %d, Envoy's call lasts from %d to %d", path, begin, egress.GetStartTimeUnixNano(), egress.GetEndTimeUnixNano())
		}
		if end := time.Unix(0, int64(mine.GetEndTimeUnixNano())); end.Before(released) {
			t.Errorf("%s: tidemark's span ends at %v, the response went on at %v", path, end, released)
		}
	}
}

// TestExportedMetrics: a collector gets the figures that are scraped, and under the names of the GenAI conventions, if asked for,
// what the provider billed.
func TestExportedMetrics(t *testing.T) {
	c := otlptest.Start(t)
	exportTo(t, c.Addr)
	p := newProduct(t, "otel: {usage: v0.1}")
	a := newAgent("meter")
	var prompts, answers float64
	for range 3 {
		a.step(runs(10))
		x := p.send(t, a.request("/v1/messages")).ok(t)
		prompts, answers = prompts+float64(x.prompt), answers+float64(x.usage.Output)
	}
	p.tidemark.MetricWhen(t, "gen_ai_client_inference_usage_input_tokens_total", envoytest.Is(prompts))
	for name, want := range map[string]float64{
		"tidemark_requests_total":                         3,
		"tidemark_inbound_bytes_total":                    p.tidemark.Metric(t, "tidemark_inbound_bytes_total"),
		"gen_ai.client.inference.usage.input_tokens":      prompts,
		"gen_ai.client.inference.usage.output_tokens":     answers,
		"gen_ai.client.inference.operation.output_tokens": answers,
	} {
		c.Metrics(t, 1, func(m otlptest.Metric) bool {
			return m.GetName() == name && m.Resource["service.name"] == "tidemark" && sumOf(m) == want
		})
	}
	if got := p.tidemark.Metric(t, "gen_ai_client_inference_usage_input_tokens_total"); got != prompts {
		t.Errorf("%v tokens of prompts are scraped, want %v", got, prompts)
	}
	for _, m := range c.Metrics(t, 1, func(otlptest.Metric) bool { return true }) {
		if strings.HasPrefix(m.GetName(), "gen_ai_") {
			t.Errorf("%s is told twice", m.GetName())
		}
	}
}

// sumOf is the sum of a metric's series.
func sumOf(m otlptest.Metric) (sum float64) {
	for _, p := range m.GetSum().GetDataPoints() {
		sum += p.GetAsDouble() + float64(p.GetAsInt())
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		sum += p.GetSum()
	}
	return sum
}

// TestDeadCollector: where nobody takes what is exported, requests fare as they would, and it costs a line of the log.
func TestDeadCollector(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	exportTo(t, lis.Addr().String())
	p := newStory(t, readRecipe(t, "json"), "")
	p.checkStory(t, func(l *logged) map[string]string { return words(p.Access(t, l.id)) })
	if n := strings.Count(p.tidemark.Log(), "msg=telemetry "); n > 1 {
		t.Errorf("the log has %d lines on it:\n%s", n, p.tidemark.Log())
	}
}
