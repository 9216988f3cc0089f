package pipeline_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// gate checks how many proposals on covered results a gate of the warm move kept.
func (l *live) gate(what string, gate filters.Gate, n int) {
	l.Helper()
	if got := l.o.Gates[pipeline.FilterGate{Filter: "readlifecycle", Gate: gate}]; got != n {
		l.Errorf("%s: gate %q on %d results, want %d (%v, move %v)", what, gate, got, n, l.o.Gates, l.o.Move)
	}
}

// TestWarmMoveGates tells why no warm move is made.
func TestWarmMoveGates(t *testing.T) {
	begin := func(t *testing.T, moves pipeline.Moves) (*live, *talk) {
		t.Helper()
		moves.Warm = true
		l := newLive(t, staleAtDepth(t, moves), simprovider.Policy{})
		k := l.talk()
		l.turn(k)
		return l, k
	}
	reads := func(l *live, k *talk, n int) {
		l.Helper()
		file := fmt.Sprint("/w/", n)
		l.turn(k.read(fmt.Sprint("r", n), file))
		l.turn(k.edit(fmt.Sprint("e", n), file))
	}
	moved := func(l *live, what string, want bool) {
		l.Helper()
		if got := l.o.Move != nil && l.o.Move.Kind == pipeline.Warm; got != want {
			l.Errorf("%s: move %v, gates %v", what, l.o.Move, l.o.Gates)
		}
	}
	t.Run("it pays", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 3, Horizon: 300})
		reads(l, k, 0)
		moved(l, "stale", true)
		l.shortened("r0")
	})
	t.Run("break_even", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 3, Horizon: 2})
		for i := range 3 {
			l.turn(k.read(fmt.Sprint("k", i), fmt.Sprint("/w/k", i)))
		}
		l.turn(k.edit("e", "/w/k0"))
		moved(l, "stale", false)
		l.gate("stale", filters.BreakEven, 1)
		if !bytes.Equal(l.in, l.out) {
			t.Error("the body was changed")
		}
	})
	t.Run("break_even: a gain below the smallest", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 3, Horizon: 300, MinGain: 100})
		reads(l, k, 0)
		moved(l, "stale", false)
		l.gate("stale", filters.BreakEven, 1)
	})
	t.Run("no horizon before six calls", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 3})
		reads(l, k, 0)
		moved(l, "stale", false)
		l.gate("stale", filters.BreakEven, 1)
	})
	t.Run("rewrite_budget", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 2, Horizon: 300})
		for i := range 4 {
			reads(l, k, i)
			moved(l, fmt.Sprint(i), i < 2)
		}
		l.gate("spent", filters.RewriteBudget, 2)
		f := k.cut(len(k.Messages) - 2)
		l.turn(f.edit("f", "/w/3"))
		moved(l, "a fork", false)
		l.gate("a fork", filters.RewriteBudget, 2)
		l.e.Flush(t.Context())
		l.restart()
		l.small(k, 1)
		moved(l, "after a restart", false)
		l.wait(cold)
		l.small(k, 1)
		l.shortened("r0 r1 r2 r3") // a cold move costs nothing
	})
	t.Run("move_spacing", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 9, Spacing: 4, Horizon: 300})
		reads(l, k, 0)
		moved(l, "first", true)
		reads(l, k, 1)
		moved(l, "two turns later", false)
		l.gate("two turns later", filters.MoveSpacing, 1)
		l.small(k, 1)
		moved(l, "three turns later", false)
		l.small(k, 1)
		moved(l, "four turns later", true)
		l.shortened("r0 r1")
	})
	t.Run("off", func(t *testing.T) {
		l, k := begin(t, pipeline.Moves{Budget: 9, Horizon: 300})
		l.c.Moves.Warm = false
		reads(l, k, 0)
		moved(l, "off", false)
	})
}

