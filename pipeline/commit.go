package pipeline

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// splice writes the outbound and proves it: from the index on every request, and by reading it again on moves.
func (p *pass) splice() error {
	if p.out == nil {
		p.out = &outbound{layout: p.layout, ids: p.layout.base}
	}
	p.out.ask = p.ask()
	edits := p.out.edits(&p.marks)
	if len(edits) == 0 {
		return nil
	}
	body := Splice(p.ix.Body, edits)
	p.mark(StageSplice)
	err := Prove(p.ix, edits, body)
	if err == nil && (p.decidedNow() || p.e.deep) {
		err = p.out.proveDeep(body, &p.marks)
	}
	if err == nil && int(p.k) < len(p.before) && p.before != nil && p.out.ids[p.k] != p.before[p.k] {
		err = errPrefix
	}
	p.mark(StageProof)
	if err != nil {
		return fall(p.unproven(err), err)
	}
	p.o.Body, p.o.BytesOut = body, len(body)
	return nil
}

// commit makes durable what must be before the reply.
//
// The order must not change: originals before the branch that refers to them (else a marker could leave whose original is
// lost), the branch before the reply (else a crash forgets a decision that the provider has seen).
func (p *pass) commit(ctx context.Context) error {
	if p.b == nil || p.side != "" || !p.must {
		return nil
	}
	if len(p.sess.unsure) > 0 {
		return p.uncommitted(ctx, errors.New("an earlier write is not settled"))
	}
	originals := p.saved
	if p.shadow {
		originals = nil // no marker leaves
	}
	var stamp uint64
	done, ended := make(chan error, 1), make(chan struct{})
	b := p.noted()
	b.Commit = newID()
	go func() { // a slow disk must not hold the reply; the write goes on and is settled later
		defer close(ended)
		bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		var err error
		stamp, err = p.e.store.Commit(bg, p.sess.key, b, originals)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		p.sess.wrote(stamp)
		p.b.Version++
		p.undoable()
		return nil
	case errors.Is(err, state.ErrConflict):
		p.sess.stamp = stale
		return p.uncommitted(ctx, fall(filters.Conflict, err))
	case errors.Is(err, state.ErrFull): // nothing was written
		return p.uncommitted(ctx, fall(filters.StoreFull, err))
	}
	return p.unsettled(ctx, err, attempt{b.Commit, ended})
}

// unsettled records that a write may or may not have happened: until that is known, memory counts.
func (p *pass) unsettled(ctx context.Context, err error, a attempt) error {
	p.sess.unsure[p.b.ID] = a
	p.e.markDirty(p.sess)
	return p.uncommitted(ctx, err)
}

// uncommitted goes down the ladder if something new was to be decided; a replay goes out all the same.
func (p *pass) uncommitted(ctx context.Context, err error) error {
	if p.gate != "" && !p.decidedNow() {
		p.e.log.WarnContext(ctx, "replay could not be stored", "error", err, "request", p.r.ID)
		return nil
	}
	if _, ok := errors.AsType[*gateError](err); ok {
		return err
	}
	return fall(filters.StoreUnavailable, err)
}

// noted returns the working copy as it stands once the request is sent.
func (p *pass) noted() *state.Branch {
	marks := p.cacheMarks()
	if p.side != "" { // nothing but what it wrote or read of the cache
		b := p.m.branch.Clone()
		b.Entries = cache.Note(b.Entries, p.ix.Key, marks, p.out.renews, p.r.Now)
		return b
	}
	b := p.b.Clone()
	b.Entries = cache.Note(b.Entries, p.ix.Key, marks, p.out.renews, p.r.Now)
	if p.m.kind != KindRetry || len(p.chain) >= len(b.Chain) {
		b.Chain = p.chain
	}
	b.Frontier = state.Frontier{}
	var deepest int32 = -1
	for _, m := range marks {
		if m.Cells > deepest && !p.out.lost { // where a cut does not stand, what is sent is no beginning of what will be
			deepest = m.Cells
			b.Frontier = state.Frontier{ID: m.ID, Cells: m.Cells}
		}
	}
	b.Ledger = p.booked()
	b.Requests++
	if p.o.Move != nil {
		b.Moves++
	}
	b.Last = p.r.Now
	return b
}

