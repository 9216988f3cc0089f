package pipeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/vectors"
)

// TestChoice tells which of several branches a body continues: the one under whose decisions the provider most likely holds
// it.
func TestChoice(t *testing.T) {
	const bound = "claude-opus-5-5"
	for _, c := range []struct {
		name, model string
		play        func(s *scene)
	}{
		{"the one whose decisions meet what is cached, not the longer one", plainModel, meetsTheCache},
		{"what is known counts before what is assumed", plainModel, knownBeforeAssumed},
		{"what may be cached counts before what is long", plainModel, assumedBeforeLong},
		{"the longer one where nothing is cached", plainModel, longest},
		{"the longer one, bound", bound, longest},
		{"the latest of two that are cold and as long", plainModel, latest},
		{"the latest of two, bound", bound, latestBound},
		{"its own key before a longer one", plainModel, ownKey},
		{"its own key before a longer one, bound", bound, ownKey},
		{"its own key before what is cached, bound", bound, ownAgent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, config(t, ""))
			s.model = c.model
			c.play(s)
		})
	}
}

// meetsTheCache: the parent is longer and dead; its fork was marked at a message that the body shares with it.
func meetsTheCache(s *scene) {
	k := newTalk().read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a")
	f := k.copy().edit("b2", "/w/b")
	s.send(k.read("b3", "/w/b"), isNew, "")
	s.wait(cold)
	f.Mark(gen.Short)
	f.block(6, 0).Marker = gen.Short // as clients do that mark the last two messages of the user
	s.sendMarked(f, forks, "a1 b1")
	fork := s.o.Branch
	s.wait(time.Minute)
	s.send(k.say("Go on."), forks, "a1 b1") // without a1 and b1 the cached prefix is shorter
	if s.o.Parent != fork {
		s.Error("forked from the longer branch")
	}
}

// knownBeforeAssumed: the parent is known to be cached. Its fork, under another system prompt, decided at once and was then
// sent on by somebody else, so all of it is assumed to be cached.
func knownBeforeAssumed(s *scene) {
	k := newTalk().read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a")
	s.send(k.cut(1), isNew, "")
	for _, n := range []int{3, 5, 7} { // seen from the start, so that nothing of the parent is assumed
		s.send(k.cut(n), goesOn, "")
	}
	parent := s.o.Branch
	f := k.copy().system("Be brief.").edit("b2", "/w/b")
	s.send(f, forks, "a1 b1")
	s.send(f.copy().say("Go on.").say("And on."), goesOn, "a1 b1")
	back := f.copy()
	back.System = k.System
	s.send(back.say("Go that way."), goesOn, "")
	if s.o.Branch != parent {
		s.Error("not the branch whose cache is known")
	}
}

// assumedBeforeLong: the parent is dead and shares more, but somebody else has sent what the fork has.
func assumedBeforeLong(s *scene) {
	k := newTalk().read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a")
	f := k.copy().say("Go this way.").say("And this way.")
	s.send(k.read("b2", "/w/b"), isNew, "")
	s.wait(cold)
	s.send(f, forks, "")
	fork := s.o.Branch
	s.send(k.cut(9).say("Go on."), forks, "")
	if s.o.Parent != fork {
		s.Error("forked from the longer branch, which is dead")
	}
}

// longest: the shorter branch was used later, and is alive, but nothing of it in the body is cached.
func longest(s *scene) {
	k := s.talk().read("a1", "/w/a").read("b1", "/w/b")
	s.send(k, isNew, "")
	parent := s.o.Branch
	s.wait(cold)
	s.send(k.cut(3).say("Go this way."), forks, "")
	s.send(k.say("Go on."), goesOn, "")
	if s.o.Branch != parent {
		s.Error("another branch")
	}
}

// latest: b1 was replaced on the fork alone.
func latest(s *scene) {
	k := newTalk().read("a1", "/w/a").read("b1", "/w/b").edit("a2", "/w/a")
	f := k.copy().read("b2", "/w/b")
	s.send(k.say("Go on."), isNew, "")
	s.wait(cold)
	s.send(f, forks, "a1 b1")
	s.wait(time.Second)
	s.wait(cold)
	s.send(k.cut(7).say("Go that way."), forks, "a1 b1")
	s.wait(cold)
	s.send(k.say("And on."), goesOn, "a1")
	s.wait(cold)
	s.send(k.cut(7).say("Go elsewhere."), forks, "a1")
}

// latestBound: the same where nothing can be decided.
func latestBound(s *scene) {
	k := s.talk().read("a1", "/w/a").read("b1", "/w/b")
	s.send(k, isNew, "")
	first := s.o.Branch
	s.send(k.cut(3).say("Go this way."), forks, "")
	second := s.o.Branch
	s.send(k.cut(3).say("Go that way."), forks, "")
	if s.o.Parent != second {
		s.Error("not forked from the latest branch")
	}
	s.send(k, again, "")
	s.send(k.cut(3).say("Go elsewhere."), forks, "")
	if s.o.Parent != first {
		s.Error("not forked from the branch of the retry, the latest")
	}
}

// ownKey: the conversation went on under another system prompt and comes back when all is cold.
func ownKey(s *scene) {
	k := s.talk().read("a1", "/w/a").read("b1", "/w/b")
	s.send(k, isNew, "")
	own := s.o.Branch
	s.send(k.copy().system("Be brief.").say("Go on."), forks, "")
	s.wait(cold)
	s.send(k.say("Go on.").say("And on."), goesOn, "")
	if s.o.Branch != own {
		s.Error("another branch")
	}
}

