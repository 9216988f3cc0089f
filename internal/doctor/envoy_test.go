package doctor_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/doctor"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

func known() []routeconfig.Filter {
	specs := all.Specs()
	out := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		out[i] = routeconfig.Filter(s)
	}
	return out
}

// admin serves the real admin endpoints of a server that was started with these flags and has counted what m has.
func admin(t *testing.T, m *observe.Metrics, flags map[string]string) string {
	t.Helper()
	l, err := serverconfig.Load(serverconfig.Sources{Flags: flags, Filters: known()})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(m.Admin(func() any { return map[string]any{"hash": l.Hash, "settings": l.Settings()} }))
	t.Cleanup(s.Close)
	return s.URL
}

// examine returns what is found: severity, rule and where of each.
func examine(t *testing.T, o doctor.Options) []string {
	t.Helper()
	o.Timeout, o.Filters = 10*time.Second, known()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	r, err := doctor.Examine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, f := range r.Findings {
		if f.Message == "" || f.Fix == "" || f.Where == "" || strings.Contains(f.Message, "%!") {
			t.Errorf("lacks something: %+v", f)
		}
		found = append(found, fmt.Sprintf("%s %s @ %s", f.Severity, f.Rule, f.Where))
	}
	return found
}

// config is that of examples/envoy-static before a tidemark that is healthy, unless it is down. It is changed by replacing texts,
// each of which must be there.
func config(t *testing.T, down bool, replace ...string) string {
	t.Helper()
	b, err := os.ReadFile("../../examples/envoy-static/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !down {
		replace = append(slices.Clone(replace), "{address: tidemark, port_value: 9002}", healthy(t))
	}
	return change(t, string(b), append(slices.Clone(replace),
		"{address: 127.0.0.1, port_value: 9901}", "{address: 127.0.0.1, port_value: 0}",
		"{address: 0.0.0.0, port_value: 10000}", "{address: 127.0.0.1, port_value: 0}",
		"{address: api.anthropic.com, port_value: 443}", "{address: 127.0.0.1, port_value: 9}",
		"filename: /etc/ssl/certs/ca-certificates.crt", "filename: "+authority(t),
	))
}

// start starts an Envoy.
func start(t *testing.T, config string) *envoytest.Env {
	t.Helper()
	return envoytest.Start(t, envoytest.Options{Processor: "127.0.0.1:9", Upstream: http.NotFoundHandler(), Edit: func(string) string { return config }})
}

func change(t *testing.T, s string, replace []string) string {
	t.Helper()
	for i := 0; i+1 < len(replace); i += 2 {
		if !strings.Contains(s, replace[i]) {
			t.Fatalf("the config has no %q", replace[i])
		}
		s = strings.ReplaceAll(s, replace[i], replace[i+1])
	}
	return s
}

// healthy is the address of a gRPC server that says it is healthy.
func healthy(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthgrpc.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }() // it ends with Stop
	t.Cleanup(s.Stop)
	return fmt.Sprintf("{address: 127.0.0.1, port_value: %d}", l.Addr().(*net.TCPAddr).Port)
}

