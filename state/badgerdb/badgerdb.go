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
	// memTableSize must not shrink from one release to the next: what a process that was killed left in its log has to fit.
	// A transaction may take 15 % of it, so one branch always fits: what is above 1 MiB goes to the value log.
	memTableSize = 16 << 20
	valueLogSize = 256 << 20 // largest value, and what one round of garbage collection rewrites
	blockCache   = 32 << 20
	compactors   = 2

	// reserve is the free space below which nothing is written: what Badger has in memory must still get to the disk, and
	// a page that the disk has no room for ends the process, as files are mapped into memory.
	reserve = 5 * memTableSize

	collectEvery = 10 * time.Minute
	discardRatio = 0.5 // Badger's recommendation
)

var (
	errClosed = errors.New("store is closed")
	errInUse  = errors.New("another process, or another handle of this process, has it open")
)

// Options of a store.
type Options struct {
	Logger *slog.Logger // nil: nothing is logged
}

// DB is a [state.Store] in a directory.
type DB struct {
	db      *badger.DB
	lock    *os.File
	files   string // the directory that Badger has for itself
	log     *slog.Logger
	codec   *codec
	secret  []byte
	reserve uint64

	mu       sync.RWMutex // read by every call, so that Close waits for those that run
	closed   bool
	stop     chan struct{}
	done     chan struct{}
	patience time.Duration // how long closing may take

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

func open(dir string, o Options, reserve uint64) (d *DB, err error) {
	d = &DB{
		log: o.Logger, files: filepath.Join(dir, "badger"), reserve: reserve,
		stop: make(chan struct{}), done: make(chan struct{}), patience: closeTimeout,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.codec, err = newCodec(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.files, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.files, 0o700); err != nil { // it may come from a backup
		return nil, err
	}
	if d.lock, err = lock(dir); err != nil {
		return nil, err
	}
	if err := d.openLocked(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	go d.collect()
	return d, nil
}

func (d *DB) openLocked() error {
	o := badger.DefaultOptions(d.files).
		WithLogger(logger{d.log}).
		WithMemTableSize(memTableSize).
		WithValueLogFileSize(valueLogSize).
		WithBlockCacheSize(blockCache).
		WithNumCompactors(compactors).
		WithMetricsEnabled(false).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead)
	if err := d.room(); err != nil {
		return err
	}
	if err := tidy(d.files); err != nil {
		return err
	}
	err := verifyTables(o)
	if err == nil {
		err = guard(func() (err error) {
			d.db, err = badger.Open(o)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("%w; if its files cannot be repaired, remove %q: the store then starts empty", err, d.files)
	}
	if err := guard(d.loadSecret); err != nil {
		return errors.Join(fmt.Errorf("read secret: %w", err), guard(d.db.Close))
	}
	return nil
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
	if err := errors.Join(d.closeDB(), d.lock.Close()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// closeTimeout is how long the database may take to close. What was committed is on disk long before.
const closeTimeout = 10 * time.Second

// closeDB closes the database. Badger tries for ever to write what is in memory where its directory is gone or its disk full.
func (d *DB) closeDB() error {
	done := make(chan error, 1)
	go func() { done <- guard(d.db.Close) }()
	select {
	case err := <-done:
		return err
	case <-time.After(d.patience):
		return fmt.Errorf("the database was not closed within %v", d.patience)
	}
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
