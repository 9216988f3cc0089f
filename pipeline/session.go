package pipeline

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// session is what this process knows of one session. Branches are immutable: a request works on a copy and puts it in
// their place, so a snapshot can be read without the lock.
type session struct {
	key      state.SessionKey
	sem      chan struct{} // the session's lock: a channel, so that waiting can be bounded
	stamp    uint64        // of the store when it was last read or written; stale: it must be read again
	loaded   bool
	branches []*state.Branch
	dirty    map[uint64]bool    // branches whose activity the store does not have
	unsure   map[uint64]attempt // branches whose last commit may or may not be written
	unpaid   map[uint64]*sent   // by branch: its last request, which the provider answered with an error
	snapshot atomic.Pointer[[]*state.Branch]

	mu   sync.Mutex
	late []lateNote // breakpoints of requests that went out without the lock
}

// attempt is a commit whose outcome is not known.
type attempt struct {
	commit uint64          // its id
	ended  <-chan struct{} // closed when the store has answered
}

// lateNote is what a request forwarded that could not reach its branch: its breakpoints are believed all the same.
type lateNote struct {
	branch uint64
	key    state.Digest
	ids    []state.Digest
	marks  []cache.Mark
	at     time.Time
}

func newSession(key state.SessionKey) *session {
	return &session{key: key, sem: make(chan struct{}, 1), dirty: map[uint64]bool{}, unsure: map[uint64]attempt{}, unpaid: map[uint64]*sent{}}
}

// lock waits for the session's lock, no longer than wait.
func (s *session) lock(ctx context.Context, wait time.Duration) bool {
	select {
	case s.sem <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case s.sem <- struct{}{}:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

func (s *session) unlock() { <-s.sem }

// published is the last state that a request left, readable without the lock.
func (s *session) published() []*state.Branch {
	if p := s.snapshot.Load(); p != nil {
		return *p
	}
	return nil
}

// put replaces a branch or adds it, and publishes the result. The lock must be held.
func (s *session) put(b *state.Branch) {
	next := slices.Clone(s.branches)
	if i := slices.IndexFunc(next, func(o *state.Branch) bool { return o.ID == b.ID }); i >= 0 {
		next[i] = b
	} else {
		next = append(next, b)
	}
	s.publish(next)
}

func (s *session) publish(branches []*state.Branch) {
	s.branches = branches
	s.snapshot.Store(&branches)
}

// room makes place for one more branch: those that nothing can be cached of go first, the longest unused of them. It
// reports false if every branch is alive.
func (s *session) room(now time.Time) bool {
	if len(s.branches) < state.MaxBranches {
		return true
	}
	victim := -1
	for i, b := range s.branches {
		if !b.Alive(now) && (victim < 0 || b.Last.Before(s.branches[victim].Last)) {
			victim = i
		}
	}
	if victim < 0 {
		return false
	}
	delete(s.dirty, s.branches[victim].ID)
	s.publish(slices.Delete(slices.Clone(s.branches), victim, victim+1))
	return true
}

// forget drops the branches that were used last before a time, and of which nothing was cached any more then. The lock must be held.
func (s *session) forget(before time.Time) {
	kept := slices.DeleteFunc(slices.Clone(s.branches), func(b *state.Branch) bool { return b.Last.Before(before) && !b.Alive(before) })
	if len(kept) < len(s.branches) {
		s.publish(kept)
	}
}

// addLate leaves breakpoints for the next request that holds the lock.
func (s *session) addLate(n lateNote) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, n)
}

// takeLate notes what requests without the lock forwarded. The lock must be held.
func (s *session) takeLate() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	for _, n := range late {
		i := slices.IndexFunc(s.branches, func(b *state.Branch) bool { return b.ID == n.branch })
		if i < 0 {
			continue
		}
		b := s.branches[i].Clone()
		b.Entries = cache.Note(b.Entries, n.key, n.marks, func(e *cache.Entry) bool {
			return int(e.Cells) < len(n.ids) && n.ids[e.Cells] == e.ID
		}, n.at)
		s.put(b)
		s.dirty[b.ID] = true
	}
}

// stale is a stamp that no store returns: it makes the next request read the session again.
const stale = ^uint64(0)

// wrote takes over the stamp of a write; if another writer was between, the session is read again before its next use.
func (s *session) wrote(stamp uint64) {
	if stamp == s.stamp+1 {
		s.stamp = stamp
	} else {
		s.stamp = stale
	}
}

