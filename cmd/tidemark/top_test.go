package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
	"github.com/tidemark-dev/tidemark/internal/board"
)

// TestTopExits: with 0 once it has printed, with 1 if the server does not show it, with 2 if flags cannot be used.
func TestTopExits(t *testing.T) {
	api := board.New(board.Options{}).Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+oldToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	file := func(text string) string {
		return accesstest.Write(t, filepath.Join(t.TempDir(), "tokens"), []byte(text))
	}
	silence(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--token-file", file("# rotated\n\n " + oldToken + "\nsecond\n")}, 0},
		{[]string{"--token-file", file("second\n")}, exitFailed},
		{nil, exitFailed},
		{[]string{"--token-file", file("# none\n")}, exitUsage},
		{[]string{"--token-file", "/does/not/exist"}, exitUsage},
		{[]string{"--interval", "0s"}, exitUsage},
		{[]string{"--admin", "ftp://host"}, exitUsage},
	} {
		if got := run(append([]string{"top", "--once", "--admin", s.URL}, c.args...)); got != c.want {
			t.Errorf("%q exits with %d, not %d", c.args, got, c.want)
		}
	}
}
