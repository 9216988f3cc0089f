package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// stale adds a read and an edit that makes it stale, each in a turn of its own, and then a pause after which the read may be
// replaced.
func (l *live) stale(k *talk, n int) {
	l.Helper()
	file := fmt.Sprint("/w/", n)
	l.turn(k.read(fmt.Sprint("r", n), file))
	l.turn(k.edit(fmt.Sprint("e", n), file))
	l.wait(cold)
}

// TestColdMisjudged: a provider that holds what should have lapsed is believed after two refutations.
func TestColdMisjudged(t *testing.T) {
	moves := func(l *live, k *talk, n int, want bool) {
		l.Helper()
		l.stale(k, n)
		l.turn(k.say("Go on."))
		if moved := l.o.Move != nil && l.o.Move.Kind == pipeline.Cold; moved != want {
			l.Fatalf("move %v (%v)", l.o.Move, l.o.Gates)
		}
	}
	begin := func(t *testing.T) (*live, *talk) {
		t.Helper()
		l := newLive(t, config(t, ""), simprovider.Policy{})
		l.route = "a"
		k := l.talk()
		for i := range 4 {
			l.turn(k.read(fmt.Sprint("k", i), fmt.Sprint("/w/k", i)))
		}
		return l, k
	}
	misjudged := func(l *live, what string, want bool) {
		l.Helper()
		if l.ob.ColdMisjudged != want {
			l.Errorf("%s: cold_misjudged %v, read %d", what, l.ob.ColdMisjudged, l.ob.Usage.Read)
		}
	}
	// holds lets the provider have read the deepest entry before the last exchanges, which had lapsed.
	holds := func(l *live) func(*pipeline.Response) {
		return func(r *pipeline.Response) {
			if l.o.Cache != pipeline.CacheCold {
				return
			}
			deepest := 0
			for _, e := range l.branch().Entries {
				if n := int(e.Tokens); n < r.Usage.Prompt()-1800 {
					deepest = max(deepest, n)
				}
			}
			rereads(deepest)(r)
		}
	}
	twice := func(t *testing.T) (*live, *talk) {
		t.Helper()
		l, k := begin(t)
		l.saw = holds(l)
		for i := range 2 {
			moves(l, k, i, true)
			misjudged(l, "a move", true)
		}
		l.saw = nil
		return l, k
	}
	t.Run("two stop cold moves on the route", func(t *testing.T) {
		l, k := twice(t)
		moves(l, k, 2, false)
		if n := l.o.Gates[pipeline.FilterGate{Filter: "readlifecycle", Gate: filters.ColdMisjudged}]; n != 1 {
			t.Errorf("gates %v", l.o.Gates)
		}
		l.shortened("r0 r1")
	})
	t.Run("one does not", func(t *testing.T) {
		l, k := begin(t)
		l.saw = holds(l)
		moves(l, k, 0, true)
		l.saw = nil
		for i := range 3 {
			moves(l, k, i+1, true)
			misjudged(l, "what lapsed", false)
		}
	})
	t.Run("other routes go on", func(t *testing.T) {
		l, k := twice(t)
		l.route = "b"
		moves(l, k, 2, true)
	})
	t.Run("a restart forgets", func(t *testing.T) {
		l, k := twice(t)
		moves(l, k, 2, false)
		l.e.Flush(t.Context())
		l.restart()
		moves(l, k, 3, true)
	})
	t.Run("a request past a believed lapse that did not move counts", func(t *testing.T) {
		l, k := begin(t)
		l.saw = holds(l)
		for range 2 {
			l.wait(20 * time.Minute)
			l.small(k, 1)
			misjudged(l, "a lapse", true)
		}
		l.saw = nil
		moves(l, k, 0, false)
	})
	t.Run("what is warm refutes nothing", func(t *testing.T) {
		l, k := begin(t)
		for range 3 {
			l.small(k, 1)
			misjudged(l, "a warm request", false)
		}
		moves(l, k, 0, true)
	})
}
