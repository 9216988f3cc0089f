package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// withPolicy proposes what another filter does, under a policy of its own.
type withPolicy struct {
	filters.Filter

	policy filters.Policy
}

func (f withPolicy) Propose(v *filters.View) []filters.Proposal {
	all := f.Filter.Propose(v)
	for i := range all {
		if all[i].Action == filters.Replace && all[i].Policy.Warm {
			all[i].Policy = f.policy
		}
	}
	return all
}

// TestPolicies: a filter may ask more of warm moves than the route does, or less.
func TestPolicies(t *testing.T) {
	play := func(t *testing.T, policy filters.Policy, moves pipeline.Moves, reads int) (*live, int) {
		t.Helper()
		moves.Warm, moves.Budget = true, 9
		c := staleAtDepth(t, moves)
		policy.Warm = true
		c.Filters[0] = withPolicy{c.Filters[0], policy}
		l := newLive(t, c, simprovider.Policy{})
		k := l.talk()
		l.turn(k)
		n := 0
		for i := range reads {
			file := fmt.Sprint("/w/", i)
			l.turn(k.read(fmt.Sprint("r", i), file))
			l.turn(k.edit(fmt.Sprint("e", i), file))
			if l.o.Move != nil && l.o.Move.Kind == pipeline.Warm {
				n++
			}
		}
		return l, n
	}
	t.Run("a batch that is large enough", func(t *testing.T) {
		if _, n := play(t, filters.Policy{BreakEven: true, MinBatchFrac: 0.05}, pipeline.Moves{Horizon: 300}, 1); n != 1 {
			t.Errorf("%d moves", n)
		}
	})
	t.Run("one that is too small", func(t *testing.T) {
		l, n := play(t, filters.Policy{BreakEven: true, MinBatchFrac: 0.5}, pipeline.Moves{Horizon: 300}, 1)
		if l.gate("small", filters.BatchTooSmall, 1); n != 0 {
			t.Errorf("%d moves", n)
		}
	})
	t.Run("a budget of its own", func(t *testing.T) {
		l, n := play(t, filters.Policy{BreakEven: true, RewriteBudget: 2}, pipeline.Moves{Horizon: 300}, 4)
		if l.gate("spent", filters.RewriteBudget, 2); n != 2 {
			t.Errorf("%d moves", n)
		}
	})
	t.Run("whatever it costs", func(t *testing.T) {
		if _, n := play(t, filters.Policy{}, pipeline.Moves{Horizon: 1}, 1); n != 1 {
			t.Errorf("%d moves", n)
		}
	})
	t.Run("only if it pays", func(t *testing.T) {
		l, n := play(t, filters.Policy{BreakEven: true}, pipeline.Moves{Horizon: 1}, 1)
		if l.gate("dear", filters.BreakEven, 1); n != 0 {
			t.Errorf("%d moves", n)
		}
	})
}
