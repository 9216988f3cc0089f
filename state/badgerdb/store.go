package badgerdb

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
)

// Secret implements [state.Store].
func (d *DB) Secret(ctx context.Context) (secret []byte, err error) {
	err = d.call(ctx, "read secret", func() error {
		secret = bytes.Clone(d.secret)
		return nil
	})
	return secret, err
}

// Load implements [state.Store].
func (d *DB) Load(ctx context.Context, key state.SessionKey) (s state.Session, err error) {
	err = d.view(ctx, "load session", func(txn *badger.Txn) error {
		d.get(txn, stampKey(key), &s.Stamp)
		d.scan(txn, branchPrefix(key), true, func(item *badger.Item) {
			var b state.Branch
			if d.decode(item, &b) {
				s.Branches = append(s.Branches, &b)
			}
		})
		s.Branches = state.Recent(s.Branches)
		return nil
	})
	return s, err
}

// Stamp implements [state.Store].
func (d *DB) Stamp(ctx context.Context, key state.SessionKey) (stamp uint64, err error) {
	err = d.view(ctx, "read stamp", func(txn *badger.Txn) error {
		d.get(txn, stampKey(key), &stamp)
		return nil
	})
	return stamp, err
}

// Heads implements [state.Store].
func (d *DB) Heads(ctx context.Context, tenant state.Digest, head [2]state.Digest) (keys []state.SessionKey, err error) {
	prefix := headPrefix(tenant, head)
	err = d.view(ctx, "find heads", func(txn *badger.Txn) error {
		d.scan(txn, prefix, false, func(item *badger.Item) {
			key := state.SessionKey{Tenant: tenant}
			copy(key.Session[:], item.Key()[len(prefix):])
			keys = append(keys, key)
		})
		return nil
	})
	return keys, err
}

// Commit implements [state.Store]. The order must not change: a branch that is stored before its originals are durable may
// come back from a crash without them.
func (d *DB) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (stamp uint64, err error) {
	err = d.call(ctx, "commit branch", func() error {
		if err := d.room(); err != nil {
			return err
		}
		expires := expiry()
		release, err := d.keepOriginals(key, b, originals, expires)
		if err != nil {
			return err
		}
		defer release()
		defer d.inOrder(key)()
		var next *state.Branch
		err = d.update(ctx, func(txn *badger.Txn) error {
			var version uint64
			stored := d.branch(txn, key, b.ID)
			if stored != nil {
				version = stored.Version
			}
			if version != b.Version {
				return state.ErrConflict
			}
			next = state.Next(stored, b)
			if err := d.put(txn, key, next, expires); err != nil {
				return err
			}
			return d.step(txn, key, expires, &stamp)
		})
		if err != nil {
			return err
		}
		d.quota.Note(key, next, seconds(expires))
		return d.sync()
	})
	if err != nil {
		return 0, err
	}
	return stamp, nil
}

// Merge implements [state.Store].
func (d *DB) Merge(ctx context.Context, key state.SessionKey, branches []*state.Branch) (stamp uint64, err error) {
	if len(branches) == 0 {
		return d.Stamp(ctx, key)
	}
	err = d.call(ctx, "merge branches", func() error {
		if err := d.room(); err != nil {
			return err
		}
		defer d.inOrder(key)()
		stamp, err = d.merge(ctx, key, branches, expiry())
		return err
	})
	if err != nil {
		return 0, err
	}
	return stamp, nil
}

// merge writes branches in one transaction, or in several if they are too big for one.
func (d *DB) merge(ctx context.Context, key state.SessionKey, branches []*state.Branch, expires time.Time) (stamp uint64, err error) {
	var stored []*state.Branch
	err = d.update(ctx, func(txn *badger.Txn) error {
		stored = stored[:0]
		for _, b := range branches {
			if was := d.branch(txn, key, b.ID); was != nil {
				b = state.Unite(was, b, b.Last)
			}
			if err := d.put(txn, key, b, expires); err != nil {
				return err
			}
			stored = append(stored, b)
		}
		return d.step(txn, key, expires, &stamp)
	})
	if half := len(branches) / 2; half > 0 && errors.Is(err, badger.ErrTxnTooBig) {
		if _, err := d.merge(ctx, key, branches[:half], expires); err != nil {
			return 0, err
		}
		return d.merge(ctx, key, branches[half:], expires)
	}
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, b := range stored {
		d.quota.Note(key, b, seconds(expires))
		ids = append(ids, b.InForceIDs()...)
	}
	return stamp, d.renewAll(ids, expires)
}

