package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
)

// offered is a scene on a route that offers the tool.
func offered(t *testing.T) *scene {
	t.Helper()
	c := config(t, "")
	c.Inline = true
	return newScene(t, c)
}

// asks sends a body and returns what is forwarded.
func (s *scene) asks(k *talk, change ...func(*pipeline.Request)) []byte {
	s.Helper()
	k.Mark(gen.Short)
	s.at = s.at.Add(time.Second)
	in := k.Body()
	r := ask(in, s.c, s.at)
	r.Tenant, r.Session, r.Agent = s.tenant, s.session, s.agent
	for _, f := range change {
		f(r)
	}
	s.o = s.e.Request(context.Background(), r)
	if s.o.Undeclared || s.o.Desync {
		s.Errorf("undeclared %v, desync %v", s.o.Undeclared, s.o.Desync)
	}
	if s.o.Body != nil {
		return s.o.Body
	}
	return in
}

func toolNames(body []byte) string {
	var names []string
	for _, n := range gjson.GetBytes(body, "tools.#.name").Array() {
		names = append(names, n.Str)
	}
	return strings.Join(names, " ")
}

const plainTools, withTool = "Read Edit", "Read Edit context_restore"

// TestOfferedFromTheFirstRequestOn: a conversation has the tool from its first request on or never, and through everything that
// becomes of it.
func TestOfferedFromTheFirstRequestOn(t *testing.T) {
	want := func(s *scene, body []byte, tools string) {
		t.Helper()
		if got := toolNames(body); got != tools {
			t.Fatalf("tools %q, want %q (gate %q)", got, tools, s.o.Gate)
		}
	}
	t.Run("kept", func(t *testing.T) {
		s := offered(t)
		k := newTalk()
		want(s, s.asks(k), withTool)
		want(s, s.asks(k), withTool) // a retry
		s.restart()
		want(s, s.asks(k.read("a", "/w/a")), withTool)
		s.c = config(t, "") // the route no longer offers it
		want(s, s.asks(k.read("b", "/w/b")), withTool)
		want(s, s.asks(k.cut(3).read("x", "/w/x")), withTool) // a fork
		want(s, s.asks(k, func(r *pipeline.Request) { r.Bypass = true }), withTool)
		want(s, s.asks(k, func(r *pipeline.Request) { r.CountTokens = true }), withTool)
		s.wait(cold)
		want(s, s.asks(k.system("Be brief.").say("Go on.")), withTool)
		bare := k.copy()
		bare.Tools = nil
		want(s, s.asks(bare), "")
	})
	for name, c := range map[string]func(s *scene, k *talk) []byte{
		"a conversation that is under way": func(s *scene, k *talk) []byte { return s.asks(k.read("a", "/w/a")) },
		"a bypass":                         func(s *scene, k *talk) []byte { return s.asks(k, func(r *pipeline.Request) { r.Bypass = true }) },
		"a model that binds its thinking":  func(s *scene, k *talk) []byte { k.Model = boundModel; return s.asks(k) },
		"a client that has the tool": func(s *scene, k *talk) []byte {
			k.Tools = append(k.Tools, gen.Block{Members: gen.Object{{Key: "name", Value: "mcp__tidemark__context_restore"}, {Key: "input_schema", Value: gen.Object{}}}})
			return s.asks(k)
		},
		"a session whose tools are cached without it": func(s *scene, k *talk) []byte {
			c := s.c
			s.c = config(t, "")
			s.asks(k.copy())
			s.c = c
			k.Messages[0].Blocks[0] = gen.Text("Something else.")
			return s.asks(k)
		},
		"mode shadow": func(s *scene, k *talk) []byte { s.c.Mode = pipeline.Shadow; return s.asks(k) },
		"a session that nobody names": func(s *scene, k *talk) []byte {
			k.Messages = append(k.Messages, gen.Message{Role: "user", Blocks: []gen.Block{gen.Text("Now.")}})
			return s.asks(k, func(r *pipeline.Request) { r.Session, r.Anonymous = "", true })
		},
	} {
		t.Run("not "+name, func(t *testing.T) {
			s := offered(t)
			k := newTalk()
			body := c(s, k)
			want(s, body, strings.TrimSpace(strings.TrimSuffix(toolNames(k.Body()), "")))
		})
	}
}

