package pipeline

import (
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// worlds is what the provider holds of an outbound as it is forwarded, in weights, in several models of the world.
type worlds struct {
	certain int32 // the deepest prefix that it holds by its own word
	short   int32 // the deepest one that a world would hold in which every breakpoint asks for five minutes
	plain   int32 // ... in which every breakpoint asks for what the client's do
	known   int32 // the deepest one that was ever sent, alive or not
	lapsed  bool  // that one has outlived its TTL
	tokens  int32 // of the deepest certain prefix by the provider's count, 0 if unknown
	tail    int32 // through the last breakpoint; 0 without one: nothing is cached
	total   int32
	// knownTokens are those of known by the provider's count, 0 if unknown.
	knownTokens int32
}

// survey looks for entries of the session that the outbound with these marks would meet.
func (p *pass) survey(marks []breakpoint.Mark) worlds {
	s := p.scale
	w := worlds{total: s.total}
	if len(marks) == 0 || p.out == nil {
		return w
	}
	w.tail = s.at[p.layout.cell[marks[len(marks)-1].Seq]]
	at := p.layout.positions()
	clientTTL := p.clientTTL()
	for _, b := range p.entriesOf() {
		for i := range b {
			e := &b[i]
			if e.Key != p.ix.Key || !p.out.holds(e) || s.thoughts[e.Cells] != e.Thoughts || !p.reaches(at, marks, e.Cells) {
				continue
			}
			size := s.at[e.Cells]
			if e.SureAlive(p.r.Now) && size > w.certain {
				w.certain, w.tokens = size, e.Tokens
			}
			if age := p.r.Now.Sub(e.Start); age <= cache.Short {
				w.short = max(w.short, size)
			}
			if age := p.r.Now.Sub(e.Start); age <= clientTTL {
				w.plain = max(w.plain, size)
			}
			if size > w.known {
				w.known, w.knownTokens, w.lapsed = size, e.Tokens, e.Start.Add(e.TTL).Before(p.r.Now)
			}
		}
	}
	return w
}

// entriesOf are the entries of every branch of the session.
func (p *pass) entriesOf() [][]cache.Entry {
	all := make([][]cache.Entry, 0, len(p.sess.branches)+1)
	own := uint64(0)
	if p.b != nil {
		own = p.b.ID
		all = append(all, p.b.Entries)
	}
	for _, b := range p.sess.branches {
		if b.ID != own {
			all = append(all, b.Entries)
		}
	}
	return all
}

// clientTTL is the longest that the client's own breakpoints ask for, 0 without one.
func (p *pass) clientTTL() time.Duration {
	ttl := p.ix.TopTTL
	for i := range p.ix.Markers {
		ttl = max(ttl, p.ix.Markers[i].TTL)
	}
	return ttl
}

// reaches reports whether a breakpoint at or after a cell finds an entry that ends there.
func (p *pass) reaches(at []int32, marks []breakpoint.Mark, cell int32) bool {
	seq, ok := slices.BinarySearch(p.layout.cell, cell)
	return ok && slices.ContainsFunc(marks, func(m breakpoint.Mark) bool {
		return int(m.Seq) >= seq && at[m.Seq]-at[seq] <= lookback
	})
}
