package badgerdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/state"
)

var (
	keyA = bytes.Repeat([]byte{0xa}, keySize)
	keyB = bytes.Repeat([]byte{0xb}, keySize)
)

// planted is what a test puts into a store, and what a file that holds it in the clear must contain.
type planted struct {
	branch    *state.Branch
	originals []state.Original
	needles   map[string][]byte
}

// plant commits a branch and originals of all kinds: small ones, one that is compressed, one for the value log.
func plant(t *testing.T, d *DB, k state.SessionKey, name string) *planted {
	t.Helper()
	p := &planted{needles: map[string][]byte{}}
	needle := func(what string) string {
		sum := sha256.Sum256([]byte(name + what)) // nothing that Badger's own compression finds a part of elsewhere
		p.needles[what] = []byte(base64.StdEncoding.EncodeToString(sum[:18]))
		return string(p.needles[what])
	}
	small := state.Original{ID: name + " small", Content: []byte(needle("content")), Call: needle("call"), Tool: needle("tool"), About: needle("about")}
	packed := state.Original{ID: name + " packed", Content: []byte(hex.EncodeToString(original(name, 9000).Content))}
	large := original(name+" large", 3<<20)
	copy(large.Content[1<<20:], needle("large content"))
	p.originals = []state.Original{small, packed, large}
	p.branch = decided(1, 0, p.originals...)
	p.branch.InForce[0].Content = []byte(needle("decision"))
	p.branch.Ledger.Message = needle("message")
	for i := range p.originals {
		o := &p.originals[i]
		o.Session, o.Size = k, len(o.Content)
	}
	record, err := d.codec.encode(&p.originals[1])
	if err != nil || record[0] != schemaZstd {
		t.Fatalf("record of version %d, %v", record[0], err)
	}
	p.needles["compressed content"] = record[20:60]
	if _, err := d.Commit(ctx, k, p.branch, p.originals); err != nil {
		t.Fatal(err)
	}
	return p
}

// check fails if anything that was planted is not there.
func (p *planted) check(t *testing.T, d *DB, k state.SessionKey) {
	t.Helper()
	s, err := d.Load(ctx, k)
	if err != nil || len(s.Branches) != 1 || string(s.Branches[0].InForce[0].Content) != string(p.branch.InForce[0].Content) {
		t.Errorf("session %+v, %v", s, err)
	}
	for i := range p.originals {
		o, err := d.Original(ctx, p.originals[i].ID)
		if err != nil || !bytes.Equal(o.Content, p.originals[i].Content) {
			t.Errorf("original %q: %v", p.originals[i].ID, err)
		}
	}
}

// found returns the needles that some file of the store contains, in order.
func (p *planted) found(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, data := range contents(t, dir) {
		for what, needle := range p.needles {
			if bytes.Contains(data, needle) {
				found = append(found, what)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (p *planted) all() []string { return slices.Sorted(maps.Keys(p.needles)) }

// contents returns the beginning of every file of a store: all that a test writes to it.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) { // a log that is a table by now
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) { // a log that is a table by now
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(f, 24<<20))
		files[name] = data
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sums returns digests of all files of a store.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	sums := map[string][32]byte{}
	for name, data := range contents(t, dir) {
		sums[name] = sha256.Sum256(data)
	}
	return sums
}

func openWith(t *testing.T, dir string, keys ...[]byte) *DB {
	t.Helper()
	d, err := Open(dir, Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, d) })
	return d
}

// refuse fails unless the store does not open with these keys, says why, tempts nobody to remove it, and changes no file.
func refuse(t *testing.T, dir string, want error, keys ...[]byte) {
	t.Helper()
	before := sums(t, dir)
	d, err := Open(dir, Options{Keys: keys})
	if err == nil {
		mustClose(t, d)
	}
	if !errors.Is(err, want) || strings.Contains(err.Error(), "remove") {
		t.Errorf("error %v, want %v", err, want)
	}
	if after := sums(t, dir); !maps.Equal(before, after) {
		t.Errorf("a refused store has %d files, some of them changed; %d before", len(after), len(before))
	}
}

