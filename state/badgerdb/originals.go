package badgerdb

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
)

const (
	// spare is how much longer than what needs it an original lives once it is written or renewed. So an original is
	// written again once in that time, however often its branch is or it is read.
	spare = 24 * time.Hour

	// seldom is how often at most a read is written down as a use.
	seldom = time.Hour
)

// Original implements [state.Store].
func (d *DB) Original(ctx context.Context, id string) (*state.Original, error) {
	var o state.Original
	err := d.call(ctx, "read original", func() error {
		var until uint64
		err := d.db.View(func(txn *badger.Txn) error {
			expires, ok := d.original(txn, id, &o)
			if !ok {
				return state.ErrNotFound
			}
			until = expires
			return nil
		})
		if err == nil {
			d.use(&o, until)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &o, nil
}

// Owner implements [state.Store].
func (d *DB) Owner(ctx context.Context, id string) (key state.SessionKey, err error) {
	err = d.view(ctx, "find owner", func(txn *badger.Txn) error {
		if !d.get(txn, ownerKey(id), &key) {
			return state.ErrNotFound
		}
		return nil
	})
	return key, err
}

// original reads an original and when it expires. It reports false if there is none that can be read.
func (d *DB) original(txn *badger.Txn, id string, o *state.Original) (expires uint64, ok bool) {
	item, err := txn.Get(originalKey(id))
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return 0, false
	case err != nil:
		d.miss([]byte{'o'})
		return 0, false
	case !d.decode(item, o):
		return 0, false
	}
	if o.Fate != state.Withdrawn {
		o.Size = len(o.Content) // older records do not have it
	}
	return item.ExpiresAt(), true
}

// Originals implements [state.Store].
func (d *DB) Originals(ctx context.Context, key state.SessionKey) (originals []state.Original, err error) {
	err = d.view(ctx, "list originals", func(txn *badger.Txn) error {
		d.scan(txn, listPrefix(key), true, func(item *badger.Item) {
			var l listing
			if d.decode(item, &l) && d.has(txn, originalKey(l.Original.ID)) {
				originals = append(originals, l.Original)
			}
		})
		return nil
	})
	return state.Latest(originals), err
}

// Seal implements [state.Store].
func (d *DB) Seal(ctx context.Context, id string, sealed bool) error {
	return d.call(ctx, "seal original", func() error {
		if err := d.room(); err != nil {
			return err
		}
		d.originals.Lock()
		defer d.originals.Unlock()
		var o state.Original
		err := d.update(ctx, func(txn *badger.Txn) error {
			o = state.Original{}
			expires, ok := d.original(txn, id, &o)
			if !ok {
				return state.ErrNotFound
			}
			if o.Fate == state.Withdrawn {
				return state.ErrWithdrawn
			}
			o.Fate = state.Kept
			if sealed {
				o.Fate = state.Sealed
			}
			return d.rewrite(txn, &o, expires)
		})
		if err != nil {
			return err
		}
		d.quota.Seal(o.Session.Tenant, id, sealed)
		return d.sync()
	})
}

// rewrite changes a stored original and its listing.
func (d *DB) rewrite(txn *badger.Txn, o *state.Original, expires uint64) error {
	l := listing{Original: o.Listed()}
	var was listing
	if d.get(txn, listKey(o.Session, o.ID), &was) {
		l.Used = was.Used
	}
	if err := d.setUntil(txn, listKey(o.Session, o.ID), &l, expires); err != nil {
		return err
	}
	return d.setUntil(txn, originalKey(o.ID), o, expires)
}

// buried is how many tombstones one transaction writes.
const buried = 256

// Withdraw implements [state.Store].
func (d *DB) Withdraw(ctx context.Context, key state.SessionKey) (n int, err error) {
	err = d.call(ctx, "withdraw originals", func() error {
		if err := d.room(); err != nil {
			return err
		}
		d.originals.Lock()
		defer d.originals.Unlock()
		listings := d.listings(key)
		for some := range slices.Chunk(listings, buried) {
			var wrote []state.Original
			err := d.update(ctx, func(txn *badger.Txn) (err error) {
				wrote, err = d.bury(txn, some)
				return err
			})
			if err != nil {
				return err
			}
			n += len(wrote)
			for i := range wrote {
				d.quota.Forget(key.Tenant, wrote[i].ID)
			}
		}
		if n == 0 {
			return nil
		}
		return d.sync()
	})
	return n, err
}

// listings returns the keys of all listings of a session.
func (d *DB) listings(key state.SessionKey) (keys [][]byte) {
	_ = d.db.View(func(txn *badger.Txn) error {
		d.scan(txn, listPrefix(key), false, func(item *badger.Item) { keys = append(keys, item.KeyCopy(nil)) })
		return nil
	})
	return keys
}

// bury puts tombstones in the place of originals, whose listings are given by their keys, and returns those that had content.
func (d *DB) bury(txn *badger.Txn, listings [][]byte) (wrote []state.Original, err error) {
	for _, at := range listings {
		content := originalAt(at)
		stored, err := txn.Get(content)
		if errors.Is(err, badger.ErrKeyNotFound) {
			continue // a crash, or its age, left only the listing
		}
		if err != nil {
			return nil, err
		}
		var l listing
		if !d.get(txn, at, &l) && !d.decode(stored, &l.Original) {
			l.Original = state.Original{} // nobody can read it; its bytes go all the same
		}
		if l.Original.Fate == state.Withdrawn {
			continue
		}
		wrote = append(wrote, l.Original)
		l.Original = l.Original.Tombstone()
		n := note{at, stored.ValueSize() >= valueThreshold/2} // sizes are estimates
		err = errors.Join(
			d.setUntil(txn, at, &l, stored.ExpiresAt()),
			d.setUntil(txn, content, &l.Original, stored.ExpiresAt()),
			d.setUntil(txn, withdrawnKey(content), &n, 0),
		)
		if err != nil {
			return nil, err
		}
	}
	return wrote, nil
}

// use notes that an original was read. What cannot be written down now is written down at a later use.
func (d *DB) use(o *state.Original, until uint64) {
	d.quota.Use(o.Session.Tenant, o.ID, until)
	if o.Fate == state.Withdrawn {
		return // a tombstone serves its time
	}
	var l listing
	_ = d.db.View(func(txn *badger.Txn) error {
		d.get(txn, listKey(o.Session, o.ID), &l)
		return nil
	})
	renew := until < seconds(expiry())
	if !renew && now().Sub(time.Unix(0, l.Used)) < seldom || d.room() != nil {
		return
	}
	d.originals.Lock()
	defer d.originals.Unlock()
	err := d.db.Update(func(txn *badger.Txn) error {
		stored, err := txn.Get(originalKey(o.ID))
		if err != nil {
			return err
		}
		until := stored.ExpiresAt()
		if renew {
			until = seconds(expiry().Add(spare))
			record, err := stored.ValueCopy(nil)
			if err != nil {
				return err
			}
			if err := txn.SetEntry(&badger.Entry{Key: originalKey(o.ID), Value: record, ExpiresAt: until}); err != nil {
				return err
			}
			if err := d.setUntil(txn, ownerKey(o.ID), o.Session, until); err != nil {
				return err
			}
			d.quota.Renew(o.Session.Tenant, o.ID, until)
		}
		if !d.get(txn, listKey(o.Session, o.ID), &l) {
			return nil
		}
		l.Used = d.tick()
		return d.setUntil(txn, listKey(o.Session, o.ID), &l, until)
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		d.log.Warn("the use of an original was not written down", "error", err)
	}
}

// tick is the time of a use, later than that of any other. The lock of originals must be held.
func (d *DB) tick() int64 {
	d.used = max(d.used+1, now().UnixNano())
	return d.used
}
