package extproc

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
)

// traceHeader is where the W3C trace context stands, in headers and in gRPC metadata.
const traceHeader = "traceparent"

// traceOf is the trace context that a request belongs to, empty without one. An Envoy that traces says which of its spans asks
// in the metadata of the stream; the request's headers then still hold what the client sent. ctx is the stream's.
func traceOf(ctx context.Context, h *Head) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, said := range []string{last(md.Get(traceHeader)), h.Headers.Get(traceHeader)} {
		carrier := propagation.MapCarrier{}
		w3c := propagation.TraceContext{} // reads nothing that is no traceparent, and writes version 00
		w3c.Inject(w3c.Extract(context.Background(), propagation.MapCarrier{traceHeader: said}), carrier)
		if valid := carrier[traceHeader]; valid != "" {
			return valid
		}
	}
	return ""
}
