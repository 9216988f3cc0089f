package pipeline_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// TestUnpaid: what a request that was answered with an error was the first to do is told of the one that sends it again, word
// for word or with more behind it, whatever it is, once, and at the same price; of one that was billed nothing is.
func TestUnpaid(t *testing.T) {
	edit := func(_ *live, k *talk) { k.edit("e1", "/w/1") }
	for _, c := range []struct {
		name  string
		bare  bool                   // the client sets no breakpoints
		do    func(l *live, k *talk) // before the request that is answered first
		cause pipeline.Cause
		first pipeline.Basis // of what it leaves out for the first time
	}{
		{"a warm move", false, edit, pipeline.CauseTidemark, pipeline.CacheReadMarginal},
		{"a cold move", false, func(l *live, k *talk) { edit(l, k); l.wait(20 * time.Minute) }, pipeline.CauseTTL, pipeline.CacheWriteMarginal},
		{"a pause", false, func(l *live, _ *talk) { l.wait(20 * time.Minute) }, pipeline.CauseTTL, ""},
		{"another system prompt", false, func(_ *live, k *talk) { k.System[0].Set("text", "You are someone else.") }, pipeline.CauseClientSystem, ""},
		{"no breakpoints", true, edit, "", pipeline.FullInput},
		{"nothing", false, func(*live, *talk) {}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := unpaid{newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{}), c.bare, 2 * time.Second}
			want := u.play(c.do, nil)
			if want.cause != c.cause || want.first.Basis() != c.first || !want.move || want.rest > 0 {
				t.Fatalf("%+v, want loss %q and first removed %q", want, c.cause, c.first)
			}
			for name, then := range map[string]func(k *talk){
				"the same": func(*talk) {},
				"a message more": func(k *talk) {
					k.Messages = append(slices.Clip(k.Messages), gen.Message{Role: "user", Blocks: []gen.Block{gen.Text("Are you there?")}})
				},
				"a block more": func(k *talk) {
					last := &k.Messages[len(k.Messages)-1]
					last.Blocks = append(slices.Clip(last.Blocks), gen.Text("Are you there?"))
				},
			} {
				for _, refusals := range [][]int{{529}, {500, 503}} {
					got := unpaid{newLive(t, u.c, simprovider.Policy{}), c.bare, u.every}.play(c.do, then, refusals...)
					if got.cause != want.cause || got.rest > 0 || got.move != want.move || got.first.Basis() != c.first ||
						math.Abs(got.first.USD-want.first.USD) > want.first.USD/100 || math.Abs(got.removal-want.removal) > math.Abs(want.removal)/100 {
						t.Errorf("after %v %s: %+v, want %+v", refusals, name, got, want)
					}
				}
			}
		})
	}
}

// TestOutage: what lapses while the provider answers nothing was lost to that, although it was sent again all the time.
func TestOutage(t *testing.T) {
	refusals := slices.Repeat([]int{503}, 12)
	for name, c := range map[string]struct {
		do    func(l *live, k *talk)
		first pipeline.Basis
	}{
		"nothing":     {func(*live, *talk) {}, ""},
		"a warm move": {func(_ *live, k *talk) { k.edit("e1", "/w/1") }, pipeline.CacheWriteMarginal},
	} {
		for every, cause := range map[time.Duration]pipeline.Cause{time.Minute: pipeline.CauseTTL, time.Second: ""} {
			u := unpaid{newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{}), false, every}
			first := c.first
			if cause == "" && first != "" {
				cause, first = pipeline.CauseTidemark, pipeline.CacheReadMarginal
			}
			if got := u.play(c.do, func(*talk) {}, refusals...); got.cause != cause || got.first.Basis() != first || !got.move || got.rest > 0 {
				t.Errorf("%s, every %v: %+v, want %q, %q", name, every, got, cause, first)
			}
		}
	}
}

// unpaid plays a conversation in which a request is answered with errors.
type unpaid struct {
	*live
	bare  bool          // without breakpoints
	every time.Duration // the client tries again
}

// told is what was told of a request.
type told struct {
	cause   pipeline.Cause
	first   pipeline.Priced
	removal float64
	move    bool // that is told is the one of the request that made it
	rest    int  // losses, moves and first removals of the request behind it
}

