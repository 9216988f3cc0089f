package memory

import (
	"bytes"
	"context"
	"math"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/internal/quota"
)

// forever is when what is kept here expires.
const forever = math.MaxUint64

// keep puts originals in the place of what is stored, unless that is a tombstone or sealed, and evicts others where they
// need room. Until release is called, no original that the branch refers to is evicted. The lock must be held.
func (s *Store) keep(key state.SessionKey, b *state.Branch, originals []state.Original) (release func(), err error) {
	sizes := map[string]int64{}
	for i := range originals {
		if old := s.originals[originals[i].ID]; old == nil || old.Fate == state.Kept {
			sizes[originals[i].ID] = int64(len(originals[i].Content))
		}
	}
	victims, release, err := s.quota.Reserve(key, b, sizes)
	if err != nil {
		return nil, err
	}
	for _, v := range victims {
		s.remove(v.ID)
	}
	for i := range originals {
		o := copyOriginal(&originals[i])
		if _, ok := sizes[o.ID]; !ok {
			continue
		}
		s.remove(o.ID)
		o.Session, o.Fate, o.Size = key, state.Kept, len(o.Content)
		s.originals[o.ID] = o
		if s.listed[key] == nil {
			s.listed[key] = map[string]*state.Original{}
		}
		s.listed[key][o.ID] = o
		s.quota.Keep(quota.Item{ID: o.ID, Session: key, Size: int64(o.Size), Expires: forever})
	}
	return release, nil
}

// remove removes an original, if there is one. The lock must be held.
func (s *Store) remove(id string) {
	if o := s.originals[id]; o != nil {
		delete(s.originals, id)
		delete(s.listed[o.Session], id)
		s.quota.Forget(o.Session.Tenant, id)
	}
}

// Original implements [state.Store].
func (s *Store) Original(ctx context.Context, id string) (*state.Original, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if o, ok := s.originals[id]; ok {
		s.quota.Use(o.Session.Tenant, id, forever)
		return copyOriginal(o), nil
	}
	return nil, state.ErrNotFound
}

// Owner implements [state.Store].
func (s *Store) Owner(ctx context.Context, id string) (state.SessionKey, error) {
	if err := s.lock(ctx); err != nil {
		return state.SessionKey{}, err
	}
	defer s.mu.Unlock()
	if o, ok := s.originals[id]; ok {
		return o.Session, nil
	}
	return state.SessionKey{}, state.ErrNotFound
}

// Originals implements [state.Store].
func (s *Store) Originals(ctx context.Context, key state.SessionKey) ([]state.Original, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var listed []state.Original
	for _, o := range s.listed[key] {
		listed = append(listed, o.Listed())
	}
	return state.Latest(listed), nil
}

// Seal implements [state.Store].
func (s *Store) Seal(ctx context.Context, id string, sealed bool) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	o := s.originals[id]
	if o == nil {
		return state.ErrNotFound
	}
	if o.Fate == state.Withdrawn {
		return state.ErrWithdrawn
	}
	o.Fate = state.Kept
	if sealed {
		o.Fate = state.Sealed
	}
	s.quota.Seal(o.Session.Tenant, id, sealed)
	return nil
}

// Withdraw implements [state.Store].
func (s *Store) Withdraw(ctx context.Context, key state.SessionKey) (n int, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for id, o := range s.listed[key] {
		if o.Fate != state.Withdrawn {
			*o = o.Tombstone()
			s.quota.Forget(key.Tenant, id)
			n++
		}
	}
	return n, nil
}

func copyOriginal(o *state.Original) *state.Original {
	c := *o
	c.Content, c.At = bytes.Clone(o.Content), plain(o.At)
	return &c
}
