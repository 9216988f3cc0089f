package doctor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/doctor"
	"github.com/tidemark-dev/tidemark/internal/observe"
)

// endless answers without an end.
func endless(w http.ResponseWriter, _ *http.Request) {
	chunk := []byte(strings.Repeat("tidemark_x 1\n", 5000))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestHostile: whatever an admin port answers, the examination ends, within bounds and with an error that says what is wrong.
func TestHostile(t *testing.T) {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"endless":     {endless, "too big"},
		"not there":   {http.NotFound, "status 404"},
		"nothing":     {answer(""), "read "},
		"no JSON":     {answer("<html>login</html>"), "read "},
		"a JSON list": {answer("[1, 2]"), "read "},
		"deep":        {answer(strings.Repeat(`{"configs":[`, 1<<20)), "read "},
		"somebody else's": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				_, _ = io.WriteString(w, "{}")
			}
		}, "no admin "},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
		"leads elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.invalid/", http.StatusFound)
		}, "status 302"},
		"wants a password": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.handler)
			t.Cleanup(s.Close)
			for _, o := range []doctor.Options{{Envoy: s.URL}, {Admin: s.URL}} {
				o.Timeout = 2 * time.Second
				if name == "silent" {
					o.Timeout = 50 * time.Millisecond
				}
				_, err := doctor.Examine(t.Context(), o)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%+v: %v", o, err)
				}
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	if _, err := doctor.Examine(t.Context(), doctor.Options{}); !errors.Is(err, doctor.ErrNowhere) {
		t.Error(err)
	}
	for _, addr := range []string{"127.0.0.1:9901", "ftp://x", "http://[", "unix:/nowhere"} {
		if _, err := doctor.Examine(t.Context(), doctor.Options{Envoy: addr, Timeout: time.Second}); err == nil {
			t.Errorf("%s is taken", addr)
		}
	}
}

// TestSocketAndToken: an admin listener on a socket that wants a token.
func TestSocketAndToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	inner := observe.NewMetrics("v1").Admin(func() any { return map[string]any{} })
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-secret-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	o := doctor.Options{Admin: "unix:" + path, Timeout: time.Second, Token: "secret-secret-secret"}
	if got := examine(t, o); len(got) != 0 {
		t.Error(got)
	}
	o.Token = "other"
	if _, err := doctor.Examine(t.Context(), o); err == nil || strings.Contains(err.Error(), "other") {
		t.Errorf("%v", err)
	}
}

// TestNotReady: what /readyz says is passed on.
func TestNotReady(t *testing.T) {
	m := observe.NewMetrics("v1")
	s := httptest.NewServer(m.Admin(func() any { return map[string]any{} }, observe.Check{Name: "store", Probe: failing}))
	t.Cleanup(s.Close)
	r, err := doctor.Examine(t.Context(), doctor.Options{Admin: s.URL, Timeout: time.Second})
	if err != nil || len(r.Findings) != 1 || r.Errors() != 1 || r.Findings[0].Message != "tidemark is not ready: store: disk is gone" || r.Tidemark != "v1" {
		t.Errorf("%+v, %v", r, err)
	}
}

func failing(context.Context) error { return errors.New("disk is gone") }
