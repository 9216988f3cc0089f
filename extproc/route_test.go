package extproc

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestHeadersGet(t *testing.T) {
	h := Headers{&corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":path", RawValue: []byte("/v1/messages")},
		{Key: "content-encoding", RawValue: []byte("identity")},
		{Key: "x-old", Value: "text"},
		{Key: "content-encoding", RawValue: []byte("gzip")},
		{Key: "x-empty"},
	}}}
	for name, want := range map[string]string{
		":path": "/v1/messages", "content-encoding": "identity,gzip", "x-old": "text", "x-empty": "", "absent": "", "path": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := (Headers{}).Get(":path"); got != "" {
		t.Errorf("no headers have a path: %q", got)
	}
}

func TestRouteConfig(t *testing.T) {
	config, err := structpb.NewStruct(map[string]any{"pipeline": []any{"readlifecycle"}})
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := structpb.NewStruct(map[string]any{"xds.route_name": "messages"})
	if err != nil {
		t.Fatal(err)
	}
	m := headersMessage(modeBuffered, false)
	m.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{RouteNamespace: config}}
	m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(RouteKey, "{}", PipelineKey, "filter", PipelineKey, "route"))
	got := headOf(ctx, m).Config
	if got.Metadata != config || got.JSON != "{}" || got.Pipeline != "route" || got.Route != "messages" {
		t.Errorf("config %+v", got)
	}
	if got := headOf(t.Context(), headersMessage(modeBuffered, false)).Config; got != (RouteConfig{}) {
		t.Errorf("a route without config has %+v", got)
	}
}
