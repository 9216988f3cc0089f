package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// TestObserve tells what a response does to what is known.
func TestObserve(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(l *live)
	}{
		{"nothing known leaves what was believed", nothingKnown},
		{"usage makes entries certain", func(l *live) {
			k := l.talk()
			if l.turn(k); l.certain() != 2 {
				l.Errorf("%d entries are certain: %+v", l.certain(), l.branch().Entries)
			}
			for _, e := range l.branch().Entries {
				if e.Cells == 4 && int(e.Tokens) != through(l.ob.Usage) {
					l.Errorf("%d tokens, billed %+v", e.Tokens, *l.ob.Usage)
				}
			}
			l.small(k, 1)
			if l.ob.Expected != l.ob.Usage.Read || l.ob.Loss != nil {
				l.Errorf("expected %d, read %d", l.ob.Expected, l.ob.Usage.Read)
			}
		}},
		{"a body that belongs to nobody is priced by its model", func(l *live) {
			l.session = ""
			l.turn(l.talk())
			if l.o.Branch != 0 || l.o.Level != pipeline.Original || l.ob.Model != plainModel || l.ob.Cost <= 0 || l.ob.Baseline != l.ob.Cost {
				l.Errorf("%+v", *l.ob)
			}
		}},
		{"a model that is not in the table has the label of all such", func(l *live) {
			l.session = ""
			l.saw = func(r *pipeline.Response) { r.Model = "claude-sonnet-4-9" }
			if l.turn(l.talk()); l.ob.Model != "_other" || l.ob.Cost <= 0 {
				l.Errorf("%+v", *l.ob)
			}
			if ob := l.observe(&pipeline.Response{}); ob.Model != "_other" || ob.Usage != nil || ob.Cost != 0 {
				l.Errorf("without usage: %+v", *ob)
			}
			l.session, l.model = "s", "claude-sonnet-4-9"
			if l.turn(l.talk()); l.ob.Model != "_other" || l.ob.Cost <= 0 {
				l.Errorf("on a branch: %+v", *l.ob)
			}
		}},
		{"told twice, usage is taken in once", toldTwice},
		{"late, it is no worse", late},
		{"after a restart it does no harm", func(l *live) {
			k := l.talk()
			l.small(k, 2)
			l.ask(l.marks(k.say("Go on.")))
			r, o := l.answer(), l.o
			l.e.Flush(context.Background())
			l.restart()
			l.e.Observe(context.Background(), o, r)
			l.small(k, 1)
			if l.o.Kind != goesOn || l.ob.LiftMisjudged || l.ob.ColdMisjudged || l.ob.Loss != nil {
				l.Errorf("kind %v, %+v", l.o.Kind, *l.ob)
			}
		}},
		{"after the branch is gone it does no harm", branchGone},
		{"a shadow's outcome learns nothing", shadowOutcome},
		{"side traffic makes entries certain and tells nothing of the branch", func(l *live) {
			k := l.talk()
			l.saw = func(r *pipeline.Response) { *r = pipeline.Response{} }
			l.turn(k)
			before := l.branch()
			l.saw = nil
			l.turn(k, auxiliary)
			after := l.branch()
			if l.certain() != 1 || l.ob.Loss != nil || l.ob.Cost <= 0 { // the tail was read; how far the head's entry reaches nobody said
				l.Errorf("%d certain, %+v", l.certain(), *l.ob)
			}
			if diff := cmp.Diff(before.Ledger, after.Ledger); diff != "" {
				l.Error(diff)
			}
		}},
		{"a token count is compared with nothing", func(l *live) {
			k := l.talk()
			l.turn(k)
			before := l.branch()
			l.turn(k, func(r *pipeline.Request) { r.CountTokens = true })
			if diff := cmp.Diff(before, l.branches()[0]); diff != "" {
				l.Error(diff)
			}
		}},
		{"a bypassed request makes entries certain, and is the last one of its branch", func(l *live) {
			k := l.talk()
			l.saw = func(r *pipeline.Response) { *r = pipeline.Response{} }
			l.turn(k)
			l.saw = nil
			l.turn(k.say("Go on."), bypass)
			if l.certain() == 0 || int(l.branch().Ledger.Read) != through(l.ob.Usage) {
				l.Errorf("%d certain, ledger %+v", l.certain(), l.branch().Ledger)
			}
		}},
		{"merged writes are told apart by the breakpoints", mergedWrites},
	} {
		t.Run(c.name, func(t *testing.T) { c.play(newLive(t, lifting(pipeline.KeepTTL), simprovider.Policy{})) })
	}
}

// marks is the conversation as agents mark it.
func (l *live) marks(k *talk) *gen.Conversation {
	k.Mark(gen.Short)
	return k.Conversation
}

