package statetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// numbered returns an original of a session that no other number has, with so many bytes.
func numbered(key state.SessionKey, n, size int) state.Original {
	o := original(key)
	o.ID = fmt.Sprintf("%x-%x-%d", key.Tenant[:8], key.Session[:8], n)
	o.Content = slices.Repeat([]byte{byte('a' + n%26)}, size)
	o.At = epoch.Add(time.Duration(n) * time.Second)
	return o
}

func listed(t *testing.T, s state.Store, key state.SessionKey) []state.Original {
	t.Helper()
	return must(s.Originals(context.Background(), key))(t)
}

func get(t *testing.T, s state.Store, id string) *state.Original {
	t.Helper()
	return must(s.Original(context.Background(), id))(t)
}

func seal(t *testing.T, s state.Store, id string, sealed bool) {
	t.Helper()
	assertError(t, "seal", s.Seal(context.Background(), id, sealed), nil)
}

func withdraw(t *testing.T, s state.Store, key state.SessionKey) int {
	t.Helper()
	return must(s.Withdraw(context.Background(), key))(t)
}

// testListing: a list has all originals of a session and no other's, the latest first, without their content.
func testListing(t *testing.T, s state.Store) {
	key := newKey()
	beside, foreign := key, key
	beside.Session[15]++
	foreign.Tenant = newKey().Tenant
	assertEqual(t, "list of nothing", len(listed(t, s, key)), 0)
	all := []state.Original{numbered(key, 1, 5), numbered(key, 3, 7), numbered(key, 2, 0), numbered(key, 0, 2000)}
	all[3].At = all[1].At // the ids decide
	commit(t, s, key, sample(1), all...)
	commit(t, s, beside, sample(1), numbered(beside, 9, 1))
	commit(t, s, foreign, sample(1), numbered(foreign, 9, 1), numbered(foreign, 10, 1))
	want := []state.Original{kept(&all[3]).Listed(), kept(&all[1]).Listed(), kept(&all[2]).Listed(), kept(&all[0]).Listed()}
	assertEqual(t, "list", listed(t, s, key), want)
	assertEqual(t, "list of a session beside it", len(listed(t, s, beside)), 1)
	assertEqual(t, "list of another tenant", len(listed(t, s, foreign)), 2)

	b := sample(1)
	b.Version = 1
	again := all[0]
	again.At = epoch.Add(time.Hour)
	commit(t, s, key, b, again)
	want = slices.Insert(want[:3], 0, kept(&again).Listed())
	assertEqual(t, "list after one was kept again", listed(t, s, key), want)

	listed(t, s, key)[0].ID = "spoiled"
	assertEqual(t, "list after what came out was changed", listed(t, s, key), want)
}

// testOwner: whose an original is is known as long as the original, sealed and withdrawn ones included, and asking for it is no use.
func testOwner(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	foreign := key
	foreign.Tenant = newKey().Tenant
	_, err := s.Owner(ctx, "nothing")
	assertError(t, "owner of nothing", err, state.ErrNotFound)
	o, theirs := numbered(key, 1, 5000), numbered(foreign, 1, 5)
	commit(t, s, key, sample(1), o)
	commit(t, s, foreign, sample(1), theirs)
	assertOwner := func(what string) {
		t.Helper()
		assertEqual(t, what, must(s.Owner(ctx, o.ID))(t), key)
		assertEqual(t, "owner of another tenant's", must(s.Owner(ctx, theirs.ID))(t), foreign)
	}
	assertOwner("owner")
	seal(t, s, o.ID, true)
	assertOwner("owner of a sealed one")
	withdraw(t, s, key)
	assertOwner("owner of a tombstone")
}

// testMoved: an id that another session keeps, too, is that session's from then on.
func testMoved(t *testing.T, s state.Store) {
	key := newKey()
	beside := key
	beside.Session[15]++
	o := numbered(key, 1, 5)
	commit(t, s, key, sample(1), o)
	commit(t, s, beside, sample(1), o)
	assertEqual(t, "list", len(listed(t, s, key)), 0)
	assertEqual(t, "list of the other", len(listed(t, s, beside)), 1)
	assertEqual(t, "session", get(t, s, o.ID).Session, beside)
	assertEqual(t, "owner", must(s.Owner(context.Background(), o.ID))(t), beside)
	assertEqual(t, "withdrawn", withdraw(t, s, key), 0)
	assertEqual(t, "content", get(t, s, o.ID).Content, o.Content)
	assertEqual(t, "withdrawn of the other", withdraw(t, s, beside), 1)
	b := sample(1)
	b.Version = 1
	commit(t, s, key, b, o)
	assertEqual(t, "fate", get(t, s, o.ID).Fate, state.Withdrawn)
	assertEqual(t, "list", len(listed(t, s, key)), 0)
}

