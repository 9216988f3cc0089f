package pipeline

import (
	"context"
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// Dropped tells the engine that the outcome came too late and the body went on as it came. Decisions and holds that the
// outcome had made, and a tool that it offered, were never seen by the provider: they are taken back, unless a later request has
// replayed them by now.
func (o *Outcome) Dropped(ctx context.Context) {
	if o.undo != nil {
		o.undo(ctx)
	}
}

// undoable remembers how to take back what this request committed.
func (p *pass) undoable() {
	e, s, id, requests := p.e, p.sess, p.b.ID, p.b.Requests+1
	made := map[state.ResultRef]bool{}
	for _, d := range p.news {
		made[d.Ref] = true
	}
	for _, h := range p.heldNow {
		made[h] = true
	}
	cut, was, offered := p.newCut, p.m.cut(), p.m.kind == KindNew && p.b.Tool != ""
	last, ttl, now := int32(len(p.chain))-1, p.assumedTTL(), p.r.Now
	p.o.undo = func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		if !s.lock(ctx, settleTimeout) {
			e.log.WarnContext(ctx, "late outcome could not be taken back", "error", "the session is busy")
			return
		}
		defer s.unlock()
		b := s.branch(id)
		if b == nil || b.Requests != requests {
			return
		}
		c := b.Clone()
		c.InForce = slices.DeleteFunc(c.InForce, func(d state.Decision) bool { return made[d.Ref] })
		c.Held = slices.DeleteFunc(c.Held, func(h state.Hold) bool { return made[h.Ref] })
		if cut != nil && c.Cut != nil && c.Cut.At.Equal(cut.At) && c.Cut.Stub == cut.Stub {
			c.Cut = was
		}
		if offered {
			c.Tool = ""
		}
		c.Frontier = state.Frontier{}
		c.Entries = cache.Assume(c.Entries, last, ttl, now) // the original's prefix was written instead
		e.replace(ctx, s, c)
	}
}

// replace commits a branch that nobody waits for. If that fails, memory counts until it can be settled. The lock must be
// held.
func (e *Engine) replace(ctx context.Context, s *session, b *state.Branch) {
	written := b.Commit
	b.Commit = newID()
	stamp, err := e.store.Commit(ctx, s.key, b, nil)
	if err == nil {
		b.Version++
		s.wrote(stamp)
	} else {
		e.log.WarnContext(ctx, "late outcome is taken back in memory alone", "error", err)
		ended := make(chan struct{})
		close(ended)
		s.unsure[b.ID] = attempt{written, ended} // what is stored is still what is to be taken back
		e.markDirty(s)
	}
	s.put(b)
}
