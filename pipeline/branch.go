package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// branch finds the branch that the body belongs to and makes the working copy.
func (p *pass) branch(ctx context.Context) error {
	p.m = p.find(p.sess.branches)
	if p.m.kind == KindNew && p.last >= 0 && !p.r.CountTokens {
		if err := p.adopt(ctx); err != nil {
			return err
		}
	}
	if p.side != "" {
		if p.m.branch != nil {
			p.b = p.m.branch.Clone()
			p.unbind()
		}
		return nil
	}
	switch p.m.kind {
	case KindNew, KindFork:
		if !p.sess.room(p.r.Now) {
			return p.full()
		}
		p.b = p.fork()
		p.offer()
	default:
		p.b = p.m.branch.Clone()
		p.b.Key = p.key
	}
	p.o.Kind = p.m.kind
	if p.bound && p.m.kind != KindContinue && p.m.kind != KindRetry {
		p.b.InForce, p.b.Held, p.b.Cut, p.b.Tool = nil, nil, nil, ""
	}
	if p.m.kind != KindRetry {
		p.misplaced()
	}
	if p.m.kind == KindRetry && p.gate == "" {
		p.gate, p.o.Gate = filters.Retry, filters.Retry
		p.o.Gates[FilterGate{Gate: filters.Retry}]++
	}
	p.must = (p.must || carries(p.b) || p.b.Tool != "") && (p.b.Version == 0 || p.m.kind == KindFork || p.m.kind == KindRekey)
	p.assume()
	return nil
}

// adopt takes over what other sessions of the tenant know of the same conversation: clients resume under a new session id,
// and the provider's cache knows no sessions.
func (p *pass) adopt(ctx context.Context) error {
	if p.side != "" { // what nothing is known of is asked for each time: a slow store must not hold up small requests, or the session
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience(ctx))
		defer cancel()
	}
	others, _, err := p.e.related(ctx, p.sess.key, p.chain, p.r.Now)
	if err != nil && p.gate == "" {
		return fall(filters.StoreUnavailable, err)
	}
	for _, o := range others {
		if !p.sess.room(p.r.Now) {
			break
		}
		b := o.Clone()
		// Nothing of it is stored under this session, and what becomes of it here is no longer what becomes of it there.
		b.ID, b.Parent, b.Version, b.Commit = newID(), o.ID, 0, 0
		b.Ledger = b.Ledger.Fork()
		p.sess.put(b)
		p.sess.dirty[b.ID] = true
	}
	p.m = p.find(p.sess.branches)
	return nil
}

// misplaced takes decisions off the working copy that name their result by its place, in a history that is another one now: what
// stands in that place from here on is another result, though it may say the same.
func (p *pass) misplaced() {
	p.b.InForce = slices.DeleteFunc(p.b.InForce, func(d state.Decision) bool {
		if !p.ix.Format.Unnamed(d.Ref.Call) || d.Msg < p.m.shared {
			return false
		}
		_, stands := p.layout.find(d.Ref, p.m.shared)
		return !stands
	})
}

// shrink lets a branch that begins here inherit nothing, where what is in force could make a prompt that is too small to be cached and
// nothing cached is lost without it: the client has taken away most of its system prompt or tools. A branch that would be re-keyed is
// left as it is, and forked.
func (p *pass) shrink(ctx context.Context) error {
	if p.m.kind != KindFork && p.m.kind != KindRekey || p.m.branch.Key == p.key || !carries(p.b) || p.k > 0 || p.side != "" || p.out.size() >= minLeft {
		return nil
	}
	if err := p.widen(ctx, true); err != nil || p.k > 0 {
		return err
	}
	if p.m.kind == KindRekey {
		if !p.sess.room(p.r.Now) {
			return nil
		}
		p.m.kind, p.o.Kind = KindFork, KindFork
		p.b = p.fork()
		p.assume()
	}
	p.b.InForce = slices.DeleteFunc(p.b.InForce, func(d state.Decision) bool { return d.Filter != Restore }) // they make it no smaller
	p.b.Held, p.b.Cut = nil, nil
	p.must, p.widened = p.b.Tool != "", false // other sessions are asked again, of another outbound
	p.replay()
	return nil
}

// unbind takes what is in force off the working copy where a bound model did not see it.
func (p *pass) unbind() {
	if p.bound && p.b.Key != p.key {
		p.b.InForce, p.b.Held, p.b.Cut, p.b.Tool = nil, nil, nil, ""
	}
}

// full answers when every branch of the session is alive: replay, and nothing is remembered.
func (p *pass) full() error {
	p.side, p.gate = filters.TooManyBranches, filters.TooManyBranches
	p.o.Gate = p.gate
	p.o.Gates[FilterGate{Gate: p.gate}]++
	if p.m.branch == nil || p.bound {
		return fall(filters.TooManyBranches, errors.New("every branch of the session is alive"))
	}
	p.b = p.m.branch.Clone()
	return nil
}

// unknownRewrites are the warm moves of a branch whose history nobody remembers: what cannot be read counts as spent.
const unknownRewrites = 1 << 20

// fork makes the branch of this body: a copy of the one that it forks from, cut at the last message in common.
func (p *pass) fork() *state.Branch {
	b := &state.Branch{ID: p.id, Key: p.key}
	from := p.m.branch
	if from == nil {
		if p.last >= 0 { // what happened before is not known
			b.Ledger.Rewrites = unknownRewrites
		}
		return b
	}
	c := from.Clone()
	c.ID, c.Version, c.Parent, c.Key, c.Requests, c.Moves = b.ID, 0, from.ID, p.key, 0, 0
	c.Ledger = from.Ledger.Fork()
	p.o.Parent = from.ID
	n := p.m.shared
	c.Chain = c.Chain[:n]
	several := int(n) < len(p.ix.Messages) && p.ix.Messages[n].Last-p.ix.Messages[n].First > 1
	c.Entries = cache.Clip(from.Entries, n, several)
	held := c.Held[:0]
	for _, h := range from.Held {
		if r, ok := p.layout.find(h.Ref, n); ok && p.ix.Results[r].Msg < n {
			held = append(held, h)
		}
	}
	c.Held = held
	return c
}

// assume adds the span that must be expected to be cached where history was forwarded by somebody else.
func (p *pass) assume() {
	if p.last < 0 {
		return
	}
	if p.m.branch == nil || p.unseen(p.sess.branches) && p.last >= p.m.shared {
		p.b.Entries = cache.Assume(p.b.Entries, p.last, p.assumedTTL(), p.r.Now)
	}
}

// newID is a random branch id, never 0.
func newID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails on a supported platform
	return binary.LittleEndian.Uint64(b[:]) | 1
}
