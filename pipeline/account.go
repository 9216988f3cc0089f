package pipeline

import (
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Basis says what tokens that were left out would have been billed as.
type Basis string

// Bases. A token that the client's own world holds in the cache saves the price of reading it, one that would have been sent
// uncached saves all of it, and one that would have been written saves the price of that.
const (
	CacheReadMarginal  Basis = "CACHE_READ_MARGINAL"
	FullInput          Basis = "FULL_INPUT"
	CacheWriteMarginal Basis = "CACHE_WRITE_MARGINAL"
	BlendedMarginal    Basis = "BLENDED_MARGINAL" // of several: each part at its own price
)

// Priced are tokens that were left out of one request, as the provider counts, by what they would have been billed as.
type Priced struct {
	Read, Written, Input int
	USD                  float64
}

// Tokens is their number.
func (p *Priced) Tokens() int { return p.Read + p.Written + p.Input }

// Basis is how they are priced, empty for none.
func (p *Priced) Basis() Basis {
	switch {
	case p.Read == 0 && p.Written == 0 && p.Input == 0:
		return ""
	case p.Written == 0 && p.Input == 0:
		return CacheReadMarginal
	case p.Read == 0 && p.Input == 0:
		return CacheWriteMarginal
	case p.Read == 0 && p.Written == 0:
		return FullInput
	}
	return BlendedMarginal
}

// Account is what tidemark came to in one request, modelled, in USD. Baseline - Cost = Removal + Levers.
type Account struct {
	First   Priced  // what this request left out for the first time
	Again   Priced  // what earlier requests had left out, and which this one would have sent again
	Rewrote float64 // what it cost to write again what a move into the cache left behind its place
	Removal float64 // First + Again - Rewrote
	Levers  float64 // the rest: what breakpoints did
	Reuse   float64 // what was left out and needed again: a call more, and the tokens once more
}

// leftOut is the weight that decisions leave out of a request: at 0 of the prefix that the client's own world holds, at 1
// behind it.
type leftOut struct{ first, again [2]int32 }

// all is what both leave out.
func (l *leftOut) all() [2]int32 { return [2]int32{l.first[0] + l.again[0], l.first[1] + l.again[1]} }

// undisturbed is what the client's own world would find of the outbound as it was before a move into what the provider holds.
type undisturbed struct {
	out   *outbound
	plain prefix
}

// disturb notes that, before a move is made.
func (p *pass) disturb() {
	w := p.survey(breakpoint.Forwarded(p.ix, p.out.droppedMessages()))
	p.was = &undisturbed{p.out, w.plain}
}

// leftOut is the weight of the body as it came, and what decisions leave out of it.
func (p *pass) leftOut() (in int32, out leftOut) {
	in = p.scale.total
	made := p.made()
	for r, d := range p.out.over {
		if d == nil {
			continue
		}
		less := int32(p.ix.Results[r].Content.Len() - len(d.Content))
		in += less
		out.add(made[d.Ref], p.beyond(p.located(int32(r)), p.scale.at[p.out.resultCell(int32(r))]), less)
	}
	if s := p.out.span; s != nil {
		less := p.spanWeight()
		in += less
		at := p.out.through(s.Head) + 1
		before := less
		if p.newCut != nil {
			before = p.goneBefore()
		}
		beyond := p.beyond(at, p.scale.at[at])
		out.add(false, beyond, before)
		out.add(true, beyond, less-before)
	}
	return in, out
}

// made are the results that this request decided on.
func (p *pass) made() map[state.ResultRef]bool {
	made := make(map[state.ResultRef]bool, len(p.news))
	for _, d := range p.news {
		made[d.Ref] = true
	}
	return made
}

// goneBefore is the weight that a cut of this request leaves out and that was left out before: by the cut which it extends, and
// by decisions on results that it drops now.
func (p *pass) goneBefore() (w int32) {
	extends := false
	for i := range p.ix.Blocks {
		if b := &p.ix.Blocks[i]; p.out.span.Dropped[b.Msg] && !p.newGone[b.Msg] {
			w, extends = w+int32(weight(p.ix, b)), true
		}
	}
	if was := p.m.cut(); extends && was != nil {
		w -= int32(len(transcript.AppendQuoted(nil, was.Stub)) + stubFrame)
	}
	for i := range p.b.InForce {
		d := &p.b.InForce[i]
		if r, ok := p.layout.find(d.Ref, p.m.shared); ok && p.newGone[p.ix.Results[r].Msg] {
			w += int32(p.ix.Results[r].Content.Len() - len(d.Content))
		}
	}
	return w
}

func (l *leftOut) add(first bool, beyond int, weight int32) {
	if first {
		l.first[beyond] += weight
	} else {
		l.again[beyond] += weight
	}
}

// located is the cell of a result in the outbound that the client's own world is compared with.
func (p *pass) located(result int32) int32 {
	if p.was != nil {
		return p.was.out.resultCell(result)
	}
	return p.out.resultCell(result)
}

// beyond is 1 for what lies behind what the client's own world holds.
func (p *pass) beyond(cell, weight int32) int {
	if p.was != nil && cell <= p.was.plain.cell || p.was == nil && weight <= p.worlds.plain.weight {
		return 0
	}
	return 1
}

// scaled is how many tokens a weight of this request is, by the provider's count of it.
func (t *sent) scaled(u *Usage) func(weight int32) int {
	ratio := t.ratio
	if t.worlds.total > 0 {
		ratio = float64(u.Prompt()) / float64(t.worlds.total)
	}
	return func(weight int32) int { return int(float64(weight) * ratio) }
}

// baseline is the usage that the body as it came would have had, modelled: the decisions' tokens come back, and what was
// read is what breakpoints as the client sets them would have found.
func (t *sent) baseline(u *Usage) *Usage {
	w, weigh, out := &t.worlds, t.scaled(u), t.out.all()
	b := Usage{Output: u.Output, Read: w.plain.tokens, Input: u.Prompt() - weigh(w.tail)}
	switch {
	case t.was.tokens > 0: // the move is tidemark's own: the client's world reads on
		b.Read = min(max(t.was.tokens-weigh(t.out.first[0]), 0), u.Prompt()-b.Input)
	case !t.lifted || w.plain.cell == w.certain.cell || w.plain.cell == w.known.cell || u.Read > w.known.tokens+clearly:
		// Nothing that tidemark asked for lives longer here, or somebody else has sent what was read.
		b.Read = min(u.Read, u.Prompt())
	}
	written := max(0, u.Prompt()-b.Input-b.Read)
	b.Read, written = b.Read+weigh(out[0]), written+weigh(out[1])
	switch {
	case t.plain == 0:
		b.Input, written = b.Input+b.Read+written, 0
		b.Read = 0
	case t.plain > cache.Short:
		b.Write1h, written = written, 0
	}
	b.Write5m = written
	return &b
}

// writing is what a token costs where it is sent for the first time, as the client sets breakpoints.
func (t *sent) writing(r cache.Rates) float64 {
	switch {
	case t.plain > cache.Short:
		return r.Write1h
	case t.plain > 0:
		return r.Write5m
	}
	return r.Input
}

// account splits what the request saved, or cost, by what did it. b is its baseline.
func (t *sent) account(u, b *Usage, saved float64) Account {
	rates, weigh := t.price.Rates(b.Prompt()), t.scaled(u)
	write := t.writing(rates)
	price := func(out [2]int32) (p Priced) {
		inside, behind := weigh(out[0]), weigh(out[1])
		switch {
		case t.plain == 0:
			p.Input = inside + behind
		case t.automatic && write <= rates.Input: // what it caches by itself is input like any other
			p.Read, p.Input = inside, behind
		default:
			p.Read, p.Written = inside, behind
		}
		p.USD = (float64(p.Read)*rates.Read + float64(p.Written)*write + float64(p.Input)*rates.Input) / 1e6
		return p
	}
	a := Account{First: price(t.out.first), Again: price(t.out.again)}
	if t.was.tokens > 0 && t.plain > 0 {
		left := t.was.tokens - weigh(t.out.first[0]) - max(t.worlds.plain.tokens, u.Read)
		a.Rewrote = float64(max(0, left)) * (write - rates.Read) / 1e6
	}
	a.Removal = a.First.USD + a.Again.USD - a.Rewrote
	a.Levers = saved - a.Removal
	a.Reuse = t.reuse(b)
	return a
}

// answerTokens is what the model says to ask for a result once more, about.
const answerTokens = 150

// reuse is what it cost that something was needed again which had been left out: for every turn of the model that asked for
// it a call that reads the whole prompt, and the results, which are written once more. In the client's own world nothing of that
// would have been.
func (t *sent) reuse(b *Usage) (usd float64) {
	if len(t.again) == 0 {
		return 0
	}
	rates, turns := t.price.Rates(b.Prompt()), map[int32]bool{}
	write := t.writing(rates)
	for _, a := range t.again {
		if turns[a.turn] = true; !a.inline { // given back within the request they are a part of its cost, and not of its baseline
			usd += float64(a.Tokens) * write / 1e6
		}
	}
	each := float64(b.Prompt())*rates.Read + answerTokens*rates.Output
	return usd + float64(len(turns))*each/1e6
}

// tokenSizes are tokens of the outbound, by what the provider is believed to hold.
func (p *pass) tokenSizes() Sizes {
	s := Sizes{Calibrated: p.b != nil && p.b.Ledger.Ratio > 0}
	if p.scale == nil || p.out == nil {
		return s
	}
	total := int(tokens(p.b, float64(p.scale.total)))
	at := func(cell int32) int32 { return p.scale.at[max(0, min(cell, int32(len(p.scale.at))-1))] }
	covered, sent := at(p.k), at(p.out.through(p.fresh-1))
	s.Cached = int(tokens(p.b, float64(covered)))
	s.Sent = int(tokens(p.b, float64(max(0, sent-covered))))
	s.Fresh = max(0, total-s.Cached-s.Sent)
	s.Expected = p.worlds.certain.tokens
	return s
}

// Sizes are tokens of an outbound: by the provider's counts of the conversation if Calibrated is set, else estimated.
type Sizes struct {
	Calibrated          bool
	Cached, Sent, Fresh int // that the provider was believed to hold; sent before, but lapsed; never sent
	Expected            int // that certain entries let expect to be read
}

// removedTokens is how many tokens a change leaves out as the provider counts this conversation, 0 before it has.
func (p *pass) removedTokens(bytes int) int {
	if p.b == nil || p.b.Ledger.Ratio <= 0 {
		return 0
	}
	return int(tokens(p.b, float64(bytes)))
}
