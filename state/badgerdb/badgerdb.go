package badgerdb

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
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
	"github.com/tidemark-dev/tidemark/state/internal/quota"
)

const (
	// memTableSize must not shrink from one release to the next: what a process that was killed left in its log has to fit.
	// A transaction may take 15 % of it, so one branch always fits: what is above 1 MiB goes to the value log.
	memTableSize = 16 << 20
	valueLogSize = 256 << 20 // largest value, and what one round of garbage collection rewrites
	blockCache   = 32 << 20
	indexCache   = 32 << 20 // of encrypted stores; their tables' indices are else kept whole
	dataKeyLife  = 10 * 24 * time.Hour
	compactors   = 2

	// reserve is the free space below which nothing is written: what Badger has in memory must still get to the disk, and
	// a page that the disk has no room for ends the process, as files are mapped into memory.
	reserve = 5 * memTableSize

	collectEvery = 10 * time.Minute
	discardRatio = 0.5 // Badger's recommendation
)

var (
	errClosed  = errors.New("store is closed")
	errInUse   = errors.New("another process, or another handle of this process, has it open")
	errStopped = errors.New("the store is being closed")
)

// Options of a store.
type Options struct {
	Logger *slog.Logger // nil: nothing is logged

	// Keys of 32 bytes encrypt all that is written to the files, with AES-256 in counter mode under data keys of Badger's,
	// which change every ten days and lie in the file KEYREGISTRY under the first of Keys. The others are older ones: a
	// registry that is under one of them, or not encrypted, is re-written under the first. The data keys stay what they are,
	// so whoever has an older key and an older copy of the registry can still read what was written until then.
	//
	// None: files are not encrypted. A store that was written without a key may be opened with one from then on. Its old
	// files stay readable until Badger has merged them, which nothing forces; a store of which nothing may be readable must
	// begin empty.
	Keys [][]byte

	// Secret of 32 bytes is what [DB.Secret] returns, so that replicas can share it. Nil: the store makes one. A store
	// cannot change its secret: it does not open with another one than it has.
	Secret []byte

	// MaxOriginals is how many bytes the originals of one tenant may take, as their contents, before compression. 0: any number.
	MaxOriginals int64
}

// DB is a [state.Store] in a directory.
type DB struct {
	db      *badger.DB
	lock    *os.File
	files   string // the directory that Badger has for itself
	log     *slog.Logger
	options badger.Options
	codec   *codec
	secret  []byte
	reserve uint64

	mu       sync.RWMutex // read by every call, so that Close waits for those that run
	closed   bool
	stop     chan struct{}
	ended    chan struct{} // closed once the collector has ended
	patience time.Duration // how long closing may take

	rounds  sync.Mutex // held briefly, for next
	next    *round     // the sync that has not begun, nil if nobody waits for one
	syncing sync.Mutex // held by the sync that runs

	originals sync.Mutex // held while originals are written, so that none is brought back from a tombstone
	used      int64      // clock of uses
	quota     *quota.Quota
	order     [64]sync.Mutex // of sessions
	erasing   sync.Mutex     // held while withdrawn originals are erased

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
		stop: make(chan struct{}), ended: make(chan struct{}), patience: closeTimeout,
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.codec, err = newCodec(); err != nil {
		return nil, err
	}
	if err := checkKeys(o.Keys); err != nil {
		return nil, err
	}
	if n := len(o.Secret); n != 0 && n != secretSize {
		return nil, fmt.Errorf("the secret has %d bytes, it needs %d", n, secretSize)
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
	if err := d.openLocked(o); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	go d.collect()
	return d, nil
}

func (d *DB) openLocked(o Options) error {
	if err := d.room(); err != nil {
		return err
	}
	if err := openRegistry(d.files, o.Keys); err != nil {
		return err
	}
	d.options = d.badgerOptions(firstKey(o.Keys))
	if err := tidy(d.files); err != nil {
		return err
	}
	err := verifyTables(d.options)
	if err == nil {
		err = d.openDB()
	}
	if errors.Is(err, errLostKey) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w; if its files cannot be repaired, remove %q: the store then starts empty", err, d.files)
	}
	if err := guard(func() error { return d.prepare(o) }); err != nil {
		return errors.Join(err, guard(d.db.Close))
	}
	return nil
}

// badgerOptions are the options of Badger for files that are encrypted under a key, or not at all.
func (d *DB) badgerOptions(key []byte) badger.Options {
	o := badger.DefaultOptions(d.files).
		WithLogger(logger{d.log}).
		WithMemTableSize(memTableSize).
		WithValueLogFileSize(valueLogSize).
		WithBlockCacheSize(blockCache).
		WithNumCompactors(compactors).
		WithMetricsEnabled(false).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead)
	if key != nil {
		o = o.WithEncryptionKey(key).WithEncryptionKeyRotationDuration(dataKeyLife).WithIndexCacheSize(indexCache)
	}
	return o
}

func (d *DB) openDB() error {
	return guard(func() error {
		db, err := badger.Open(d.options)
		if err == nil {
			d.db = db
		}
		return err
	})
}

// prepare readies what the store keeps in memory.
func (d *DB) prepare(o Options) error {
	if err := d.loadSecret(o.Secret); err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	if err := d.list(); err != nil {
		return fmt.Errorf("list originals: %w", err)
	}
	d.quota = quota.New(o.MaxOriginals)
	d.count()
	return nil
}

// loadSecret reads the secret, or writes the one that is given, or makes one. A secret that cannot be read is an error: with another one
// no record would ever be found again.
func (d *DB) loadSecret(given []byte) error {
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
		if err == nil && given != nil && subtle.ConstantTimeCompare(d.secret, given) == 0 {
			err = errors.New("the store has another one than the one that is given, and restore ids stand on it")
		}
		return err
	}
	if d.secret = bytes.Clone(given); d.secret == nil {
		d.secret = make([]byte, secretSize)
		rand.Read(d.secret) // never fails: see crypto/rand
	}
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

// Evicted is how many originals made room for others since the store was opened.
func (d *DB) Evicted() int64 { return d.quota.Evicted() }

// Sizes are the bytes that the store takes: its index and its values, as files of the last minute, and the contents of originals,
// where their number is capped.
func (d *DB) Sizes() map[string]int64 {
	sizes := map[string]int64{}
	if n, ok := d.quota.Bytes(); ok {
		sizes["originals"] = n
	}
	_ = d.call(context.Background(), "size", func() error { // of a closed store nothing is said
		sizes["index"], sizes["values"] = d.db.Size()
		return nil
	})
	return sizes
}

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
	<-d.ended
	if err := d.eraseAtClose(); err != nil {
		d.log.Warn("withdrawn originals are not yet erased from the files", "error", err)
	}
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
