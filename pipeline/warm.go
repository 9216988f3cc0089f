package pipeline

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// Kinds of moves in which bytes change that the provider may hold.
const (
	Warm     = "warm"     // what the re-written cache costs is less than what the removal saves over the horizon
	Solvency = "solvency" // the prompt would outgrow the model's window
)

// surely is the share of the horizon within which a warm move must have paid: what is removed is a part of what the provider
// counted, and the part is an estimate.
const surely = 0.8

// rewrite looks for a move into what the provider holds. Where one fires, what lies behind it counts as uncovered.
func (p *pass) rewrite(wishes []wish) {
	if p.bound || len(wishes) == 0 {
		return
	}
	var all []int // wishes in what is covered, by depth
	for i := range wishes {
		if w := &wishes[i]; w.Action != filters.Hold && w.Mode != filters.Meter && p.cellOf(w) <= p.k {
			all = append(all, i)
		}
	}
	if p.crowded() {
		p.makeRoom(wishes)
		return
	}
	warm := all[:0]
	for _, i := range all {
		if wishes[i].Policy.Warm {
			warm = append(warm, i)
		}
	}
	if len(warm) == 0 || !p.r.Config.Moves.Warm {
		return
	}
	p.deep = map[int32]filters.Gate{}
	p.rewriteGate = p.weighWarm(wishes, warm)
}

// weighWarm fires a warm move if it pays, or says why not.
func (p *pass) weighWarm(wishes []wish, warm []int) filters.Gate {
	moves, l := &p.r.Config.Moves, &p.b.Ledger
	switch {
	case l.Rewrites >= moves.Budget:
		return filters.RewriteBudget
	case l.Rewrites > 0 && p.ix.LastTurn() >= l.Moved && int(p.ix.LastTurn()-l.Moved) < moves.Spacing:
		return filters.MoveSpacing
	}
	warm, gate := p.causes(wishes, warm)
	if gate != "" {
		return gate
	}
	priced := slices.ContainsFunc(warm, func(i int) bool { return wishes[i].Policy.BreakEven })
	removed, behind := make([]float64, 0, len(warm)), make([]float64, 0, len(warm))
	var at []int
	counted, kept := p.counted(), p.survivors()
	density := p.density(counted)
	for _, i := range warm {
		cell := p.cellOf(&wishes[i])
		saves, bytes := p.saves(&wishes[i])
		if wishes[i].Action != filters.Drop {
			saves = min(saves, float64(bytes)*density(cell))
		}
		if saves <= 0 {
			continue
		}
		at = append(at, i)
		removed = append(removed, saves)
		behind = append(behind, float64(counted(p.k)-counted(kept(cell))))
	}
	p.disjoint(wishes, at, removed)
	rates := p.rates()
	sum := cache.Warm(removed, behind, rates.Rho(), rates.Write(p.cacheTTL()), p.horizon())
	if len(at) > 0 {
		p.summed(wishes[at[sum.From]].Result, sum)
	}
	pays := sum.Gain > 0 && sum.Needed <= surely*sum.N && sum.Gain >= moves.MinGain*tokens(p.b, float64(p.scale.total))
	if len(at) == 0 || priced && !pays {
		return filters.BreakEven
	}
	if !priced {
		sum.From = 0 // all of it, whatever it costs
	}
	if !p.fits(wishes, at[sum.From]) {
		return filters.SmallPrompt
	}
	p.fire(&wishes[at[sum.From]], Warm, sum)
	return ""
}

// fits reports whether all that a warm move from a wish on carries out leaves enough of the prompt. What may otherwise go at cold
// moments alone rides along, and takes room as well: were one of the batch refused for it, the sum would be that of another move.
func (p *pass) fits(wishes []wish, first int) bool {
	from, left := p.cellOf(&wishes[first]), p.left
	var gone []bool // by message: what a cut leaves out
	for i := range wishes {
		w := &wishes[i]
		takes := (w.Policy.Warm || w.Policy.Cold) && w.Action != filters.Hold && w.Mode != filters.Meter
		if cell := p.cellOf(w); !takes || cell < from || cell > p.k {
			continue
		}
		if w.Action == filters.Drop {
			c, _ := p.decideCut(w)
			gone = c.gone
		} else if len(gone) > 0 && gone[p.ix.Results[w.Result].Msg] {
			continue
		}
		_, bytes := p.saves(w)
		left -= bytes
	}
	return !p.small(left)
}