func nothingKnown(l *live) {
	k := l.talk()
	l.turn(k)
	usage := &pipeline.Usage{Write5m: 9000}
	for name, r := range map[string]*pipeline.Response{
		"nothing": {}, "overloaded": {Status: 529}, "refused": {Status: 400}, "no usage": {Status: 200, Message: "m"},
		"an error with usage": {Status: 500, Usage: usage}, "usage of no response": {Usage: usage},
	} {
		l.ask(l.marks(k.say("Go on.")))
		before := l.branch()
		ob := l.observe(r)
		after := l.branch()
		if diff := cmp.Diff(before.Entries, after.Entries); diff != "" {
			l.Errorf("%s: entries: %s", name, diff)
		}
		want := before.Ledger
		if r.Status >= 400 { // nobody was billed
			want.Short = after.Ledger.Short
			if want.Short >= before.Ledger.Short {
				l.Errorf("%s: the bill is %v, was %v with the request that failed", name, want.Short, before.Ledger.Short)
			}
		}
		if diff := cmp.Diff(want, after.Ledger); diff != "" {
			l.Errorf("%s: ledger: %s", name, diff)
		}
		if ob.Loss != nil || ob.Cost != 0 || ob.Model != plainModel {
			l.Errorf("%s: %+v", name, *ob)
		}
	}
	l.small(k, 1) // what was believed is there: nobody asked the provider in between
	if l.o.Kind != goesOn || l.o.Cache != pipeline.CacheWarm {
		l.Errorf("kind %v, cache %v", l.o.Kind, l.o.Cache)
	}
}

func toldTwice(l *live) {
	k := l.talk()
	l.small(k, 3)
	l.ask(l.marks(k.say("Go on.")))
	r := l.answer()
	rereads(0)(r)
	l.observe(&pipeline.Response{}) // of the first attempt to read it
	if ob := l.observe(r); ob.Usage == nil || ob.Loss == nil {
		l.Fatalf("not taken in: %+v", *ob)
	}
	before := l.branch()
	ob := l.observe(r)
	if ob.Usage != nil || ob.Loss != nil || ob.Cost != 0 {
		l.Errorf("counted twice: %+v", *ob)
	}
	if diff := cmp.Diff(before, l.branch()); diff != "" {
		l.Error(diff)
	}
}

// late: the response to a request arrives after that to the next one.
func late(l *live) {
	k := l.talk()
	l.turn(k)
	l.ask(l.marks(k.say("Go on.")))
	r, o := l.answer(), l.o
	l.small(k, 1)
	seen := l.certain()
	ob := l.e.Observe(context.Background(), o, r)
	if ob.Usage == nil || ob.Loss != nil || ob.LiftMisjudged || ob.ColdMisjudged {
		l.Errorf("%+v", *ob)
	}
	if l.certain() <= seen {
		l.Errorf("%d certain, %d before", l.certain(), seen)
	}
	l.wait(cold)
	l.small(k, 1) // hours late, it makes nothing alive that is not
	l.wait(cold)
	l.e.Observe(context.Background(), o, r)
	if l.certain() != 0 {
		l.Errorf("%d entries are certain after hours", l.certain())
	}
}

// branchGone: the session holds as many branches as it may, and the observed one made room for another.
func branchGone(l *live) {
	l.ask(l.marks(l.talk()))
	r, o := l.answer(), l.o
	l.wait(cold)
	for i := range 64 {
		k := l.talk()
		k.Messages[0].Blocks = []gen.Block{gen.Text(fmt.Sprint("Fix it ", i))}
		l.turn(k)
	}
	before := l.branches()
	if ob := l.e.Observe(context.Background(), o, r); ob.Cost <= 0 {
		l.Errorf("%+v", *ob)
	}
	if diff := cmp.Diff(before, l.branches()); diff != "" {
		l.Error(diff)
	}
}

func shadowOutcome(l *live) {
	dark := *config(l.T, "")
	dark.Mode = pipeline.Shadow
	l.c = &dark
	k := l.talk()
	l.turn(k)
	before := l.branch()
	ob := l.e.Observe(context.Background(), l.o.Shadow, &pipeline.Response{Status: 200, Model: plainModel, Usage: &pipeline.Usage{Write5m: 77}})
	if ob.Loss != nil || ob.Cost <= 0 || ob.Model != plainModel {
		l.Errorf("%+v", *ob)
	}
	if diff := cmp.Diff(before, l.branch()); diff != "" {
		l.Error(diff)
	}
	if l.small(k, 1); l.ob.Expected == 0 || l.ob.Expected != l.ob.Usage.Read {
		l.Errorf("the outcome itself was not taken in: expected %d, read %d", l.ob.Expected, l.ob.Usage.Read)
	}
}

