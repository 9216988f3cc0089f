package openai

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCaptures plays a recorded session of Codex: none of its requests may be refused, and each must read what the one before
// it left.
func TestCaptures(t *testing.T) {
	shared := os.Getenv("TIDEMARK_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "shared")
	}
	heads, err := filepath.Glob(filepath.Join(shared, "captures", "codex", "*.head.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(heads) == 0 {
		t.Skipf("no captures of codex in %s: set TIDEMARK_SHARED", shared)
	}
	s, at, left := New(Options{Foreign: true}), start, 0
	for _, name := range heads {
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
		at = at.Add(20 * time.Second)
		res := must(t, s, head.Path, body, h, at)
		if res.Usage.Read < left {
			t.Errorf("%s: read %d of the %d tokens that are cached", filepath.Base(name), res.Usage.Read, left)
		}
		left = res.Prompt / stepPlain * stepPlain
	}
	if left == 0 {
		t.Error("nothing was cached")
	}
}
