package badgerdb

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/internal/quota"
)

// A keeping writes what a commit or merge needs of originals.
type keeping struct {
	d       *DB
	expires time.Time // of the branch
	batch   *badger.WriteBatch
	wrote   bool
	fresh   map[string]*written // what is to be written, by ids
	after   []func()            // what the quota learns once it is written
}

// written is an original without its content, and the record that holds all of it.
type written struct {
	listed state.Original
	record []byte
}

// keepOriginals makes originals of a session durable, evicts others where they need room, and renews those that the branch
// has in force and that would expire before it does. Until release is called, none of all these is evicted.
func (d *DB) keepOriginals(key state.SessionKey, b *state.Branch, originals []state.Original, expires time.Time) (release func(), err error) {
	release, wrote, err := d.writeOriginals(key, b, originals, expires)
	if err == nil && wrote {
		if err = d.sync(); err != nil {
			release()
		}
	}
	return release, err
}

func (d *DB) writeOriginals(key state.SessionKey, b *state.Branch, originals []state.Original, expires time.Time) (release func(), wrote bool, err error) {
	k := &keeping{d: d, expires: expires, fresh: make(map[string]*written, len(originals))}
	for i := range originals { // before the lock: it takes long
		o := originals[i]
		o.Session, o.Fate, o.Size = key, state.Kept, len(o.Content)
		record, err := d.codec.encode(&o)
		if err != nil {
			return nil, false, err
		}
		k.fresh[o.ID] = &written{listed: o.Listed(), record: record}
	}
	d.originals.Lock()
	defer d.originals.Unlock()
	k.batch = d.db.NewWriteBatch()
	defer k.batch.Cancel()
	if err := d.db.View(func(txn *badger.Txn) error { return k.settle(txn, key) }); err != nil {
		return nil, false, err
	}
	sizes := make(map[string]int64, len(k.fresh))
	for id, o := range k.fresh {
		sizes[id] = int64(o.listed.Size)
	}
	victims, release, err := d.quota.Reserve(key, b, sizes)
	if err != nil {
		return nil, false, err
	}
	if err := k.write(victims, originals, b.InForceIDs()); err != nil {
		release()
		return nil, false, err
	}
	return release, k.wrote, nil
}

// settle looks up what is stored of the originals that are to be written: tombstones and what is sealed stay what they are.
func (k *keeping) settle(txn *badger.Txn, key state.SessionKey) error {
	for id := range k.fresh {
		var was listing
		if k.d.get(txn, listKey(key, id), &was) {
			if was.Original.Fate != state.Kept {
				delete(k.fresh, id)
			}
			continue
		}
		var other state.Original // of another session, or without a listing
		if !k.d.has(txn, originalKey(id)) {
			continue
		}
		if _, ok := k.d.original(txn, id, &other); !ok {
			continue
		}
		if other.Fate != state.Kept {
			delete(k.fresh, id)
			continue
		}
		if err := k.remove(other.Session, id, false); err != nil {
			return err
		}
	}
	return nil
}

// remove removes an original's listing, and its content too if it is evicted.
func (k *keeping) remove(key state.SessionKey, id string, content bool) error {
	k.wrote = true
	k.after = append(k.after, func() { k.d.quota.Forget(key.Tenant, id) })
	if content {
		if err := errors.Join(k.batch.Delete(originalKey(id)), k.batch.Delete(ownerKey(id))); err != nil {
			return err
		}
	}
	return k.batch.Delete(listKey(key, id))
}

// write removes, writes and renews, in the order of the originals as they were given.
func (k *keeping) write(victims []quota.Item, originals []state.Original, inForce []string) error {
	for _, v := range victims {
		if err := k.remove(v.Session, v.ID, true); err != nil {
			return err
		}
	}
	until := seconds(k.expires.Add(spare))
	var blocked []string
	for i := range originals {
		o := k.fresh[originals[i].ID]
		if o == nil {
			blocked = append(blocked, originals[i].ID)
			continue
		}
		if err := k.put(o, until); err != nil {
			return err
		}
	}
	if err := k.renew(append(blocked, inForce...)); err != nil {
		return err
	}
	if !k.wrote {
		return nil
	}
	if err := k.batch.Flush(); err != nil {
		return fmt.Errorf("write originals: %w", err)
	}
	for _, f := range k.after {
		f()
	}
	return nil
}

// put writes an original, its listing and owner first: what is listed and not there does no harm, what is there and not listed
// could never be withdrawn.
func (k *keeping) put(o *written, until uint64) error {
	k.wrote = true
	err := errors.Join(
		k.d.enter(k.batch, listKey(o.listed.Session, o.listed.ID), &listing{o.listed, k.d.tick()}, until),
		k.d.enter(k.batch, ownerKey(o.listed.ID), o.listed.Session, until),
	)
	if err != nil {
		return err
	}
	k.after = append(k.after, func() { k.d.quota.Keep(counted(&o.listed, until)) })
	return k.batch.SetEntry(&badger.Entry{Key: originalKey(o.listed.ID), Value: o.record, ExpiresAt: until})
}

// renew writes again what would expire before the branch does.
func (k *keeping) renew(ids []string) error {
	until := seconds(k.expires.Add(spare))
	return k.d.db.View(func(txn *badger.Txn) error {
		for _, id := range ids {
			if k.fresh[id] != nil { // it is just written
				continue
			}
			stored, err := txn.Get(originalKey(id))
			if err != nil || stored.ExpiresAt() >= seconds(k.expires) { // what is not there, or not yet, cannot be renewed
				continue
			}
			var o state.Original
			if !k.d.decode(stored, &o) {
				continue
			}
			for _, key := range [][]byte{listKey(o.Session, id), ownerKey(id), originalKey(id)} {
				record, ok := k.d.raw(txn, key)
				if !ok {
					continue
				}
				k.wrote = true
				if err := k.batch.SetEntry(&badger.Entry{Key: key, Value: record, ExpiresAt: until}); err != nil {
					return err
				}
			}
			k.after = append(k.after, func() { k.d.quota.Renew(o.Session.Tenant, id, until) })
		}
		return nil
	})
}

// renewAll renews originals that would expire before their branch does.
func (d *DB) renewAll(ids []string, expires time.Time) error {
	d.originals.Lock()
	defer d.originals.Unlock()
	k := &keeping{d: d, expires: expires, batch: d.db.NewWriteBatch()}
	defer k.batch.Cancel()
	return k.write(nil, nil, ids)
}

// counted is an original as the quota knows it.
func counted(o *state.Original, expires uint64) quota.Item {
	return quota.Item{ID: o.ID, Session: o.Session, Size: int64(o.Size), Sealed: o.Fate == state.Sealed, Expires: expires}
}
