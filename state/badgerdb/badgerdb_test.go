package badgerdb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

var (
	ctx = context.Background()
	key = state.SessionKey{Tenant: state.Digest{1}, Session: state.Digest{2}}
)

func TestConformance(t *testing.T) {
	t.Parallel() // most of its time, it waits for the disk
	statetest.Run(t, func(t *testing.T) state.Store {
		t.Helper()
		return mustOpen(t, t.TempDir())
	})
}

func TestReopen(t *testing.T) {
	t.Parallel() // most of its time, it waits for the disk
	statetest.Reopen(t, func(t *testing.T, place string) state.Store {
		t.Helper()
		return mustOpen(t, place)
	})
}

func TestCap(t *testing.T) {
	t.Parallel() // most of its time, it waits for the disk
	statetest.RunCapped(t, func(t *testing.T, most int64) statetest.Capped {
		t.Helper()
		d, err := Open(t.TempDir(), Options{MaxOriginals: most})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

func mustOpen(t *testing.T, dir string) *DB {
	t.Helper()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, d) })
	return d
}

func mustClose(t *testing.T, d *DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func mustCommit(t *testing.T, d *DB, b *state.Branch, originals ...state.Original) {
	t.Helper()
	if _, err := d.Commit(ctx, key, b, originals); err != nil {
		t.Fatal(err)
	}
}

// decided returns a branch with a decision for each original.
func decided(id, version uint64, originals ...state.Original) *state.Branch {
	b := &state.Branch{ID: id, Version: version, Chain: []state.Digest{{1}, {2}, {byte(version)}}}
	for i := range originals {
		b.InForce = append(b.InForce, state.Decision{ID: originals[i].ID, Content: []byte(`"[…]"`)})
	}
	return b
}

// original returns an original of so many bytes, the same ones for the same id.
func original(id string, size int) state.Original {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(id))).Read(content) // never fails; nothing makes it smaller
	return state.Original{ID: id, Session: key, Call: "call " + id, Content: content}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir)
	for range 2 {
		_, err := Open(dir, Options{})
		if !errors.Is(err, errInUse) {
			t.Fatalf("error %v, want that it is in use", err)
		}
		if !strings.Contains(err.Error(), dir) {
			t.Errorf("the error does not name the directory: %v", err)
		}
	}
	mustClose(t, first)
	mustOpen(t, dir)
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"a file": file, "below a file": filepath.Join(file, "x")}
	if runtime.GOOS == "linux" {
		dirs["a file system that takes none"] = "/proc/tidemark"
	}
	if os.Geteuid() != 0 { // permissions do not bind root
		readOnly := t.TempDir()
		if err := os.Chmod(readOnly, 0o500); err != nil {
			t.Fatal(err)
		}
		dirs["a read-only directory"] = readOnly
	}
	for what, dir := range dirs {
		if d, err := Open(dir, Options{}); err == nil {
			mustClose(t, d)
			t.Errorf("%s was opened", what)
		} else if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error does not name it: %v", what, err)
		}
	}
}

func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	o := original("o", 2<<20)
	mustCommit(t, d, decided(1, 0, o), o)
	mustClose(t, d)
	if err := os.Chmod(d.files, 0o755); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
	info, err := os.Stat(d.files)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the files lie in a directory of mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries beside the files, %v", len(entries)-1, err)
	}
}

func TestDiskNearlyFull(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(dir, Options{}, math.MaxUint64); err == nil || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("open: error %v", err)
	}
	d := mustOpen(t, dir)
	o := original("o", 10)
	mustCommit(t, d, decided(1, 0, o), o)

	d.reserve = math.MaxUint64
	late := original("late", 10)
	if _, err := d.Commit(ctx, key, decided(1, 1, o, late), []state.Original{late}); err == nil {
		t.Error("committed to a full disk")
	}
	if _, err := d.Merge(ctx, key, []*state.Branch{decided(2, 0)}); err == nil {
		t.Error("merged to a full disk")
	}
	s, err := d.Load(ctx, key)
	if err != nil || s.Stamp != 1 || len(s.Branches) != 1 || s.Branches[0].Version != 1 {
		t.Errorf("session %+v, %v", s, err)
	}
	if _, err := d.Original(ctx, "o"); err != nil {
		t.Errorf("read original: %v", err)
	}

	d.reserve = reserve
	mustCommit(t, d, decided(1, 1, o, late), late)
}