// TestPlain: without a key, the files tell everything. So the tests that find nothing mean something.
func TestPlain(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	p := plant(t, d, key, "plain")
	if got := p.found(t, dir); !slices.Equal(got, p.all()) {
		t.Errorf("an open store tells %q, want %q", got, p.all())
	}
	mustClose(t, d)
	if got := p.found(t, dir); !slices.Equal(got, p.all()) {
		t.Errorf("a closed store tells %q, want %q", got, p.all())
	}
	d = mustOpen(t, dir)
	p.check(t, d, key)
	mustClose(t, d)
	if _, err := Open(dir, Options{Keys: [][]byte{keyA[:16]}}); err == nil || !strings.Contains(err.Error(), "16 bytes") {
		t.Errorf("a short key: error %v", err)
	}
}

// TestEncrypted: with a key, no file tells anything: while the store is open, which is what a kill leaves, once it is closed,
// when it was compacted, and under another key.
func TestEncrypted(t *testing.T) {
	dir := t.TempDir()
	d := openWith(t, dir, keyA)
	first, second := plant(t, d, key, "first"), (*planted)(nil)
	silent := func(when string) {
		t.Helper()
		for _, p := range []*planted{first, second} {
			if p == nil {
				continue
			}
			if got := p.found(t, dir); len(got) > 0 {
				t.Errorf("%s, the files tell %q", when, got)
			}
		}
	}
	silent("open")
	killed := t.TempDir()
	copyStore(t, dir, killed)
	mustClose(t, d)
	silent("closed")
	refuse(t, dir, errNoKey)
	refuse(t, dir, errWrongKey, keyB)

	d = openWith(t, killed, keyA)
	first.check(t, d, key)
	mustClose(t, d)

	d = openWith(t, dir, keyB, keyA)
	first.check(t, d, key)
	other := key
	other.Session[0]++
	second = plant(t, d, other, "second")
	silent("under another key")
	mustClose(t, d)
	silent("closed under another key")
	refuse(t, dir, errWrongKey, keyA)
	refuse(t, dir, errNoKey)
	d = openWith(t, dir, keyB)
	if err := d.db.Flatten(compactors); err != nil {
		t.Fatal(err)
	}
	silent("compacted")
	first.check(t, d, key)
	second.check(t, d, other)
	mustClose(t, d)

	if err := os.Remove(filepath.Join(dir, "badger", "KEYREGISTRY")); err != nil {
		t.Fatal(err)
	}
	refuse(t, dir, errLostKey, keyB)
	refuse(t, dir, errLostKey)
}

// TestKeyForPlainStore: a store without encryption gets a key; what is written from then on is encrypted.
func TestKeyForPlainStore(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	old := plant(t, d, key, "old")
	mustClose(t, d)
	d = openWith(t, dir, keyA)
	old.check(t, d, key)
	other := key
	other.Session[0]++
	late := plant(t, d, other, "late")
	mustClose(t, d)
	if got := late.found(t, dir); len(got) > 0 {
		t.Errorf("the files tell %q", got)
	}
	refuse(t, dir, errNoKey)
	d = openWith(t, dir, keyA)
	old.check(t, d, key)
	late.check(t, d, other)
}