// ownAgent: on a bound model the branch of the agent counts, however much another one has sent of the same body.
func ownAgent(s *scene) {
	k := s.talk().read("a1", "/w/a").read("b1", "/w/b")
	s.send(k, isNew, "")
	own := s.o.Branch
	s.agent = "scout"
	s.send(k.copy().say("Go on."), forks, "")
	s.agent = ""
	s.send(k.say("Go on.").say("And on."), goesOn, "")
	if s.o.Branch != own {
		s.Error("another branch")
	}
}

// TestFoldedEntries: what a branch has sent before its last 16 breakpoints is remembered as a span, so that a fork from there
// finds it warm.
func TestFoldedEntries(t *testing.T) {
	s := newScene(t, config(t, ""))
	k := newTalk().read("a1", "/w/a")
	s.send(k.cut(1), isNew, "")
	s.send(k, goesOn, "")
	for i := range 20 {
		s.wait(10 * time.Second)
		s.send(k.say(fmt.Sprint("Go on ", i)), goesOn, "")
	}
	f := k.cut(3).edit("a2", "/w/a")
	s.send(f, forks, "")                              // a1 is stale, but cached
	s.send(f.copy().system("Be brief."), forks, "a1") // not under another key
	s.wait(cold)
	s.send(f.say("Go on."), goesOn, "a1")
}

// TestHoldsOnForks: a read that is held stays held on a fork behind it; before it there is nothing to hold.
func TestHoldsOnForks(t *testing.T) {
	for _, c := range []struct {
		name string
		fork func(k *talk) *talk
		held int
	}{
		{"behind the read", func(k *talk) *talk { return k.cut(5).say("Go that way.") }, 1},
		{"before the read", func(k *talk) *talk { return k.cut(3).say("Go that way.") }, 0},
		{"before the read, which is there unchanged", func(k *talk) *talk {
			f := k.cut(5)
			f.block(2, 0).Set("text", "Read it, please.")
			return f.say("Go that way.")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, config(t, "always"))
			k := newTalk()
			k.say("Read it.")
			s.send(k, isNew, "")
			s.send(k.read("a1", "/w/a"), goesOn, "")
			if s.o.Held != 1 || s.o.Breakpoints.Stripped != 1 || s.o.Breakpoints.Anchored != 1 {
				t.Fatalf("held %d, %+v", s.o.Held, s.o.Breakpoints)
			}
			s.send(k.copy().say("Go on."), goesOn, "")
			marked := vectors.Markers(s.o.Body)
			if want := []string{"system.0 5m", "messages.3.content.1 5m"}; !slices.Equal(marked, want) {
				t.Errorf("markers %v, want %v", marked, want)
			}
			s.send(c.fork(k), forks, "")
			if s.o.Held != c.held {
				t.Errorf("held %d, want %d (gates %v)", s.o.Held, c.held, s.o.Gates)
			}
		})
	}
}

// TestMarkerInsideReplacedResult: a client that puts a marker inside a result which was replaced before loses neither the
// replacement nor anything else.
func TestMarkerInsideReplacedResult(t *testing.T) {
	s := newScene(t, config(t, ""))
	k := newTalk().read("a1", "/w/a").edit("a2", "/w/a")
	k.block(2, 0).Set("content", gen.List{gen.Text("a1\n" + code)})
	s.send(k, isNew, "")
	s.wait(cold)
	s.send(k.say("Go on."), goesOn, "a1")
	part := gen.Text("a1\n" + code)
	part.Marker = gen.Short
	k.say("And on.").Mark(gen.Short)
	k.block(2, 0).Set("content", gen.List{part})
	s.sendMarked(k, goesOn, "a1")
	s.wait(cold)
	k.read("b1", "/w/b").read("b2", "/w/b").Mark(gen.Short)
	k.block(2, 0).Set("content", gen.List{part})
	s.sendMarked(k, goesOn, "a1")
}

// TestDecisionsAndMarkersInOneBody: what stands for results and what moves breakpoints are edits of one outbound, in the order
// of the body.
func TestDecisionsAndMarkersInOneBody(t *testing.T) {
	t.Run("markers before results", func(t *testing.T) {
		s, k := begun(t)
		s.billed(20_000) // the bridge takes the place of a marker only where the provider said that it leads to something
		k.say("Go on.")
		for range 20 { // so much is said at once that the tail's marker finds nothing
			k.Messages[11].Blocks = append(k.Messages[11].Blocks, gen.Text("And more."))
		}
		k.Mark(gen.Short)
		k.block(0, 0).Marker, k.block(2, 0).Marker = gen.Short, gen.Short
		s.sendMarked(k, goesOn, "a1 b1")
		want := []string{"system.0 5m", "messages.2.content.0 5m", "messages.10.content.0 5m", "messages.12.content.0 5m"}
		if marked := vectors.Markers(s.o.Body); !slices.Equal(marked, want) {
			t.Errorf("markers %v, want %v", marked, want)
		}
	})
	t.Run("results before markers", resultsBeforeMarkers)
}

func resultsBeforeMarkers(t *testing.T) {
	t.Helper()
	s := newScene(t, config(t, "always"))
	k := newTalk().read("a1", "/w/a").edit("a2", "/w/a")
	s.send(k, isNew, "")
	s.wait(cold)
	s.send(k.say("Go on."), goesOn, "a1")
	s.send(k.read("d1", "/w/d"), goesOn, "a1") // held
	if marked, want := vectors.Markers(s.o.Body), []string{"system.0 5m", "messages.7.content.1 5m"}; !slices.Equal(marked, want) {
		t.Errorf("markers %v, want %v", marked, want)
	}
}
