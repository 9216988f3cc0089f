package pipeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// The kinds, as they are written in the scenarios.
const (
	isNew  = pipeline.KindNew
	goesOn = pipeline.KindContinue
	again  = pipeline.KindRetry
	forks  = pipeline.KindFork
	rekeys = pipeline.KindRekey
)

// story begins with a conversation of eleven messages on which a1 and b1 have been decided:
//
//	0 the human · 1, 2 a1 · 3, 4 b1 · 5, 6 a2 edits a · 7, 8 b2 reads b again · 9, 10 c1
type story struct {
	name string
	play func(s *scene, k *talk)
}

// TestMatch tells how a body continues what is known of its session, and with which decisions.
func TestMatch(t *testing.T) {
	for _, group := range [][]story{sameBranch, forksOf, otherKeys, otherSessions, lostAndFound} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				s, k := begun(t)
				c.play(s, k)
			})
		}
	}
}

var sameBranch = []story{
	{"a retry replays and decides nothing", func(s *scene, k *talk) {
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1") // c1 is stale now, but cached
		s.send(k, again, "a1 b1")
		s.wait(cold)
		s.send(k, again, "a1 b1")
		s.wait(cold)
		s.send(k.say("Go on."), goesOn, "a1 b1 c1")
	}},
	{"a rewind replays and forgets nothing", func(s *scene, k *talk) {
		s.send(k.cut(9), again, "a1 b1")
		s.send(k.cut(5), again, "a1 b1")
		s.send(k.cut(1), again, "")
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"the next turn continues", func(s *scene, k *talk) {
		branch := s.o.Branch
		for i := range 3 {
			s.send(k.say(fmt.Sprint("Go on ", i)), goesOn, "a1 b1")
		}
		if s.o.Branch != branch {
			s.Error("another branch")
		}
	}},
	{"the last message may change while the conversation goes on", func(s *scene, k *talk) {
		reminded := k.copy()
		reminded.Messages[10].Blocks = append(reminded.Messages[10].Blocks, gen.Text("Mind the budget."))
		s.send(reminded.say("Go on."), goesOn, "a1 b1")
	}},
	{"another last message is a fork", func(s *scene, k *talk) {
		other := k.copy()
		other.Messages[10].Blocks = append(other.Messages[10].Blocks, gen.Text("Mind the budget."))
		s.send(other, forks, "a1 b1")
	}},
	{"so is a change of the last two", func(s *scene, k *talk) {
		other := k.copy()
		other.Messages[9].Blocks[0] = gen.Text("Let me look.")
		s.send(other.say("Go on."), forks, "a1 b1")
	}},
	{"a decision stands for its result when its id is used again", func(s *scene, k *talk) {
		s.send(k.read("a1", "/w/a"), goesOn, "a1 b1")
	}},
	{"strings become lists and lists strings", func(s *scene, k *talk) {
		s.send(k.say("Go on."), goesOn, "a1 b1")
		k.Messages[0].String, k.Messages[11].String, k.Messages[12].String = true, true, true
		s.send(k.say("And on."), goesOn, "a1 b1")
		k.Messages[0].String, k.Messages[12].String = false, false
		s.send(k.say("And on again."), goesOn, "a1 b1")
	}},
	{"markers move", func(s *scene, k *talk) {
		k.say("Go on.").Unmark()
		for _, m := range []int{0, 2, 4, 12} { // also on results that are replaced
			k.block(m, 0).Marker = gen.Long
		}
		s.sendMarked(k, goesOn, "a1 b1")
		k.say("And on.").Unmark()
		s.sendMarked(k, goesOn, "a1 b1")
		k.TopMarker = gen.Short
		s.sendMarked(k, again, "a1 b1")
	}},
}

var forksOf = []story{
	{"a fork has the decisions below it", func(s *scene, k *talk) {
		s.send(k.cut(3).read("x1", "/w/x"), forks, "a1")
		s.send(k.cut(5).read("y1", "/w/y"), forks, "a1 b1")
	}},
	{"what a fork decides is its own", func(s *scene, k *talk) {
		f := k.copy().edit("x2", "/w/c")
		s.send(k.say("Go on."), goesOn, "a1 b1")
		s.send(f, forks, "a1 b1")
		s.wait(cold)
		s.send(f.say("Go on."), goesOn, "a1 b1 c1")
		s.send(k.say("And on."), goesOn, "a1 b1") // here c1 is no longer in use, and cold: but nothing was done to c
		s.send(f.say("And on."), goesOn, "a1 b1 c1")
		s.send(k.say("And on again."), goesOn, "a1 b1")
	}},
	{"what its parent decides later is not the fork's", func(s *scene, k *talk) {
		f := k.copy().say("Leave c alone.")
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1")
		s.send(f, forks, "a1 b1")
		s.wait(cold)
		s.send(k.say("Go on."), goesOn, "a1 b1 c1")
		s.send(f.say("Go on."), goesOn, "a1 b1")
	}},
	{"behind a fork a decision stands for an unchanged result", func(s *scene, k *talk) {
		f := k.copy()
		f.Messages[3].Blocks[0] = gen.Text("Let me look.")
		s.send(f, forks, "a1 b1")
	}},
	{"but not for a changed one", func(s *scene, k *talk) {
		f := k.cut(5)
		f.block(4, 0).Set("content", "b1 again\n"+code)
		s.send(f.say("Go on."), forks, "a1")
	}},
	{"nor for one whose id stands twice", func(s *scene, k *talk) {
		f := k.cut(5)
		f.Messages[3].Blocks[0] = gen.Text("Let me look.")
		s.send(f.read("b1", "/w/b"), forks, "a1")
	}},
	{"nor in the message where the fork begins", func(s *scene, k *talk) {
		f := k.cut(5)
		f.Messages[4].Blocks = append(f.Messages[4].Blocks, gen.Text("Mind the budget."))
		s.send(f.read("b1", "/w/b"), forks, "a1")
	}},
	{"a fork is remembered from its first request on", func(s *scene, k *talk) {
		f := k.cut(3).read("x1", "/w/x")
		s.send(f, forks, "a1")
		s.restart()
		s.send(f.say("Go on."), goesOn, "a1")
	}},
	{"a client that clears an old result forks", func(s *scene, k *talk) {
		f := k.copy()
		f.block(2, 0).Set("content", "[Old tool result content cleared]")
		s.send(f.say("Go on."), forks, "b1")
		s.send(f.say("And on."), goesOn, "b1")
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"a decision is kept for the day on which its result comes back", func(s *scene, k *talk) {
		without := s.c
		s.c = &pipeline.Config{Filters: []filters.Filter{eager{}}}
		s.send(k.read("d1", "/w/d"), goesOn, "a1 b1 d1") // decided when it is first seen
		s.c = without
		f := k.copy()
		f.block(12, 0).Set("content", "[Old tool result content cleared]")
		s.send(f.say("Go on."), goesOn, "a1 b1")
		f.Messages[12] = k.Messages[12]
		s.send(f.say("And on."), forks, "a1 b1 d1")
	}},
}

var otherKeys = []story{
	{"another system prompt forks while the cache is alive", func(s *scene, k *talk) {
		f := k.copy().system("Be brief.").edit("c2", "/w/c")
		s.send(f, forks, "a1 b1 c1") // under its key nothing is cached
		s.send(f.say("Go on."), goesOn, "a1 b1 c1")
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1")
	}},
	{"and goes on with its branch when it is dead", func(s *scene, k *talk) {
		branch := s.o.Branch
		for i := range 3 {
			s.wait(cold)
			s.send(k.system(fmt.Sprint("Today is day ", i)).say(fmt.Sprint("Go on ", i)), rekeys, "a1 b1")
			if s.o.Branch != branch {
				s.Fatal("another branch")
			}
			s.send(k.say("And on."), goesOn, "a1 b1")
		}
	}},
	{"which is remembered", func(s *scene, k *talk) {
		s.wait(cold)
		s.send(k.system("Be brief.").say("Go on."), rekeys, "a1 b1")
		s.restart()
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"but only where it ends", func(s *scene, k *talk) {
		s.wait(cold)
		s.send(k.cut(9).system("Be brief.").say("Go on."), forks, "a1 b1")
	}},
	{"a prompt that the client makes too small to be cached inherits nothing", func(s *scene, k *talk) {
		f := k.copy()
		f.System = f.System[1:] // the long part
		s.send(f, forks, "")
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"nor is its branch re-keyed", func(s *scene, k *talk) {
		s.wait(cold)
		f := k.say("Go on.").copy()
		f.System = f.System[1:]
		s.send(f, forks, "")
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"other tools are another key", func(s *scene, k *talk) {
		k.Tools = k.Tools[:1:1]
		s.send(k.say("Go on."), forks, "a1 b1")
	}},
	{"a billing block is not", func(s *scene, k *talk) {
		for i := range 2 {
			k.System = append([]gen.Block{gen.Text(fmt.Sprintf("x-anthropic-billing-header: cch=%05d;", i))}, k.System[len(k.System)-1])
			s.send(k.say("Go on."), goesOn, "a1 b1")
		}
	}},
	{"a bound model inherits nothing", func(s *scene, k *talk) {
		f := k.copy()
		f.Model = "claude-opus-5-5"
		s.send(f.say("Go on."), forks, "")
		s.wait(cold)
		s.send(f.say("And on."), goesOn, "")
		s.send(k.say("Go this way."), goesOn, "a1 b1")
		f.Model = plainModel
		s.send(f.say("And on again."), forks, "a1 b1")
	}},
	{"nor does it take over a dead branch on which something is in force", func(s *scene, _ *talk) {
		k := newTalk().read("d1", "/w/d").edit("d2", "/w/d")
		s.session = "one"
		s.send(k, isNew, "")
		s.wait(cold)
		s.send(k.say("Go on."), goesOn, "d1")
		s.wait(cold)
		f := k.copy()
		f.Model = "claude-opus-5-5"
		s.send(f.say("Go this way."), forks, "")
		s.send(k.say("Go that way."), goesOn, "d1")
	}},
	{"the same model is bound only while it may not drop what does not fit", func(s *scene, k *talk) {
		f := k.copy().say("Go on.")
		f.Model = "claude-opus-5-5"
		bound := f.copy()
		f.Extra = gen.Object{{Key: "thinking", Value: gen.Object{
			{Key: "block_binding", Value: gen.Object{{Key: "prefix_mismatch_behavior", Value: "drop_block"}}},
		}}}
		s.send(f, forks, "a1 b1")
		s.send(bound, forks, "")
		s.send(f.say("And on."), goesOn, "a1 b1")
		s.send(bound.say("And on."), goesOn, "")
	}},
	{"nor where the account may edit", func(s *scene, k *talk) {
		k.Model = "claude-opus-5-5"
		may := *s.c
		may.LegacyBinding = true
		s.c = &may
		s.send(k.say("Go on."), forks, "a1 b1")
	}},
	{"but it does so with an empty one", func(s *scene, _ *talk) {
		k := newTalk().read("d1", "/w/d")
		s.session = "empty"
		s.send(k, isNew, "")
		s.wait(cold)
		k.Model = "claude-opus-5-5"
		s.send(k.say("Go on."), rekeys, "")
	}},
	{"a hold is something in force", func(s *scene, _ *talk) {
		k := newTalk().say("Read it.")
		s.session, s.c = "held", config(s.T, "always")
		s.send(k, isNew, "")
		s.send(k.read("d1", "/w/d"), goesOn, "")
		f := k.copy()
		f.Model = "claude-opus-5-5"
		s.wait(cold)
		s.send(f.say("Go on."), forks, "")
		if s.send(k.say("And on."), goesOn, ""); s.o.Held != 1 {
			s.Errorf("held %d", s.o.Held)
		}
	}},
	{"a subagent has a conversation of its own", func(s *scene, k *talk) {
		a := newTalk()
		a.block(0, 0).Set("text", "Look for the limiter.")
		s.agent = "scout"
		s.send(a.read("s1", "/w/a"), isNew, "")
		s.send(a.read("s2", "/w/a"), goesOn, "")
		s.wait(cold)
		s.send(a.say("Go on."), goesOn, "s1")
		s.agent = ""
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"an agent with the same messages is another branch", func(s *scene, k *talk) {
		main := s.o.Branch
		a := k.copy().edit("c2", "/w/c")
		s.agent = "scout"
		s.send(a, forks, "a1 b1")
		s.wait(cold)
		s.send(a.say("Go on."), goesOn, "a1 b1 c1")
		s.agent = "other"
		s.send(a, forks, "a1 b1 c1")
		s.agent = ""
		s.send(k.say("Go on."), goesOn, "a1 b1")
		if s.o.Branch != main {
			s.Error("the main thread is another branch")
		}
	}},
}

var otherSessions = []story{
	{"a conversation is resumed under a new session id", func(s *scene, k *talk) {
		s.session = "resumed"
		s.send(k.say("Go on."), goesOn, "a1 b1")
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"after a restart too", func(s *scene, k *talk) {
		s.session = "resumed"
		s.restart()
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"with a request on the side", func(s *scene, k *talk) {
		s.session, s.aside = "resumed", true
		s.send(k.copy().say("Sum this up."), pipeline.KindNone, "a1 b1")
		s.aside = false
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"at an earlier message", func(s *scene, k *talk) {
		s.session = "resumed"
		s.send(k.cut(5).say("Do it otherwise."), forks, "a1 b1")
	}},
	{"by another agent", func(s *scene, k *talk) {
		s.session, s.agent = "resumed", "scout"
		s.send(k.say("Go on."), forks, "a1 b1")
	}},
	{"what the new session decides is its own", func(s *scene, k *talk) {
		f := k.copy().edit("c2", "/w/c")
		s.session = "resumed"
		s.send(f, goesOn, "a1 b1")
		s.wait(cold)
		s.send(f.say("Go on."), goesOn, "a1 b1 c1")
		s.session = "s"
		s.send(k.say("Go on."), goesOn, "a1 b1")
	}},
	{"not by another tenant", func(s *scene, k *talk) {
		s.tenant = "other"
		s.send(k.say("Go on."), isNew, "")
	}},
	{"not from the first message alone", func(s *scene, k *talk) {
		s.session = "resumed"
		f := k.copy()
		f.Messages[1].Blocks[0] = gen.Text("Let me look.")
		s.send(f, isNew, "")
		s.send(k.cut(1), again, "") // the new session's own
	}},
}

var lostAndFound = []story{
	{"one turn that nobody has seen is new", func(s *scene, k *talk) {
		s.wait(cold)
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1 c1")
	}},
	{"two were forwarded by somebody else, and may be cached", func(s *scene, k *talk) {
		s.wait(cold)
		s.send(k.edit("c2", "/w/c").say("Go on."), goesOn, "a1 b1")
		s.send(k.say("And on."), goesOn, "a1 b1")
		s.wait(cold)
		s.send(k.say("And on again."), goesOn, "a1 b1 c1")
	}},
	{"wherever the body left what is known", func(s *scene, k *talk) {
		s.wait(cold)
		s.send(k.cut(1).read("x1", "/w/x").edit("x2", "/w/x"), forks, "")
	}},
	{"a turn is a run of assistant messages", func(s *scene, k *talk) {
		s.wait(cold)
		f := k.copy().edit("c2", "/w/c")
		said := []gen.Message{{Role: "assistant", Blocks: []gen.Block{gen.Text("First.")}}}
		heard := []gen.Message{{Role: "user", Blocks: []gen.Block{gen.Text("Mind the budget.")}}}
		f.Messages = slices.Concat(f.Messages[:11], said, f.Messages[11:], heard)
		s.send(f, goesOn, "a1 b1 c1")
	}},
	{"unless another branch has seen them", func(s *scene, k *talk) {
		f := k.copy().edit("c2", "/w/c")
		s.send(f, goesOn, "a1 b1")
		s.send(f.say("Go on."), goesOn, "a1 b1")
		k.Messages[10].Blocks = append(k.Messages[10].Blocks, gen.Text("Mind the budget.")) // the same turns behind another message
		k.Messages = append(k.Messages, f.Messages[11:]...)
		s.wait(cold)
		s.send(k.say("And one more."), forks, "a1 b1 c1")
	}},
	{"of lost state nothing is derived again", func(s *scene, k *talk) {
		s.lose()
		s.send(k.say("Go on."), isNew, "")
		s.send(k.say("And on."), goesOn, "")
		s.wait(cold)
		s.send(k.say("And on again."), goesOn, "a1 b1")
	}},
	{"lost state may be rewound", func(s *scene, k *talk) {
		s.lose()
		s.send(k, isNew, "")
		s.send(k.cut(5), again, "")
		s.send(k.cut(1), again, "")
	}},
	{"lost state is warm for as long as the body asks for", func(s *scene, k *talk) {
		s.lose()
		s.send(k, isNew, "") // markers of five minutes
		s.wait(5 * time.Minute)
		s.send(k.say("Go on."), goesOn, "")
		s.lose()
		s.send(k, isNew, "")
		s.wait(7 * time.Minute)
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"an hour where one marker does", func(s *scene, k *talk) {
		s.lose()
		k.Mark(gen.Short)
		k.System[0].Marker = gen.Long
		s.sendMarked(k, isNew, "")
		s.wait(time.Hour)
		s.send(k.say("Go on."), goesOn, "")
		s.wait(70 * time.Minute) // what is read is refreshed
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"and where none says anything", func(s *scene, k *talk) {
		s.lose()
		s.sendMarked(&talk{unmarked(k)}, isNew, "")
		s.wait(time.Hour)
		s.sendMarked(&talk{unmarked(k.say("Go on."))}, goesOn, "")
		s.wait(20 * time.Minute)
		s.send(k.say("And on."), goesOn, "a1 b1")
	}},
	{"lost state covers what the body shares with it, and no more", func(s *scene, k *talk) {
		s.lose()
		s.send(k, isNew, "")
		f := k.copy()
		f.Messages[5].Blocks[0] = gen.Text("Let me edit.")
		s.send(f, forks, "")
		f = k.copy()
		f.block(4, 0).Set("content", "b1 anew\n"+code)
		s.send(f, forks, "b1") // nobody can have cached it
	}},
	{"after a restart the cache counts from its start", func(s *scene, k *talk) {
		s.e.Flush(s.Context())
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1")
		s.e.Flush(s.Context())
		s.wait(cold)
		s.restart()
		s.wait(5 * time.Minute)
		s.send(k.say("Go on."), goesOn, "a1 b1")
		s.wait(cold)
		s.send(k.say("And on."), goesOn, "a1 b1 c1")
	}},
	{"until its TTL is over", func(s *scene, k *talk) {
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1")
		s.e.Flush(s.Context())
		s.wait(cold)
		s.restart()
		s.wait(7 * time.Minute)
		s.send(k.say("Go on."), goesOn, "a1 b1 c1")
	}},
}
