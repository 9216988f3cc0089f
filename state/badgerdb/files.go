package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2"
	"google.golang.org/protobuf/proto"
)

var errDamaged = errors.New("it is damaged")

// room fails if the disk is nearly full.
func (d *DB) room() error {
	free, err := freeSpace(d.files)
	if err != nil {
		return fmt.Errorf("find free space: %w", err)
	}
	if free < d.reserve {
		return fmt.Errorf("disk is nearly full: %d MiB are free, %d MiB are needed", free>>20, d.reserve>>20)
	}
	return nil
}

// A round is one sync that several calls wait for.
type round struct {
	over chan struct{}
	err  error
}

// sync makes durable what was written. Calls that come while others sync share the next round: disks take one at a time.
func (d *DB) sync() error {
	d.rounds.Lock()
	r, first := d.next, d.next == nil
	if first {
		r = &round{over: make(chan struct{})}
		d.next = r
	}
	d.rounds.Unlock()
	if !first {
		<-r.over
		return r.err
	}
	d.syncing.Lock()
	defer d.syncing.Unlock()
	d.rounds.Lock()
	d.next = nil // who comes from now on may have written what this round misses
	d.rounds.Unlock()
	defer close(r.over)
	if err := guard(d.syncNow); err != nil {
		r.err = fmt.Errorf("sync: %w", err)
	}
	return r.err
}

// syncNow syncs Badger's files. Badger's Sync leaves out a log that was full and replaced since it was written to and waits
// to become a table, so those are synced here.
func (d *DB) syncNow() error {
	if err := d.db.Sync(); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(d.files, "*.mem"))
	if err != nil || len(logs) < 2 {
		return err
	}
	for _, name := range logs {
		if err := syncFile(name); err != nil && !errors.Is(err, os.ErrNotExist) { // gone: it is a table by now, and synced
			return err
		}
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// tidy removes files of no content, which Badger refuses to open: a process that was killed between the making and the
// sizing of a file leaves one behind. Statistics of the value log that are too short would make it panic.
func tidy(dir string) error {
	for pattern, least := range map[string]int64{"*.mem": 1, "*.vlog": 1, "DISCARD": 1 << 20} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			if info.Size() < least {
				if err := os.Remove(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// verifyTables reads all tables in full. Badger reads them in goroutines of its own, where a damaged one ends the process.
// It takes seconds for a store of gigabytes.
func verifyTables(o badger.Options) error {
	names, err := filepath.Glob(filepath.Join(o.Dir, "*.sst"))
	if err != nil {
		return err
	}
	keyOf, err := dataKeys(o)
	if err != nil {
		return err
	}
	indices, err := ristretto.NewCache(&ristretto.Config[uint64, *fb.TableIndex]{ // without it no encrypted table is read
		NumCounters: 1000, MaxCost: indexCache, BufferItems: 64,
	})
	if err != nil {
		return err
	}
	defer indices.Close()
	for _, name := range names {
		id, ok := table.ParseFileID(name)
		if !ok {
			continue // Badger has no use for it
		}
		key, err := keyOf(id)
		if err == nil {
			err = guard(func() error {
				return verifyTable(name, id, &table.Options{
					BlockSize: o.BlockSize, Compression: o.Compression, ChkMode: o.ChecksumVerificationMode,
					DataKey: key, IndexCache: indices,
				})
			})
		}
		if err != nil {
			return fmt.Errorf("read table %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

func verifyTable(name string, id uint64, o *table.Options) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !footed(data) {
		return errDamaged
	}
	t, err := table.OpenInMemoryTable(data, id, o)
	if err != nil {
		return errors.Join(errDamaged, err)
	}
	return t.VerifyChecksum()
}

// footed reports whether the lengths at the end of a table stay within it; Badger takes them on trust. A table ends with
// its index, the length of that, a checksum, and the length of that.
func footed(data []byte) bool {
	cut := func() (part []byte, ok bool) {
		at := len(data) - 4
		if at < 0 {
			return nil, false
		}
		n := int64(binary.BigEndian.Uint32(data[at:]))
		if n > int64(at) {
			return nil, false
		}
		part, data = data[at-int(n):at], data[:at-int(n)]
		return part, true
	}
	sum, ok := cut()
	if !ok {
		return false
	}
	var checksum pb.Checksum
	if proto.Unmarshal(sum, &checksum) != nil || pb.Checksum_Algorithm_name[int32(checksum.Algo)] == "" {
		return false
	}
	_, ok = cut()
	return ok
}
