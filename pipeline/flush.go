package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// settleTimeout bounds a store operation that no request waits for.
const settleTimeout = 10 * time.Second

// flusher writes lazily what need not be durable before a reply: chains, frontiers, entries and clocks.
func (e *Engine) flusher(every time.Duration) {
	defer close(e.flushed)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.Flush(context.Background())
		case <-e.stop:
			return
		}
	}
}

// Flush writes all pending activity now.
func (e *Engine) Flush(ctx context.Context) {
	e.mu.Lock()
	pending := slices.Collect(maps.Values(e.dirty))
	e.mu.Unlock()
	for _, s := range pending {
		if err := e.flush(ctx, s); err != nil {
			e.log.WarnContext(ctx, "lazy write failed", "error", err)
		}
	}
}

func (e *Engine) markDirty(s *session) {
	e.mu.Lock()
	e.dirty[s.key] = s
	e.mu.Unlock()
}

func (e *Engine) flush(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if !s.lock(ctx, settleTimeout) {
		return errors.New("session is busy")
	}
	defer s.unlock()
	s.takeLate()
	if err := e.settle(ctx, s); err != nil {
		return err
	}
	if err := e.merge(ctx, s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dirty[s.key] == s {
		delete(e.dirty, s.key)
	}
	return nil
}

// merge writes the activity of the session's dirty branches. The lock must be held.
func (e *Engine) merge(ctx context.Context, s *session) error {
	var dirty []*state.Branch
	for _, b := range s.branches {
		if s.dirty[b.ID] {
			dirty = append(dirty, b)
		}
	}
	if len(dirty) == 0 {
		clear(s.dirty)
		return nil
	}
	stamp, err := e.store.Merge(ctx, s.key, dirty)
	if err != nil {
		return err
	}
	s.wrote(stamp)
	clear(s.dirty)
	return nil
}

// settle finds out what became of commits whose outcome is unknown. Their decisions were never forwarded; where one was
// written all the same it is taken back, so that what is stored is what the provider saw. The lock must be held.
func (e *Engine) settle(ctx context.Context, s *session) error {
	if len(s.unsure) == 0 {
		return nil
	}
	for id, a := range s.unsure {
		select {
		case <-a.ended:
		default:
			return fmt.Errorf("the write of branch %x is still running", id)
		}
	}
	stored, err := e.store.Load(ctx, s.key)
	if err != nil {
		return err
	}
	for id, a := range s.unsure {
		if err := e.takeBack(ctx, s, stored.Branches, id, a.commit); err != nil {
			return err
		}
		delete(s.unsure, id)
	}
	s.stamp = stale
	return nil
}

// takeBack makes the stored branch what it is in memory, if the commit of unknown outcome is what is stored. What another
// replica wrote since stands.
func (e *Engine) takeBack(ctx context.Context, s *session, stored []*state.Branch, id, commit uint64) error {
	i := slices.IndexFunc(stored, func(b *state.Branch) bool { return b.ID == id })
	if i < 0 || stored[i].Commit != commit {
		return nil
	}
	mine := s.branch(id)
	if mine == nil { // it was new: without a chain it matches nothing
		mine = &state.Branch{ID: id, Key: stored[i].Key, Last: stored[i].Last}
	}
	back := mine.Clone()
	back.Version = stored[i].Version
	if _, err := e.store.Commit(ctx, s.key, back, nil); err != nil {
		return err
	}
	if len(mine.Chain) > 0 {
		back.Version++
		s.put(back)
	}
	return nil
}

func (s *session) branch(id uint64) *state.Branch {
	for _, b := range s.branches {
		if b.ID == id {
			return b
		}
	}
	return nil
}
