// Package memory is a store that lives and dies with the process: for tests, replay and demos.
//
// It keeps the contract of [state.Store] and returns what a store on disk would return: deep copies, times in UTC without
// a monotonic clock. It forgets nothing, so that a replay may run on any clock; only Close empties it.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/internal/quota"
)

var errClosed = errors.New("memory: store is closed")

// Store is a [state.Store].
type Store struct {
	mu        sync.Mutex
	closed    bool
	secret    []byte
	sessions  map[state.SessionKey]*session
	heads     map[head]map[state.SessionKey]bool
	originals map[string]*state.Original
	listed    map[state.SessionKey]map[string]*state.Original
	quota     *quota.Quota
}

type session struct {
	stamp    uint64
	branches map[uint64]*state.Branch
}

type head struct {
	tenant state.Digest
	digest [2]state.Digest
}

// New returns an empty store with a random secret.
func New() *Store {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: see crypto/rand
	return WithSecret(secret)
}

// WithSecret returns an empty store with a given secret of 32 bytes, for runs whose restore ids must come out the same.
func WithSecret(secret []byte) *Store {
	return &Store{
		secret:    bytes.Clone(secret),
		sessions:  map[state.SessionKey]*session{},
		heads:     map[head]map[state.SessionKey]bool{},
		originals: map[string]*state.Original{},
		listed:    map[state.SessionKey]map[string]*state.Original{},
	}
}

// Capped returns an empty store with a random secret that keeps at most so many bytes of originals for each tenant.
func Capped(maxOriginals int64) *Store {
	s := New()
	s.quota = quota.New(maxOriginals)
	return s
}

// Evicted is how many originals made room for others.
func (s *Store) Evicted() int64 { return s.quota.Evicted() }

// Sizes are the bytes that the contents of originals take, where their number is capped.
func (s *Store) Sizes() map[string]int64 {
	n, ok := s.quota.Bytes()
	if !ok {
		return nil
	}
	return map[string]int64{"originals": n}
}

// Secret implements [state.Store].
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return bytes.Clone(s.secret), nil
}

// Load implements [state.Store].
func (s *Store) Load(ctx context.Context, key state.SessionKey) (state.Session, error) {
	if err := s.lock(ctx); err != nil {
		return state.Session{}, err
	}
	defer s.mu.Unlock()
	stored, ok := s.sessions[key]
	if !ok {
		return state.Session{}, nil
	}
	out := state.Session{Stamp: stored.stamp}
	for _, b := range stored.branches {
		out.Branches = append(out.Branches, b)
	}
	out.Branches = state.Recent(out.Branches)
	for i, b := range out.Branches {
		out.Branches[i] = copyBranch(b)
	}
	return out, nil
}

// Stamp implements [state.Store].
func (s *Store) Stamp(ctx context.Context, key state.SessionKey) (uint64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if stored, ok := s.sessions[key]; ok {
		return stored.stamp, nil
	}
	return 0, nil
}

// Commit implements [state.Store].
func (s *Store) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (uint64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	release, err := s.keep(key, b, originals)
	if err != nil {
		return 0, err
	}
	defer release()
	have := s.session(key)
	var version uint64
	stored := have.branches[b.ID]
	if stored != nil {
		version = stored.Version
	}
	if version != b.Version {
		return 0, state.ErrConflict
	}
	s.put(key, state.Next(stored, b))
	have.stamp++
	return have.stamp, nil
}

// Merge implements [state.Store].
func (s *Store) Merge(ctx context.Context, key state.SessionKey, branches []*state.Branch) (uint64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	have := s.session(key)
	for _, b := range branches {
		if stored := have.branches[b.ID]; stored != nil {
			b = state.Unite(stored, b, b.Last)
		}
		s.put(key, b)
	}
	have.stamp += uint64(min(len(branches), 1))
	return have.stamp, nil
}

// session returns what is kept of a session, made at first use. The lock must be held.
func (s *Store) session(key state.SessionKey) *session {
	if s.sessions[key] == nil {
		s.sessions[key] = &session{branches: map[uint64]*state.Branch{}}
	}
	return s.sessions[key]
}

// put puts a branch in the place of what is stored. The lock must be held.
func (s *Store) put(key state.SessionKey, b *state.Branch) {
	s.session(key).branches[b.ID] = copyBranch(b)
	s.quota.Note(key, b, forever)
	if digest, ok := b.Head(); ok {
		h := head{key.Tenant, digest}
		if s.heads[h] == nil {
			s.heads[h] = map[state.SessionKey]bool{}
		}
		s.heads[h][key] = true
	}
}

// Heads implements [state.Store], in the order of the sessions' digests, so that a replay is the same each time.
func (s *Store) Heads(ctx context.Context, tenant state.Digest, digest [2]state.Digest) ([]state.SessionKey, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var keys []state.SessionKey
	for key := range s.heads[head{tenant, digest}] {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b state.SessionKey) int {
		return cmp.Or(bytes.Compare(a.Tenant[:], b.Tenant[:]), bytes.Compare(a.Session[:], b.Session[:]))
	})
	return keys, nil
}

// Close implements [state.Store]. It may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.sessions, s.heads, s.originals, s.listed = nil, nil, nil, nil
	return nil
}

// lock takes the lock for one call, unless its time is over or the store is closed.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	return nil
}

func copyBranch(b *state.Branch) *state.Branch {
	c := b.Clone()
	c.Last = plain(c.Last)
	for i := range c.InForce {
		d := &c.InForce[i]
		d.Content, d.At = bytes.Clone(d.Content), plain(d.At)
	}
	for i := range c.Entries {
		c.Entries[i].Start = plain(c.Entries[i].Start)
	}
	return c
}

// plain is what a store on disk makes of a time.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }
