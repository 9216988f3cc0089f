package badgerdb

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
)

// collect removes what was withdrawn from the files and gives space of the value log back, until the store is closed.
func (d *DB) collect() {
	defer close(d.ended)
	t := time.NewTicker(collectEvery)
	defer t.Stop()
	for {
		if err := d.erase(); err != nil {
			d.log.Warn("withdrawn originals are not yet erased from the files", "error", err)
		}
		d.quota.Prune(seconds(now()))
		select {
		case <-d.stop:
			return
		case <-t.C:
			if err := d.collectGarbage(discardRatio); err != nil {
				d.log.Warn("value log garbage collection failed", "error", err)
			}
		}
	}
}

// collectGarbage rewrites files of the value log as long as at least a part of one, given by a ratio, is spent.
func (d *DB) collectGarbage(ratio float64) error {
	for {
		err := guard(func() error { return d.db.RunValueLogGC(ratio) })
		if errors.Is(err, badger.ErrNoRewrite) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-d.stop:
			return errStopped
		default:
		}
	}
}

// valueThreshold is the size from which on Badger puts a record into the value log; it is Badger's default.
const valueThreshold = 1 << 20

// anyDiscard makes garbage collection rewrite every file of the value log of which anything is spent.
const anyDiscard = 1e-9

// note says that the content of an original is withdrawn and still in the files.
type note struct {
	Listing []byte // its key
	Large   bool   // the content may be in the value log
}

func (n note) original() []byte { return originalAt(n.Listing) }

// erase removes the content of withdrawn originals from the files. Other calls wait while records are rewritten. What a
// crash leaves undone is done at the next call, as the notes of it go last.
func (d *DB) erase() error {
	d.erasing.Lock()
	defer d.erasing.Unlock()
	notes, large, err := d.eraseRecords()
	if err != nil || len(notes) == 0 {
		return err
	}
	if large {
		if err := d.collectGarbage(anyDiscard); err != nil {
			return err
		}
	}
	return guard(func() error { return d.done(notes) })
}

// eraseRecords erases all records of withdrawn originals, and reports whether some are in the value log, where they stay.
func (d *DB) eraseRecords() (notes []note, large bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, nil
	}
	if d.db.IsClosed() { // an earlier call could not reopen it
		if err := d.openDB(); err != nil {
			return nil, false, err
		}
	}
	if notes, err = d.notes(); err != nil || len(notes) == 0 {
		return nil, false, err
	}
	large = slices.ContainsFunc(notes, func(n note) bool { return n.Large })
	if large { // nothing is collected of the file of the value log that is written to; a new handle begins another one
		if err := d.reopen(); err != nil {
			return nil, false, fmt.Errorf("begin a new value log: %w", err)
		}
	}
	return notes, large, d.drop(notes)
}

// eraseAtClose erases what takes no garbage collection. Nothing else may use the store any more.
func (d *DB) eraseAtClose() error {
	notes, err := d.notes()
	notes = slices.DeleteFunc(notes, func(n note) bool { return n.Large })
	if err != nil || len(notes) == 0 {
		return err
	}
	if err := d.drop(notes); err != nil {
		return err
	}
	return guard(func() error { return d.done(notes) })
}

// reopen closes the database and opens it again. If that fails, every call fails until it succeeds.
func (d *DB) reopen() error {
	if err := d.closeDB(); err != nil {
		return err
	}
	return d.openDB()
}

// notes returns what was withdrawn and not erased.
func (d *DB) notes() (notes []note, err error) {
	err = guard(func() error {
		return d.db.View(func(txn *badger.Txn) error {
			d.scan(txn, []byte{'w'}, true, func(item *badger.Item) {
				var n note
				if d.decode(item, &n) {
					notes = append(notes, n)
				}
			})
			return nil
		})
	})
	return notes, err
}

// drop erases all versions of the records of withdrawn originals, and writes their tombstones, which outlive a crash in
// their listings, again.
func (d *DB) drop(notes []note) error {
	if err := d.room(); err != nil {
		return err
	}
	for some := range slices.Chunk(notes, buried) {
		err := guard(func() error {
			tombstones := d.tombstones(some)
			prefixes := make([][]byte, len(tombstones))
			for i := range tombstones {
				prefixes[i] = originalAt(tombstones[i].at)
			}
			if err := d.db.DropPrefix(prefixes...); err != nil {
				return err
			}
			return d.db.Update(func(txn *badger.Txn) error {
				for i := range tombstones {
					t := &tombstones[i]
					if err := d.setUntil(txn, originalAt(t.at), &t.Original, t.expires); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return d.sync()
}

// tombstones returns the listings of withdrawn originals, but of those that have expired: their place may be taken anew.
func (d *DB) tombstones(notes []note) (found []indexed) {
	_ = d.db.View(func(txn *badger.Txn) error {
		for _, n := range notes {
			item, err := txn.Get(n.Listing)
			if err != nil {
				continue
			}
			i := indexed{at: n.Listing, expires: item.ExpiresAt()}
			if d.decode(item, &i.listing) && i.Original.Fate == state.Withdrawn {
				found = append(found, i)
			}
		}
		return nil
	})
	return found
}

// done removes the notes of what is erased.
func (d *DB) done(notes []note) error {
	batch := d.db.NewWriteBatch()
	defer batch.Cancel()
	for _, n := range notes {
		if err := batch.Delete(withdrawnKey(n.original())); err != nil {
			return err
		}
	}
	return batch.Flush()
}