// note takes the request as sent: its breakpoints write or read the cache, whatever becomes of the response. A request
// that crosses a believed lapse is stored at once, as it warms the cache again and other replicas must know; so is one that
// begins summaries, at most as often between two moves as there are attempts. It reports whether the request is stored.
func (p *pass) note(ctx context.Context) (stored bool) {
	if p.b == nil || p.r.CountTokens {
		return false
	}
	b := p.noted()
	p.sess.put(b)
	p.sess.dirty[b.ID] = true
	p.e.markDirty(p.sess)
	crossed := p.k <= max(p.headCells(), p.out.through(p.m.shared-3))
	warms := p.m.kind != KindNew && crossed && p.o.Move == nil
	if p.side != "" || len(p.sess.unsure) > 0 || !warms && len(p.begun) == 0 {
		return false
	}
	if err := p.tell(ctx); err != nil {
		p.e.log.WarnContext(ctx, "activity could not be stored at once", "error", err, "request", p.r.ID, "summaries", len(p.begun))
		return false
	}
	return true
}

// tell stores the branch's activity now. A slow store is not waited for beyond the deadline: the write goes on, and the
// session is read again before its next use.
func (p *pass) tell(ctx context.Context) error {
	bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	type written struct {
		stamp uint64
		err   error
	}
	done := make(chan written, 1)
	branches := []*state.Branch{p.sess.branch(p.b.ID)}
	go func() {
		defer cancel()
		stamp, err := p.e.store.Merge(bg, p.sess.key, branches)
		done <- written{stamp, err}
	}()
	ctx, stop := lenient(ctx)
	defer stop()
	select {
	case w := <-done:
		if w.err != nil {
			return w.err
		}
		p.sess.wrote(w.stamp)
		delete(p.sess.dirty, p.b.ID)
		return nil
	case <-ctx.Done():
		p.sess.stamp = stale
		return ctx.Err()
	}
}

// report fills in what the outcome says of the request.
func (p *pass) report() {
	o := p.o
	if p.b != nil {
		o.Branch, o.Held, o.N = p.b.ID, len(p.held), p.b.Requests
	}
	o.Sizes, o.Side = p.tokenSizes(), p.side != ""
	if n := len(p.marks.Marks); n > 0 && p.out != nil {
		id := p.out.ids[p.out.cell[p.marks.Marks[n-1].Seq]]
		o.Prefix = hex.EncodeToString(id[:8])
	}
	if p.out != nil {
		for _, d := range p.out.over {
			switch {
			case d == nil:
			case d.Filter == Restore:
				o.applied(d.Filter)
			default:
				o.Replays++
				o.Tokens += d.Tokens - d.MarkerTokens
				o.applied(d.Filter)
			}
		}
	}
	o.Replays -= len(p.news) - len(o.Restored)
	if p.out != nil && p.out.span != nil {
		c := p.out.span.cut
		if n := p.reused(); n > 0 {
			o.Reused = map[string]int{c.Filter: n}
		}
		o.Tokens += c.Tokens - c.StubTokens
		o.applied(c.Filter)
		for _, gone := range p.out.span.Dropped {
			if gone {
				o.Cut++
			}
		}
	}
	if p.out != nil && p.out.lost {
		o.Gates[FilterGate{Filter: p.b.Cut.Filter, Gate: filters.CutLost}]++
	}
	p.explain()
	o.BytesIn = len(p.ix.Body)
	if o.Body == nil {
		o.BytesOut = o.BytesIn
	}
	switch {
	case len(o.New)+len(o.Restored) > 0:
		o.Level = Decided
	case o.Body != nil:
		o.Level = Replayed
	default:
		o.Level = Original
	}
}

// applied notes a filter whose decision or cut stands in the outbound.
func (o *Outcome) applied(filter string) {
	if !slices.Contains(o.Applied, filter) {
		o.Applied = append(o.Applied, filter)
	}
}
