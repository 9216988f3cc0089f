package telemetry

import (
	"context"
	"testing"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

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
		if tm.open, err = lru.NewWithEvict(maxOpen, func(_ *pipeline.Outcome, r *request) { r.end() }); err != nil {
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
