package pipeline

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// match is how a body continues what is known.
type match struct {
	branch *state.Branch // nil: no branch shares a message
	shared int32         // leading messages that body and branch have in common
	kind   Kind
}

// contender is a branch that shares messages with the body.
type contender struct {
	b      *state.Branch
	shared int32
	exact  int32 // blocks of the body through the deepest live entry that the branch's replay would find in the messages,
	depth  int32 // and with assumed ones
	key    bool
}

// better compares by what the provider most likely holds: the deepest live entry that the branch's replay finds, then the
// same key, then the longest common chain, then the latest use. On a bound model the key comes first, as a decision of
// another key would be unlawful.
func better(bound bool) func(a, b contender) int {
	return func(x, y contender) int {
		if bound {
			return cmp.Or(boolean(x.key, y.key), cmp.Compare(x.shared, y.shared), x.b.Last.Compare(y.b.Last), cmp.Compare(x.b.ID, y.b.ID))
		}
		return cmp.Or(cmp.Compare(x.exact, y.exact), cmp.Compare(x.depth, y.depth), boolean(x.key, y.key), cmp.Compare(x.shared, y.shared), x.b.Last.Compare(y.b.Last),
			cmp.Compare(x.b.ID, y.b.ID))
	}
}

func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// find picks the branch that the body continues, or forks from.
func (p *pass) find(branches []*state.Branch) match {
	var all []contender
	for _, b := range branches {
		if n := common(b.Chain, p.chain); n > 0 {
			all = append(all, contender{b: b, shared: n, key: b.Key == p.key})
		}
	}
	if len(all) == 0 {
		return match{kind: KindNew}
	}
	if len(all) > 1 && !p.bound {
		p.compete(all)
	}
	best := slices.MaxFunc(all, better(p.bound))
	return match{branch: best.b, shared: best.shared, kind: p.continuation(best)}
}

// compete measures contenders, those first whose entries could reach deepest. One that could not beat what was measured is
// not measured: with many branches of a long session that would be most of the work.
func (p *pass) compete(all []contender) {
	could := func(c *contender) (blocks int32) {
		if c.b.Cut != nil { // its cells are other ones
			return math.MaxInt32
		}
		for i := range c.b.Entries {
			if e := &c.b.Entries[i]; !e.Assumed && p.live(e) {
				blocks = max(blocks, p.layout.position(e.Cells))
			}
		}
		return blocks
	}
	slices.SortStableFunc(all, func(a, b contender) int { return cmp.Compare(could(&b), could(&a)) })
	best := int32(0)
	for i := range all {
		if c := &all[i]; best == 0 || could(c) >= best {
			p.measure(c)
			best = max(best, c.exact)
		}
	}
}

// measure finds how deep in the messages the branch's replay of the body meets live entries of the branch. What is known
// counts before what is assumed.
func (p *pass) measure(c *contender) {
	if !slices.ContainsFunc(c.b.Entries, func(e cache.Entry) bool { return p.live(&e) }) {
		return
	}
	o := p.layout.replay(c.b, c.shared)
	for i := range c.b.Entries {
		e := &c.b.Entries[i]
		if k := p.reach(o, e, c.shared); k > p.headCells() {
			c.depth = max(c.depth, o.position(k))
			if !e.Assumed {
				c.exact = max(c.exact, o.position(k))
			}
		}
	}
}

// continuation names how the body goes on from its branch.
func (p *pass) continuation(c contender) Kind {
	body, known := int32(len(p.chain)), int32(len(c.b.Chain))
	switch {
	case c.key && c.shared == body:
		return KindRetry
	case c.key && (c.shared == known || c.shared == known-1 && body > known):
		return KindContinue
	case !c.key && c.shared == known && c.shared < body && !c.b.Alive(p.r.Now) && (!p.bound || !carries(c.b) && c.b.Tool == ""):
		return KindRekey
	}
	return KindFork
}

// carries reports whether anything is in force on the branch.
func carries(b *state.Branch) bool { return len(b.InForce) > 0 || len(b.Held) > 0 || b.Cut != nil }

// live reports whether the provider may hold the entry, under the provider's key of this body.
func (p *pass) live(e *cache.Entry) bool {
	return e.Under(p.ix.Key) && e.Alive(p.r.Now)
}

// reach is the number of cells of an outbound that an entry proves, or makes expect, to be cached. Assumed spans are clipped
// to the first limit messages.
func (p *pass) reach(o *outbound, e *cache.Entry, limit int32) int32 {
	switch {
	case !p.live(e):
	case e.Assumed || p.ix.Format.Automatic(): // a provider that caches by itself finds any beginning again, not whole prompts alone
		k := o.through(min(e.Msg, limit-1))
		if o.holds(e) { // all of it, whatever messages the client makes of the same blocks
			k = max(k, e.Cells)
		}
		return k
	case o.holds(e):
		return e.Cells
	}
	return 0
}

// deepest is the furthest that any of the entries reaches.
func (p *pass) deepest(o *outbound, entries []cache.Entry, limit int32) (k int32) {
	for i := range entries {
		k = max(k, p.reach(o, &entries[i], limit))
	}
	return k
}

// headCells is the number of cells before the messages.
func (p *pass) headCells() int32 {
	if n := len(p.ix.Head); n > 0 {
		return p.layout.cell[n-1]
	}
	return 0
}

// unseen reports whether the body holds more than one assistant turn that no branch of the session has seen: then
// somebody else forwarded the difference (fail-open, bypass, a dead replica), and all of it may be cached.
func (p *pass) unseen(branches []*state.Branch) bool {
	from := int32(0)
	for _, b := range branches {
		from = max(from, common(b.Chain, p.chain))
	}
	var turns []int32
	for m := from; m < int32(len(p.ix.Messages)); m++ {
		if p.opensTurn(m) {
			turns = append(turns, m)
		}
	}
	if len(turns) < 2 {
		return false
	}
	known := map[state.Digest]struct{}{}
	for _, b := range branches {
		for _, d := range b.Chain {
			known[d] = struct{}{}
		}
	}
	n := 0
	for _, m := range turns {
		if _, ok := known[p.chain[m]]; !ok {
			n++
		}
	}
	return n > 1
}

// opensTurn reports whether a message is the first of an assistant turn.
func (p *pass) opensTurn(m int32) bool {
	turn := p.ix.Messages[m].Turn
	return turn > 0 && (m == 0 || p.ix.Messages[m-1].Turn < turn)
}

// assumedTTL is how long unknown history must be expected to stay cached: the longest TTL in the body, an hour where it
// names none or where tidemark may have raised it.
func (p *pass) assumedTTL() time.Duration {
	if ttl := p.clientTTL(); ttl > 0 && (p.r.Config.Levers.TTL == KeepTTL || p.ix.Format.Automatic()) {
		return ttl
	}
	return cache.Long
}
