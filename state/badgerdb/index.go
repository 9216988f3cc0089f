package badgerdb

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
)

// indexed is a listing as it is stored.
type indexed struct {
	listing
	at      []byte // its key
	expires uint64
}

// layout is what the records of this version look like, see the package comment.
const layout = 2

// list makes the listings and owners of originals that were written before there were any.
func (d *DB) list() error {
	var was uint64
	_ = d.db.View(func(txn *badger.Txn) error {
		d.get(txn, layoutKey, &was)
		return nil
	})
	if was >= layout {
		return nil
	}
	batch := d.db.NewWriteBatch()
	defer batch.Cancel()
	var failed error
	err := d.db.View(func(txn *badger.Txn) error {
		d.scan(txn, []byte{'o'}, false, func(item *badger.Item) {
			var o state.Original
			if !d.decode(item, &o) {
				return
			}
			if o.Fate != state.Withdrawn {
				o.Size = len(o.Content)
			}
			failed = errors.Join(failed, d.enter(batch, ownerKey(o.ID), o.Session, item.ExpiresAt()))
			if at := listKey(o.Session, o.ID); !d.has(txn, at) {
				failed = errors.Join(failed, d.enter(batch, at, &listing{o.Listed(), o.At.UnixNano()}, item.ExpiresAt()))
			}
		})
		return nil
	})
	if err := errors.Join(err, failed, batch.Flush(), d.sync()); err != nil {
		return err
	}
	return d.db.Update(func(txn *badger.Txn) error {
		return d.setUntil(txn, layoutKey, uint64(layout), 0)
	})
}

// enter adds a record to a batch.
func (d *DB) enter(batch *badger.WriteBatch, key []byte, v any, expires uint64) error {
	record, err := d.codec.encode(v)
	if err != nil {
		return err
	}
	return batch.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: expires})
}

// count tells the quota what is stored.
func (d *DB) count() {
	if d.quota == nil {
		return
	}
	var uses []indexed
	_ = d.db.View(func(txn *badger.Txn) error {
		d.scan(txn, []byte{'i'}, true, func(item *badger.Item) {
			var l listing
			if d.decode(item, &l) && l.Original.Fate != state.Withdrawn && d.has(txn, originalAt(item.Key())) {
				uses = append(uses, indexed{l, item.KeyCopy(nil), item.ExpiresAt()})
			}
		})
		d.scan(txn, []byte{'b'}, true, func(item *badger.Item) {
			var b state.Branch
			if d.decode(item, &b) {
				var key state.SessionKey
				rest := item.Key()[1:]
				rest = rest[copy(key.Tenant[:], rest):]
				copy(key.Session[:], rest)
				d.quota.Note(key, &b, item.ExpiresAt())
			}
		})
		return nil
	})
	slices.SortFunc(uses, func(a, b indexed) int { return cmp.Compare(a.Used, b.Used) })
	for _, u := range uses {
		d.quota.Keep(counted(&u.Original, u.expires))
		d.used = max(d.used, u.Used)
	}
}
