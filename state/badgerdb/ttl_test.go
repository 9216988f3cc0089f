package badgerdb

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

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

func TestEveryRecordButTheSecretExpires(t *testing.T) {
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
		case 'o':
			least, most = seconds(before.Add(state.TTL+spare)), seconds(after.Add(state.TTL+spare))
		case 'k':
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
			b.InForce = append(b.InForce, state.Decision{ID: ""}, state.Decision{ID: "lost"})
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
				if at := expires(t, d, originalKey(all[i].ID)); at < branch {
					t.Errorf("original %d expires %d s before its branch", i, branch-at)
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

func TestExpiredIsAbsent(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	o := original("o", 100)
	b := decided(1, 0, o)
	mustCommit(t, d, b, o)
	for _, item := range items(t, d) {
		if item.key[0] != 'k' {
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
