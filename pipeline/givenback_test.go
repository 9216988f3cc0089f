package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// What stops new decisions does not stop the way back.
func TestGivenBackUnderGates(t *testing.T) {
	for name, change := range map[string]func(s *scene){
		"no pipeline": func(s *scene) { c := *s.c; c.Filters = nil; s.c = &c },
		"bad config":  func(s *scene) { s.c = &pipeline.Config{Name: "bad", Bad: true, Inline: true} },
		"holdout":     func(s *scene) { c := *s.c; c.Holdout = 1; s.c = &c },
		"rollout":     func(s *scene) { c := *s.c; c.Withheld = 1; s.c = &c },
		"brake": func(s *scene) {
			c := *s.c
			c.Moves.Brake = true
			s.c = &c
			key := s.e.SessionKey(s.tenant, s.session)
			ses, err := s.store.Load(context.Background(), key)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range ses.Branches {
				b.Ledger.Braked = true
				if _, err := s.store.Merge(context.Background(), key, []*state.Branch{b}); err != nil {
					t.Fatal(err)
				}
			}
			s.restart()
		},
		"raw guard": func(s *scene) { c := *s.c; c.Moves.RawGuard = true; s.c = &c },
	} {
		t.Run(name, func(t *testing.T) {
			s, k, ids := wanting(t)
			s.e.Flush(context.Background())
			change(s)
			if name == "raw guard" {
				k.say(strings.Repeat("word wird ", 90_000))
				s.asks(k)
			}
			out := s.asks(k.restores("ask", gen.Object{{Key: "id", Value: ids[0]}}))
			if got := textOf(t, out, "ask"); got != "a1\n"+code {
				t.Errorf("tools %q, gate %q: %.80q", toolNames(out), s.o.Gate, got)
			}
		})
	}
}

// At the tenant's byte cap nothing new is decided; what was left out before can be had back all the same.
func TestGivenBackAtTheCap(t *testing.T) {
	s := offered(t)
	s.store = memory.Capped(9000)
	s.restart()
	k := newTalk()
	s.asks(k)
	s.asks(k.read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a").read("b2", "/w/b"))
	s.wait(cold)
	ids := idIn.FindAllSubmatch(s.asks(k.say("Go on.")), -1)
	if len(ids) != 2 {
		t.Fatal(len(ids))
	}
	s.asks(k.read("c1", "/w/c").edit("c2", "/w/c"))
	s.wait(cold)
	out := s.asks(k.restores("ask", gen.Object{{Key: "id", Value: string(ids[0][1])}}))
	if got := textOf(t, out, "ask"); got != "a1\n"+code || s.o.Gate != filters.StoreFull {
		t.Errorf("gate %q: %.80q", s.o.Gate, got)
	}
}

// stuck is a store whose originals cannot be read before somebody lets it go on.
type stuck struct {
	state.Store
	free chan struct{}
}

func (s stuck) Original(ctx context.Context, id string) (*state.Original, error) {
	<-s.free
	return s.Store.Original(ctx, id)
}

// An original that is slow to read costs neither the replay nor the request: the client's error goes on.
func TestSlowOriginal(t *testing.T) {
	s, k, ids := wanting(t)
	slow := stuck{s.store, make(chan struct{})}
	s.store = slow
	s.restart()
	k.restores("ask", gen.Object{{Key: "id", Value: ids[0]}}).Mark(gen.Short)
	s.at = s.at.Add(time.Second)
	o := s.e.Request(deadline(t, time.Minute/60), ask(k.Body(), s.c, s.at)) // it is read for a part of this
	close(slow.free)
	if o.Body == nil || o.Desync || toolNames(o.Body) != withTool || len(idIn.FindAll(o.Body, -1)) != 2 || !strings.Contains(textOf(t, o.Body, "ask"), "No such tool") {
		t.Errorf("gate %q: %s", o.Gate, o.Body)
	}
}

// A request in which one more call would be forced is offered no tool to choose.
func TestForcedToolChoice(t *testing.T) {
	for choice, want := range map[string]string{"any": plainTools, "tool": plainTools, "auto": withTool, "none": withTool} {
		s := offered(t)
		k := newTalk()
		k.Extra = append(k.Extra, gen.Member{Key: "tool_choice", Value: gen.Object{{Key: "type", Value: choice}}})
		if got := toolNames(s.asks(k)); got != want {
			t.Errorf("%s: %q", choice, got)
		}
	}
	for body, want := range map[string]bool{
		`{"tool_choice":"required"}`: true, `{"tool_choice":"auto"}`: false, `{"tool_choice":{"type":"function"}}`: true, `{}`: false,
		`{"toolConfig":{"toolChoice":{"any":{}}}}`: true, `{"toolConfig":{"toolChoice":{"auto":{}}}}`: false,
		`{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`: true, `{"tool_config":{"function_calling_config":{"mode":"AUTO"}}}`: false,
	} {
		if got := (&transcript.Index{Body: []byte(body)}).ForcedTool(); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// Many calls in one turn give back no more together than one would alone; the others are told to ask again.
func TestManyAtOnce(t *testing.T) {
	s, k, ids := wanting(t)
	said, answer := gen.Message{Role: "assistant"}, gen.Message{Role: "user"}
	const calls = 60
	for i := range calls {
		id := fmt.Sprint("p", i)
		said.Blocks = append(said.Blocks, gen.Call(id, part.Name, gen.Object{{Key: "id", Value: ids[i%2]}}))
		answer.Blocks = append(answer.Blocks, gen.Result(id, "Error: No such tool"))
	}
	k.Messages = append(slices.Clip(k.Messages), said, answer)
	s.asks(k)
	bytes, refused := 0, 0
	for _, r := range s.o.Restored {
		bytes += r.Bytes
		refused += b2i(r.Result == pipeline.RestoreRefused)
	}
	if len(s.o.Restored) != calls || bytes < 90_000 || bytes > 101_000 || refused == 0 {
		t.Errorf("%d answers, %d refused, %d bytes", len(s.o.Restored), refused, bytes)
	}
}
