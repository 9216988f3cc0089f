package telemetry

import (
	"context"
	"time"
	"weak"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// spanName is the name of a request's span. Its children are named for their stages: tidemark.parse and so on.
const spanName = "tidemark"

// Spans that wait for their response. Most wait for seconds; of a few the response is never told, as gateways that ask
// /v1/compress need not tell what was billed.
const (
	maxOpen  = 4096 // the oldest ends when one more comes
	patience = time.Hour
)

// request is a span that waits for its response.
type request struct {
	span     trace.Span
	answered time.Time
	last     time.Time // when it ends
}

func (r *request) end() { r.span.End(trace.WithTimestamp(r.last)) }

// newOpen returns room for spans that wait. One that leaves it ends.
func newOpen() (*lru.Cache[weak.Pointer[pipeline.Outcome], *request], error) {
	return lru.NewWithEvict(maxOpen, func(_ weak.Pointer[pipeline.Outcome], r *request) { r.end() })
}

// Answered tells of a request whose body was answered. The span is of kind SERVER: it is the server's side of the call by which
// Envoy asked, whose span Envoy reports as kind CLIENT.
func (t *Telemetry) Answered(r *pipeline.Request, o *pipeline.Outcome) {
	if t.tracer == nil {
		return
	}
	now := t.o.Now()
	t.expire(now)
	ctx, span := t.tracer.Start(remote(r.Trace), spanName, trace.WithTimestamp(r.Now), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	result := observe.Result(o, r)
	span.SetAttributes(fields(result)...)
	span.SetAttributes(about(r)...)
	span.SetAttributes(t.names(r, o, result.GetFields()["compacted"].GetBoolValue())...)
	if class := o.Class(); class == "error" {
		span.SetStatus(codes.Error, string(o.Gate))
	}
	t.open.Add(weak.Make(o), &request{span, now, t.stages(ctx, r, o, now)})
}

// stages makes the children of a span, and returns when the last of them ends. Their durations are measured; where one begins is
// where the one before it ended, and all together began as long before the answer as the engine took. What the engine did
// between them, as waiting for another request of the session, belongs to none.
func (t *Telemetry) stages(ctx context.Context, r *pipeline.Request, o *pipeline.Outcome, answered time.Time) time.Time {
	at := answered.Add(-o.Duration)
	if at.Before(r.Now) {
		at = r.Now
	}
	for i, d := range o.Stages {
		if d <= 0 {
			continue
		}
		_, child := t.tracer.Start(ctx, spanName+"."+pipeline.Stage(i).String(), trace.WithTimestamp(at))
		at = at.Add(d)
		child.End(trace.WithTimestamp(at))
	}
	return latest(at, answered)
}

// Observed tells what the response to such a request came to; nil stands for a panic over it.
func (t *Telemetry) Observed(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation) {
	if v != nil && t.usage != nil {
		t.usage.count(r, v)
	}
	if t.tracer == nil {
		return
	}
	s, ok := t.open.Peek(weak.Make(o))
	if !ok {
		return
	}
	if v != nil {
		s.span.SetAttributes(fields(observe.Account(v))...)
		s.span.SetAttributes(t.billed(r, v)...)
	}
	s.last = latest(s.last, t.o.Now())
	t.open.Remove(weak.Make(o)) // which ends it
}

// expire ends spans whose response will not be told any more.
func (t *Telemetry) expire(now time.Time) {
	for {
		o, s, ok := t.open.GetOldest()
		if !ok || now.Sub(s.answered) < patience {
			return
		}
		t.open.Remove(o)
	}
}

// remote is the context of a traceparent.
func remote(traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