// wanting is a scene in which something was left out, and the ids of that.
func wanting(t *testing.T) (s *scene, k *talk, ids []string) {
	t.Helper()
	s = offered(t)
	k = newTalk()
	s.asks(k)
	k.read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a").read("b2", "/w/b")
	s.asks(k)
	s.wait(cold)
	out := s.asks(k.say("Go on."))
	for _, m := range idIn.FindAllSubmatch(out, -1) {
		ids = append(ids, string(m[1]))
	}
	if len(ids) != 2 || bytes.Count(out, []byte(part.Name+" gives it back by this id")) != 2 {
		t.Fatalf("%d markers in %s", len(ids), out)
	}
	return s, k, ids
}

func (k *talk) restores(call string, input gen.Object) *talk {
	k.exchange(call, part.Name, input, "Error: No such tool available: context_restore")
	k.Messages[len(k.Messages)-1].Blocks[0].Set("is_error", true)
	return k
}

func textOf(t *testing.T, body []byte, call string) string {
	t.Helper()
	for _, a := range answersIn(t, body) {
		if a.call == call {
			return gjson.Parse(a.content).String()
		}
	}
	t.Fatalf("no result of %s", call)
	return ""
}

// TestAskedInline: what stands in the place of the client's error, for whatever a model asks.
func TestAskedInline(t *testing.T) {
	s, k, ids := wanting(t)
	whole := "a1\n" + code
	lines := strings.SplitAfter(whole, "\n")
	other := strings.Repeat("0", 24)
	foreign := state.Original{ID: strings.Repeat("f", 24), Session: state.SessionKey{Tenant: state.Digest{9}}, Content: []byte(`"secret"`), Size: 8}
	if _, err := s.store.Commit(context.Background(), foreign.Session, &state.Branch{ID: 1}, []state.Original{foreign}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		input  gen.Object
		text   string
		result string
	}{
		{gen.Object{{Key: "id", Value: ids[0]}}, whole, pipeline.RestoreOK},
		{gen.Object{{Key: "id", Value: ids[0]}}, whole, pipeline.RestoreOK}, // again
		{gen.Object{{Key: "id", Value: ids[0]}, {Key: "head", Value: json.Number("2")}}, strings.Join(lines[:2], ""), pipeline.RestoreOK},
		{gen.Object{{Key: "id", Value: other}}, part.Missing, pipeline.RestoreMiss},
		{gen.Object{{Key: "id", Value: foreign.ID}}, part.Missing, pipeline.RestoreMiss},
		{gen.Object{{Key: "id", Value: "../secret"}}, "", pipeline.RestoreRefused},
	} {
		call := fmt.Sprint("ask", i)
		out := s.asks(k.restores(call, c.input))
		got := textOf(t, out, call)
		if got != c.text && c.text != "" || strings.Contains(got, "No such tool") {
			t.Fatalf("%v: %.200q, want %.200q", c.input, got, c.text)
		}
		if len(s.o.Restored) != 1 || s.o.Restored[0].Result != c.result || s.o.Restored[0].Call != call {
			t.Errorf("%v: %+v", c.input, s.o.Restored)
		}
	}
	last := s.asks(k.say("Go on."))
	s.restart()
	if again := s.asks(k); !bytes.Equal(last, again) {
		t.Error("what was given back is another thing after a restart")
	}
}

// TestSealedAndWithdrawnInline: what an operator has stopped is refused, and stands in the transcript where it was given back before.
func TestSealedAndWithdrawnInline(t *testing.T) {
	s, k, ids := wanting(t)
	ctx := context.Background()
	s.asks(k.restores("before", gen.Object{{Key: "id", Value: ids[0]}}))
	if err := s.store.Seal(ctx, ids[0], true); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, s.asks(k.restores("sealed", gen.Object{{Key: "id", Value: ids[0]}})), "sealed"); got != part.Sealed {
		t.Errorf("%q", got)
	}
	if n, err := s.store.Withdraw(ctx, s.e.SessionKey(s.tenant, s.session)); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	out := s.asks(k.restores("withdrawn", gen.Object{{Key: "id", Value: ids[1]}}))
	if got := textOf(t, out, "withdrawn"); got != part.Withdrawn {
		t.Errorf("%q", got)
	}
	if got := textOf(t, out, "before"); got != "a1\n"+code {
		t.Errorf("what was given back is gone: %.100q", got)
	}
}

