package statetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// ErrInjected is what calls fail with under a fault.
var ErrInjected = errors.New("statetest: injected fault")

// Fault is what a [Faulty] store does to calls other than Close.
type Fault struct {
	kind  kind
	delay time.Duration
}

type kind uint8

const (
	healthy kind = iota
	failing
	halfway
	unanswered
	blocked
	slow
)

// Faults.
var (
	Healthy    = Fault{kind: healthy}
	Failing    = Fault{kind: failing}    // every call fails and does nothing
	Halfway    = Fault{kind: halfway}    // a Commit fails once the originals were written; other writes fail, reads work
	Unanswered = Fault{kind: unanswered} // writes take place and fail all the same; reads work
	Blocked    = Fault{kind: blocked}    // every call waits until the fault is over or its context is
)

// Slow makes every call wait before its work.
func Slow(delay time.Duration) Fault { return Fault{kind: slow, delay: delay} }

// Faulty puts faults in front of a store. It is safe for concurrent use; a fault counts for all calls that begin after Set
// returned.
type Faulty struct {
	store state.Store

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed by the next Set
	lazy    bool
	pending map[state.SessionKey][][]*state.Branch // merges that a crash would lose
}

// NewFaulty returns a healthy store over s.
func NewFaulty(s state.Store) *Faulty {
	return &Faulty{store: s, changed: make(chan struct{}), pending: map[state.SessionKey][][]*state.Branch{}}
}

// Set puts a fault in the place of the one before.
func (f *Faulty) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	close(f.changed)
	f.changed = make(chan struct{})
}

// Buffer makes merges from now on as lazy as the contract allows: calls see them, and a Commit or Close writes them, but
// until then Crash loses them.
func (f *Faulty) Buffer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lazy = true
}

// Crash loses the merges that nothing wrote yet, as if the machine had gone down.
func (f *Faulty) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.pending)
}

// begin lets a call pass, or says why it fails. Faults that writes alone know are the caller's, which gets the fault that
// counts for the call.
func (f *Faulty) begin(ctx context.Context) (Fault, error) {
	f.mu.Lock()
	fault, changed := f.fault, f.changed
	f.mu.Unlock()
	var wait <-chan time.Time
	switch fault.kind {
	case failing:
		return fault, ErrInjected
	case slow:
		timer := time.NewTimer(fault.delay)
		defer timer.Stop()
		wait, changed = timer.C, nil
	case blocked:
	default:
		return fault, nil
	}
	select {
	case <-wait:
		return fault, nil
	case <-changed:
		return f.begin(ctx)
	case <-ctx.Done():
		return fault, ctx.Err()
	}
}

// Secret implements [state.Store].
func (f *Faulty) Secret(ctx context.Context) ([]byte, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	return f.store.Secret(ctx)
}