// load brings the session up to date with the store. A copy in memory counts only while the store's stamp is the same;
// else entries and clocks of both are united, and decisions are those of the store. The lock must be held.
func (e *Engine) load(ctx context.Context, s *session, now time.Time) error {
	if s.loaded && len(s.unsure) > 0 {
		return nil // what was written is unsure: until that is settled, memory counts
	}
	if s.loaded && s.stamp != stale {
		stamp, err := e.store.Stamp(ctx, s.key)
		if err != nil || stamp == s.stamp {
			return err
		}
	}
	stored, err := e.store.Load(ctx, s.key)
	if err != nil {
		return err
	}
	next := make([]*state.Branch, 0, len(stored.Branches)+1)
	for _, b := range stored.Branches {
		if i := slices.IndexFunc(s.branches, func(o *state.Branch) bool { return o.ID == b.ID }); i >= 0 {
			next = append(next, state.Unite(b, s.branches[i], now))
			continue
		}
		if len(next) == state.MaxBranches {
			break
		}
		b.Entries = cache.Restart(b.Entries, e.start)
		next = append(next, b)
	}
	for _, b := range s.branches {
		if !slices.ContainsFunc(next, func(o *state.Branch) bool { return o.ID == b.ID }) && len(next) < state.MaxBranches {
			next = append(next, b)
		}
	}
	s.stamp, s.loaded = stored.Stamp, true
	s.publish(next)
	return nil
}

// session returns the session of a key, a new one if it is not in memory.
func (e *Engine) session(key state.SessionKey) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.sessions.Get(key)
	if ok {
		return s
	}
	if s, ok = e.dirty[key]; !ok {
		s = newSession(key)
	}
	e.sessions.Add(key, s)
	return s
}

// current is the session as requests see it now, which is another one than s if s was dropped from memory and read again.
func (e *Engine) current(s *session) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now, ok := e.sessions.Peek(s.key); ok {
		return now
	}
	if now, ok := e.dirty[s.key]; ok {
		return now
	}
	return s
}

// maxRelated bounds how many other sessions are read to find where a conversation was before.
const maxRelated = 32

// related returns branches of other sessions of the tenant that begin with the same two messages: clients resume a
// conversation under a new session id, and the provider's cache knows no sessions. What is stored and what is in memory
// are united, as either may be ahead of the other. all is false if there are more sessions than are looked at.
func (e *Engine) related(ctx context.Context, key state.SessionKey, chain []state.Digest, now time.Time) (found []*state.Branch, all bool, err error) {
	if len(chain) < 2 {
		return nil, true, nil
	}
	head := [2]state.Digest{chain[0], chain[1]}
	keys, err := e.store.Heads(ctx, key.Tenant, head)
	if err != nil {
		return nil, false, err
	}
	type place struct {
		session state.Digest
		branch  uint64
	}
	known := map[place]*state.Branch{} // versions count within a session
	take := func(session state.Digest, b *state.Branch) {
		if h, ok := b.Head(); !ok || h != head {
			return
		}
		at := place{session, b.ID}
		switch was := known[at]; {
		case was == nil:
			known[at] = b
		case was.Version > b.Version:
			known[at] = state.Unite(was, b, now)
		default:
			known[at] = state.Unite(b, was, now)
		}
	}
	for _, k := range keys[:min(len(keys), maxRelated)] {
		if k == key {
			continue
		}
		stored, err := e.store.Load(ctx, k)
		if err != nil {
			return nil, false, err
		}
		for _, b := range stored.Branches {
			b.Entries = cache.Restart(b.Entries, e.start)
			take(k.Session, b)
		}
	}
	for _, s := range e.inMemory(key.Tenant) {
		if s.key != key {
			for _, b := range s.published() {
				take(s.key.Session, b)
			}
		}
	}
	found = slices.SortedFunc(maps.Values(known), func(a, b *state.Branch) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), a.Last.Compare(b.Last), cmp.Compare(a.Version, b.Version))
	})
	return found, len(keys) <= maxRelated, nil
}

// inMemory lists the tenant's sessions that are in memory.
func (e *Engine) inMemory(tenant state.Digest) (found []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions.Values() {
		if s.key.Tenant == tenant {
			found = append(found, s)
		}
	}
	return found
}
