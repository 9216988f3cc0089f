package statetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// Capped is a store that caps the bytes of a tenant's originals.
type Capped interface {
	state.Store
	Evicted() int64 // how many originals made room for others
}

// RunCapped checks the cap on stores that open returns, each of them empty and with so many bytes for each tenant. It closes
// them.
func RunCapped(t *testing.T, open func(t *testing.T, maxOriginals int64) Capped) {
	for _, c := range []struct {
		name string
		max  int64
		test func(*testing.T, Capped)
	}{
		{"LeastRecentlyUsed", 100, testLeastRecentlyUsed},
		{"Full", 100, testFull},
		{"Live", 100, testLive},
		{"SealedAndWithdrawn", 100, testSealedAndWithdrawn},
		{"Tenants", 100, testTenants},
		{"ManySessions", 100_000, testManySessions},
		{"Model", 60, testCapModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.max)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			c.test(t, s)
		})
	}
}

// dead is a branch that has the originals of these ids in force, and of which the provider holds nothing.
func dead(id uint64, inForce ...state.Original) *state.Branch {
	b := sample(id)
	b.InForce = nil
	for i := range inForce {
		b.InForce = append(b.InForce, state.Decision{ID: inForce[i].ID, At: epoch})
	}
	return b
}

// live is the same branch, of which the provider holds something from its last request on.
func live(id uint64, inForce ...state.Original) *state.Branch {
	b := dead(id, inForce...)
	b.Entries = []cache.Entry{{ID: state.Digest{1}, TTL: cache.Short, Start: b.Last}}
	return b
}

// over is when nothing is left of a live branch.
var over = epoch.Add(time.Hour)

// assertThere checks which of some originals are there.
func assertThere(t *testing.T, s state.Store, all []state.Original, there ...int) {
	t.Helper()
	var got []int
	listed := map[string]bool{}
	for i := range all {
		for _, o := range must(s.Originals(context.Background(), all[i].Session))(t) {
			listed[o.ID] = true
		}
	}
	for i := range all {
		if listed[all[i].ID] {
			got = append(got, i)
		}
	}
	assertEqual(t, "originals that are there", got, there)
}

func numberedAll(key state.SessionKey, sizes ...int) []state.Original {
	all := make([]state.Original, 0, len(sizes))
	for n, size := range sizes {
		all = append(all, numbered(key, n, size))
	}
	return all
}

func testLeastRecentlyUsed(t *testing.T, s Capped) {
	ctx := context.Background()
	key := newKey()
	all := numberedAll(key, 30, 30, 30, 10, 20, 100, 101)
	b := dead(1)
	next := func(some ...state.Original) {
		t.Helper()
		commit(t, s, key, b, some...)
		b.Version++
	}
	next(all[0], all[1], all[2], all[3])
	assertThere(t, s, all, 0, 1, 2, 3)
	get(t, s, all[0].ID)
	must(s.Originals(ctx, key))(t)   // is no use,
	must(s.Owner(ctx, all[1].ID))(t) // nor is this
	next(all[4])
	assertThere(t, s, all, 0, 2, 3, 4)
	assertEqual(t, "evicted", s.Evicted(), int64(1))
	_, err := s.Owner(ctx, all[1].ID)
	assertError(t, "owner of an evicted one", err, state.ErrNotFound)
	_, err = s.Original(ctx, all[1].ID)
	assertError(t, "what was evicted", err, state.ErrNotFound)
	next(all[2]) // is a use, and adds nothing
	assertThere(t, s, all, 0, 2, 3, 4)
	next(all[1])
	assertThere(t, s, all, 1, 2, 4)
	assertEqual(t, "what was evicted and kept again", get(t, s, all[1].ID), kept(&all[1]))
	next(all[5])
	assertThere(t, s, all, 5)
	assertEqual(t, "evicted", s.Evicted(), int64(6))
	_, err = s.Commit(ctx, key, b, all[6:7])
	assertError(t, "one that is larger than the cap", err, state.ErrFull)
	assertThere(t, s, all, 5)
	stale := dead(1)
	_, err = s.Commit(ctx, key, stale, all[:1])
	assertError(t, "a stale version", err, state.ErrConflict)
	assertThere(t, s, all, 0)
}

// testFull: what does not fit leaves everything as it was.
func testFull(t *testing.T, s Capped) {
	ctx := context.Background()
	key := newKey()
	all := numberedAll(key, 40, 40, 30, 60, 20)
	commit(t, s, key, live(1, all[0]), all[0])
	commit(t, s, key, dead(2), all[1])
	before := load(t, s, key)
	b := live(1, all[0], all[2], all[3])
	b.Version = 1
	_, err := s.Commit(ctx, key, b, []state.Original{all[2], all[3]})
	assertError(t, "more than fits", err, state.ErrFull)
	assertEqual(t, "session", load(t, s, key), before)
	assertThere(t, s, all, 0, 1)
	assertEqual(t, "evicted", s.Evicted(), int64(0))
	_, err = s.Commit(ctx, key, dead(3), []state.Original{all[2], all[3]})
	assertError(t, "more than fits, of a new branch", err, state.ErrFull)
	assertEqual(t, "session", load(t, s, key), before)

	must(s.Commit(ctx, key, b, nil))(t) // nothing to keep, nothing to refuse
	b.Version++
	must(s.Commit(ctx, key, b, all[4:5]))(t)
	assertThere(t, s, all, 0, 1, 4)
	b.Version++
	must(s.Commit(ctx, key, b, all[3:4]))(t)
	assertThere(t, s, all, 0, 3)
}