func testSeal(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	assertError(t, "seal of nothing", s.Seal(ctx, "nothing", true), state.ErrNotFound)
	o, other := numbered(key, 1, 5000), numbered(key, 2, 5)
	commit(t, s, key, sample(1), o, other)
	want := kept(&o)
	assertSealed := func(sealed bool) {
		t.Helper()
		want.Fate = state.Kept
		if sealed {
			want.Fate = state.Sealed
		}
		assertEqual(t, "original", get(t, s, o.ID), want)
		assertEqual(t, "list", listed(t, s, key)[1], want.Listed())
		assertEqual(t, "other", get(t, s, other.ID), kept(&other))
	}
	for _, sealed := range []bool{true, true, false, false, true} {
		seal(t, s, o.ID, sealed)
		assertSealed(sealed)
	}
	b := sample(1)
	b.Version = 1
	changed := o
	changed.Content = []byte("changed")
	commit(t, s, key, b, changed)
	assertSealed(true)
	seal(t, s, o.ID, false)
	b.Version = 2
	commit(t, s, key, b, o)
	assertSealed(false)
	seal(t, s, o.ID, true)
	assertEqual(t, "withdrawn", withdraw(t, s, key), 2)
	for _, sealed := range []bool{true, false} {
		assertError(t, "seal of a tombstone", s.Seal(ctx, o.ID, sealed), state.ErrWithdrawn)
	}
	assertEqual(t, "fate", get(t, s, o.ID).Fate, state.Withdrawn)
}

// testWithdraw: a tombstone never gets content again, by whatever means.
func testWithdraw(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	beside := key
	beside.Session[0]++
	assertEqual(t, "withdrawn of nothing", withdraw(t, s, key), 0)
	all := make([]state.Original, 0, 300) // more than one transaction's worth
	for n := range cap(all) {
		all = append(all, numbered(key, n, n))
	}
	b := sample(1)
	b.InForce[0].ID = all[0].ID
	commit(t, s, key, b, all...)
	theirs := numbered(beside, 1, 5)
	commit(t, s, beside, sample(1), theirs)
	before := load(t, s, key)

	assertEqual(t, "withdrawn", withdraw(t, s, key), len(all))
	assertEqual(t, "withdrawn again", withdraw(t, s, key), 0)
	assertEqual(t, "session", load(t, s, key), before)
	assertTombstones := func() {
		t.Helper()
		for _, i := range []int{0, 1, len(all) - 1} {
			want := kept(&all[i]).Tombstone()
			if len(want.Content) > 0 || want.Size != i || want.SHA256 != [32]byte{} || want.About != "" || want.Tool == "" {
				t.Fatalf("tombstone %+v", want)
			}
			assertEqual(t, "tombstone", get(t, s, all[i].ID), &want)
			assertEqual(t, "listed tombstone", listed(t, s, key)[len(all)-1-i], want)
		}
		assertEqual(t, "listed", len(listed(t, s, key)), len(all))
	}
	assertTombstones()
	b.Version = 1
	commit(t, s, key, b, all...)
	assertTombstones()
	_, err := s.Commit(ctx, key, b, all)
	assertError(t, "a stale version", err, state.ErrConflict)
	assertTombstones()
	merge(t, s, key, b)
	assertTombstones()
	assertEqual(t, "theirs", get(t, s, theirs.ID), kept(&theirs))

	late := numbered(key, 1000, 5)
	b.Version = 2
	commit(t, s, key, b, late)
	assertEqual(t, "a later one", get(t, s, late.ID), kept(&late))
	assertEqual(t, "withdrawn later", withdraw(t, s, key), 1)
}

// testWithdrawRaces: whatever comes together, what a Withdraw counted stays a tombstone.
func testWithdrawRaces(t *testing.T, s state.Store) {
	ctx := context.Background()
	for range 5 {
		key := newKey()
		var all []state.Original
		for n := range 20 {
			all = append(all, numbered(key, n, 3000))
		}
		commit(t, s, key, sample(1), all...)
		together(6, func(n int) {
			var err error
			switch n {
			case 0:
				_, err = s.Withdraw(ctx, key)
			case 1, 2:
				_, err = s.Commit(ctx, key, sample(uint64(n+1)), all)
			case 3:
				for i := range all {
					if err := s.Seal(ctx, all[i].ID, true); err != nil && !errors.Is(err, state.ErrWithdrawn) {
						t.Errorf("seal: %v", err)
					}
				}
			default:
				for i := range all {
					if _, err := s.Original(ctx, all[i].ID); err != nil {
						t.Errorf("read: %v", err)
					}
				}
			}
			if err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		})
		for i := range all {
			if o := get(t, s, all[i].ID); o.Fate != state.Withdrawn || o.Content != nil {
				t.Fatalf("original %d: fate %d, %d bytes", i, o.Fate, len(o.Content))
			}
		}
	}
}
