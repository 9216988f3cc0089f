package statetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// Reopen checks that what was written outlives the store. Open opens the store of a place, a directory of the test's own,
// and opens the same place again once the store is closed. Reopen closes what open returns.
func Reopen(t *testing.T, open func(t *testing.T, place string) state.Store) {
	t.Run("Secret", func(t *testing.T) {
		place := t.TempDir()
		var want []byte
		for i := range 3 {
			s := open(t, place)
			secret := must(s.Secret(context.Background()))(t)
			if i == 0 {
				want = secret
			}
			assertEqual(t, "secret", secret, want)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		other := open(t, t.TempDir())
		if bytes.Equal(must(other.Secret(context.Background()))(t), want) {
			t.Error("two stores have the same secret")
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("Twin", func(t *testing.T) {
		place := t.TempDir()
		s := open(t, place)
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		testTwin(t, s, func() (state.Store, error) {
			if err := s.Close(); err != nil {
				return nil, err
			}
			s = open(t, place)
			return s, nil
		})
	})
}

// testTwin drives the store and the store in memory through the same random calls and compares what they return. Sessions
// are few, so that calls meet; reopen closes the store and opens it again.
func testTwin(t *testing.T, s state.Store, reopen func() (state.Store, error)) {
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{store: s, model: memory.New(), known: map[string]bool{}, heads: map[[2]state.Digest]bool{}}
		first, second := newKey(), newKey()
		beside := first
		beside.Session[0]++
		w.keys = []state.SessionKey{first, beside, second}
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "commit") {
				w.commit(t)
			} else {
				w.merge(t)
			}
		}
		if rapid.IntRange(0, 7).Draw(t, "patience") == 0 { // opening is slow
			var err error
			if w.store, err = reopen(); err != nil {
				t.Fatal(err)
			}
		}
		s = w.store
		w.compareAll(t)
	})
}

type twins struct {
	store, model state.Store
	keys         []state.SessionKey
	known        map[string]bool // ids of originals
	heads        map[[2]state.Digest]bool
}

// draw returns one of few branches of one of few sessions.
func (w *twins) draw(t *rapid.T) (state.SessionKey, *state.Branch) {
	b := Branches().Draw(t, "branch")
	b.ID = rapid.Uint64Range(0, 2).Draw(t, "id")
	if head, ok := b.Head(); ok {
		w.heads[head] = true
	}
	return rapid.SampledFrom(w.keys).Draw(t, "key"), b
}

func (w *twins) commit(t *rapid.T) {
	key, b := w.draw(t)
	for _, stored := range load(t, w.model, key).Branches {
		if stored.ID == b.ID && rapid.IntRange(0, 3).Draw(t, "stale") > 0 {
			b.Version = stored.Version
		}
	}
	originals := Originals(key).Draw(t, "originals")
	for i := range originals {
		w.known[originals[i].ID] = true
	}
	got, err := w.store.Commit(context.Background(), key, b, originals)
	want, wantErr := w.model.Commit(context.Background(), key, b, originals)
	if got != want || !errors.Is(err, wantErr) {
		t.Fatalf("commit: %d, %v; want %d, %v", got, err, want, wantErr)
	}
	w.compare(t, key)
}

func (w *twins) merge(t *rapid.T) {
	key, b := w.draw(t)
	branches := append(make([]*state.Branch, 0, 3), b)
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		_, b := w.draw(t)
		branches = append(branches, b)
	}
	assertEqual(t, "stamp of a merge", merge(t, w.store, key, branches...), merge(t, w.model, key, branches...))
	w.compare(t, key)
}

func (w *twins) compare(t *rapid.T, key state.SessionKey) {
	t.Helper()
	assertEqual(t, "session", load(t, w.store, key), load(t, w.model, key))
	assertEqual(t, "stamp", must(w.store.Stamp(context.Background(), key))(t), must(w.model.Stamp(context.Background(), key))(t))
}

func (w *twins) compareAll(t *rapid.T) {
	t.Helper()
	ctx := context.Background()
	for _, key := range w.keys {
		w.compare(t, key)
		for head := range w.heads {
			assertEqual(t, "heads", heads(t, w.store, key.Tenant, head), heads(t, w.model, key.Tenant, head))
		}
	}
	for id := range w.known {
		assertEqual(t, "original", must(w.store.Original(ctx, id))(t), must(w.model.Original(ctx, id))(t))
	}
}
