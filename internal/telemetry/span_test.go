package telemetry

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// TestChildrenLieWithinTheirParent: whatever the clocks say, which are two: requests arrive by one, stages are measured by another.
func TestChildrenLieWithinTheirParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := tracetest.NewInMemoryExporter()
		p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		var now clock
		tm := &Telemetry{o: Options{Semconv: V01, Usage: Off, Now: now.get}, tracer: p.Tracer(scope)}
		var err error
		if tm.open, err = newOpen(); err != nil {
			t.Fatal(err)
		}
		duration := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Minute)).Draw(t, name))
		}
		r, o, v := example()
		o.Duration = max(0, duration("engine"))
		stages := 0
		for i := range o.Stages {
			if o.Stages[i] = duration("stage"); o.Stages[i] > 0 {
				stages++
			}
		}
		now.set(arrival.Add(duration("answered")))
		tm.Answered(r, o)
		now.set(now.get().Add(duration("response")))
		switch rapid.SampledFrom([]string{"told", "panicked", "never"}).Draw(t, "response") {
		case "told":
			tm.Observed(r, o, v)
		case "panicked":
			tm.Observed(r, o, nil)
		default:
			tm.Close(context.Background())
		}
		got := spans.GetSpans()
		if len(got) != stages+1 {
			t.Fatalf("%d spans of %d stages", len(got), stages)
		}
		whole := got[len(got)-1]
		if whole.Name != spanName || !whole.StartTime.Equal(r.Now) || whole.EndTime.Before(whole.StartTime) {
			t.Fatalf("%s from %v to %v", whole.Name, whole.StartTime, whole.EndTime)
		}
		at := whole.StartTime
		for _, s := range got[:stages] {
			if s.StartTime.Before(at) || s.EndTime.Before(s.StartTime) || s.EndTime.After(whole.EndTime) || s.Parent.SpanID() != whole.SpanContext.SpanID() {
				t.Fatalf("%s from %v to %v, in a span from %v to %v", s.Name, s.StartTime, s.EndTime, whole.StartTime, whole.EndTime)
			}
			at = s.EndTime
		}
	})
}

// TestHostileNames: what a client or a config calls a request reaches the collector in a bounded length, and keeps no span from it:
// one text that is no UTF-8 would make a whole batch unsendable.
func TestHostileNames(t *testing.T) {
	collector := toCollector(t)
	w := start(t, V01, Off)
	const hostile = "\xff\xfe\x00"
	for _, change := range []func(*pipeline.Request, *pipeline.Outcome){
		func(r *pipeline.Request, _ *pipeline.Outcome) { r.ID = hostile },
		func(r *pipeline.Request, _ *pipeline.Outcome) { r.ID = strings.Repeat("é", 60_000) },
		func(r *pipeline.Request, _ *pipeline.Outcome) { r.Route = hostile },
		func(r *pipeline.Request, _ *pipeline.Outcome) {
			r.Config = &pipeline.Config{Name: hostile, Hash: hostile}
		},
		func(_ *pipeline.Request, o *pipeline.Outcome) { o.Session = hostile },
		func(*pipeline.Request, *pipeline.Outcome) {},
	} {
		r, o, v := example()
		change(r, o)
		w.Answered(r, o)
		w.Observed(r, o, v)
	}
	w.close(t)
	for _, s := range collector.Spans(t, 6, func(s otlptest.Span) bool { return s.GetName() == spanName }) {
		for name, v := range s.Attributes() {
			if text, ok := v.(string); ok && (!utf8.ValidString(text) || len(text) > 2*maxText) {
				t.Errorf("%s has %d bytes: %.20q", name, len(text), text)
			}
		}
	}
}

// TestOpenSpansKeepNoOutcome: of thousands of requests whose response is never told, nothing but their spans stays.
func TestOpenSpansKeepNoOutcome(t *testing.T) {
	toCollector(t)
	w := start(t, V01, Off)
	freed := make(chan struct{})
	func() {
		r, o, _ := example()
		runtime.AddCleanup(o, func(c chan struct{}) { close(c) }, freed)
		w.Answered(r, o)
	}()
	for i := range 1000 { // cleanups run some time after a collection
		runtime.GC()
		select {
		case <-freed:
			if w.open.Len() != 1 {
				t.Errorf("%d spans wait", w.open.Len())
			}
			w.close(t)
			return
		case <-time.After(time.Duration(i) * time.Microsecond):
		}
	}
	t.Error("the outcome is kept")
	w.close(t)
}