func mergedWrites(l *live) {
	l.saw = func(r *pipeline.Response) {
		r.Usage.Merged, r.Usage.Write5m, r.Usage.Write1h = true, r.Usage.Write5m+r.Usage.Write1h, 0
	}
	near := func(what string, got, want int) {
		l.Helper()
		if diff := got - want; diff < -want/20 || diff > want/20 {
			l.Errorf("%s: %d of an hour, billed %d", what, got, want)
		}
	}
	k := l.talk()
	k.Mark(gen.Long)
	l.marked(k)
	near("all", l.ob.Usage.Write1h, l.res.Usage.Write1h)
	k.read("a1", "/w/a").Mark(gen.Long)
	l.marked(k)
	near("increment", l.ob.Usage.Write1h, l.res.Usage.Write1h)
	f := l.talk().system("Another agent. "+code+code+code).read("a1", "/w/a").read("b1", "/w/b")
	f.Mark(gen.Short)
	f.System[len(f.System)-1].Marker = gen.Long
	l.marked(f)
	near("head", l.ob.Usage.Write1h, l.res.Usage.Write1h)
	if u := l.ob.Usage; u.Merged || u.Write5m+u.Write1h != l.res.Usage.Write5m+l.res.Usage.Write1h || u.Write5m == 0 {
		l.Errorf("%+v", *u)
	}
	f.say("Go on.").Mark(gen.Short)
	if l.marked(f); l.ob.Usage.Write1h != 0 || l.ob.Usage.Merged {
		l.Errorf("%+v", *l.ob.Usage)
	}
}

// TestObservedAfterEviction: a session that was dropped from memory while its response was on the way, and read again since,
// takes the response in all the same.
func TestObservedAfterEviction(t *testing.T) {
	l := newLive(t, lifting(pipeline.KeepTTL), simprovider.Policy{})
	l.store = &noticing{Store: memory.New()}
	var err error
	if l.e, err = pipeline.New(context.Background(), l.store, pipeline.Options{Flush: -1, Sessions: 1}); err != nil {
		t.Fatal(err)
	}
	k := l.talk()
	l.ask(l.marks(k))
	r, o := l.answer(), l.o
	l.e.Flush(context.Background())
	l.session = "another"
	l.turn(l.talk().say("Hello."))
	l.session = "s"
	l.ask(l.marks(k))
	l.e.Observe(context.Background(), o, r)
	l.wait(time.Second)
	if l.turn(k.say("Go on.")); l.ob.Expected != l.ob.Usage.Read || l.ob.Expected == 0 {
		t.Errorf("expected %d, read %d", l.ob.Expected, l.ob.Usage.Read)
	}
}

// TestIneffective: a filter behind tidemark that writes the body anew is found out, and what it bills teaches nothing.
func TestIneffective(t *testing.T) {
	l := newLive(t, config(t, ""), simprovider.Policy{})
	k := l.talk()
	for _, file := range []string{"a", "b", "c", "d"} {
		l.turn(k.read(file+"1", "/w/"+file))
		l.turn(k.edit(file+"2", "/w/"+file))
	}
	l.wait(cold)
	l.ask(l.marks(k.say("Go on.")))
	l.shortened("a1 b1 c1 d1")
	before := l.branch().Ledger.Ratio
	l.out = l.in // what arrives
	if ob := l.observe(l.answer()); !ob.Ineffective {
		t.Errorf("%+v, billed %+v", *ob, *ob.Usage)
	}
	if after := l.branch().Ledger.Ratio; after != before || before == 0 {
		t.Errorf("%v tokens a character, %v before", after, before)
	}
	if l.small(k, 1); l.ob.Ineffective || l.o.Gate == filters.Panic {
		t.Errorf("what arrived is said not to have: %+v", *l.ob)
	}
}

// Sums over several prompts are priced, and nothing is learned from them.
func TestObserveSums(t *testing.T) {
	l := newLive(t, lifting(pipeline.KeepTTL), simprovider.Policy{})
	k := l.talk()
	l.turn(k)
	price := func(u *pipeline.Usage) float64 {
		l.ask(l.marks(k.say("Go on.")))
		return l.observe(&pipeline.Response{Status: 200, Usage: u}).Cost
	}
	one := price(&pipeline.Usage{Read: 9000, Write5m: 300})
	for name, r := range map[string]*pipeline.Response{
		"said to be unclear":  {Status: 200, Unclear: true, Usage: &pipeline.Usage{Read: 90_000, Write5m: 300}},
		"merged and too much": {Status: 200, Usage: &pipeline.Usage{Read: 90_000, Write5m: 300, Merged: true}},
	} {
		l.ask(l.marks(k.say("Go on.")))
		before := l.branch()
		ob := l.observe(r)
		if diff := cmp.Diff(before, l.branch()); diff != "" || ob.Loss != nil || ob.Cost <= one {
			t.Errorf("%s: %+v %s", name, ob, diff)
		}
	}
	if two := price(&pipeline.Usage{Read: 9000, Write5m: 300, Bill: &pipeline.Usage{Read: 18_000, Write5m: 600}}); two < 1.9*one {
		t.Errorf("a bill of two prompts is %v, one is %v", two, one)
	}
}
