package state_test

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

var now = time.Date(2026, 11, 29, 23, 50, 0, 0, time.UTC)

// asSet makes lists of entries comparable whatever their order.
var asSet = gocmp.Transformer("set", func(entries []cache.Entry) map[cache.Entry]bool {
	set := map[cache.Entry]bool{}
	for _, e := range entries {
		e.Start = e.Start.UTC()
		set[e] = true
	}
	return set
})

func assertEqual(t *rapid.T, what string, got, want any, opts ...gocmp.Option) {
	t.Helper()
	if d := gocmp.Diff(want, got, opts...); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// pair draws two versions of one branch, at times with more entries than fit and with equal clocks.
func pair(t *rapid.T) (a, b *state.Branch) {
	a, b = statetest.Branches().Draw(t, "a"), statetest.Branches().Draw(t, "b")
	b.ID = a.ID
	if rapid.Bool().Draw(t, "same time") {
		b.Last = a.Last
	}
	b.Entries = append(b.Entries, a.Entries...)[:min(len(a.Entries)+len(b.Entries), cache.MaxEntries)]
	a.Version, b.Version = 3, 5
	for _, entries := range [][]cache.Entry{a.Entries, b.Entries} {
		for i := range entries {
			e := &entries[i]
			e.Cells = int32(e.ID[0]) // equal ids have equal cells
			if e.Assumed {
				*e = cache.Entry{Key: e.Key, Assumed: true, Msg: e.Msg, TTL: e.TTL, Start: e.Start} // a span has no more
			}
		}
	}
	return a, b
}

func TestUnite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := pair(t)
		wasA, wasB := a.Clone(), b.Clone()
		ab, ba := state.Unite(a, b, now), state.Unite(b, a, now)
		assertEqual(t, "the stored branch", a, wasA)
		assertEqual(t, "the seen branch", b, wasB)
		assertEqual(t, "entries the other way round", ab.Entries, ba.Entries, asSet)
		if len(ab.Entries) > cache.MaxEntries {
			t.Fatalf("%d entries", len(ab.Entries))
		}

		activity := b
		if b.Last.Before(a.Last) {
			activity = a
		}
		want := a.Clone()
		want.Key, want.Chain, want.Frontier, want.Last = activity.Key, activity.Chain, activity.Frontier, activity.Last
		want.Requests, want.Moves = max(a.Requests, b.Requests), max(a.Moves, b.Moves)
		want.Entries = cache.Unite(a.Entries, b.Entries, now)
		want.Ledger = activity.Ledger
		want.Ledger.Rewrites, want.Ledger.Moved = max(a.Ledger.Rewrites, b.Ledger.Rewrites), max(a.Ledger.Moved, b.Ledger.Moved)
		want.Ledger.Summaries, want.Ledger.Settled = max(a.Ledger.Summaries, b.Ledger.Summaries), max(a.Ledger.Settled, b.Ledger.Settled)
		want.Ledger.Braked, want.Ledger.Marked = a.Ledger.Braked || b.Ledger.Braked, a.Ledger.Marked || b.Ledger.Marked
		assertEqual(t, "branch", ab, want)
	})
}

func TestNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored, b := pair(t)
		wasStored, wasB := stored.Clone(), b.Clone()
		next := state.Next(stored, b)
		assertEqual(t, "the stored branch", stored, wasStored)
		assertEqual(t, "the committed branch", b, wasB)

		want := state.Unite(stored, b, b.Last)
		want.InForce, want.Held, want.Cut, want.Tool = b.InForce, b.Held, b.Cut, b.Tool
		want.Parent, want.Commit, want.Version = b.Parent, b.Commit, b.Version+1
		assertEqual(t, "branch", next, want)

		first := state.Next(nil, b)
		want = b.Clone()
		want.Version++
		assertEqual(t, "first version", first, want)

		for _, c := range []*state.Branch{next, first} { // what is returned can be changed freely
			clear(c.Chain)
			clear(c.InForce)
			clear(c.Held)
			clear(c.Entries)
		}
		assertEqual(t, "the stored branch", stored, wasStored)
		assertEqual(t, "the committed branch", b, wasB)
	})
}

func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := statetest.Branches().Draw(t, "branch")
		was, c := b.Clone(), b.Clone()
		assertEqual(t, "clone", c, b)
		clear(c.Chain)
		clear(c.InForce)
		clear(c.Held)
		clear(c.Entries)
		assertEqual(t, "branch whose clone was changed", b, was)
	})
}

func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, state.MaxBranches+20).Draw(t, "branches")
		all := make([]*state.Branch, 0, n)
		for i := range n {
			minutes := rapid.IntRange(0, 30).Draw(t, "minutes")
			all = append(all, &state.Branch{ID: uint64(i), Last: now.Add(time.Duration(minutes) * time.Minute)})
		}
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		got := state.Recent(slices.Clone(all))
		assertEqual(t, "recent branches in another order", state.Recent(shuffled), got)
		if len(got) != min(n, state.MaxBranches) {
			t.Fatalf("%d of %d branches", len(got), n)
		}
		for _, b := range all {
			if last := len(got) - 1; !slices.Contains(got, b) && b.Last.After(got[last].Last) {
				t.Fatalf("branch of %v is left out, one of %v is not", b.Last, got[last].Last)
			}
		}
	})
}

func TestRecentOfNone(t *testing.T) {
	if got := state.Recent(nil); len(got) > 0 {
		t.Errorf("%d branches", len(got))
	}
}

func TestHead(t *testing.T) {
	b := &state.Branch{Chain: []state.Digest{{1}}}
	if _, ok := b.Head(); ok {
		t.Error("one message is a head")
	}
	b.Chain = append(b.Chain, state.Digest{2}, state.Digest{3})
	if head, ok := b.Head(); !ok || head != [2]state.Digest{{1}, {2}} {
		t.Errorf("head %v, %v", head, ok)
	}
}