// testLive: no original goes that a branch has in force, by a decision or a cut, on whatever session, while it is alive at
// the time of the commit; nor one that the committing branch itself has in force.
func testLive(t *testing.T, s Capped) {
	ctx := context.Background()
	key := newKey()
	beside := key
	beside.Session[0]++
	all := numberedAll(key, 20, 20, 20, 20, 20, 90, 20, 10)
	commit(t, s, key, dead(1), all[:5]...)
	cut := live(2)
	cut.Cut = &state.Cut{IDs: []string{"", all[1].ID}, At: epoch}
	commit(t, s, key, cut)
	merge(t, s, beside, live(3, all[2])) // forked from another session
	mine := dead(4, all[0], all[6])
	commit(t, s, key, mine, all[6])
	assertThere(t, s, all, 0, 1, 2, 4, 6)
	_, err := s.Commit(ctx, key, dead(5), all[5:6])
	assertError(t, "with live branches", err, state.ErrFull)

	later := live(2)
	later.Version, later.Last = 1, epoch.Add(time.Minute)
	commit(t, s, key, later) // the cut is lifted
	at := dead(6)
	at.Last = epoch.Add(2 * time.Minute)
	commit(t, s, key, at, all[3]) // the least recently used one goes, nothing but 2 is needed
	assertThere(t, s, all, 1, 2, 3, 4, 6)
	commit(t, s, key, dead(7), all[7])
	assertThere(t, s, all, 2, 3, 4, 6, 7)

	at = dead(8)
	at.Last = over
	commit(t, s, key, at, all[5])
	assertThere(t, s, all, 5, 7)
}

func testSealedAndWithdrawn(t *testing.T, s Capped) {
	ctx := context.Background()
	key := newKey()
	beside := key
	beside.Session[0]++
	all := append(numberedAll(key, 50, 40), numberedAll(beside, 60, 100)...)
	commit(t, s, key, dead(1), all[:2]...)
	seal(t, s, all[0].ID, true)
	_, err := s.Commit(ctx, beside, dead(1), all[2:3])
	assertError(t, "with a seal", err, state.ErrFull)
	seal(t, s, all[0].ID, false)
	commit(t, s, beside, dead(1), all[2])
	assertThere(t, s, all, 1, 2)
	assertEqual(t, "evicted", s.Evicted(), int64(1))
	b := dead(1)
	b.Version = 1
	withdraw(t, s, key)
	withdraw(t, s, beside)
	commit(t, s, beside, b, all[3]) // tombstones take nothing, and stay
	assertThere(t, s, all, 1, 2, 3)
	b.Version = 2
	commit(t, s, beside, b, all[2]) // a tombstone takes nothing of what it would be
	assertThere(t, s, all, 1, 2, 3)
	assertEqual(t, "evicted", s.Evicted(), int64(1))
}

// testTenants: a cap is a tenant's own, whose originals alone make room.
func testTenants(t *testing.T, s Capped) {
	first, second := newKey(), newKey()
	all := append(numberedAll(first, 100, 1), numberedAll(second, 100, 1)...)
	commit(t, s, first, dead(1), all[0])
	commit(t, s, second, dead(1), all[2])
	assertThere(t, s, all, 0, 2)
	commit(t, s, first, dead(2), all[1])
	assertThere(t, s, all, 1, 2)
	merge(t, s, first, live(3, all[3])) // a tenant that names another's id keeps nothing alive
	commit(t, s, second, dead(2), all[3])
	assertThere(t, s, all, 1, 3)
	merge(t, s, first, live(4, all[3]))
	third := numbered(second, 9, 100)
	commit(t, s, second, dead(3), third)
	assertThere(t, s, append(all, third), 1, 4)
}

// testManySessions: sessions of one tenant, far more than the cap has room for, many at a time.
func testManySessions(t *testing.T, s Capped) {
	const sessions, alive, size, room, writers = 10_000, 125, 400, 250, 100
	ctx := context.Background()
	tenant := newKey().Tenant
	one := func(n int) (state.SessionKey, state.Original) {
		key := state.SessionKey{Tenant: tenant, Session: state.Digest{byte(n), byte(n >> 8)}}
		return key, numbered(key, n, size)
	}
	write := func(from, to int, branch func(uint64, ...state.Original) *state.Branch) {
		together(writers, func(writer int) {
			for n := from + writer; n < to; n += writers {
				key, o := one(n)
				if _, err := s.Commit(ctx, key, branch(1, o), []state.Original{o}); err != nil {
					t.Errorf("session %d: %v", n, err)
				}
			}
		})
	}
	write(0, alive, live)
	write(alive, sessions, dead)
	assertEqual(t, "evicted", s.Evicted(), int64(sessions-room))
	there := 0
	for n := range sessions {
		_, o := one(n)
		_, err := s.Original(ctx, o.ID)
		if err == nil {
			there++
		}
		if n < alive || err != nil && !errors.Is(err, state.ErrNotFound) {
			assertError(t, "original", err, nil)
		}
	}
	assertEqual(t, "originals that are there", there, room)
}
