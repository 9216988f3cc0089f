package badgerdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/tidemark-dev/tidemark/state"
)

const (
	memTableSize = 16 << 20  // a transaction may take 15 % of it, so that one branch below the value threshold always fits
	valueLogSize = 256 << 20 // largest value, and what one round of garbage collection rewrites
	blockCache   = 32 << 20
	compactors   = 2

	// reserve is the free space below which nothing is written: what Badger has in memory must still get to the disk, and
	// a page that the disk has no room for ends the process, as files are mapped into memory.
	reserve = 5 * memTableSize

	collectEvery = 10 * time.Minute
	discardRatio = 0.5 // Badger's recommendation
)

var errClosed = errors.New("store is closed")

// Options of a store.
type Options struct {
	Logger *slog.Logger // nil: nothing is logged
}

// DB is a [state.Store] in a directory.
type DB struct {
	db      *badger.DB
	files   string // the directory that Badger has for itself
	log     *slog.Logger
	codec   *codec
	secret  []byte
	reserve uint64

	mu     sync.RWMutex // read by every call, so that Close waits for those that run
	closed bool
	stop   chan struct{}
	done   chan struct{}

	unreadable atomic.Int64
	warnOnce   sync.Once
}

// Open opens the store in a directory and makes what is missing of it. The files lie in a subdirectory that only their
// owner may enter. It fails if another process or handle has the store open, if the directory cannot be written or is
// nearly full, and if what lies there is damaged beyond what Badger can repair.
func Open(dir string, o Options) (*DB, error) {
	d, err := open(dir, o, reserve)
	if err != nil {
		return nil, fmt.Errorf("open store in %q: %w", dir, err)
	}
	return d, nil
}

func open(dir string, o Options, reserve uint64) (*DB, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	codec, err := newCodec()
	if err != nil {
		return nil, err
	}
	files := filepath.Join(dir, "badger")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(files, 0o700); err != nil { // it may come from a backup
		return nil, err
	}
	d := &DB{
		files: files, log: log, codec: codec, reserve: reserve,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := d.room(); err != nil {
		return nil, err
	}
	if err := guard(d.openBadger); err != nil {
		return nil, err
	}
	if err := guard(d.loadSecret); err != nil {
		_ = guard(d.db.Close) // the reason is known already
		return nil, fmt.Errorf("read secret: %w", err)
	}
	go d.collect()
	return d, nil
}

func (d *DB) openBadger() (err error) {
	d.db, err = badger.Open(badger.DefaultOptions(d.files).
		WithLogger(logger{d.log}).
		WithMemTableSize(memTableSize).
		WithValueLogFileSize(valueLogSize).
		WithBlockCacheSize(blockCache).
		WithNumCompactors(compactors).
		WithMetricsEnabled(false).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead))
	if err != nil && strings.Contains(err.Error(), "Cannot acquire directory lock") { // Badger has no error value for it
		return fmt.Errorf("another process, or another store of this process, has it open: %w", err)
	}
	return err
}

// loadSecret reads the secret, or makes it if there is none. A secret that cannot be read is an error: with another one
// no record would ever be found again.
func (d *DB) loadSecret() error {
	err := d.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(secretKey)
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error { return d.codec.decode(b, &d.secret) })
	})
	if !errors.Is(err, badger.ErrKeyNotFound) {
		if err == nil && len(d.secret) != secretSize {
			err = fmt.Errorf("it has %d bytes", len(d.secret))
		}
		return err
	}
	d.secret = make([]byte, secretSize)
	rand.Read(d.secret) // never fails: see crypto/rand
	record, err := d.codec.encode(d.secret)
	if err != nil {
		return err
	}
	if err := d.db.Update(func(txn *badger.Txn) error { return txn.Set(secretKey, record) }); err != nil {
		return err
	}
	return d.sync()
}

// Unreadable is how many records could not be read since the store was opened.
func (d *DB) Unreadable() int64 { return d.unreadable.Load() }

// Close implements [state.Store]. It waits for calls that run, and may be called again.
func (d *DB) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	close(d.stop)
	<-d.done
	if err := guard(d.db.Close); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// call runs one call of the store, unless its time is over or the store is closed.
func (d *DB) call(ctx context.Context, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return fmt.Errorf("%s: %w", what, errClosed)
	}
	if err := guard(f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// guard makes an error of a panic, and of a fault in a file that is mapped into memory. Badger panics on damaged files.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("badger panicked: %v", r)
		}
	}()
	return f()
}

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

// sync makes durable what was written. Badger's Sync leaves out a log that was full and replaced since it was written to
// and waits to become a table, so those are synced here.
func (d *DB) sync() error {
	if err := d.db.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	logs, err := filepath.Glob(filepath.Join(d.files, "*.mem"))
	if err != nil || len(logs) < 2 {
		return err
	}
	for _, name := range logs {
		if err := syncFile(name); err != nil && !errors.Is(err, os.ErrNotExist) { // gone: it is a table by now, and synced
			return fmt.Errorf("sync: %w", err)
		}
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// collect gives space of the value log back until the store is closed.
func (d *DB) collect() {
	defer close(d.done)
	t := time.NewTicker(collectEvery)
	defer t.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-t.C:
			d.collectGarbage()
		}
	}
}

// collectGarbage rewrites files of the value log as long as one is worth it.
func (d *DB) collectGarbage() {
	for {
		err := guard(func() error { return d.db.RunValueLogGC(discardRatio) })
		switch {
		case errors.Is(err, badger.ErrNoRewrite):
			return
		case err != nil:
			d.log.Warn("value log garbage collection failed", "error", err)
			return
		}
		select {
		case <-d.stop:
			return
		default:
		}
	}
}

// logger passes on what Badger says. Its texts hold file names and keys, which are digests, never values.
type logger struct{ log *slog.Logger }

func (l logger) Errorf(f string, a ...any)   { l.say(slog.LevelError, f, a...) }
func (l logger) Warningf(f string, a ...any) { l.say(slog.LevelWarn, f, a...) }
func (l logger) Infof(f string, a ...any)    { l.say(slog.LevelDebug, f, a...) }
func (l logger) Debugf(string, ...any)       {}

func (l logger) say(level slog.Level, format string, a ...any) {
	if ctx := context.Background(); l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "badger", "text", strings.TrimSpace(fmt.Sprintf(format, a...)))
	}
}

var _ state.Store = (*DB)(nil)
