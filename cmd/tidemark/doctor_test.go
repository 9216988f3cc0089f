package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/observe"
)

// TestDoctorExits: as check does, with 0, 1 and 2.
func TestDoctorExits(t *testing.T) {
	m := observe.NewMetrics("v1")
	guarded := m.Admin(func() any { return map[string]any{} })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer first-token-of-two" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		guarded.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := file("# rotated\n\n  first-token-of-two \nsecond-token-of-two\n")
	args := func(more ...string) []string {
		return append([]string{"doctor", "--envoy", "", "--admin", s.URL, "--token-file"}, more...)
	}
	silence(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{args(tokens), 0},
		{args(tokens, "--output", "json"), 0},
		{args(file("second-token-of-two\n")), exitUsage},
		{args(file("# none\n")), exitUsage},
		{args("/does/not/exist"), exitUsage},
		{args(tokens, "--timeout", "0s"), exitUsage},
		{[]string{"doctor", "--envoy", "", "--admin", ""}, exitUsage},
		{[]string{"doctor", "--output", "xml"}, exitUsage},
	} {
		if got := run(c.args); got != c.want {
			t.Errorf("%q exits with %d, not %d", c.args, got, c.want)
		}
	}
	m.RouteConfigFailed("metadata")
	if got := run(args(tokens)); got != exitFailed {
		t.Errorf("with an error it exits with %d", got)
	}
}

// silence keeps what commands print out of the test's output.
func silence(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, complaints := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = null, null
	t.Cleanup(func() {
		os.Stdout, os.Stderr = out, complaints
		_ = null.Close()
	})
}