// authority is a file with some certificate.
func authority(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Places in the config.
const (
	chain = "listener ingress, filter envoy.filters.http.ext_proc"
	route = "listener ingress, virtual host anthropic, route messages"
)

// faults are slips in Envoy's config that a running Envoy accepts, and what is found of each.
var faults = []struct {
	name    string
	replace []string
	flags   map[string]string
	down    bool // Envoy finds no tidemark
	want    []string
}{
	{name: "nothing", want: []string{}},
	{name: "failure mode", replace: []string{"failure_mode_allow: true", "failure_mode_allow: false"}, want: []string{"error failure-mode @ " + chain}},
	{name: "short timeout", replace: []string{"message_timeout: 5s", "message_timeout: 0.1s"}, want: []string{"error message-timeout @ " + chain}},
	{name: "long deadline", flags: map[string]string{"deadline": "6s"}, want: []string{"error message-timeout @ " + chain}},
	{name: "no forwarding", replace: []string{"{untyped: [tidemark], typed", "{typed"}, want: []string{"error forwarding-namespace @ " + chain}},
	{name: "no receiving", replace: []string{"untyped: [tidemark.result]", "untyped: [other]"}, want: []string{"warning receiving-namespace @ " + chain}},
	{name: "no tap", replace: []string{"response_trailer_mode: SEND", "response_trailer_mode: SKIP"}, want: []string{"warning usage @ " + chain}},
	{
		name: "gzip blinds the tap", replace: []string{"request_headers_to_remove: [accept-encoding]", "request_headers_to_remove: [x-other]"},
		want: []string{"warning usage @ " + route},
	},
	{name: "HTTP/1.1", replace: []string{"http2_protocol_options:\n            connection_keepalive: {interval: 30s, timeout: 5s}", "http_protocol_options: {}", "grpc_health_check: {}", "tcp_health_check: {}"}, want: []string{"error cluster-protocol @ cluster tidemark"}},
	{
		name: "set_metadata behind", want: []string{"error filter-order @ listener ingress, filter envoy.filters.http.set_metadata"},
		replace: []string{
			"- name: envoy.filters.http.set_metadata # takes the config of the route below; stays empty here, and first\n            typed_config:\n              \"@type\": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config\n          - name", "- name",
			"          - name: envoy.filters.http.router", "          - name: envoy.filters.http.set_metadata\n            typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config}\n          - name: envoy.filters.http.router",
		},
	},
	{
		name: "another ext_proc before", want: []string{"error filter-order @ " + chain},
		replace: []string{
			"- name: envoy.filters.http.ext_proc\n            typed_config:", "- name: envoy-ai-gateway\n            typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor, grpc_service: {envoy_grpc: {cluster_name: anthropic}}, processing_mode: {request_body_mode: BUFFERED}}\n          - name: envoy.filters.http.ext_proc\n            typed_config:",
		},
	},
	{
		name: "body written anew", replace: []string{"response_handling: {token_usage", "request_handling: {}\n              response_handling: {token_usage"},
		want: []string{"error body-rewrite @ listener ingress, filter envoy.filters.http.ai_protocol_manager"},
	},
	{
		name: "two replicas by turns", replace: []string{"      - lb_endpoints:\n        - endpoint:\n            address: {socket_address: {address: tidemark", "      - lb_endpoints:\n        - endpoint: {address: {socket_address: {address: tidemark, port_value: 9002}}}\n        - endpoint:\n            address: {socket_address: {address: tidemark"},
		want: []string{"warning stickiness @ cluster tidemark"},
	},
	{
		name: "tidemark is down", replace: []string{"address: {socket_address: {address: tidemark, port_value: 9002}}", "address: {socket_address: {address: 127.0.0.1, port_value: 9}}"}, down: true,
		want: []string{"error unhealthy @ /clusters, cluster tidemark"},
	},
	{name: "limit", replace: []string{"request_body_buffer_limit: 33554432", "request_body_buffer_limit: 65536"}, want: []string{"warning buffer-limit @ listener ingress, virtual host anthropic"}},
	{name: "no limit", replace: []string{"request_body_buffer_limit: 33554432", "include_request_attempt_count: false"}, want: []string{"warning buffer-limit @ " + chain}},
	{name: "body mode", replace: []string{"request_body_mode: BUFFERED", "request_body_mode: STREAMED"}, want: []string{"warning body-mode @ " + chain}},
	{name: "no filter", replace: []string{"cluster_name: tidemark}", "cluster_name: anthropic}", "stat_prefix: tidemark", "stat_prefix: x", "[tidemark]", "[x]", "[tidemark.result]", "[x]", "metadata_namespace: tidemark", "metadata_namespace: x"}, want: []string{"error no-filter @ /config_dump"}},
	{name: "bad route config", replace: []string{"{min_tokens: 200}", "{mintokens: 200}"}, want: []string{"error route-config @ " + route}},
	{name: "mode off", flags: map[string]string{"mode": "off"}, want: []string{"warning mode-off @ /config"}},
	{name: "store in memory", flags: map[string]string{"state": "memory:"}, want: []string{"warning store-memory @ /config"}},
}

// TestFaults injects each fault into the config of a real Envoy: that is found, and nothing else.
func TestFaults(t *testing.T) {
	envoytest.Binary(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			env := start(t, config(t, f.down, f.replace...))
			got := examine(t, doctor.Options{Envoy: "http://" + env.Admin, Admin: admin(t, observe.NewMetrics("v"), f.flags)})
			if d := cmp.Diff(f.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
