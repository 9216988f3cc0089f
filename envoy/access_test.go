package envoy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// secured gives the cluster of tidemark TLS, with a client's certificate or without.
func secured(authority, cert, key string) func(string) string {
	client := ""
	if cert != "" {
		client = fmt.Sprintf("tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}],", cert, key)
	}
	const cluster = "  - name: tidemark\n    type: STATIC\n"
	return func(config string) string {
		return strings.Replace(config, cluster, cluster+fmt.Sprintf(`    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context: {%s
          validation_context: {trusted_ca: {filename: %s}, match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: localhost}}]}}
`, client, authority), 1)
	}
}

// Envoy reaches tidemark by mutual TLS. One without a certificate does not, and its requests go on as they are. What operators turn
// off while the server runs is off, for the route that they name.
func TestMutualTLS(t *testing.T) {
	envoytest.Binary(t)
	servers, clients := accesstest.NewAuthority(t, "servers"), accesstest.NewAuthority(t, "clients")
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		return accesstest.Write(t, filepath.Join(dir, name), content)
	}
	cert, key := servers.Issue(t, "tidemark")
	config := fmt.Sprintf("tls: {cert_file: %s, key_file: %s, client_ca_file: %s}\n", file("tls.crt", cert), file("tls.key", key), file("clients.crt", clients.PEM))
	authority := file("servers.crt", servers.PEM)
	cert, key = clients.Issue(t, "envoy")
	p := &product{provider: &provider{sim: simprovider.New(simprovider.Options{}), replies: map[string][]byte{}, protos: map[string]string{}}}
	p.tidemark = envoytest.NewTidemark(t, config)
	p.tidemark.Addr = unused(t)
	p.tidemark.SetClock(t, start)
	p.tidemark.Start(t)
	turn := func() map[string]any {
		t.Helper()
		x := p.send(t, &request{path: "/v1/messages", key: "sk-a", session: "s", at: start, body: []byte(`{"model":"claude-opus-4-1","max_tokens":100,"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}]}`)}).ok(t)
		return p.Access(t, x.id)
	}
	p.through(t, secured(authority, file("envoy.crt", cert), file("envoy.key", key)))
	if got := turn(); got["outcome"] != "identity" || got["mode"] != "active" {
		t.Errorf("with a certificate: %v", got)
	}
	p.setMode(t, `{"mode": "off", "route": "messages"}`)
	if got := turn(); got["gate"] != "off" {
		t.Errorf("turned off: %v", got)
	}
	p.setMode(t, `{"mode": "active", "route": "messages"}`)
	if got := turn(); got["outcome"] != "identity" || got["mode"] != "active" {
		t.Errorf("turned on again: %v", got)
	}
	p.streams(t, 0)
	before := p.tidemark.Metric(t, "tidemark_extproc_streams_total")
	p.through(t, secured(authority, "", ""))
	if got := turn(); got["outcome"] == "identity" {
		t.Errorf("without a certificate: %v", got)
	}
	if after := p.tidemark.Metric(t, "tidemark_extproc_streams_total"); after != before || before == 0 {
		t.Errorf("streams: %v, then %v", before, after)
	}
}

// setMode does what an operator does to narrow modes at run time.
func (p *product) setMode(t *testing.T, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.tidemark.Admin+"/v1/mode", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", body, res.StatusCode)
	}
}

// unused is an address that nobody listens on.
func unused(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
