package pipeline

import (
	"github.com/tidemark-dev/tidemark/filters"
)

// Shares of the model's window.
const (
	rawShare   = 0.9  // the body as it came: from here on nothing is decided, so that the client sees itself grow and compacts
	fullShare  = 0.95 // the outbound: from here on beyond_window moves
	roomyShare = 0.6  // what such a move must bring it down to
	minGuarded = 8192 // tokens; a window below this is a mistake in the table
)

// guard stops new decisions where the branch as a whole says so. What is in force is replayed, and holds go on.
func (p *pass) guard() {
	if p.gate != "" || p.side != "" {
		return
	}
	moves := &p.r.Config.Moves
	switch {
	case moves.Brake && p.b.Ledger.Braked:
		p.gate = filters.Brake
	case moves.RawGuard && !p.crowded() && p.filled(p.weightIn(), rawShare):
		p.gate = filters.RawGuard
	default:
		return
	}
	p.o.Gate = p.gate
	p.o.Gates[FilterGate{Gate: p.gate}]++
}

// weightIn is the weight of the body as it came.
func (p *pass) weightIn() int32 {
	in := p.scale.total
	for r, d := range p.out.over {
		if d != nil {
			in += int32(p.ix.Results[r].Content.Len() - len(d.Content))
		}
	}
	return in + p.spanWeight()
}

// spanWeight is the weight of what a cut leaves out, without that of its stub.
func (p *pass) spanWeight() (w int32) {
	s := p.out.span
	if s == nil {
		return 0
	}
	for i := range p.ix.Blocks {
		if b := &p.ix.Blocks[i]; s.Dropped[b.Msg] {
			w += int32(weight(p.ix, b))
		}
	}
	return w - int32(len(s.text)+stubFrame)
}

// filled reports whether a weight fills a share of the model's window. Where the window is not known nothing does.
func (p *pass) filled(weight int32, share float64) bool {
	w := p.price.Window
	return w >= minGuarded && tokens(p.b, float64(weight)) >= share*float64(w)
}

// share is how far the outbound fills the model's window, 0 where that is not known.
func (p *pass) share() float64 {
	if p.price.Window < minGuarded {
		return 0
	}
	return tokens(p.b, float64(p.scale.total)) / float64(p.price.Window)
}

// crowded reports whether the outbound is so near the window that a move is due whatever it costs.
func (p *pass) crowded() bool {
	return p.r.Config.Moves.BeyondWindow && !p.bound && p.filled(p.scale.total, fullShare)
}
