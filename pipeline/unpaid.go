package pipeline

import "github.com/tidemark-dev/tidemark/state"

// A request that the provider answers with an error is billed nothing and caches nothing, and clients send it again. What it
// was the first to do, to leave something out, to move, to come after a pause or with another system prompt, is then billed with
// the request that repeats it, although that one decides nothing.

// unbilled notes that the request was answered with an error. The lock of the session must be held.
func (s *session) unbilled(t *sent) {
	if !t.main {
		return
	}
	if len(s.unpaid) >= state.MaxBranches { // of branches that are gone by now
		clear(s.unpaid)
	}
	s.unpaid[t.branch] = t
}

// repeats takes over what is to be told of a request that was never billed, if this one repeats it.
func (p *pass) repeats(t *sent) {
	if !t.main {
		return
	}
	was := p.sess.unpaid[t.branch]
	delete(p.sess.unpaid, t.branch)
	if was == nil || p.m.kind != KindRetry || !t.same(was) {
		return
	}
	t.out, t.change, t.prior, t.first, t.move = was.out, was.change, was.prior, was.first, was.move
	t.lapsed, t.worlds.lapsed = was.lapsed || was.left >= 0, was.worlds.lapsed
	t.again = append(was.again[:len(was.again):len(was.again)], t.again...)
	if t.plain == 0 || t.at.Sub(was.at) <= t.plain { // what the client's own world held then, it holds still
		t.was, t.worlds.plain = was.was, was.worlds.plain
	}
}

// same reports whether what is forwarded is what was.
func (t *sent) same(was *sent) bool {
	if t.key != was.key || t.worlds.total != was.worlds.total || len(t.marks) == 0 || len(was.marks) == 0 {
		return false
	}
	return t.marks[len(t.marks)-1].ID == was.marks[len(was.marks)-1].ID
}