// TestUnreadableRecords: what cannot be read is absent, is counted, and is logged once and without content.
func TestUnreadableRecords(t *testing.T) {
	var log bytes.Buffer
	d, err := Open(t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	good, err := d.codec.encode(decided(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, record := range map[string][]byte{
		"empty":           {},
		"no value":        {schema},
		"unknown version": append([]byte{schemaZstd + 1}, good[1:]...),
		"not packed":      append([]byte{schemaZstd}, good[1:]...),
		"cut":             good[:len(good)-3],
		"too long":        append(bytes.Clone(good), 0xf6),
		"another type":    {schema, 0x63, 's', 'e', 'c'},
		"garbage":         []byte("\x01content of a transcript"),
	} {
		k := key
		copy(k.Session[:], name)
		before := d.Unreadable()
		for _, at := range [][]byte{branchKey(k, 1), stampKey(k), originalKey(name)} {
			if err := d.db.Update(func(txn *badger.Txn) error { return txn.Set(at, record) }); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := d.Load(ctx, k); err != nil || s.Stamp != 0 || len(s.Branches) != 0 {
			t.Errorf("%s: session %+v, %v", name, s, err)
		}
		if _, err := d.Original(ctx, name); !errors.Is(err, state.ErrNotFound) {
			t.Errorf("%s: original: %v", name, err)
		}
		if got := d.Unreadable() - before; got != 3 {
			t.Errorf("%s: %d records were counted, want 3", name, got)
		}
		if _, err := d.Commit(ctx, k, decided(1, 3), nil); !errors.Is(err, state.ErrConflict) {
			t.Errorf("%s: a version of what is absent was committed: %v", name, err)
		}
		if stamp, err := d.Commit(ctx, k, decided(1, 0), nil); err != nil || stamp != 1 {
			t.Errorf("%s: commit: %d, %v", name, stamp, err)
		}
		if s, err := d.Load(ctx, k); err != nil || s.Stamp != 1 || len(s.Branches) != 1 {
			t.Errorf("%s: session after a commit: %+v, %v", name, s, err)
		}
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("%d log lines, want one:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), "transcript") {
		t.Errorf("content was logged:\n%s", log.String())
	}
}

// TestUnreadableSecret: with another secret nothing would ever be found again, so it is never replaced.
func TestUnreadableSecret(t *testing.T) {
	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	short, err := codec.encode([]byte("short"))
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range [][]byte{{}, {schemaZstd}, short} {
		dir := t.TempDir()
		d := mustOpen(t, dir)
		if err := d.db.Update(func(txn *badger.Txn) error { return txn.Set(secretKey, record) }); err != nil {
			t.Fatal(err)
		}
		mustClose(t, d)
		for range 2 {
			if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "secret") {
				t.Errorf("secret %x: error %v", record, err)
			}
		}
	}
}

// TestGivenSecret: a secret that is given is the store's from the first start on, and none takes its place.
func TestGivenSecret(t *testing.T) {
	dir := t.TempDir()
	given := bytes.Repeat([]byte{7}, secretSize)
	open := func(secret []byte) error {
		d, err := Open(dir, Options{Secret: secret})
		if err != nil {
			return err
		}
		defer mustClose(t, d)
		if got, err := d.Secret(ctx); err != nil || !bytes.Equal(got, given) {
			t.Errorf("secret %x, %v", got, err)
		}
		return nil
	}
	if err := open(given[:16]); err == nil || !strings.Contains(err.Error(), "16 bytes") {
		t.Errorf("a short secret: error %v", err)
	}
	for _, secret := range [][]byte{given, nil, given} {
		if err := open(secret); err != nil {
			t.Error(err)
		}
	}
	other := bytes.Repeat([]byte{8}, secretSize)
	if err := open(other); err == nil || !strings.Contains(err.Error(), "another one") || strings.Contains(err.Error(), "remove") {
		t.Errorf("another secret: error %v", err)
	}
	if err := open(given); err != nil {
		t.Error(err)
	}
}

// TestOlderStore: originals of a store that was written before there were listings are listed, counted, known by their owners and
// withdrawn.
func TestOlderStore(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	small, large := original("small", 100), original("large", 2<<20)
	mustCommit(t, d, decided(1, 0), small, large)
	for _, o := range []state.Original{small, large} {
		record, err := d.codec.encode(&o) // without its size
		if err != nil {
			t.Fatal(err)
		}
		err = d.db.Update(func(txn *badger.Txn) error {
			e := &badger.Entry{Key: originalKey(o.ID), Value: record, ExpiresAt: seconds(expiry())}
			return errors.Join(txn.SetEntry(e), txn.Delete(listKey(key, o.ID)), txn.Delete(ownerKey(o.ID)), txn.Delete(layoutKey))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, d)
	for range 2 {
		d, err := Open(dir, Options{MaxOriginals: 2<<20 + 100})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := d.Originals(ctx, key)
		if err != nil || len(listed) != 2 || listed[0].Size+listed[1].Size != 2<<20+100 || listed[0].Content != nil {
			t.Errorf("listed %+v, %v", listed, err)
		}
		for _, id := range []string{small.ID, large.ID} {
			if owner, err := d.Owner(ctx, id); owner != key || err != nil {
				t.Errorf("owner %v, %v", owner, err)
			}
		}
		mustClose(t, d)
	}
	d, err := Open(dir, Options{MaxOriginals: 2<<20 + 100})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	mustCommit(t, d, decided(2, 0), original("late", 1))
	if d.Evicted() != 1 {
		t.Errorf("%d evicted", d.Evicted())
	}
	if n, err := d.Withdraw(ctx, key); n != 2 || err != nil {
		t.Errorf("%d withdrawn, %v", n, err)
	}
}

// TestKeysAreDigests: no id, whatever it holds, is a part of a key.
func TestKeysAreDigests(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	const id = "0123456789abcdef01234567"
	o := original(id, 100)
	b := decided(1, 0, o)
	b.InForce[0].Ref.Call = id
	mustCommit(t, d, b, o)
	if _, err := d.Withdraw(ctx, key); err != nil {
		t.Fatal(err)
	}
	lengths := map[byte]int{'b': 1 + 16 + 16 + 8, 's': 1 + 16 + 16, 'h': 1 + 16 + 32 + 16, 'o': 1 + 32, 'u': 1 + 32, 'i': 1 + 16 + 16 + 32, 'w': 1 + 32, 'k': 1, 'l': 1}
	seen := map[byte]bool{}
	for _, item := range items(t, d) {
		kind := item.key[0]
		seen[kind] = true
		if len(item.key) != lengths[kind] || bytes.Contains(item.key, []byte(id[:8])) {
			t.Errorf("key %q", item.key)
		}
	}
	if len(seen) != len(lengths) {
		t.Errorf("kinds of keys: %v", seen)
	}
}

type stored struct {
	key     []byte
	expires uint64
}

func items(t *testing.T, d *DB) (all []stored) {
	t.Helper()
	err := d.db.View(func(txn *badger.Txn) error {
		d.scan(txn, nil, false, func(item *badger.Item) {
			all = append(all, stored{item.KeyCopy(nil), item.ExpiresAt()})
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCollectGarbage: space of replaced values comes back, and nothing else is lost.
func TestCollectGarbage(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "badger", "000001.vlog")
	var kept []state.Original
	collected := false
	for round := range 40 { // Badger finds out which values are spent when it merges tables, of which each round adds one
		d := mustOpen(t, dir)
		spent, keep := original("spent", 3<<20), original(fmt.Sprint("kept ", round), 1<<20)
		kept = append(kept, keep)
		mustCommit(t, d, decided(1, uint64(round), spent, keep), spent, keep)
		if err := d.db.Flatten(compactors); err != nil {
			t.Fatal(err)
		}
		if err := d.collectGarbage(discardRatio); err != nil {
			t.Fatal(err)
		}
		mustClose(t, d)
		if _, err := os.Stat(first); errors.Is(err, fs.ErrNotExist) {
			collected = true
			break
		}
	}
	if !collected {
		t.Error("a log of replaced values is still there")
	}
	d := mustOpen(t, dir)
	for i := range kept {
		if o, err := d.Original(ctx, kept[i].ID); err != nil || !bytes.Equal(o.Content, kept[i].Content) {
			t.Errorf("original %d: %v", i, err)
		}
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	d := mustOpen(t, t.TempDir())
	mustCommit(t, d, decided(1, 0))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
