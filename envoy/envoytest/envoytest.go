// Package envoytest gives tests a real Envoy with tidemark behind it: random ports, an upstream of the test's, logs shown
// only on failure, everything stopped at the end.
package envoytest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy"
	"github.com/tidemark-dev/tidemark/extproc"
)

// RequireVariable is the environment variable that turns a skip for want of an Envoy into a failure.
const RequireVariable = "TIDEMARK_REQUIRE_ENVOY"

// Options of an environment.
type Options struct {
	// Upstream answers for the provider, over HTTP/1.1 and HTTP/2.
	Upstream http.Handler
	// Server are the options of a server in this process; Log and the drain's times are filled in. Nil: none is started.
	Server *extproc.Options
	// Processor is the address of a server that the test runs itself. It is used if Server is nil.
	Processor string
	// Edit changes the config before Envoy sees it; nil leaves it.
	Edit func(config string) string
}

// Env is an Envoy that runs until the test ends.
type Env struct {
	*envoy.Process

	access, log buffer
	drain       func() error
}

// Start starts an environment. It skips the test if there is no Envoy on this machine.
func Start(tb testing.TB, o Options) *Env {
	tb.Helper()
	binary := Binary(tb)
	e := &Env{drain: func() error { return nil }}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("envoy and tidemark logged:\n%s\naccess log:\n%s", e.log.String(), e.access.String())
		}
	})
	processor := o.Processor
	if o.Server != nil {
		processor = e.serve(tb, *o.Server)
	}
	config, err := envoy.Config(envoy.Endpoints{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Processor: processor, Upstream: upstream(tb, o.Upstream),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if o.Edit != nil {
		config = []byte(o.Edit(string(config)))
	}
	if e.Process, err = envoy.Start(context.Background(), binary, config, &e.access, &e.log); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// URL is the address of a path on Envoy's listener.
func (e *Env) URL(path string) string { return "http://" + e.Addr + path }

// Log is what Envoy and the server of this process have logged.
func (e *Env) Log() string { return e.log.String() }

// Drain shuts the server of this process down as SIGTERM would, and waits for its end.
func (e *Env) Drain() error { return e.drain() }

// Stat is the value of one of Envoy's counters or gauges.
func (e *Env) Stat(tb testing.TB, name string) int64 {
	tb.Helper()
	n, err := e.Process.Stat(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// AccessLog is all that Envoy has written of requests.
func (e *Env) AccessLog() string { return e.access.String() }

// Access waits for the access log's line of a request, by its x-request-id.
func (e *Env) Access(tb testing.TB, id string) map[string]any {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(e.access.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["request_id"] == id {
				return fields
			}
		}
	}
	tb.Fatalf("no line of request %s in the access log", id)
	return nil
}

// Logged waits until the access log holds a text.
func (e *Env) Logged(tb testing.TB, text string) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(e.access.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("the access log does not hold %q", text)
		}
	}
}

// Client returns an HTTP client that speaks HTTP/2 with prior knowledge, or HTTP/1.1. It changes no header on its own.
func Client(tb testing.TB, http2 bool) *http.Client {
	tb.Helper()
	tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	tb.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Binary is the Envoy that tests run; without one the test is skipped, or fails if the environment demands one.
func Binary(tb testing.TB) string {
	tb.Helper()
	binary, complaint := found()
	switch {
	case binary != "":
	case os.Getenv(RequireVariable) == "1":
		tb.Fatalf("no Envoy, and %s=1: %s", RequireVariable, complaint)
	default:
		tb.Skipf("no Envoy to test with: %s", complaint)
	}
	return binary
}

// found looks for an Envoy once per test binary.
var found = sync.OnceValues(func() (binary, complaint string) {
	_, self, _, _ := runtime.Caller(0)
	var stderr bytes.Buffer
	cmd := exec.Command("bash", filepath.Join(filepath.Dir(self), "..", "..", "scripts", "find-envoy.sh"))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", err.Error() + "\n" + stderr.String()
	}
	return strings.TrimSpace(string(out)), ""
})

func upstream(tb testing.TB, h http.Handler) string {
	tb.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	tb.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