// causes returns the wishes that may cause a warm move, by their filters' policies, and notes why others may not. If none may,
// the gate says why of the last one.
func (p *pass) causes(wishes []wish, warm []int) (left []int, gate filters.Gate) {
	batch := map[string]float64{}
	for _, i := range warm {
		w := &wishes[i]
		if b := w.Policy.RewriteBudget; b > 0 && p.b.Ledger.Rewrites >= b {
			w.Policy.Warm = false
			p.deep[w.Result], gate = filters.RewriteBudget, filters.RewriteBudget
			continue
		}
		n, _ := p.saves(w)
		batch[w.filter] += n
		left = append(left, i)
	}
	prompt := tokens(p.b, float64(p.scale.total))
	left = slices.DeleteFunc(left, func(i int) bool {
		w := &wishes[i]
		small := batch[w.filter] < w.Policy.MinBatchFrac*prompt
		if small {
			p.deep[w.Result], gate = filters.BatchTooSmall, filters.BatchTooSmall
		}
		return small
	})
	if len(left) > 0 {
		gate = ""
	}
	return left, gate
}

// makeRoom fires a move that brings a prompt that is about to outgrow the window far below it. If that can't be reached
// nothing is cut: the client must compact.
func (p *pass) makeRoom(wishes []wish) {
	var at []int
	var removed []float64
	for i := range wishes {
		if w := &wishes[i]; w.Action != filters.Hold && w.Mode != filters.Meter {
			if n, _ := p.saves(w); n > 0 {
				at, removed = append(at, i), append(removed, n)
			}
		}
	}
	p.disjoint(wishes, at, removed)
	saves := 0.0
	for _, n := range removed {
		saves += n
	}
	if len(at) == 0 || tokens(p.b, float64(p.scale.total))-saves > roomyShare*float64(p.price.Window) {
		p.rewriteGate = filters.WindowShort
		return
	}
	p.fire(&wishes[at[0]], Solvency, cache.Sum{Removed: saves})
}

// fire makes what lies from a wish on uncovered.
func (p *pass) fire(w *wish, kind string, sum cache.Sum) {
	p.disturb()
	p.o.Move = &Move{From: p.msgOf(w), Kind: kind, Sum: sum}
	p.k = min(p.k, p.cellOf(w)-1)
}

// cellOf is the first cell that a wish changes: that of its result, or that of the stub.
func (p *pass) cellOf(w *wish) int32 {
	if w.Action == filters.Drop {
		return p.out.through(w.Cut.Head) + 1
	}
	return p.out.resultCell(w.Result)
}

// msgOf is the first message that a wish changes.
func (p *pass) msgOf(w *wish) int32 {
	if w.Action == filters.Drop {
		return w.Cut.Head
	}
	return p.ix.Results[w.Result].Msg
}

// disjoint takes off what a cut removes, the first of these wishes if there is one, what the others would remove inside of it: with
// the cut they are not carried out.
func (p *pass) disjoint(wishes []wish, at []int, removed []float64) {
	if len(at) == 0 || wishes[at[0]].Action != filters.Drop {
		return
	}
	c, _ := p.decideCut(&wishes[at[0]])
	for n, i := range at[1:] {
		if c.gone[p.ix.Results[wishes[i].Result].Msg] {
			removed[0] = max(0, removed[0]-removed[n+1])
		}
	}
}

// saves is how many tokens, and bytes of the body, a proposal leaves out, 0 if it can't be carried out: by the estimate of its text or by the bytes
// of its JSON, whichever promises less. Escapes make the one too large, a tokenizer of its own the other.
func (p *pass) saves(w *wish) (n float64, bytes int) {
	if w.Action == filters.Drop {
		c, gate := p.decideCut(w)
		if gate != "" {
			return 0, 0
		}
		return min(float64(c.tokens), tokens(p.b, float64(c.bytes))), c.bytes
	}
	d, _, gate := p.decide(w)
	if gate != "" {
		return 0, 0
	}
	bytes = p.ix.Results[w.Result].Content.Len() - len(d.Content)
	return min(float64(d.Tokens-d.MarkerTokens), tokens(p.b, float64(bytes))), bytes
}

