package extproc

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

// Where Envoy says what a route wants. None of them can be set by the client.
const (
	RouteNamespace = "tidemark"            // dynamic metadata, by per-route set_metadata
	RouteKey       = "x-tidemark-route"    // gRPC initial metadata: the same as JSON
	PipelineKey    = "x-tidemark-pipeline" // gRPC initial metadata: the name of a pipeline
)

// attributesKey is the one key under which attributes come.
const attributesKey = "envoy.filters.http.ext_proc"

// BypassHeader narrows a request to replay; it is stripped before the request goes upstream.
const BypassHeader = "x-tidemark-bypass"

// RouteConfig is what Envoy sent of the route's config, from each place that may hold one. Empty means that it was not there.
type RouteConfig struct {
	Metadata *structpb.Struct // namespace tidemark
	JSON     string           // of x-tidemark-route
	Pipeline string           // of x-tidemark-pipeline
	Route    string           // Envoy's name of the route, where request_attributes has xds.route_name
}

// Head is what is known of a request before its body.
type Head struct {
	Headers Headers
	Config  RouteConfig
}

// Headers are the headers of a request, with Envoy's pseudo headers (":path", ":method").
type Headers struct{ m *corev3.HeaderMap }

// Get returns the value of a header, by its lower-case name. Several lines of one name are joined by a comma, as RFC 9110
// (5.3) has it. An absent header is empty.
func (h Headers) Get(name string) string {
	value, found := "", false
	for _, v := range h.m.GetHeaders() {
		if v.GetKey() != name {
			continue
		}
		if found {
			value += ","
		}
		value, found = value+rawOrText(v), true
	}
	return value
}

// rawOrText prefers raw_value, which Envoy fills; other processors may still fill value.
func rawOrText(v *corev3.HeaderValue) string {
	if len(v.GetRawValue()) > 0 {
		return string(v.GetRawValue())
	}
	return v.GetValue()
}

// headOf reads the headers message of a request. ctx is the stream's.
func headOf(ctx context.Context, m message) *Head {
	return &Head{Headers: headersOf(m), Config: routeConfigOf(ctx, m)}
}

func headersOf(m message) Headers { return Headers{m.GetRequestHeaders().GetHeaders()} }

func routeConfigOf(ctx context.Context, m message) RouteConfig {
	md, _ := metadata.FromIncomingContext(ctx)
	return RouteConfig{
		Metadata: m.GetMetadataContext().GetFilterMetadata()[RouteNamespace],
		JSON:     last(md.Get(RouteKey)),
		Pipeline: last(md.Get(PipelineKey)),
		Route:    m.GetAttributes()[attributesKey].GetFields()["xds.route_name"].GetStringValue(),
	}
}

// last is the entry that counts: Envoy appends what is more specific.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