// Load implements [state.Store].
func (f *Faulty) Load(ctx context.Context, key state.SessionKey) (state.Session, error) {
	if _, err := f.begin(ctx); err != nil {
		return state.Session{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.store.Load(ctx, key)
	if err != nil {
		return s, err
	}
	for _, branches := range f.pending[key] {
		s.Stamp++
		for _, b := range branches {
			if i := slices.IndexFunc(s.Branches, func(o *state.Branch) bool { return o.ID == b.ID }); i >= 0 {
				s.Branches[i] = state.Unite(s.Branches[i], b, b.Last)
			} else {
				s.Branches = append(s.Branches, own(b))
			}
		}
	}
	s.Branches = state.Recent(s.Branches)
	return s, nil
}

// Stamp implements [state.Store].
func (f *Faulty) Stamp(ctx context.Context, key state.SessionKey) (uint64, error) {
	if _, err := f.begin(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	stamp, err := f.store.Stamp(ctx, key)
	return stamp + uint64(len(f.pending[key])), err
}

// Commit implements [state.Store].
func (f *Faulty) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, originals []state.Original) (uint64, error) {
	fault, err := f.begin(ctx)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault.kind == halfway {
		other := b.Clone()
		other.Version = math.MaxUint64 // a conflict: nothing but originals is written
		if _, err := f.store.Commit(ctx, key, other, originals); !errors.Is(err, state.ErrConflict) {
			return 0, errors.Join(ErrInjected, err)
		}
		return 0, ErrInjected
	}
	if err := f.flush(ctx); err != nil {
		return 0, err
	}
	stamp, err := f.store.Commit(ctx, key, b, originals)
	if fault.kind == unanswered && err == nil {
		return 0, ErrInjected
	}
	return stamp, err
}

// Merge implements [state.Store].
func (f *Faulty) Merge(ctx context.Context, key state.SessionKey, branches []*state.Branch) (stamp uint64, err error) {
	fault, err := f.begin(ctx)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case fault.kind == halfway:
		return 0, ErrInjected
	case f.lazy && len(branches) > 0:
		stamp, err = f.buffer(ctx, key, branches)
	default:
		stamp, err = f.store.Merge(ctx, key, branches)
	}
	if fault.kind == unanswered && err == nil {
		return 0, ErrInjected
	}
	return stamp, err
}

// buffer keeps a merge where Crash can lose it. The lock must be held.
func (f *Faulty) buffer(ctx context.Context, key state.SessionKey, branches []*state.Branch) (uint64, error) {
	stamp, err := f.store.Stamp(ctx, key)
	if err != nil {
		return 0, err
	}
	copies := make([]*state.Branch, len(branches))
	for i, b := range branches {
		copies[i] = own(b)
	}
	f.pending[key] = append(f.pending[key], copies)
	return stamp + uint64(len(f.pending[key])), nil
}

// flush writes the merges that were kept back. The lock must be held.
func (f *Faulty) flush(ctx context.Context) error {
	for key, merges := range f.pending {
		for _, branches := range merges {
			if _, err := f.store.Merge(ctx, key, branches); err != nil {
				return err
			}
		}
		delete(f.pending, key)
	}
	return nil
}

// Heads implements [state.Store].
func (f *Faulty) Heads(ctx context.Context, tenant state.Digest, head [2]state.Digest) ([]state.SessionKey, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, err := f.store.Heads(ctx, tenant, head)
	for key, merges := range f.pending {
		for _, b := range slices.Concat(merges...) {
			if h, ok := b.Head(); ok && h == head && key.Tenant == tenant && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys, err
}

// Original implements [state.Store].
func (f *Faulty) Original(ctx context.Context, id string) (*state.Original, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	return f.store.Original(ctx, id)
}

// Owner implements [state.Store].
func (f *Faulty) Owner(ctx context.Context, id string) (state.SessionKey, error) {
	if _, err := f.begin(ctx); err != nil {
		return state.SessionKey{}, err
	}
	return f.store.Owner(ctx, id)
}

// Originals implements [state.Store].
func (f *Faulty) Originals(ctx context.Context, key state.SessionKey) ([]state.Original, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	return f.store.Originals(ctx, key)
}

// Seal implements [state.Store].
func (f *Faulty) Seal(ctx context.Context, id string, sealed bool) error {
	fault, err := f.begin(ctx)
	if err != nil {
		return err
	}
	if fault.kind == halfway {
		return ErrInjected
	}
	err = f.store.Seal(ctx, id, sealed)
	if fault.kind == unanswered && err == nil {
		return ErrInjected
	}
	return err
}

// Withdraw implements [state.Store].
func (f *Faulty) Withdraw(ctx context.Context, key state.SessionKey) (int, error) {
	fault, err := f.begin(ctx)
	if err != nil {
		return 0, err
	}
	if fault.kind == halfway {
		return 0, ErrInjected
	}
	n, err := f.store.Withdraw(ctx, key)
	if fault.kind == unanswered && err == nil {
		return 0, ErrInjected
	}
	return n, err
}

// Close implements [state.Store]. No fault touches it.
func (f *Faulty) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.flush(context.Background()), f.store.Close())
}

// own returns a copy that shares nothing with b.
func own(b *state.Branch) *state.Branch {
	c := b.Clone()
	for i := range c.InForce {
		c.InForce[i].Content = slices.Clone(c.InForce[i].Content)
	}
	return c
}
