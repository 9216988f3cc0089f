package pipeline

import (
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// A request that the provider answers with an error is billed nothing and caches nothing, and clients send it again, or go on
// from it. What it was the first to do, to leave something out, to move, to come after a pause or with another system prompt, is
// then billed with the request that sends it again, although that one decides nothing of it.

// unbilled notes that the request was answered with an error, unless it is told so late that the branch has gone on: what went on
// from it has been told of already. The lock of the session must be held.
func (s *session) unbilled(b *state.Branch, t *sent) {
	if !t.main || b.Last.After(t.at) {
		return
	}
	if len(s.unpaid) >= state.MaxBranches { // of branches that are gone by now
		clear(s.unpaid)
	}
	s.unpaid[t.branch] = &sent{ // without what it hangs on to
		key: t.key, end: t.end, since: t.since, worlds: t.worlds, out: t.out, was: t.was, again: t.again, prior: t.prior, change: t.change, left: t.left,
		move: t.move, moved: t.moved, first: t.first, lapsed: t.lapsed,
	}
}

// repeats takes over what is to be told of a request that was never billed, if this one sends all of it again: as it was, or with
// what the client has added since.
func (p *pass) repeats(t *sent) {
	if !t.main || p.m.branch == nil {
		return
	}
	was := p.sess.unpaid[p.m.branch.ID] // one that adds to the last message is a fork
	again := was != nil && t.key == was.key && p.out.holds(&cache.Entry{ID: was.end.ID, Cells: was.end.Cells})
	if again || p.b.ID == p.m.branch.ID { // a fork that goes another way leaves it to the one that sends it again
		delete(p.sess.unpaid, p.m.branch.ID)
	}
	if !again {
		return
	}
	t.prior, t.first = was.prior, was.first
	if was.change != nil || t.move == nil { // of what was sent then the client has changed nothing since
		t.change = was.change
	}
	if t.move == nil {
		t.move, t.moved = was.move, was.moved
	}
	t.lapsed, t.since = was.lapsed || was.left >= 0, was.since
	if known := &was.worlds; known.known.cell > 0 { // it may have lapsed while nothing was answered
		t.worlds.lapsed, t.worlds.until = t.worlds.lapsed || known.until.Before(t.at), known.until
	}
	t.again = append(slices.Clip(was.again), slices.DeleteFunc(slices.Clone(t.again), func(a Reused) bool { // the last message may be new again
		return slices.ContainsFunc(was.again, func(b Reused) bool { return a.Call == b.Call && a.Kind == b.Kind })
	})...)
	t.leaves(was)
}

// leaves takes over what was left out for the first time, and what the client's own world held, if it holds that still.
func (t *sent) leaves(was *sent) {
	first := was.out.first
	if t.plain > 0 && t.at.Sub(was.since) > t.plain {
		first = [2]int32{0, first[0] + first[1]}
		t.out.again = [2]int32{0, max(0, t.out.again[0]+t.out.again[1]-first[1])} // what was sent in between was never cached
	} else {
		t.out.again = was.out.again
		if t.was.tokens > 0 && was.was.tokens == 0 { // the move is this one's own
			t.was = was.worlds.plain
		} else {
			t.was = was.was
		}
		t.worlds.plain = was.worlds.plain
	}
	for i, n := range first {
		t.out.first[i] += n
	}
}
