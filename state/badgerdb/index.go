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

// list makes the listings of originals that were written before there were listings.
func (d *DB) list() error {
	var layout uint64
	_ = d.db.View(func(txn *badger.Txn) error {
		d.get(txn, layoutKey, &layout)
		return nil
	})
	if layout > 0 {
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
			record, err := d.codec.encode(&listing{o.Listed(), o.At.UnixNano()})
			if err == nil {
				err = batch.SetEntry(&badger.Entry{Key: listKey(o.Session, o.ID), Value: record, ExpiresAt: item.ExpiresAt()})
			}
			failed = errors.Join(failed, err)
		})
		return nil
	})
	if err := errors.Join(err, failed, batch.Flush(), d.sync()); err != nil {
		return err
	}
	return d.db.Update(func(txn *badger.Txn) error {
		record, err := d.codec.encode(uint64(1))
		if err != nil {
			return err
		}
		return txn.Set(layoutKey, record)
	})
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
