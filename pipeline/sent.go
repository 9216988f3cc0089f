package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// sent is what is remembered of a forwarded request until its response is known.
type sent struct {
	e      *Engine
	sess   *session
	branch uint64 // 0: no branch
	main   bool   // it advanced the branch: no side traffic, no token count
	route  string
	price  *cache.Price
	key    state.Digest
	marks  []cache.Mark
	end    cache.Mark                 // the last of them, or the end of the outbound where there is none
	met    map[state.Digest]time.Time // entries that were a part of the outbound, and when they were last sent before
	at     time.Time
	since  time.Time // when the first of those was sent that this one sends again; else at
	worlds worlds
	bill   bill
	ratio  float64 // tokens of a character as far as was known
	in     int32   // weight of the body as it came
	out    leftOut
	was    prefix        // what the client's own world would have found before a move into it, zero without one
	again  []Reused      // what it brings of what had been left out
	plain  time.Duration // TTL that the client asks for, 0: it caches nothing
	prior  int           // tokens through the last breakpoint of the outbound before
	change *Loss         // what of the client's, or of a move, made the outbound part from the one before
	beyond []int32       // tokens of the entries that were believed to have lapsed, by the provider's count
	levers bool          // breakpoints were raised or placed
	lifted bool          // what is read here may be there because breakpoints asked for other lifetimes than the client's
	placed bool          // breakpoints were placed
	brake  bool          // short reads brake the branch
	left   int           // tokens that a believed lapse left to be read; -1: nothing lapsed
	move   *Move
	moved  string // key of the outcome whose move it is
	first  bool
	lapsed bool // this request sends again one that was not billed, and what that would have read had lapsed
	asked  bool // for a diagnosis
	told   atomic.Bool

	automatic bool // the provider caches by itself
}

// remember keeps what the response will be compared with.
func (p *pass) remember() {
	if p.b == nil || p.r.CountTokens || p.shadow {
		return
	}
	t := &sent{
		e: p.e, sess: p.sess, branch: p.b.ID, main: p.side == "", route: p.r.Route, price: p.price, key: p.ix.Key,
		marks: p.cacheMarks(), met: map[state.Digest]time.Time{}, at: p.r.Now, since: p.r.Now, worlds: p.worlds, bill: p.bill, ratio: tokens(p.b, 1), plain: p.clientTTL(),
		change: p.changed(), left: -1, move: p.o.Move, first: p.m.branch == nil, asked: p.out.ask != "", again: p.o.Again,
		automatic: p.ix.Format.Automatic(),
	}
	if p.m.branch != nil { // a fork's own ledger is new
		t.prior = int(p.m.branch.Ledger.Read)
	}
	for e := range p.met() {
		if e.Start.After(t.met[e.ID]) {
			t.met[e.ID] = e.Start
		}
	}
	t.in, t.out = p.leftOut()
	if p.was != nil {
		t.was = p.was.plain
	}
	if p.m.branch != nil && p.k < p.m.branch.Frontier.Cells && p.m.kind == KindContinue {
		t.left = p.tokensAt(max(min(p.k, int32(len(p.scale.at))-1), p.headCells()))
	}
	t.levers, t.placed = p.marks.Raised+p.marks.Lowered+p.marks.Placed > 0, p.marks.Placed > 0
	t.lifted = p.r.Config.Levers.TTL != KeepTTL && !t.automatic
	t.brake = p.r.Config.Moves.Brake
	if p.widened {
		for e := range p.met() {
			if e.Cells > p.k && e.Tokens > 0 {
				t.beyond = append(t.beyond, e.Tokens)
			}
		}
	}
	if n := len(t.marks); n > 0 {
		t.end = t.marks[n-1]
	} else {
		n := int32(len(p.out.ids)) - 1
		t.end = cache.Mark{ID: p.out.ids[n], Cells: n}
	}
	if t.move != nil {
		t.moved = p.o.Key
	}
	p.repeats(t)
	p.o.sent = t
}

// changed says what made the outbound part from the branch's last one, nil if it only grew.
func (p *pass) changed() *Loss {
	was := p.m.branch
	if was == nil || p.side != "" {
		return nil
	}
	if p.o.Move != nil && p.o.Move.Kind != Cold {
		return &Loss{Cause: CauseTidemark, Filter: p.o.Move.Filter}
	}
	if p.out.lost && was.Frontier != (state.Frontier{}) { // once: then what is sent is no cut any more
		return &Loss{Cause: CauseClientHistory, Message: p.m.shared}
	}
	now := state.Parts(p.ix.Parts)
	switch old := was.Ledger.Parts; {
	case old == state.Parts{} || p.ix.Key == lastKey(was):
	case old.Model != now.Model:
		return &Loss{Cause: CauseClientModel}
	case old.Tools != now.Tools:
		return &Loss{Cause: CauseClientTools}
	case old.System != now.System:
		return &Loss{Cause: CauseClientSystem}
	}
	if p.m.kind == KindFork && int(p.m.shared) < len(was.Chain) {
		return &Loss{Cause: CauseClientHistory, Message: p.m.shared}
	}
	return nil
}

// booked returns the ledger as it stands once the request is sent.
func (p *pass) booked() state.Ledger {
	l := p.b.Ledger
	l.Parts = state.Parts(p.ix.Parts)
	if l.Began == 0 {
		l.Began = p.weightIn()
	}
	if p.m.kind != KindRetry {
		l.Calls++
	}
	l.Short += p.bill.short
	l.Premium += p.bill.premium
	l.Marked = l.Marked || len(p.ix.Markers) > 0 || p.ix.TopMarker
	if p.rewritten() {
		l.Message = ""
	}
	if p.o.Move != nil {
		l.Settled = l.Summaries - len(p.begun)
	}
	if m := p.o.Move; m != nil && m.Kind != Cold {
		l.Rewrites++
		l.Moved = p.ix.LastTurn()
	}
	return l
}
