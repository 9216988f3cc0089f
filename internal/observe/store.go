package observe

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// Store returns s with its operations counted and timed. backend names its kind: memory, badger, redis. Errors and values
// pass through unchanged; closing the returned store closes s.
func (m *Metrics) Store(backend string, s state.Store) state.Store {
	return &store{next: s, m: m, backend: backend}
}

type store struct {
	next    state.Store
	m       *Metrics
	backend string
}

// done notes one operation that began at start.
func (s *store) done(op string, start time.Time, err error) {
	s.m.storeOps.WithLabelValues(s.backend, op, storeResult(err)).Inc()
	s.m.storeTime.WithLabelValues(s.backend, op).Observe(time.Since(start).Seconds())
}

func storeResult(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, state.ErrConflict):
		return "conflict"
	case errors.Is(err, state.ErrNotFound):
		return "not_found"
	case errors.Is(err, state.ErrWithdrawn):
		return "withdrawn"
	case errors.Is(err, state.ErrFull):
		return "full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

func (s *store) Secret(ctx context.Context) (secret []byte, err error) {
	start := time.Now()
	secret, err = s.next.Secret(ctx)
	s.done("secret", start, err)
	return secret, err
}

func (s *store) Load(ctx context.Context, key state.SessionKey) (session state.Session, err error) {
	start := time.Now()
	session, err = s.next.Load(ctx, key)
	s.done("load", start, err)
	return session, err
}

func (s *store) Stamp(ctx context.Context, key state.SessionKey) (stamp uint64, err error) {
	start := time.Now()
	stamp, err = s.next.Stamp(ctx, key)
	s.done("stamp", start, err)
	return stamp, err
}

func (s *store) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (stamp uint64, err error) {
	start := time.Now()
	stamp, err = s.next.Commit(ctx, key, b, originals)
	s.done("commit", start, err)
	return stamp, err
}

func (s *store) Merge(ctx context.Context, key state.SessionKey, branches []*state.Branch) (stamp uint64, err error) {
	start := time.Now()
	stamp, err = s.next.Merge(ctx, key, branches)
	s.done("merge", start, err)
	return stamp, err
}

func (s *store) Heads(ctx context.Context, tenant state.Digest, head [2]state.Digest) (keys []state.SessionKey, err error) {
	start := time.Now()
	keys, err = s.next.Heads(ctx, tenant, head)
	s.done("heads", start, err)
	return keys, err
}

func (s *store) Original(ctx context.Context, id string) (o *state.Original, err error) {
	start := time.Now()
	o, err = s.next.Original(ctx, id)
	s.done("original", start, err)
	return o, err
}

func (s *store) Owner(ctx context.Context, id string) (key state.SessionKey, err error) {
	start := time.Now()
	key, err = s.next.Owner(ctx, id)
	s.done("owner", start, err)
	return key, err
}

func (s *store) Originals(ctx context.Context, key state.SessionKey) (originals []state.Original, err error) {
	start := time.Now()
	originals, err = s.next.Originals(ctx, key)
	s.done("originals", start, err)
	return originals, err
}

func (s *store) Seal(ctx context.Context, id string, sealed bool) error {
	start := time.Now()
	err := s.next.Seal(ctx, id, sealed)
	s.done("seal", start, err)
	return err
}

func (s *store) Withdraw(ctx context.Context, key state.SessionKey) (n int, err error) {
	start := time.Now()
	n, err = s.next.Withdraw(ctx, key)
	s.done("withdraw", start, err)
	return n, err
}

func (s *store) Close() error { return s.next.Close() }