// survivors returns through which cell the cache would still be read if the outbound changed from a cell on: the provider
// finds no entry that no breakpoint reaches, so a cut behind its lookback costs everything back to the last one that does.
func (p *pass) survivors() func(cell int32) int32 {
	marks, at := breakpoint.Forwarded(p.ix, p.out.droppedMessages()), p.out.positions()
	alive := map[int32]bool{}
	for e := range p.met() {
		if e.SureAlive(p.r.Now) && p.reaches(at, marks, e.Cells) {
			alive[e.Cells] = true
		}
	}
	cells := slices.Sorted(maps.Keys(alive))
	return func(cell int32) int32 {
		i, _ := slices.BinarySearch(cells, cell)
		if i == 0 {
			return 0
		}
		return cells[i-1]
	}
}

// counted is tokensAt for many wishes between few entries.
func (p *pass) counted() func(cell int32) int {
	known := map[int32]int{}
	return func(cell int32) int {
		n, ok := known[cell]
		if !ok {
			n = p.tokensAt(cell)
			known[cell] = n
		}
		return n
	}
}

// density returns how many tokens a weight has around a cell: by the provider's own count of the stretch between the nearest
// entries before it and through it. Within one prompt that differs by a factor, as scripts and escapes do.
func (p *pass) density(counted func(cell int32) int) func(cell int32) float64 {
	ends := map[int32]bool{}
	for e := range p.met() {
		if e.Tokens > 0 {
			ends[e.Cells] = true
		}
	}
	cells := slices.Sorted(maps.Keys(ends))
	return func(cell int32) float64 {
		i, _ := slices.BinarySearch(cells, cell)
		if i == len(cells) {
			return tokens(p.b, 1)
		}
		from, to := int32(0), cells[i]
		if i > 0 {
			from = cells[i-1]
		}
		return float64(counted(to)-counted(from)) / float64(max(1, p.scale.at[to]-p.scale.at[from]))
	}
}

// horizon is how many calls the branch is expected to make, this one included.
func (p *pass) horizon() float64 {
	return cache.Horizon(p.b.Ledger.Calls, p.r.Config.Moves.Horizon, tokens(p.b, float64(p.scale.total)), float64(p.price.Window), p.growth())
}

// growth is how many tokens a call adds to the prompt, 0 before there was one.
func (p *pass) growth() float64 {
	if p.b.Ledger.Calls == 0 {
		return 0
	}
	return tokens(p.b, float64(p.weightIn()-p.b.Ledger.Began)/float64(p.b.Ledger.Calls))
}

// markerTokens is what a marker costs, about.
const markerTokens = 45

// holdPays compares holding a fresh result for some turns with caching it.
func (p *pass) holdPays(result int32, turns int) bool {
	rates, n := p.rates(), p.horizon()
	size := tokens(p.b, float64(p.ix.Results[result].Content.Len()))
	h := float64(turns)
	calls := max(0, n-h)
	lapses := 1 - math.Pow(1-min(1, float64(p.b.Moves)/float64(max(1, p.b.Requests))), h+calls)
	bills := cache.Hold(cache.Read{
		Tokens: size, Marker: markerTokens, Turns: h, After: calls, Tail: p.growth() * h / 2, Rho: rates.Rho(),
		Write: rates.Write(p.cacheTTL()), Cold: lapses, ColdAt: max(2, (h+calls)/2),
	})
	p.summed(result, bills)
	return bills.Pays()
}

// cacheTTL is what a re-write would be written for: what the client asks for, or the route always.
func (p *pass) cacheTTL() (ttl time.Duration) {
	if p.r.Config.Levers.TTL == HourTTL {
		return cache.Long
	}
	if ttl = p.clientTTL(); ttl == 0 {
		ttl = cache.Short
	}
	return ttl
}