// view runs a call that only reads.
func (d *DB) view(ctx context.Context, what string, f func(*badger.Txn) error) error {
	return d.call(ctx, what, func() error { return d.db.View(f) })
}

// update runs f in a transaction, again and again while others come between.
func (d *DB) update(ctx context.Context, f func(*badger.Txn) error) error {
	for {
		err := d.db.Update(f)
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// inOrder lets the quota learn of the writes to a session in the order in which they take place.
func (d *DB) inOrder(key state.SessionKey) (done func()) {
	lock := &d.order[int(key.Session[0])%len(d.order)]
	lock.Lock()
	return lock.Unlock
}

// branch returns a stored branch, nil if there is none.
func (d *DB) branch(txn *badger.Txn, key state.SessionKey, id uint64) *state.Branch {
	var b state.Branch
	if !d.get(txn, branchKey(key, id), &b) {
		return nil
	}
	return &b
}

// put stores a branch and what it is found by.
func (d *DB) put(txn *badger.Txn, key state.SessionKey, b *state.Branch, expires time.Time) error {
	if head, ok := b.Head(); ok {
		if err := txn.SetEntry(&badger.Entry{Key: headKey(key, head), ExpiresAt: seconds(expires)}); err != nil {
			return err
		}
	}
	return d.set(txn, branchKey(key, b.ID), b, expires)
}

// step adds one to the stamp of a session.
func (d *DB) step(txn *badger.Txn, key state.SessionKey, expires time.Time, stamp *uint64) error {
	*stamp = 0
	d.get(txn, stampKey(key), stamp)
	*stamp++
	return d.set(txn, stampKey(key), *stamp, expires)
}

func (d *DB) set(txn *badger.Txn, key []byte, v any, expires time.Time) error {
	return d.setUntil(txn, key, v, seconds(expires))
}

func (d *DB) setUntil(txn *badger.Txn, key []byte, v any, expires uint64) error {
	record, err := d.codec.encode(v)
	if err != nil {
		return err
	}
	return txn.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: expires})
}

// has reports whether there is a record, without reading it.
func (d *DB) has(txn *badger.Txn, key []byte) bool {
	_, err := txn.Get(key)
	return err == nil
}

// get reads a record into v. It reports false if there is none that can be read.
func (d *DB) get(txn *badger.Txn, key []byte, v any) bool {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false
	}
	if err != nil {
		d.miss(key[:1])
		return false
	}
	return d.decode(item, v)
}

// raw returns a record as it is stored. It reports false if there is none that can be read.
func (d *DB) raw(txn *badger.Txn, key []byte) (record []byte, ok bool) {
	item, err := txn.Get(key)
	if err == nil {
		record, err = item.ValueCopy(nil)
	}
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		d.miss(key[:1])
	}
	return record, err == nil
}

// scan calls f for every item with a prefix.
func (d *DB) scan(txn *badger.Txn, prefix []byte, values bool, f func(*badger.Item)) {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues = prefix, values
	it := txn.NewIterator(o)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		f(it.Item())
	}
}

func (d *DB) decode(item *badger.Item, v any) bool {
	if err := item.Value(func(b []byte) error { return d.codec.decode(b, v) }); err != nil {
		d.miss(item.Key()[:1])
		return false
	}
	return true
}

// miss counts a record that cannot be read. The log gets its kind and nothing of its content.
func (d *DB) miss(kind []byte) {
	d.unreadable.Add(1)
	d.warnOnce.Do(func() {
		d.log.Warn("a stored record cannot be read and counts as absent; further ones are counted only", "kind", string(kind))
	})
}

// expiry is when a record that is written now expires.
func expiry() time.Time { return now().Add(state.TTL) }

func now() time.Time { return time.Now() } //nolint:forbidigo // Badger goes by the clock of the machine

// seconds is how Badger counts time.
func seconds(t time.Time) uint64 { return uint64(t.Unix()) }
