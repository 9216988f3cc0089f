package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// talk is a conversation that a scene sends. Its calls have short ids, by which a scene names results.
type talk struct{ *gen.Conversation }

// newTalk begins a conversation with a head large enough that whatever is left out, the rest is worth caching.
func newTalk() *talk {
	tool := func(name string) gen.Block {
		return gen.Block{Members: gen.Object{{Key: "name", Value: name}, {Key: "input_schema", Value: gen.Object{{Key: "type", Value: "object"}}}}}
	}
	return &talk{&gen.Conversation{
		Model: plainModel, MaxTokens: 32_000,
		System:   []gen.Block{gen.Text(strings.Repeat("You are a coding agent. ", 1500))},
		Tools:    []gen.Block{tool("Read"), tool("Edit")},
		Messages: []gen.Message{{Role: "user", Blocks: []gen.Block{gen.Text("Fix the limiter.")}}},
	}}
}

// read adds a turn that reads a file, and its result.
func (k *talk) read(id, path string) *talk {
	return k.exchange(id, "Read", gen.Object{{Key: "file_path", Value: path}}, id+"\n"+code)
}

// edit adds a turn that edits a file: older reads of it are stale.
func (k *talk) edit(id, path string) *talk {
	input := gen.Object{{Key: "file_path", Value: path}, {Key: "old_string", Value: "a"}, {Key: "new_string", Value: "b"}}
	return k.exchange(id, "Edit", input, "The file has been updated.")
}

func (k *talk) exchange(id, tool string, input gen.Object, answer string) *talk {
	k.Messages = append(slices.Clip(k.Messages),
		gen.Message{Role: "assistant", Blocks: []gen.Block{gen.Text("Step " + id + "."), gen.Call(id, tool, input)}},
		gen.Message{Role: "user", Blocks: []gen.Block{gen.Result(id, answer)}})
	return k
}

// say adds a turn without a call, and what the human answers.
func (k *talk) say(text string) *talk {
	k.Messages = append(slices.Clip(k.Messages),
		gen.Message{Role: "assistant", Blocks: []gen.Block{gen.Text("Done: " + text)}},
		gen.Message{Role: "user", Blocks: []gen.Block{gen.Text(text)}})
	return k
}

// cut is a copy that ends behind the first n messages.
func (k *talk) cut(n int) *talk {
	c := k.Clone()
	c.Truncate(n)
	return &talk{c}
}

func (k *talk) copy() *talk { return k.cut(len(k.Messages)) }

// system changes the system prompt.
func (k *talk) system(text string) *talk {
	k.System = append(k.System[:1:1], gen.Text(text))
	return k
}

// unmarked is the conversation as a client sends it that never sets a breakpoint.
func unmarked(k *talk) *gen.Conversation {
	c := k.Clone()
	c.Unmark()
	return c
}

// block is a block of a message, to be changed.
func (k *talk) block(message, block int) *gen.Block { return &k.Messages[message].Blocks[block] }

// scene plays requests against an engine and looks at the bytes that are sent.
type scene struct {
	*testing.T
	store          state.Store
	e              *pipeline.Engine
	c              *pipeline.Config
	at             time.Time
	model, tenant  string
	session, agent string
	aside          bool              // what is sent is said to be side traffic
	o              *pipeline.Outcome // of the last request
	stands         map[string]string // by call: what was sent in the place of its result
}

// talk begins a conversation with the model of the scene.
func (s *scene) talk() *talk {
	k := newTalk()
	k.Model = s.model
	return k
}

func newScene(t *testing.T, c *pipeline.Config) *scene {
	t.Helper()
	s := &scene{T: t, c: c, at: epoch, model: plainModel, tenant: "t", session: "s", stands: map[string]string{}}
	s.lose()
	return s
}

// restart starts the process anew, with what is stored.
func (s *scene) restart() {
	s.e = engineOn(s.T, s.store, s.at)
}

// lose starts it with nothing; ids are others then.
func (s *scene) lose() {
	clear(s.stands)
	s.store = memory.New()
	s.e = engineOn(s.T, s.store, time.Time{})
}

func (s *scene) wait(d time.Duration) { s.at = s.at.Add(d) }

// send sends a body, marked as agents do, and checks how it continues what is known and which results leave as markers.
func (s *scene) send(k *talk, kind pipeline.Kind, shortened string) {
	s.Helper()
	k.Mark(gen.Short)
	s.sendMarked(k, kind, shortened)
}