// TestDeadStoreInline: while originals cannot be read the client's error goes on, and the model may ask again.
func TestDeadStoreInline(t *testing.T) {
	s, k, ids := wanting(t)
	alive := s.store
	s.store = unreadable{alive}
	s.restart()
	out := s.asks(k.restores("dead", gen.Object{{Key: "id", Value: ids[0]}}))
	if got := textOf(t, out, "dead"); !strings.Contains(got, "No such tool") || len(s.o.Restored) > 0 || toolNames(out) != withTool {
		t.Errorf("%q, %+v", got, s.o.Restored)
	}
	s.store = alive
	s.restart()
	out = s.asks(k.restores("alive", gen.Object{{Key: "id", Value: ids[0]}}))
	if textOf(t, out, "alive") != "a1\n"+code || !strings.Contains(textOf(t, out, "dead"), "No such tool") {
		t.Errorf("%s", out)
	}
}

// unreadable is a store whose originals cannot be read.
type unreadable struct{ state.Store }

func (unreadable) Original(context.Context, string) (*state.Original, error) {
	return nil, context.DeadlineExceeded
}

// TestKeptVerbatim: whatever way it came, what was given back is never shortened again, and neither is a marker that a client sends
// back. What only looks like either is.
func TestKeptVerbatim(t *testing.T) {
	id := strings.Repeat("ab12", 6)
	long := strings.Repeat("The tide turns. ", 400)
	marker := "[tidemark modified later: Read of /w/a · 1200 tokens left out of this transcript · id " + id + "]"
	bash := func(command string) gen.Object { return gen.Object{{Key: "command", Value: command}} }
	for name, c := range map[string]struct {
		tool   string
		input  gen.Object
		answer string
		gate   filters.Gate
	}{
		"inline":                        {part.Name, gen.Object{{Key: "id", Value: id}}, long, filters.KeptVerbatim},
		"MCP, as Claude Code names it":  {"mcp__tidemark__context_restore", gen.Object{{Key: "id", Value: id}}, long, filters.KeptVerbatim},
		"MCP, as opencode names it":     {"tidemark_context_restore", gen.Object{{Key: "id", Value: id}}, long, filters.KeptVerbatim},
		"HTTP":                          {"Bash", bash("curl -s localhost:9004/v1/originals/" + id + "?head=20"), long, filters.KeptVerbatim},
		"a script":                      {"exec", gen.Object{{Key: "code", Value: `const r = await tools.mcp__tidemark__context_restore({id: "x"});`}}, long, filters.KeptVerbatim},
		"a script, by brackets":         {"exec", gen.Object{{Key: "code", Value: `await tools["mcp__Tidemark__context_restore"]({id})`}}, long, filters.KeptVerbatim},
		"a script without a call":       {"exec", bash("grep -rn mcp__tidemark__context_restore ."), long, ""},
		"another product's in a script": {"exec", bash("await tools.fak__context_restore({id})"), long, ""},
		"a marker":                      {"Bash", bash("make"), marker + strings.Repeat(" An excerpt of it.", 30), filters.AlreadyMarked},
		"another product's tool":        {"fak_context_restore", gen.Object{{Key: "id", Value: id}}, long, ""},
		"a path without an id":          {"Bash", bash("curl -s localhost:9004/v1/originals/ABC"), long, ""},
		"a marker within":               {"Bash", bash("make"), "log\n" + marker + long, ""},
		"a marker with a long text":     {"Bash", bash("make"), marker + long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, &pipeline.Config{Name: "eager", Filters: []filters.Filter{eager{}}})
			k := newTalk().exchange("r", c.tool, c.input, c.answer).say("Go on.")
			s.asks(k)
			s.wait(cold)
			out := s.asks(k.say("And on."))
			kept := textOf(t, out, "r") == c.answer
			if kept != (c.gate != "") || c.gate != "" && s.o.Gates[pipeline.FilterGate{Filter: "eager", Gate: c.gate}] != 1 {
				t.Errorf("kept %v, gates %v", kept, s.o.Gates)
			}
		})
	}
}