// play does something before a request, answers it with refusals, does something else before it is sent again after each of
// them, and returns what is told of the one that is billed.
func (u unpaid) play(do func(*live, *talk), then func(*talk), refusals ...int) (all told) {
	u.Helper()
	k := u.talk()
	u.send(k)
	u.ob = u.observe(u.answer())
	for i := range 8 {
		u.send(k.exchange(fmt.Sprint("r", i), "Read", readOf(fmt.Sprint("/w/", i)), fileOf(i)))
		u.ob = u.observe(u.answer())
	}
	do(u.live, k.say("Go on."))
	u.send(k)
	move := u.o
	for _, status := range refusals {
		u.wait(u.every)
		u.observe(&pipeline.Response{Status: status})
		then(k)
		u.send(k)
	}
	ob := u.observe(u.answer())
	all.first, all.removal = ob.Account.First, ob.Account.Removal
	all.move = ob.Move == move.Move && (ob.Move == nil || ob.Moved == move.Key)
	if ob.Loss != nil {
		all.cause = ob.Loss.Cause
	}
	u.send(k.say("And on."))
	if ob = u.observe(u.answer()); ob.Loss != nil || ob.Move != nil || ob.Account.First.Tokens() > 0 {
		all.rest++
	}
	return all
}

// send forwards what the client says, with breakpoints or without.
func (u unpaid) send(k *talk) {
	u.Helper()
	if k.Mark(gen.Short); u.bare {
		k.Unmark()
	}
	u.ask(k.Conversation)
}

// warmed begins a conversation of which something is left out.
func (u unpaid) warmed() *talk {
	u.Helper()
	k := u.talk()
	u.send(k)
	u.observe(u.answer())
	for i := range 8 {
		u.send(k.exchange(fmt.Sprint("r", i), "Read", readOf(fmt.Sprint("/w/", i)), fileOf(i)))
		u.observe(u.answer())
	}
	u.send(k.edit("e1", "/w/1").say("Go on."))
	return k
}

func newUnpaid(t *testing.T, every time.Duration) unpaid {
	t.Helper()
	return unpaid{newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{}), false, every}
}

// TestOutageOnce: what is left out is counted once, also where it lapsed while it was sent again all the time.
func TestOutageOnce(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, time.Second} {
		u := newUnpaid(t, every)
		k := u.warmed()
		for range 12 {
			u.wait(every)
			u.observe(&pipeline.Response{Status: 503})
			u.send(k)
		}
		a := u.observe(u.answer()).Account
		u.send(k.say("And on."))
		next := u.observe(u.answer()).Account
		if a.First.Tokens() != next.Again.Tokens() || a.Again.Tokens() > 0 || next.First.Tokens() > 0 {
			t.Errorf("every %v: %+v, then %+v", every, a, next)
		}
	}
}

// TestUnpaidLate: an error that is told after the request was sent again is not taken for one of what comes next.
func TestUnpaidLate(t *testing.T) {
	u := newUnpaid(t, time.Second)
	k := u.warmed()
	late := u.o
	u.send(k)
	u.observe(u.answer())
	u.e.Observe(t.Context(), late, &pipeline.Response{Status: 503})
	u.send(k.say("And on."))
	if ob := u.observe(u.answer()); ob.Move != nil || ob.Loss != nil || ob.Account.First.Tokens() > 0 {
		t.Errorf("%v, %v, %+v", ob.Move, ob.Loss, ob.Account)
	}
}

// TestUnpaidFork: a fork that leaves before what was never billed leaves it to the request that sends it again.
func TestUnpaidFork(t *testing.T) {
	u := newUnpaid(t, time.Second)
	k := u.warmed()
	move := u.o.Move
	u.observe(&pipeline.Response{Status: 503})
	if u.send(k.cut(7).say("Something else.")); u.o.Kind != pipeline.KindFork {
		t.Fatalf("kind %v", u.o.Kind)
	}
	if ob := u.observe(u.answer()); ob.Move != nil {
		t.Errorf("the fork was told of %v", ob.Move)
	}
	u.send(k)
	if ob := u.observe(u.answer()); move == nil || ob.Move != move || ob.Account.First.Tokens() == 0 {
		t.Errorf("%v, %+v", ob.Move, ob.Account)
	}
}

// TestUnpaidReuse: what is needed again is paid for once, though the message that brings it grew before it was billed.
func TestUnpaidReuse(t *testing.T) {
	var cost [2]float64
	for i := range cost {
		u := newUnpaid(t, time.Second)
		k := u.warmed()
		u.observe(u.answer())
		u.send(k.exchange("again", "Read", readOf("/w/1"), fileOf(1)))
		if i > 0 {
			u.observe(&pipeline.Response{Status: 503})
			last := &k.Messages[len(k.Messages)-1]
			last.Blocks = append(slices.Clip(last.Blocks), gen.Text("Are you there?"))
			u.send(k)
		}
		cost[i] = u.observe(u.answer()).Account.Reuse
	}
	if cost[0] == 0 || math.Abs(cost[1]-cost[0]) > cost[0]/100 {
		t.Errorf("%v", cost)
	}
}
