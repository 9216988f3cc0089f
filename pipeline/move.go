package pipeline

import (
	"maps"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// movesWith says why a proposal on a result that was forwarded before, beyond what the provider holds, does not take part in
// this request's move.
func (p *pass) movesWith(w *wish) filters.Gate {
	switch m := p.o.Move; {
	case m != nil && m.Kind == Solvency:
	case m != nil && m.Kind == Warm && w.Policy.Warm:
	case !w.Policy.Cold:
		return filters.ColdOff
	case m == nil && p.slight:
		return filters.BatchTooSmall
	case (m == nil || m.Kind == Cold) && p.e.route(p.r.Route).misjudged(cold):
		return filters.ColdMisjudged
	}
	return ""
}

// slights reports whether what wishes would leave out of what was forwarded is less than a step by which the provider bills reads
// from what it caches by itself: then where the prompt ends decides what a turn costs, and not what is left out.
func (p *pass) slights(wishes []wish) bool {
	if !p.ix.Format.Automatic() || p.price.Step == 0 {
		return false
	}
	sum := 0
	for i := range wishes {
		switch w := &wishes[i]; {
		case w.Action == filters.Drop:
			c, _ := p.decideCut(w)
			sum += c.tokens - c.stub
		case w.Action == filters.Replace && w.Mode != filters.Meter && w.Policy.Cold && p.movable(w.Result):
			sum += p.leavesOut(&w.Proposal)
		}
	}
	return sum < p.price.Step
}

// moved makes a change from a message on part of this request's move, which is cold unless another one was fired.
func (p *pass) moved(msg int32, tokens int, filter string, saves int) {
	if p.o.Move == nil {
		p.o.Move = &Move{From: msg, Kind: Cold}
	}
	m := p.o.Move
	if m.by == nil {
		m.by = map[string]int{}
	}
	m.From = min(m.From, msg)
	m.Tokens += tokens
	m.by[filter] += saves
}

// settleMove closes the sum of the move. One that was fired and carried out nothing is none: what the provider held before is
// held.
func (p *pass) settleMove(held int32) {
	m := p.o.Move
	if m == nil {
		return
	}
	if len(m.by) == 0 {
		p.o.Move, p.was, p.k = nil, nil, held
		return
	}
	for _, f := range slices.Sorted(maps.Keys(m.by)) {
		if m.by[f] > m.by[m.Filter] {
			m.Filter = f
		}
	}
	rates := p.rates()
	if m.Kind == Cold {
		m.Sum = cache.Cold(float64(m.Tokens), rates.Rho(), rates.Write(p.cacheTTL()), p.horizon())
	}
	m.Predicted = m.Sum.Gain * rates.Input / 1e6
}
