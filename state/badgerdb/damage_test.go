package badgerdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tidemark-dev/tidemark/state"
)

const (
	damageSessions = 6
	damageVersions = 3
	damageWritten  = 4 << 20 // more than any file of the test holds before its zeroes
)

func damageKey(session int) state.SessionKey {
	return state.SessionKey{Tenant: state.Digest{3}, Session: state.Digest{byte(session)}}
}

// damageVersion is what the test commits to a session as a version.
func damageVersion(session int, version uint64) (*state.Branch, []state.Original) {
	all := make([]state.Original, 0, version+1)
	for v := range version + 1 {
		size := 3000
		if session == 1 {
			size = 1200 << 10
		}
		o := original(fmt.Sprintf("%d of session %d", v, session), size)
		o.Session, o.Size = damageKey(session), size
		all = append(all, o)
	}
	b := decided(1, version, all...)
	b.Chain = make([]state.Digest, 200)
	for i := range b.Chain {
		b.Chain[i] = state.Digest{byte(session), byte(version), byte(i), 5}
	}
	return b, all[version:]
}

// TestDamage garbles, truncates, empties or removes every file of a store, encrypted or not, in turn, as chance has it. Whatever was done to it, the store does
// not open, or it opens and each record is what some commit wrote or absent; then it also keeps what is written to it.
func TestDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var keys [][]byte
	if random.IntN(2) > 0 {
		keys = [][]byte{keyA}
	}
	base := t.TempDir()
	files := writeDamageBase(t, base, keys)
	damages := []struct {
		name string
		do   func(f *os.File, size int64) error
	}{
		{"empty", func(f *os.File, _ int64) error { return f.Truncate(0) }},
		{"truncated", func(f *os.File, size int64) error { return f.Truncate(random.Int64N(size)) }},
		{"garbled", func(f *os.File, size int64) error { return garble(f, random, 0, size) }},
		{"garbled at its end", func(f *os.File, size int64) error { return garble(f, random, size-min(size, 40), size) }},
		{"removed", func(f *os.File, _ int64) error { return os.Remove(f.Name()) }},
	}
	opened, refused := 0, 0
	for _, name := range files {
		random.Shuffle(len(damages), func(i, j int) { damages[i], damages[j] = damages[j], damages[i] })
		for _, damage := range damages[:3] { // each takes a good part of a second
			t.Run(filepath.Base(name)+" "+damage.name, func(t *testing.T) {
				dir := t.TempDir()
				copyStore(t, base, dir)
				f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				info, err := f.Stat()
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(damage.do(f, min(info.Size(), damageWritten/2)), f.Close()); err != nil {
					t.Fatal(err)
				}
				if useDamaged(t, dir, keys) {
					opened++
				} else {
					refused++
				}
			})
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d damaged stores were opened and %d refused: the damage shows nothing", opened, refused)
	}
}

func garble(f *os.File, random *rand.Rand, from, to int64) error {
	for range 8 {
		at := from + random.Int64N(to-from)
		if _, err := f.WriteAt([]byte{byte(random.Uint32())}, at); err != nil {
			return err
		}
	}
	return nil
}

// writeDamageBase writes a store that has tables, value logs and an unfinished log, as a crash would leave it, and returns
// its files.
func writeDamageBase(t *testing.T, base string, keys [][]byte) (files []string) {
	t.Helper()
	live := t.TempDir()
	for version := range uint64(damageVersions) {
		d := openWith(t, live, keys...)
		for session := range damageSessions {
			b, originals := damageVersion(session, version)
			if _, err := d.Commit(ctx, damageKey(session), b, originals); err != nil {
				t.Fatal(err)
			}
		}
		if version == damageVersions-1 {
			copyStore(t, live, base)
		}
		mustClose(t, d)
	}
	entries, err := os.ReadDir(filepath.Join(base, "badger"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "LOCK" { // it holds nothing
			files = append(files, filepath.Join("badger", e.Name()))
		}
	}
	return files
}

// copyStore copies the files of a store without filling their holes.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	to = filepath.Join(to, "badger")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(from, "badger", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := copySparse(name, filepath.Join(to, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(in, damageWritten))
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, bytes.TrimRight(data, "\x00"), 0o600); err != nil {
		return err
	}
	return os.Truncate(to, info.Size())
}

// useDamaged reports whether the store opens, and checks what it holds if it does.
func useDamaged(t *testing.T, dir string, keys [][]byte) bool {
	t.Helper()
	d, err := Open(dir, Options{Keys: keys})
	if err != nil {
		return false
	}
	defer mustClose(t, d)
	for session := range damageSessions {
		checkDamaged(t, d, session)
	}
	if _, err := d.Heads(ctx, damageKey(0).Tenant, [2]state.Digest{{0, 2, 0, 5}, {0, 2, 1, 5}}); err != nil {
		t.Errorf("find heads: %v", err)
	}
	o := original("new", 2<<20)
	b := decided(5, 0, o)
	mustCommit(t, d, b, o)
	if _, err := d.Merge(ctx, damageKey(0), []*state.Branch{decided(6, 0)}); err != nil {
		t.Errorf("merge: %v", err)
	}
	if err := d.db.Flatten(compactors); err != nil {
		t.Errorf("compact: %v", err)
	}
	if err := d.collectGarbage(discardRatio); err != nil {
		t.Errorf("collect garbage: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}

	d, err = Open(dir, Options{Keys: keys})
	if err != nil {
		t.Errorf("it opened once and not again: %v", err)
		return true
	}
	defer mustClose(t, d)
	b.Version = 1
	s, err := d.Load(ctx, key)
	if err != nil || len(s.Branches) != 1 || !reflect.DeepEqual(s.Branches[0], b) {
		t.Errorf("what was written then is lost: %+v, %v", s, err)
	}
	if got, err := d.Original(ctx, "new"); err != nil || !bytes.Equal(got.Content, o.Content) {
		t.Errorf("the original that was written then is lost: %v", err)
	}
	return true
}

func checkDamaged(t *testing.T, d *DB, session int) {
	t.Helper()
	s, err := d.Load(ctx, damageKey(session))
	if err != nil {
		t.Errorf("load session %d: %v", session, err)
	}
	for _, b := range s.Branches {
		want, _ := damageVersion(session, b.Version-1)
		want.Version++
		if b.Version > damageVersions || !reflect.DeepEqual(b, want) {
			t.Errorf("session %d: nobody wrote this branch: %+v", session, b)
		}
	}
	_, originals := damageVersion(session, 0)
	for i := range originals {
		o, err := d.Original(ctx, originals[i].ID)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			t.Errorf("session %d: read original: %v", session, err)
		}
		if err == nil && !reflect.DeepEqual(*o, originals[i]) {
			t.Errorf("session %d: nobody wrote this original", session)
		}
	}
}
