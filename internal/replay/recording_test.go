package replay

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"
)

// shared is where recordings lie that are not a part of the project; tests on them are skipped without it.
func shared(t *testing.T, sub string) string {
	t.Helper()
	dir := os.Getenv("TIDEMARK_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, sub)); err != nil {
		t.Skipf("no recordings: set TIDEMARK_SHARED to a folder that holds %s", sub)
	}
	return filepath.Join(dir, sub)
}

func TestRecordedSessionsBecomeLawfulBodies(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared(t, "corpus"), "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	n := 0
	for i, f := range files {
		if i%13 != 0 {
			continue
		}
		rec, err := Open(f)
		if errors.Is(err, ErrFormat) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
		for k, r := range rec.Requests {
			body := r.Body()
			if !json.Valid(body) {
				t.Fatalf("%s request %d is not JSON", rec.Name, k)
			}
			if k > 0 && r.At.Before(rec.Requests[k-1].At) {
				t.Fatalf("%s request %d goes back in time", rec.Name, k)
			}
			msgs := gjson.GetBytes(body, listOf(r.wire.Format)).Array()
			if openAI(r.wire.Format) {
				if len(msgs) == 0 {
					t.Fatalf("%s request %d is empty", rec.Name, k)
				}
				continue
			}
			if len(msgs) == 0 || msgs[len(msgs)-1].Get("content.#.cache_control").Exists() && gjson.GetBytes(body, `system.#.cache_control|#`).Int() != 2 {
				t.Fatalf("%s request %d has no markers", rec.Name, k)
			}
		}
	}
	if n == 0 {
		t.Fatal("no session of a format that is read")
	}
}
