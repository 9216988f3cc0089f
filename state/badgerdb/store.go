package badgerdb

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
)

// spare is how much longer than the branch that needs it an original lives once it is written or renewed. So an original
// is rewritten once in that time, however often the branch is.
const spare = 24 * time.Hour

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

// Original implements [state.Store].
func (d *DB) Original(ctx context.Context, id string) (*state.Original, error) {
	var o state.Original
	err := d.view(ctx, "read original", func(txn *badger.Txn) error {
		if !d.get(txn, originalKey(id), &o) {
			return state.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &o, nil
}

// Commit implements [state.Store]. The order must not change: a branch that is stored before its originals are durable may
// come back from a crash without them.
func (d *DB) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (stamp uint64, err error) {
	err = d.call(ctx, "commit branch", func() error {
		if err := d.room(); err != nil {
			return err
		}
		expires := expiry()
		wrote, err := d.keepOriginals(originals, b.InForce, expires)
		if err == nil && wrote {
			err = d.sync()
		}
		if err != nil {
			return err
		}
		err = d.update(ctx, func(txn *badger.Txn) error {
			var version uint64
			stored := d.branch(txn, key, b.ID)
			if stored != nil {
				version = stored.Version
			}
			if version != b.Version {
				return state.ErrConflict
			}
			if err := d.put(txn, key, state.Next(stored, b), expires); err != nil {
				return err
			}
			return d.step(txn, key, expires, &stamp)
		})
		if err != nil {
			return err
		}
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
	var inForce []state.Decision
	err = d.update(ctx, func(txn *badger.Txn) error {
		inForce = nil
		for _, b := range branches {
			if stored := d.branch(txn, key, b.ID); stored != nil {
				b = state.Unite(stored, b, b.Last)
			}
			if err := d.put(txn, key, b, expires); err != nil {
				return err
			}
			inForce = append(inForce, b.InForce...)
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
	_, err = d.keepOriginals(nil, inForce, expires)
	return stamp, err
}

// keepOriginals writes originals, and renews those of decisions that would expire before the branch does. It reports
// whether there was anything to write.
func (d *DB) keepOriginals(originals []state.Original, inForce []state.Decision, expires time.Time) (wrote bool, err error) {
	batch := d.db.NewWriteBatch()
	defer batch.Cancel()
	set := func(key, record []byte) error {
		wrote = true
		return batch.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: seconds(expires.Add(spare))})
	}
	for i := range originals {
		record, err := d.codec.encode(&originals[i])
		if err != nil {
			return false, err
		}
		if err := set(originalKey(originals[i].ID), record); err != nil {
			return false, err
		}
	}
	err = d.db.View(func(txn *badger.Txn) error {
		for i := range inForce {
			if inForce[i].ID == "" {
				continue
			}
			item, err := txn.Get(originalKey(inForce[i].ID))
			if err != nil || item.ExpiresAt() >= seconds(expires) { // what is not there, or not yet, cannot be renewed
				continue
			}
			record, err := item.ValueCopy(nil)
			if err != nil {
				d.miss(item.Key()[:1])
				continue
			}
			if err := set(item.KeyCopy(nil), record); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return wrote, batch.Flush()
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
	record, err := d.codec.encode(v)
	if err != nil {
		return err
	}
	return txn.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: seconds(expires)})
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
func expiry() time.Time { return time.Now().Add(state.TTL) } //nolint:forbidigo // Badger goes by the clock of the machine

// seconds is how Badger counts time.
func seconds(t time.Time) uint64 { return uint64(t.Unix()) }