// TestWithdrawnLeavesTheFiles: of withdrawn originals nothing is left in any file, whether they lie in a log, in tables, or in
// the value log; a neighbour's stay, and so do the tombstones.
func TestWithdrawnLeavesTheFiles(t *testing.T) {
	for name, settle := range map[string]func(*testing.T, *DB, string) *DB{
		"in the log": func(t *testing.T, d *DB, _ string) *DB {
			t.Helper()
			return d
		},
		"in tables": func(t *testing.T, d *DB, dir string) *DB {
			t.Helper()
			mustClose(t, d)
			return mustOpen(t, dir)
		},
		"in several levels": func(t *testing.T, d *DB, dir string) *DB {
			t.Helper()
			mustClose(t, d)
			d = mustOpen(t, dir)
			if err := d.db.Flatten(compactors); err != nil {
				t.Fatal(err)
			}
			mustCommit(t, d, decided(7, 0))
			mustClose(t, d)
			return mustOpen(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := mustOpen(t, dir)
			other := key
			other.Session[0]++
			gone, stays := plant(t, d, key, "gone"), plant(t, d, other, "stays")
			for _, what := range []string{"tool", "call", "about", "decision", "message"} {
				delete(gone.needles, what) // no content of an original
			}
			d = settle(t, d, dir)
			if n, err := d.Withdraw(ctx, key); n != 3 || err != nil {
				t.Fatalf("%d withdrawn, %v", n, err)
			}
			if got := gone.found(t, dir); !slices.Equal(got, gone.all()) {
				t.Fatalf("the files tell %q even before they are erased, want %q", got, gone.all())
			}
			check := func(d *DB) {
				t.Helper()
				stays.check(t, d, other)
				for i := range gone.originals {
					want := gone.originals[i].Tombstone()
					if o, err := d.Original(ctx, want.ID); err != nil || o.Fate != state.Withdrawn || o.Content != nil || o.Size != want.Size {
						t.Errorf("tombstone %+v, %v", o, err)
					}
				}
				if listed, err := d.Originals(ctx, key); len(listed) != 3 || err != nil {
					t.Errorf("%d listed, %v", len(listed), err)
				}
			}
			if err := d.erase(); err != nil {
				t.Fatal(err)
			}
			check(d)
			if notes, err := d.notes(); len(notes) > 0 || err != nil {
				t.Errorf("%d notes are left, %v", len(notes), err)
			}
			mustClose(t, d)
			if got := gone.found(t, dir); len(got) > 0 {
				t.Errorf("the files still tell %q", got)
			}
			check(mustOpen(t, dir))
		})
	}
}

// TestWithdrawnAtClose: closing erases what takes no garbage collection; the next start does the rest.
func TestWithdrawnAtClose(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	p := plant(t, d, key, "gone")
	if _, err := d.Withdraw(ctx, key); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	p.needles = map[string][]byte{"content": p.needles["content"], "compressed content": p.needles["compressed content"], "large content": p.needles["large content"]}
	if got := p.found(t, dir); !slices.Equal(got, []string{"large content"}) {
		t.Errorf("the files tell %q", got)
	}
	d = mustOpen(t, dir) // its collector begins at once
	mustClose(t, d)
	d = mustOpen(t, dir)
	if err := d.erase(); err != nil {
		t.Fatal(err)
	}
	if got := p.found(t, dir); len(got) > 0 {
		t.Errorf("the files tell %q", got)
	}
}

// TestErasedAfterACrash: a crash between the two steps of erasing leaves no original without its tombstone for good, and takes
// nothing from whoever has the place of one whose tombstone has expired.
func TestErasedAfterACrash(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	p := plant(t, d, key, "gone")
	if _, err := d.Withdraw(ctx, key); err != nil {
		t.Fatal(err)
	}
	small, packed := p.originals[0], p.originals[1]
	if err := d.db.DropPrefix(originalKey(small.ID)); err != nil {
		t.Fatal(err)
	}
	age(t, d, originalKey(packed.ID), seconds(now())-1)
	age(t, d, listKey(key, packed.ID), seconds(now())-1)
	mustCommit(t, d, decided(2, 0), small, packed)
	if err := d.erase(); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Original(ctx, small.ID); err != nil || o.Fate != state.Withdrawn {
		t.Errorf("original %+v, %v", o, err)
	}
	if o, err := d.Original(ctx, packed.ID); err != nil || !bytes.Equal(o.Content, packed.Content) {
		t.Errorf("original %+v, %v", o, err)
	}
}
