package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// scene writes a recording message by message.
type scene struct {
	t        *testing.T
	api      string
	model    string
	at       time.Time
	messages []any
	ts       []string
	usage    []any
	calls    int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{t: t, api: "anthropic", model: "claude-opus-4-5", at: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
}

func (s *scene) add(role string, content ...any) {
	s.messages = append(s.messages, map[string]any{"role": role, "content": content})
	s.ts = append(s.ts, s.at.Format(time.RFC3339Nano))
	s.at = s.at.Add(10 * time.Second)
}

func text(format string, args ...any) any {
	return map[string]any{"type": "text", "text": fmt.Sprintf(format, args...)}
}

// human is a message of the user's, after a pause.
func (s *scene) human(pause time.Duration, words string) {
	s.at = s.at.Add(pause)
	s.add("user", text("%s", words))
}

// call is a turn with one tool call and its result.
func (s *scene) call(tool string, input map[string]any, result string) {
	s.calls++
	id := fmt.Sprintf("toolu_%d", s.calls)
	s.add("assistant", text("Next is %s.", tool), map[string]any{"type": "tool_use", "id": id, "name": tool, "input": input})
	s.add("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": result})
}

func (s *scene) read(path, marker string) {
	s.call("Read", map[string]any{"file_path": path}, source(marker))
}

func (s *scene) edit(path string) {
	s.call("Edit", map[string]any{"file_path": path, "old_string": "a", "new_string": "b"}, "The file was updated.")
}

// source is a file of some 8,000 tokens in which a name stands once.
func source(name string) string {
	return strings.Repeat("and then a line of words that say nothing of interest to anybody\n", 500) + "var " + name + " = 1\n"
}

// write stores the recording and opens it.
func (s *scene) write() *Recording {
	s.t.Helper()
	raw, err := json.Marshal(map[string]any{
		"id": "scene", "api": s.api, "model": s.model, "system": nil, "tools": nil,
		"messages": s.messages, "ts": s.ts, "usage": s.usage,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(s.t.TempDir(), "scene.json")
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
	rec, err := Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return rec
}

// bill writes the usage that a provider with this many characters a token, and a head of this many tokens that the
// recording does not show, would have reported.
func (s *scene) bill(ratio float64, head int) {
	rec := s.write()
	rec.session.pad(int(float64(head) * ratio))
	p := newProvider(ratio, Provider{})
	s.usage = nil
	for i := range rec.Requests {
		r := &rec.Requests[i]
		u := p.call(r, r.Body()).Usage
		if u == nil {
			s.t.Fatalf("request %d was refused", i)
		}
		if s.api != "anthropic" {
			s.billOpenAI(r.n, u)
			continue
		}
		s.usage = append(s.usage, map[string]any{
			"msg": r.n, "input_tokens": u.Input, "cache_read_input_tokens": u.Read, "cache_creation_input_tokens": u.Write5m + u.Write1h,
			"output_tokens": 10, "cache_creation": map[string]any{"ephemeral_1h_input_tokens": u.Write1h},
		})
	}
}

// story0 reads two files, edits one, pauses until the cache is cold, and uses what only the first reading showed.
func story0(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.human(0, "Please look at the code.")
	s.read("/src/one.go", "alphaCounter")
	s.read("/src/two.go", "betaCounter")
	s.edit("/src/one.go")
	for i := range 6 {
		s.call("Bash", map[string]any{"command": "true"}, fmt.Sprintf("step %d is done", i))
	}
	s.human(30*time.Minute, "Go on.")
	for i := range 5 {
		s.call("Bash", map[string]any{"command": "true"}, fmt.Sprintf("more of %d", i))
	}
	s.call("Bash", map[string]any{"command": "grep alphaCounter ."}, "nothing")
	s.read("/src/one.go", "alphaCounter")
	s.add("assistant", text("Done."))
	return s
}

// policies compiles route configs.
func policies(t *testing.T, routes ...string) (list []Policy) {
	t.Helper()
	specs := all.Specs()
	known := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		known[i] = routeconfig.Filter(s)
	}
	resolver, problems := routeconfig.New(routeconfig.Options{Filters: known})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for _, route := range routes {
		r := resolver.Resolve("test", routeconfig.Sources{JSON: route})
		if r.Config.Bad {
			t.Fatalf("%s cannot be used", route)
		}
		list = append(list, Policy{Name: fmt.Sprintf("%d-%s", len(list), r.Config.Name), Config: r.Config, Identity: r.Identity})
	}
	return list
}

const (
	nothing = `{"pipeline":[]}`
	reads   = `{"pipeline":["readlifecycle"]}`
	lifts   = `{"pipeline":[],"ttl":"1h"}`
)

func run(t *testing.T, rec *Recording, o Options) []*Report {
	t.Helper()
	reports, err := Run(t.Context(), rec, o)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func near(a, b, share float64) bool { return math.Abs(a-b) <= share*max(math.Abs(a), math.Abs(b)) }
