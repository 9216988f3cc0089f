package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// envoy plays Envoy's part towards a server that runs in this process.
type envoy struct {
	client extprocv3.ExternalProcessorClient
	admin  string
	body   string // of what it asks
	route  string // by Envoy's name
}

// start runs a server whose flags may be changed.
func start(t *testing.T, change ...func(flags map[string]string)) *envoy {
	t.Helper()
	e := &envoy{body: body}
	var socket string
	e.admin, socket = serving(t, change...)
	c, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	e.client = extprocv3.NewExternalProcessorClient(c)
	return e
}

// serving runs a server until the test ends and returns the addresses of its admin endpoints and of ext_proc.
func serving(t *testing.T, change ...func(flags map[string]string)) (admin, listen string) {
	t.Helper()
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	admin, err := free()
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{"listen": socket, "admin.listen": admin, "restore.listen": "", "state": "memory:", "drain_delay": "0s", "log.level": "error", "deadline": "10s"}
	for _, f := range change {
		f(flags)
	}
	file := flags["file"]
	delete(flags, "file")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serve(ctx, serverconfig.Sources{
			Filters: knownFilters(), Flags: flags, File: file,
			Env: func(name string) (string, bool) { return credential, name == credentialEnv },
		}, time.Now)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return flags["admin.listen"], flags["listen"]
}

const credential = "sk-of-the-summarizer"

const body = `{"model":"claude-opus-4-1","max_tokens":100,"tools":[{"name":"Read"}],"messages":[{"role":"user","content":"hi"}]}`

// counted waits until the metrics hold these lines: a request is counted when its account is made, which nobody waits for.
func (e *envoy) counted(t *testing.T, lines ...string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(lines) > 0; time.Sleep(10 * time.Millisecond) {
		r, err := http.Get("http://" + e.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			t.Fatal(err)
		}
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(string(text), l) })
		if len(lines) > 0 && time.Now().After(deadline) {
			t.Fatalf("metrics lack %q", lines)
		}
	}
}

// ask sends one request in BUFFERED mode and returns what it is told for the access log.
func (e *envoy) ask(t *testing.T, headers map[string]string, route map[string]any, initial ...string) map[string]any {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), initial...)
	stream, err := e.client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := &corev3.HeaderMap{}
	for k, v := range headers {
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: k, RawValue: []byte(v)})
	}
	ns, err := structpb.NewStruct(route)
	if err != nil {
		t.Fatal(err)
	}
	md := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"tidemark": ns}}
	attributes, err := structpb.NewStruct(map[string]any{"xds.route_name": e.route})
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]any{}
	for _, m := range []*extprocv3.ProcessingRequest{
		{
			Request:         &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: h}},
			MetadataContext: md,
			Attributes:      map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes},
			ProtocolConfig:  &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED},
		},
		{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(e.body), EndOfStream: true}}, MetadataContext: md},
	} {
		if err := stream.Send(m); err != nil {
			break // the server has left
		}
		answer, err := stream.Recv()
		if err != nil {
			break
		}
		if s := answer.GetDynamicMetadata().GetFields()["tidemark.result"]; s != nil {
			result = s.GetStructValue().AsMap()
		}
	}
	return result
}

func turn(extra ...string) map[string]string {
	h := map[string]string{":method": "POST", ":path": "/v1/messages", "content-type": "application/json", "x-api-key": "sk-test", "x-claude-code-session-id": "s1"}
	for i := 0; i < len(extra); i += 2 {
		h[extra[i]] = extra[i+1]
	}
	return h
}

func TestServeAsEnvoySeesIt(t *testing.T) {
	e := start(t)
	for _, c := range []struct {
		name    string
		headers map[string]string
		route   map[string]any
		initial []string
		want    map[string]any
	}{
		{"the server's default", turn(), nil, nil, map[string]any{"outcome": "identity", "pipeline": "default", "mode": "active"}},
		{"metadata", turn(), map[string]any{"mode": "shadow"}, nil, map[string]any{"mode": "shadow"}},
		{"initial metadata", turn(), nil, []string{"x-tidemark-route", `{"mode": "off"}`}, map[string]any{"mode": "off", "gate": "off"}},
		{"unknown name", turn(), nil, []string{"x-tidemark-pipeline", "nope"}, map[string]any{"gate": "bad_config"}},
		{"bad config", turn(), map[string]any{"mod": "shadow"}, nil, map[string]any{"gate": "bad_config"}},
		{"bypass", turn("x-tidemark-bypass", "true"), nil, nil, map[string]any{"gate": "bypass", "outcome": "bypassed"}},
		{"signed", turn("authorization", "AWS4-HMAC-SHA256 Credential=AKIA/x"), nil, nil, map[string]any{"gate": "client_signed"}},
		{"auxiliary", turn("x-claude-code-request-class", "auxiliary"), nil, nil, map[string]any{"gate": "side_request"}},
		{"count_tokens", turn(":path", "/v1/messages/count_tokens?beta=true"), nil, nil, map[string]any{"gate": "side_request"}},
		{"no session", turn("x-claude-code-session-id", ""), nil, nil, map[string]any{"gate": "no_session"}},
		{"another path", turn(":path", "/v1/models"), nil, nil, map[string]any{"outcome": "untouched", "gate": "path"}},
	} {
		got := e.ask(t, c.headers, c.route, c.initial...)
		for k, v := range c.want {
			if got[k] != v {
				t.Errorf("%s: %s is %v, want %v in %v", c.name, k, got[k], v, got)
			}
		}
	}
	e.counted(t, `tidemark_config_route_errors_total{reason="metadata"} 1`, `tidemark_config_route_errors_total{reason="name"} 1`,
		`tidemark_passed_total{reason="path"} 1`, `tidemark_gates_total{filter="",gate="bad_config"} 2`)
}

// A route's summarizer is asked after the request, with the credential of the environment, which is shown nowhere.
func TestServeHasResultsSummarised(t *testing.T) {
	asked := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		_, _ = io.WriteString(w, `{"content":[{"type":"text","text":"All is well."}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":3}}`)
	}))
	defer s.Close()
	e := start(t)
	exchange := func(id string) string {
		return `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"Bash","input":{"command":"make"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + strings.Repeat("all is well ", 300) + `"}]}`
	}
	e.body = strings.TrimSuffix(body, "]}") + "," + exchange("a") + "," + exchange("b") + "]}"
	e.ask(t, turn(), map[string]any{"pipeline": []any{"tiered"}, "components": map[string]any{"tiered": map[string]any{
		"window": 1.0, "summarizer": map[string]any{"url": s.URL + "/v1/messages", "api": "anthropic", "model": "small"},
	}}})
	if h := <-asked; h.Get("X-Api-Key") != credential {
		t.Errorf("headers %v", h)
	}
	for _, path := range []string{"/config", "/metrics"} {
		r, err := http.Get("http://" + e.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || strings.Contains(string(text), credential) {
			t.Errorf("%s: %v, %s", path, err, text)
		}
	}
}
