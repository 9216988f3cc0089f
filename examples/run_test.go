package examples_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/demo"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

func TestMain(m *testing.M) {
	code := m.Run()
	envoytest.RemoveProgram()
	os.Exit(code)
}

// TestEnvoyStatic runs envoy-static/envoy.yaml with the real program on tidemark.yaml, and plays the demo's session through them.
// Of the Envoy config, nothing but the addresses and the file of trusted authorities is another one: the provider is the
// simulator behind TLS, as api.anthropic.com.
func TestEnvoyStatic(t *testing.T) {
	envoytest.Binary(t)
	tidemark := envoytest.NewTidemark(t, text(t, "tidemark.yaml"))
	tidemark.Addr = free(t)
	tidemark.SetClock(t, time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC))
	tidemark.Start(t)
	upstream, authority := provider(t, "api.anthropic.com")
	env := envoytest.Start(t, envoytest.Options{Edit: func(string) string {
		return substitute(t, text(t, "envoy-static/envoy.yaml"), map[string]string{
			"{address: 127.0.0.1, port_value: 9901}":        "{address: 127.0.0.1, port_value: 0}",
			"{address: 0.0.0.0, port_value: 10000}":         "{address: 127.0.0.1, port_value: 0}",
			"{address: tidemark, port_value: 9002}":         address(t, tidemark.Addr),
			"{address: api.anthropic.com, port_value: 443}": address(t, upstream),
			"filename: /etc/ssl/certs/ca-certificates.crt":  "filename: " + authority,
		})
	}})
	var out bytes.Buffer
	if err := demo.Play(t.Context(), &demo.Stage{URL: env.URL(""), Clock: tidemark.Clock, Out: &out, One: true}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	env.Logged(t, "tidemark: moved gate= bytes=")
	if n := tidemark.Metric(t, `tidemark_moves_total{kind="cold"}`); n == 0 {
		t.Error("tidemark counted no move")
	}
	if n := tidemark.Metric(t, `tidemark_billed_tokens_total`); n == 0 {
		t.Error("tidemark learned of no token that was billed")
	}
	examined(t, env.Admin, tidemark.Admin)
}

// examined has tidemark doctor look at both: it finds nothing.
func examined(t *testing.T, envoy, tidemark string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), envoytest.Program(t), "doctor", "--envoy", "http://"+envoy, "--admin", "http://"+tidemark).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Envoy 1.") || !strings.HasSuffix(string(out), ", 0 errors, 0 warnings\n") {
		t.Errorf("tidemark doctor: %v\n%s", err, out)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// substitute replaces texts, each of which must be there.
func substitute(t *testing.T, s string, by map[string]string) string {
	t.Helper()
	for from, to := range by {
		if !strings.Contains(s, from) {
			t.Fatalf("the config has no %q", from)
		}
		s = strings.ReplaceAll(s, from, to)
	}
	return s
}

func address(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{address: %s, port_value: %s}", host, port)
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// provider serves the simulator over TLS under a name. The authority is the file of the certificate to trust.
func provider(t *testing.T, name string) (addr, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(demo.Provider(simprovider.New(simprovider.Options{})))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), authority
}
