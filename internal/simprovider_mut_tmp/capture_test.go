package simprovider

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// captures returns the folder of recorded requests of a client, and skips the test where there are none.
func captures(t *testing.T, client string) []string {
	t.Helper()
	shared := os.Getenv("TIDEMARK_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	heads, err := filepath.Glob(filepath.Join(shared, "captures", client, "*.head.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(heads) == 0 {
		t.Skipf("no captures of %s in %s: set TIDEMARK_SHARED", client, shared)
	}
	return heads
}

// TestCaptures plays recorded sessions of real clients: none of their requests may be refused, and each must read what the
// one before it wrote.
func TestCaptures(t *testing.T) {
	for _, client := range []string{"claude", "opencode"} {
		t.Run(client, func(t *testing.T) {
			s := New(Options{})
			at, frontier := start, 0
			for _, name := range captures(t, client) {
				var head struct {
					Path    string
					Headers map[string]string
				}
				raw, err := os.ReadFile(name)
				if err == nil {
					err = json.Unmarshal(raw, &head)
				}
				if err != nil {
					t.Fatal(err)
				}
				body, err := os.ReadFile(strings.TrimSuffix(name, ".head.json") + ".body.json")
				if err != nil {
					t.Fatal(err)
				}
				h := http.Header{}
				for k, v := range head.Headers {
					h.Set(k, v)
				}
				path, _, _ := strings.Cut(head.Path, "?")
				at = at.Add(20 * time.Second)
				res := s.serve(path, body, h, at)
				if res.Err != nil {
					t.Errorf("%s: %v", filepath.Base(name), res.Err)
					continue
				}
				u := res.Usage
				if path == pathCount || u.Write5m+u.Write1h+u.Read == 0 { // a side request
					continue
				}
				if u.Read < frontier {
					t.Errorf("%s: read %d of the %d tokens that are cached", filepath.Base(name), u.Read, frontier)
				}
				if u.Input+u.Read+u.Write5m+u.Write1h != res.Prompt {
					t.Errorf("%s: usage %+v does not add up to %d", filepath.Base(name), u, res.Prompt)
				}
				frontier = res.Prompt - u.Input
			}
			if frontier == 0 {
				t.Error("nothing was cached")
			}
		})
	}
}
