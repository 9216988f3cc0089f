package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

const boundModel = "claude-opus-5-5"

// gated checks that the filter gave a gate in the last request.
func (s *cutScene) gated(gate filters.Gate) {
	s.Helper()
	if s.o.Gates[pipeline.FilterGate{Filter: shed.Name, Gate: gate}] == 0 {
		s.Errorf("gates %v, want %s", s.o.Gates, gate)
	}
}

// TestCutAfterACrash: a cut that was stored and never sent is replayed by what starts next. The provider holds nothing that it
// could lose, and what comes after reads it.
func TestCutAfterACrash(t *testing.T) {
	for name, again := range map[string]func(k *talk){
		"retry": func(*talk) {}, "the next turn": func(k *talk) { k.read("x2", "/w/x2") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, shedding(t), simprovider.Policy{})
			k := long(9)
			play := func() (sent, stub string) {
				k.Mark(gen.Short)
				l.askAny(k.Conversation)
				return kept(t, l.in, l.out)
			}
			play()
			l.observe(l.answer())
			l.wait(cold)
			k.read("x1", "/w/x1")
			first, stub := play()
			if stub == "" || len(l.o.New) != 1 {
				t.Fatalf("sent %s, gates %v", first, l.o.Gates)
			}
			l.restart() // before anything left
			again(k)
			now, same := play()
			if same != stub || !strings.HasPrefix(now, first) || len(l.o.New) > 0 {
				t.Fatalf("sent %s with %q, before %s with %q", now, same, first, stub)
			}
			u := l.answer()
			l.observe(u)
			if u.Usage.Write5m == 0 {
				t.Fatalf("usage %+v", u.Usage)
			}
			through := through(u.Usage)
			k.read("x3", "/w/x3")
			if now, same = play(); same != stub || !strings.HasPrefix(now, first) {
				t.Fatalf("sent %s with %q, before %s with %q", now, same, first, stub)
			}
			if u = l.answer(); u.Usage.Read != through {
				t.Errorf("read %d of %d tokens", u.Usage.Read, through)
			}
		})
	}
}

// TestCutOnAReplica: a replica that knows the conversation from before the cut replays it.
func TestCutOnAReplica(t *testing.T) {
	s, k := newCutScene(t, shedding(t)), long(9)
	s.send(k, pipeline.KindNew, "all")
	s.e.Flush(context.Background())
	other := s.e
	s.restart()
	s.send(k.read("x1", "/w/x1"), pipeline.KindContinue, "all")
	s.e.Flush(context.Background())
	s.e, other = other, s.e
	s.send(k.read("x2", "/w/x2"), pipeline.KindContinue, "all")
	s.e.Flush(context.Background())
	s.wait(cold)
	k.read("x3", "/w/x3")
	from := shedFrom(t, s.c, k)
	s.send(k, pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	stub := s.stub
	for i := range 4 {
		s.e, other = other, s.e
		s.send(k.read(fmt.Sprint("y", i), "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
		if s.stub != stub || len(s.o.New) > 0 {
			t.Errorf("the stub became %q, new %v", s.stub, s.o.New)
		}
	}
}

// TestCutUnderAnotherSession: clients resume under a new session id. The cut is adopted, and its handle stays.
func TestCutUnderAnotherSession(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	stub, id := s.stub, s.o.New[0].ID
	s.session = "resumed"
	s.send(k.read("y1", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	s.restart()
	s.send(k.read("y2", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	if s.stub != stub {
		t.Errorf("the stub became %q", s.stub)
	}
	if _, err := s.store.Original(context.Background(), id); err != nil {
		t.Error(err)
	}
	s.tenant = "another"
	s.send(k.read("y3", "/w/y"), pipeline.KindNew, "all")
}

// TestCutUnderAnotherKey: with another system prompt a dead branch goes on, and forks of one that is alive take its cut along.
func TestCutUnderAnotherKey(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	stub := s.stub
	s.c = &pipeline.Config{Name: "none"} // what is cold could be cut again
	s.wait(cold)
	s.send(k.system("Be brief.").read("y1", "/w/y"), pipeline.KindRekey, sentFrom(from, len(k.Messages)))
	s.restart()
	s.send(k.read("y2", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	f := k.copy().system("Be short.").read("y3", "/w/y")
	s.send(f, pipeline.KindFork, sentFrom(from, len(f.Messages))) // k is alive
	if s.stub != stub {
		t.Errorf("the stub became %q", s.stub)
	}
}

// TestCutOfABoundModel: nothing is cut where the model binds its thinking to the prefix, and nothing is inherited there.
func TestCutOfABoundModel(t *testing.T) {
	dropping := gen.Object{{Key: "thinking", Value: gen.Object{
		{Key: "block_binding", Value: gen.Object{{Key: "prefix_mismatch_behavior", Value: "drop_block"}}},
	}}}
	bound := func(k *talk) *talk {
		k.Model = boundModel
		return k
	}
	t.Run("never cut", func(t *testing.T) {
		s, k := newCutScene(t, shedding(t)), bound(long(9))
		s.send(k, pipeline.KindNew, "all")
		s.wait(cold)
		s.send(k.read("x1", "/w/x1"), pipeline.KindContinue, "all")
		s.gated(filters.PrefixBound)
	})
	for name, change := range map[string]func(*talk, *pipeline.Config){
		"not where blocks are dropped":      func(k *talk, _ *pipeline.Config) { k.Extra = dropping },
		"not where the account may edit it": func(_ *talk, c *pipeline.Config) { c.LegacyBinding = true },
	} {
		t.Run(name, func(t *testing.T) {
			s, k := newCutScene(t, shedding(t)), bound(long(9))
			change(k, s.c)
			s.send(k, pipeline.KindNew, "all")
			s.wait(cold)
			k.read("x1", "/w/x1")
			from := shedFrom(t, s.c, k)
			s.send(k, pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			f := k.copy().read("y1", "/w/y")
			f.Extra, s.c = nil, shedding(t) // now it is bound
			s.send(f, pipeline.KindFork, "all")
			s.wait(cold)
			s.send(f.read("y2", "/w/y"), pipeline.KindContinue, "all")
			s.gated(filters.PrefixBound)
		})
	}
	t.Run("nothing inherited", func(t *testing.T) {
		s, k, from := cutAfterPause(t, shedding(t))
		s.wait(cold)
		f := bound(k.copy().read("y1", "/w/y"))
		s.send(f, pipeline.KindFork, "all")
		s.gated(filters.PrefixBound)
		s.restart()
		s.wait(cold)
		s.send(f.read("y2", "/w/y"), pipeline.KindContinue, "all")
		s.c = &pipeline.Config{Name: "none"}
		s.send(k.read("y3", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	})
}

// TestCutModes: summary leaves a stub without a handle and keeps nothing, off leaves all as it is.
func TestCutModes(t *testing.T) {
	mode := func(m filters.MarkerMode) *pipeline.Config {
		return shedding(t, func(c *shed.Config) { c.MarkerMode = m })
	}
	s, k, from := cutAfterPause(t, mode(filters.Summary))
	if strings.Contains(s.stub, "· id ") || len(s.o.New) != 1 || s.o.New[0].ID != "" {
		t.Errorf("stub %q, new %+v", s.stub, s.o.New)
	}
	s.restart()
	s.send(k.read("y1", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))

	s, k = newCutScene(t, mode(filters.Meter)), long(9)
	s.send(k, pipeline.KindNew, "all")
	s.wait(cold)
	s.send(k.read("x1", "/w/x1"), pipeline.KindContinue, "all")
	s.gated(filters.MeterOnly)
}