// sendMarked is send with the markers that the body has.
func (s *scene) sendMarked(k *talk, kind pipeline.Kind, shortened string) {
	s.Helper()
	s.at = s.at.Add(time.Second)
	in := k.Body()
	r := ask(in, s.c, s.at)
	r.Tenant, r.Session, r.Agent, r.Auxiliary = s.tenant, s.session, s.agent, s.aside
	s.o = s.e.Request(context.Background(), r)
	out := in
	if s.o.Body != nil {
		out = s.o.Body
	}
	if s.o.Kind != kind {
		s.Errorf("kind %v, want %v (gate %q)", s.o.Kind, kind, s.o.Gate)
	}
	if got := s.changed(in, out); got != shortened {
		s.Errorf("shortened %q, want %q (kind %v, gate %q, %v)", got, shortened, s.o.Kind, s.o.Gate, s.o.Gates)
	}
	if s.o.Undeclared || s.o.Desync {
		s.Errorf("undeclared %v, desync %v", s.o.Undeclared, s.o.Desync)
	}
	if s.Failed() {
		s.FailNow()
	}
}

// changed lists the calls whose results leave otherwise than they came. Everything else must be the client's bytes, and what
// stands for a result must be what stood for it before.
func (s *scene) changed(in, out []byte) string {
	s.Helper()
	if a, b := bareBones(s.T, in), bareBones(s.T, out); a != b {
		s.Errorf("bytes outside of results and breakpoints changed")
	}
	var calls []string
	before, after := answersIn(s.T, in), answersIn(s.T, out)
	for i := range before {
		call, now := after[i].call, after[i].content
		if now == before[i].content {
			continue
		}
		calls = append(calls, call)
		if stood, ok := s.stands[call]; ok && stood != now {
			s.Errorf("%s: %s stood for it, now %s", call, stood, now)
		}
		if !strings.Contains(now, "[tidemark ") {
			s.Errorf("%s: no marker: %s", call, now)
		}
		s.stands[call] = now
	}
	slices.Sort(calls)
	return strings.Join(calls, " ")
}

type answer struct{ call, content string }

// answersIn lists the results of a body.
func answersIn(t *testing.T, body []byte) (list []answer) {
	t.Helper()
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		for _, b := range m.Get("content").Array() {
			if b.Get("type").Str == "tool_result" {
				list = append(list, answer{b.Get("tool_use_id").Str, b.Get("content").Raw})
			}
		}
	}
	return list
}

// bareBones is a body without contents of results and without breakpoints.
func bareBones(t *testing.T, body []byte) string {
	t.Helper()
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	text := string(body)
	var cuts []transcript.Span
	for i := range ix.Results {
		cuts = append(cuts, ix.Results[i].Content)
	}
	for i := range ix.Markers {
		if !ix.Markers[i].Nested {
			cuts = append(cuts, ix.Markers[i].Cut)
		}
	}
	slices.SortFunc(cuts, func(a, b transcript.Span) int { return int(b.Lo) - int(a.Lo) })
	for _, c := range cuts {
		text = text[:c.Lo] + text[c.Hi:]
	}
	return text
}

// begun begins a scene: a1 and b1 are read, then a is edited and b read again; after a pause both reads are replaced.
func begun(t *testing.T) (*scene, *talk) {
	t.Helper()
	s := newScene(t, config(t, ""))
	k := newTalk().read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a").read("b2", "/w/b")
	s.send(k, pipeline.KindNew, "")
	s.wait(cold)
	s.send(k.read("c1", "/w/c"), pipeline.KindContinue, "a1 b1")
	s.wait(time.Minute)
	return s, k
}

// billed lets the provider say that it cached the last request, which has so many tokens.
func (s *scene) billed(tokens int) {
	s.Helper()
	o := s.e.Observe(context.Background(), s.o, &pipeline.Response{Status: 200, Usage: &pipeline.Usage{Write5m: tokens}})
	if o.Usage == nil {
		s.Error("the usage was not taken in")
	}
}

// eager is a filter that replaces whatever it may.
type eager struct{}

func (eager) Name() string { return "eager" }

func (eager) Propose(v *filters.View) (all []filters.Proposal) {
	for _, c := range v.Candidates {
		if c.Open {
			all = append(all, filters.Proposal{
				Result: c.Result, Action: filters.Replace, Verdict: "eager", Verb: "left out", Mode: filters.Full, Policy: filters.Policy{Cold: true},
			})
		}
	}
	return all
}