// TestEconomicHold: a read is held where the table says that holding is the cheapest, which is late in a long session and by
// what writing costs; nowhere if reads are dear to send plain.
func TestEconomicHold(t *testing.T) {
	keys := readmaturation.Default()
	f, err := readmaturation.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	play := func(t *testing.T, turns int, override cache.Override) *live {
		t.Helper()
		l := newLive(t, &pipeline.Config{Name: "hold", Filters: []filters.Filter{f}}, simprovider.Policy{})
		override.Model = plainModel
		l.priced(override)
		k := l.talk()
		l.turn(k)
		l.small(k, turns)
		l.turn(k.exchange("r", "Read", gen.Object{{Key: "file_path", Value: "/w/a"}}, code))
		return l
	}
	gate := pipeline.FilterGate{Filter: "readmaturation", Gate: filters.HoldUneconomic}
	for _, c := range []struct {
		name     string
		turns    int
		override cache.Override
		held     int
	}{
		{"early", 3, cache.Override{}, 0},
		{"late", 60, cache.Override{}, 1},
		{"late, where reading costs next to nothing", 60, cache.Override{Read: 0.0001, Write5m: 3}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l := play(t, c.turns, c.override); l.o.Held != c.held || l.o.Gates[gate] != 1-c.held {
				t.Errorf("%d held, gates %v", l.o.Held, l.o.Gates)
			}
		})
	}
}

// TestPlace tells when breakpoints are set for a client that sets none.
func TestPlace(t *testing.T) {
	begin := func(t *testing.T) (*live, func(what string, k *talk, placed int, change ...func(*pipeline.Request))) {
		t.Helper()
		c := lifting(pipeline.KeepTTL)
		c.Levers.Place = true
		l := newLive(t, c, simprovider.Policy{})
		return l, func(what string, k *talk, placed int, change ...func(*pipeline.Request)) {
			l.Helper()
			k.Unmark()
			l.marked(k, change...)
			if got := l.o.Breakpoints.Placed; got != placed || placed == 0 && !bytes.Equal(l.in, l.out) {
				l.Errorf("%s: %d placed, want %d (gate %q)", what, got, placed, l.o.Gate)
			}
			if placed > 0 {
				l.want(what, "5m 5m")
			}
		}
	}
	t.Run("while the branch goes on", func(t *testing.T) {
		l, send := begin(t)
		k := l.talk()
		send("first", k, 0)
		send("second", k.say("Go on."), 2)
		l.wait(4 * time.Minute)
		send("in time", k.say("Go on."), 2)
		if l.ob.Usage.Read == 0 {
			t.Error("nothing was read")
		}
		l.wait(6 * time.Minute)
		send("after a pause", k.say("Go on."), 0)
		send("after that", k.say("Go on."), 2)
		send("a retry", k, 2)
		send("side traffic", k, 0, auxiliary)
		send("bypass", k.say("Go on."), 0, bypass)
		send("a fork", k.cut(len(k.Messages)-2).say("Go that way."), 0)
	})
	t.Run("not in shadow", func(t *testing.T) {
		l, send := begin(t)
		l.c.Mode = pipeline.Shadow
		k := l.talk()
		send("first", k, 0)
		send("second", k.say("Go on."), 0)
		if n := l.o.Shadow.Breakpoints.Placed; n != 2 {
			t.Errorf("%d would have been placed", n)
		}
	})
	t.Run("never again once the client sets one", func(t *testing.T) {
		l, send := begin(t)
		k := l.talk()
		send("first", k, 0)
		send("second", k.say("Go on."), 2)
		l.turn(k.say("Go on."))
		if !bytes.Equal(l.in, l.out) {
			t.Error("the client's own were changed")
		}
		for range 3 {
			send("after the client's own", k.say("Go on."), 0)
		}
		l.e.Flush(t.Context())
		l.restart()
		send("after a restart", k.say("Go on."), 0)
		f := k.cut(len(k.Messages) - 2).say("Go that way.")
		send("a fork", f, 0)
		send("the fork goes on", f.say("Go on."), 0)
	})
}
