package badgerdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// expires returns when a record expires.
func expires(t *testing.T, d *DB, key []byte) (at uint64) {
	t.Helper()
	err := d.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err == nil {
			at = item.ExpiresAt()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// age makes a record expire at another time.
func age(t *testing.T, d *DB, key []byte, at uint64) {
	t.Helper()
	err := d.db.Update(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		record, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		return txn.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: at})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryRecordOfASessionExpires(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	before := time.Now()
	o := original("o", 100)
	mustCommit(t, d, decided(1, 0, o), o)
	if _, err := d.Merge(ctx, key, []*state.Branch{decided(2, 0)}); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	for _, item := range items(t, d) {
		least, most := seconds(before.Add(state.TTL)), seconds(after.Add(state.TTL))
		switch item.key[0] {
		case 'o', 'u', 'i':
			least, most = seconds(before.Add(state.TTL+spare)), seconds(after.Add(state.TTL+spare))
		case 'k', 'l':
			least, most = 0, 0
		}
		if item.expires < least || item.expires > most {
			t.Errorf("record %q expires at %d, want %d to %d", item.key, item.expires, least, most)
		}
	}
}

// TestInvariant11_OriginalsOutliveTheirBranch: whatever is written, no original of a decision in force expires before its
// branch does, and one that lives long enough is not written again.
func TestInvariant11_OriginalsOutliveTheirBranch(t *testing.T) {
	write := map[string]func(*DB, *state.Branch) error{
		"commit": func(d *DB, b *state.Branch) error { _, err := d.Commit(ctx, key, b, nil); return err },
		"merge":  func(d *DB, b *state.Branch) error { _, err := d.Merge(ctx, key, []*state.Branch{b}); return err },
		"merge of what is decided elsewhere": func(d *DB, b *state.Branch) error {
			seen := decided(b.ID, 0)
			_, err := d.Merge(ctx, key, []*state.Branch{decided(9, 0), seen})
			return err
		},
	}
	for how, write := range write {
		t.Run(how, func(t *testing.T) {
			d := mustOpen(t, t.TempDir())
			const originals = 6
			all := make([]state.Original, 0, originals+1)
			for i := range originals {
				all = append(all, original(fmt.Sprint("original ", i), 1000+i*(300<<10))) // some in the value log
			}
			foreign := original("of no branch", 100)
			b := decided(1, 0, all...)
			b.InForce = append(b.InForce[:3], state.Decision{ID: ""}, state.Decision{ID: "lost"})
			b.Cut = &state.Cut{IDs: []string{all[3].ID, "lost", all[4].ID, all[5].ID}}
			mustCommit(t, d, b, append(all, foreign)...)
			b.Version = 1

			now := seconds(time.Now())
			long := now + uint64((state.TTL+spare/2)/time.Second)
			age(t, d, originalKey(all[0].ID), long)
			for i, left := range []time.Duration{time.Minute, time.Hour, 12 * 24 * time.Hour, state.TTL - time.Minute} {
				age(t, d, originalKey(all[i+1].ID), now+uint64(left/time.Second))
			}
			age(t, d, originalKey(foreign.ID), now+60)
			age(t, d, branchKey(key, 1), now+60)
			age(t, d, stampKey(key), now+60)

			if err := write(d, b); err != nil {
				t.Fatal(err)
			}
			branch := expires(t, d, branchKey(key, 1))
			if least := now + uint64(state.TTL/time.Second); branch < least || expires(t, d, stampKey(key)) < least {
				t.Errorf("the branch was not renewed: it expires at %d, want %d", branch, least)
			}
			for i := range all {
				at := expires(t, d, originalKey(all[i].ID))
				if at < branch {
					t.Errorf("original %d expires %d s before its branch", i, branch-at)
				}
				for _, with := range [][]byte{listKey(key, all[i].ID), ownerKey(all[i].ID)} {
					if at := expires(t, d, with); at < branch {
						t.Errorf("record %q of original %d expires %d s before its branch", with[:1], i, branch-at)
					}
				}
				if o, err := d.Original(ctx, all[i].ID); err != nil || !bytes.Equal(o.Content, all[i].Content) {
					t.Errorf("original %d is not what it was: %v", i, err)
				}
			}
			if at := expires(t, d, originalKey(all[0].ID)); at != long {
				t.Errorf("an original that lives long enough was written again: %d, want %d", at, long)
			}
			if at := expires(t, d, originalKey(foreign.ID)); at != now+60 {
				t.Errorf("the original of no branch was renewed: %d", at)
			}
		})
	}
}

// TestReadingRenews: what is read lives for another TTL, and one that lives long enough is not written again. A tombstone
// serves its time.
func TestReadingRenews(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	small, large := original("small", 100), original("large", 2<<20)
	mustCommit(t, d, decided(1, 0), small, large)
	now := seconds(time.Now())
	ttl, spared := uint64(state.TTL/time.Second), uint64(spare/time.Second)
	read := func(o state.Original, left, want uint64) {
		t.Helper()
		for _, at := range [][]byte{originalKey(o.ID), ownerKey(o.ID), listKey(key, o.ID)} {
			age(t, d, at, now+left)
		}
		for range 2 {
			if _, err := d.Original(ctx, o.ID); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range [][]byte{originalKey(o.ID), ownerKey(o.ID), listKey(key, o.ID)} {
			if got := expires(t, d, at) - now; got < want || got > want+60 {
				t.Errorf("%s: record %q expires in %d s, want %d", o.ID, at[:1], got, want)
			}
		}
	}
	for _, o := range []state.Original{small, large} {
		read(o, 60, ttl+spared)
		read(o, ttl-60, ttl+spared)
		read(o, ttl+3600, ttl+3600)
	}
	if err := d.Seal(ctx, small.ID, true); err != nil {
		t.Fatal(err)
	}
	read(small, 60, ttl+spared)
	if _, err := d.Withdraw(ctx, key); err != nil {
		t.Fatal(err)
	}
	read(small, 60, 60)
	d.reserve = math.MaxUint64
	if _, err := d.Original(ctx, large.ID); err != nil {
		t.Errorf("read on a full disk: %v", err)
	}
}

// TestTombstonesExpire: a tombstone lives as long as its original would have, and with its branch; then the place is free.
func TestTombstonesExpire(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	o := original("o", 100)
	b := decided(1, 0, o)
	mustCommit(t, d, b, o)
	before := expires(t, d, originalKey(o.ID))
	if _, err := d.Withdraw(ctx, key); err != nil {
		t.Fatal(err)
	}
	if at := expires(t, d, originalKey(o.ID)); at != before {
		t.Errorf("the tombstone expires at %d, want %d", at, before)
	}
	now := seconds(time.Now())
	age(t, d, originalKey(o.ID), now+60)
	b.Version = 1
	mustCommit(t, d, b)
	if at, branch := expires(t, d, originalKey(o.ID)), expires(t, d, branchKey(key, 1)); at < branch {
		t.Errorf("the tombstone expires %d s before its branch", branch-at)
	}
	age(t, d, originalKey(o.ID), now-1)
	age(t, d, listKey(key, o.ID), now-1)
	b.Version = 2
	mustCommit(t, d, b, o)
	if back, err := d.Original(ctx, o.ID); err != nil || !bytes.Equal(back.Content, o.Content) {
		t.Errorf("original %+v, %v", back, err)
	}
}

// TestUsesAreWrittenDown: the order of uses outlives the process, to the hour.
func TestUsesAreWrittenDown(t *testing.T) {
	dir := t.TempDir()
	open := func(most int64) *DB {
		t.Helper()
		d, err := Open(dir, Options{MaxOriginals: most})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mustClose(t, d) })
		return d
	}
	d := open(0)
	all := []state.Original{original("a", 100), original("b", 100), original("c", 100), original("d", 100)}
	mustCommit(t, d, decided(1, 0), all[:3]...)
	var l listing
	err := d.db.Update(func(txn *badger.Txn) error {
		at := listKey(key, all[0].ID)
		d.get(txn, at, &l)
		l.Used -= int64(seldom)
		return d.setUntil(txn, at, &l, expires(t, d, originalKey(all[0].ID)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Original(ctx, all[0].ID); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	d = open(300)
	mustCommit(t, d, decided(2, 0), all[3])
	for i, want := range []error{nil, state.ErrNotFound, nil, nil} {
		if _, err := d.Original(ctx, all[i].ID); !errors.Is(err, want) {
			t.Errorf("original %d: error %v, want %v", i, err, want)
		}
	}
	live := decided(3, 0, all[0], all[2], all[3])
	live.Last = at
	live.Entries = []cache.Entry{{TTL: cache.Long, Start: at}}
	mustCommit(t, d, live)
	mustClose(t, d)
	d = open(300)
	late := decided(4, 0)
	late.Last = at
	if _, err := d.Commit(ctx, key, late, []state.Original{original("e", 1)}); !errors.Is(err, state.ErrFull) {
		t.Errorf("with a live branch from before: error %v", err)
	}
}

func TestExpiredIsAbsent(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	o := original("o", 100)
	b := decided(1, 0, o)
	mustCommit(t, d, b, o)
	for _, item := range items(t, d) {
		if item.key[0] != 'k' && item.key[0] != 'l' {
			age(t, d, item.key, seconds(time.Now())-1)
		}
	}
	if s, err := d.Load(ctx, key); err != nil || s.Stamp != 0 || s.Branches != nil {
		t.Errorf("session %+v, %v", s, err)
	}
	if keys, err := d.Heads(ctx, key.Tenant, [2]state.Digest{{1}, {2}}); err != nil || len(keys) > 0 {
		t.Errorf("heads %v, %v", keys, err)
	}
	if _, err := d.Original(ctx, "o"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("original: %v", err)
	}
	if _, err := d.Commit(ctx, key, decided(1, 1), nil); !errors.Is(err, state.ErrConflict) {
		t.Errorf("commit over an expired version: %v", err)
	}
	if d.Unreadable() > 0 {
		t.Error("what is expired counts as unreadable")
	}
}
