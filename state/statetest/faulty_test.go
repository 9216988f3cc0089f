package statetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// TestFaultyConformance: without a fault, and with merges that are written late, the store is still a store.
func TestFaultyConformance(t *testing.T) {
	t.Run("healthy", func(t *testing.T) {
		Run(t, func(*testing.T) state.Store { return NewFaulty(memory.New()) })
	})
	t.Run("buffered", func(t *testing.T) {
		Run(t, func(*testing.T) state.Store {
			f := NewFaulty(memory.New())
			f.Buffer()
			return f
		})
	})
}

func TestFailing(t *testing.T) {
	f, key := NewFaulty(memory.New()), newKey()
	f.Set(Failing)
	for call, err := range calls(context.Background(), f, key) {
		assertError(t, call, err, ErrInjected)
	}
	f.Set(Healthy)
	assertEqual(t, "session", load(t, f, key), state.Session{})
	_, err := f.Original(context.Background(), original(key).ID)
	assertError(t, "original", err, state.ErrNotFound)
}

func TestHalfway(t *testing.T) {
	f, key := NewFaulty(memory.New()), newKey()
	f.Set(Halfway)
	for call, err := range calls(context.Background(), f, key) {
		want := error(nil)
		if call == "commit" || call == "merge" || call == "seal" || call == "withdraw" {
			want = ErrInjected
		}
		assertError(t, call, err, want)
	}
	assertEqual(t, "session", load(t, f, key), state.Session{})
	f.Set(Healthy)
	assertEqual(t, "stamp of the next commit", commit(t, f, key, sample(1)), uint64(1))
}

func TestUnanswered(t *testing.T) {
	f, key := NewFaulty(memory.New()), newKey()
	f.Set(Unanswered)
	_, err := f.Commit(context.Background(), key, sample(1), []state.Original{original(key)})
	assertError(t, "commit", err, ErrInjected)
	if got := only(t, f, key).Version; got != 1 {
		t.Errorf("version %d, want 1", got)
	}
	_, err = f.Commit(context.Background(), key, sample(1), nil)
	assertError(t, "commit of a stale version", err, state.ErrConflict)
	_, err = f.Merge(context.Background(), key, []*state.Branch{sample(1)})
	assertError(t, "merge", err, ErrInjected)
	assertEqual(t, "stamp", load(t, f, key).Stamp, uint64(2))
}

func TestBlockedAndSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, key := NewFaulty(memory.New()), newKey()
		f.Set(Blocked)
		short, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for call, err := range calls(short, f, key) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want a deadline", call, err)
			}
		}
		done := make(chan error)
		go func() {
			_, err := f.Commit(context.Background(), key, sample(1), nil)
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("commit passed a blocked store: %v", err)
		default:
		}
		start := time.Now()
		f.Set(Slow(time.Second))
		assertError(t, "commit", <-done, nil)
		assertEqual(t, "delay", time.Since(start), time.Second)
		hurry, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, err := f.Load(hurry, key)
		assertError(t, "load in a hurry", err, context.DeadlineExceeded)
	})
}

// TestCrash: what a crash loses is exactly the merges since the last commit.
func TestCrash(t *testing.T) {
	f, key, beside := NewFaulty(memory.New()), newKey(), newKey()
	f.Buffer()
	merge(t, f, key, sample(1))
	merge(t, f, beside, sample(1))
	commit(t, f, key, sample(2))
	kept := load(t, f, key)
	if len(kept.Branches) != 2 {
		t.Fatalf("%d branches, want 2", len(kept.Branches))
	}
	late := sample(1)
	late.Last, late.Requests = epoch.Add(time.Hour), 50
	merge(t, f, key, late, sample(3))
	seen := load(t, f, key)
	if len(seen.Branches) != 3 || seen.Branches[0].Requests != 50 {
		t.Fatalf("a merge is not seen before the crash: %v", seen)
	}
	f.Crash()
	assertEqual(t, "session", load(t, f, key), kept)
	if len(load(t, f, beside).Branches) != 1 {
		t.Error("a merge that a commit had made durable is lost")
	}
}
