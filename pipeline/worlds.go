package pipeline

import (
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// prefix is the beginning of an outbound.
type prefix struct {
	cell   int32
	weight int32
	tokens int // by the provider's counts as far as they go
}

// worlds is what the provider holds of an outbound as it is forwarded, in several models of the world.
type worlds struct {
	certain prefix    // the deepest that it holds by its own word
	safe    prefix    // the deepest that it holds by its own word even if no lift ever worked
	short   prefix    // the deepest that a world would hold in which every breakpoint asks for five minutes
	plain   prefix    // ... in which every breakpoint asks for what the client's do
	known   prefix    // the deepest that was ever sent, alive or not
	lapsed  bool      // that one has outlived its TTL
	until   time.Time // when it does
	tail    int32     // weight through the last breakpoint; 0 without one: nothing is cached
	total   int32
}

// survey looks for entries of the session that the outbound with these marks would meet.
func (p *pass) survey(marks []breakpoint.Mark) worlds {
	s := p.scale
	w := worlds{total: s.total}
	if len(marks) == 0 || p.out == nil {
		return w
	}
	w.tail = s.at[p.out.cell[marks[len(marks)-1].Seq]]
	at, clientTTL := p.out.positions(), p.clientTTL()
	deeper := func(x *prefix, e *cache.Entry) bool {
		if s.at[e.Cells] <= x.weight {
			return false
		}
		x.cell, x.weight = e.Cells, s.at[e.Cells]
		return true
	}
	for e := range p.met() {
		if !p.reaches(at, marks, e.Cells) {
			continue
		}
		age := p.r.Now.Sub(e.Start)
		if e.SureAlive(p.r.Now) {
			deeper(&w.certain, e)
			if p.r.Now.Sub(e.Sure) <= cache.Short {
				deeper(&w.safe, e)
			}
		}
		if age <= cache.Short {
			deeper(&w.short, e)
		}
		if age <= clientTTL {
			deeper(&w.plain, e)
		}
		if deeper(&w.known, e) {
			w.until = e.Start.Add(e.TTL)
			w.lapsed = w.until.Before(p.r.Now)
		}
	}
	for cell, age := range p.spans() { // what became of the entries in it is not known: a world without lifts may hold them all
		if weight := s.at[cell]; age <= cache.Short && weight > w.short.weight && weight <= w.tail {
			w.short.cell, w.short.weight = cell, weight
		}
	}
	for _, x := range []*prefix{&w.certain, &w.safe, &w.short, &w.plain, &w.known} {
		x.tokens = p.tokensAt(x.cell)
	}
	return w
}

// met yields the entries of the session, of every branch, whose prefix is a part of the outbound.
func (p *pass) met() func(yield func(*cache.Entry) bool) {
	return func(yield func(*cache.Entry) bool) {
		for _, entries := range p.entriesOf() {
			for i := range entries {
				e := &entries[i]
				if e.Key == p.ix.Key && p.out.holds(e) && p.scale.thoughts[e.Cells] == e.Thoughts && !yield(e) {
					return
				}
			}
		}
	}
}

// spans yields how far the assumed spans of the session, of every branch, reach in the outbound, and how old they are.
func (p *pass) spans() func(yield func(cell int32, age time.Duration) bool) {
	return func(yield func(int32, time.Duration) bool) {
		for _, b := range append([]*state.Branch{p.b0()}, p.sess.published()...) {
			limit := p.fresh
			if b.ID != p.b0().ID {
				limit = common(b.Chain, p.chain)
			}
			for i := range b.Entries {
				e := &b.Entries[i]
				if !e.Assumed || !e.Under(p.ix.Key) {
					continue
				}
				if cell := p.out.through(min(e.Msg, limit-1)); cell > 0 && !yield(cell, p.r.Now.Sub(e.Start)) {
					return
				}
			}
		}
	}
}

// entriesOf are the entries of every branch of the session.
func (p *pass) entriesOf() [][]cache.Entry {
	branches := p.sess.published() // under the lock it is the same; a request that goes without the lock may read this alone
	all := make([][]cache.Entry, 0, len(branches)+1)
	own := uint64(0)
	if p.b != nil {
		own = p.b.ID
		all = append(all, p.b.Entries)
	}
	for _, b := range branches {
		if b.ID != own {
			all = append(all, b.Entries)
		}
	}
	return all
}

// tokensAt is how many tokens the outbound has through a cell: those that the provider counted through the deepest entry that
// is not deeper, and what lies between by its weight. The head of a prompt has other tokens than its messages.
func (p *pass) tokensAt(cell int32) int {
	if cell <= 0 {
		return 0
	}
	base, counted := int32(0), int32(0)
	for e := range p.met() {
		if e.Tokens > 0 && e.Cells <= cell && e.Cells > base {
			base, counted = e.Cells, e.Tokens
		}
	}
	return int(counted) + int(tokens(p.b, float64(p.scale.at[cell]-p.scale.at[base])))
}

// clientTTL is the longest that the client's own breakpoints ask for, 0 without one.
func (p *pass) clientTTL() time.Duration {
	ttl := p.ix.TopTTL
	for i := range p.ix.Markers {
		ttl = max(ttl, p.ix.Markers[i].TTL)
	}
	return ttl
}

// reaches reports whether a breakpoint at or after a cell finds an entry that ends there. Automatic caching looks back as far as
// it goes.
func (p *pass) reaches(at []int32, marks []breakpoint.Mark, cell int32) bool {
	if p.ix.Format.Automatic() {
		return true
	}
	seq, ok := slices.BinarySearch(p.out.cell, cell)
	return ok && slices.ContainsFunc(marks, func(m breakpoint.Mark) bool {
		return int(m.Seq) >= seq && at[m.Seq]-at[seq] <= lookback
	})
}
