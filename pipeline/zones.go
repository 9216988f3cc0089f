package pipeline

import (
	"context"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// zones finds how deep the provider may hold the replay, from the entries of every branch of the session: entries whose
// prefix ids match say what is warm, whatever branch they belong to.
func (p *pass) zones() {
	p.fresh = max(p.m.shared, p.last+1)
	p.k = p.deepest(p.out, p.b.Entries, p.fresh)
	if p.m.kind == KindNew {
		p.k = p.deepest(p.out, p.b.Entries, int32(len(p.chain)))
	}
	for _, b := range p.sess.branches {
		if b.ID != p.b.ID {
			p.k = max(p.k, p.deepest(p.out, b.Entries, common(b.Chain, p.chain)))
		}
	}
	p.o.Cache = p.cacheState()
	f := p.b.Frontier
	same := p.m.kind == KindContinue && int(p.m.shared) == len(p.m.branch.Chain) && !p.out.lost
	p.o.Undeclared = same && f.ID != state.Digest{} && p.b.Key == p.m.branch.Key &&
		(int(f.Cells) >= len(p.out.ids) || p.out.ids[f.Cells] != f.ID) && p.ix.Key == lastKey(p.b)
}

// lastKey is the provider's key of the newest entry of a branch.
func lastKey(b *state.Branch) (key state.Digest) {
	for i := range b.Entries {
		if e := &b.Entries[i]; !e.Assumed && e.ID == b.Frontier.ID {
			key = e.Key
		}
	}
	return key
}

func (p *pass) cacheState() CacheState {
	switch {
	case p.m.kind == KindNew && p.last < 0:
		return CacheFirst
	case p.k > p.headCells() && p.k >= p.b.Frontier.Cells:
		return CacheWarm
	}
	return CacheCold
}

// holds finds the results that the branch holds. One that a live entry turns out to cover is released verbatim for good. One
// that is not in the body is kept, like a decision, for the day on which its result comes back.
func (p *pass) holds() {
	p.held = map[int32]int32{}
	keep := p.b0().Held[:0:0]
	for _, h := range p.b0().Held {
		r, ok := p.layout.find(h.Ref, p.m.shared)
		if !ok {
			if p.ix.LastTurn()-h.Turn <= maxHeld {
				keep = append(keep, h)
			}
			continue
		}
		if p.out.resultCell(r) <= p.k {
			p.must = true
			continue
		}
		p.held[r] = int32(len(keep))
		keep = append(keep, h)
	}
	if p.b != nil {
		p.b.Held = keep
	}
}

// b0 is the working copy, or an empty branch.
func (p *pass) b0() *state.Branch {
	if p.b == nil {
		return &state.Branch{}
	}
	return p.b
}

// movable reports whether a result that was forwarded before, undecided and not held, lies beyond everything that the
// provider may hold: a decision on it would be a cold move.
func (p *pass) movable(result int32) bool {
	r := &p.ix.Results[result]
	_, held := p.held[result]
	return !held && !p.out.decided(result) && !p.out.gone(result) && r.Msg < p.fresh && p.out.resultCell(result) > p.k
}

// widen looks, before anything may move, for other sessions of the tenant that hold the same conversation: they may have
// kept warm what this session left to grow cold.
func (p *pass) widen(ctx context.Context, moves bool) error {
	if p.bound || p.widened || !moves {
		return nil
	}
	others, all, err := p.e.related(ctx, p.sess.key, p.chain, p.r.Now)
	if err != nil {
		return err
	}
	p.widened = true
	if !all { // one of those not looked at may have kept it warm
		p.k = p.out.cells()
	}
	for _, b := range others {
		p.k = max(p.k, p.deepest(p.out, b.Entries, common(b.Chain, p.chain)))
	}
	return nil
}

func results(p *pass) []int32 {
	all := make([]int32, len(p.ix.Results))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// view is what filters see.
func (p *pass) view() *filters.View {
	v := &filters.View{Index: p.ix, Turn: p.ix.LastTurn(), HoldAt: p.holdAt, HoldPays: p.holdPays, Filled: p.share(), Memo: p.memo, Summary: p.summaries()}
	switch {
	case p.bound:
		v.HoldGate = filters.PrefixBound
	case p.ix.TopMarker:
		v.HoldGate = filters.AutomaticCaching
	case len(p.ix.Markers) == 0:
		v.HoldGate = filters.NoBreakpoint
	}
	deep := !p.bound && (p.r.Config.Moves.Warm || p.crowded())
	p.viewCut(v, deep)
	for i := range p.ix.Results {
		r := int32(i)
		if p.out.decided(r) || p.out.gone(r) {
			continue
		}
		c := filters.Candidate{Result: r, Zone: p.zone(r)}
		_, c.Held = p.held[r]
		c.Open = c.Zone != filters.Covered || deep
		v.Candidates = append(v.Candidates, c)
	}
	return v
}

// zone says how the provider's cache relates to a result.
func (p *pass) zone(result int32) filters.Zone {
	switch {
	case p.out.resultCell(result) <= p.k:
		return filters.Covered
	case p.ix.Results[result].Msg >= p.fresh:
		return filters.Fresh
	}
	return filters.Uncovered
}

// holdAt says why a result cannot be held by moving breakpoints.
func (p *pass) holdAt(result int32) filters.Gate {
	switch breakpoint.CanHoldAt(p.ix, p.out.droppedMessages(), p.ix.SeqOf(p.ix.Results[result].Block)) {
	case breakpoint.CanHold:
	case breakpoint.NoMarker, breakpoint.NoAnchor:
		return filters.NoBreakpoint
	case breakpoint.NestedMarker:
		return filters.NestedBreakpoint
	case breakpoint.Automatic:
		return filters.AutomaticCaching
	}
	return ""
}

// breakpoints places the markers.
func (p *pass) breakpoints() error {
	in := breakpoint.Input{Index: p.ix, Frontier: -1, Dropped: p.out.droppedMessages()}
	for r := range p.held {
		in.Held = append(in.Held, p.ix.SeqOf(p.ix.Results[r].Block))
	}
	for r := range p.ix.Results {
		if p.ix.Results[r].NestedMarker && p.out != nil && p.out.decided(int32(r)) {
			in.Replaced = append(in.Replaced, p.ix.SeqOf(p.ix.Results[r].Block))
		}
	}
	if p.b != nil && p.out != nil {
		if p.scale == nil || p.decidedNow() {
			p.scale = p.out.weigh()
		}
		if !p.r.Unbridged {
			in.Frontier, in.Doubtful = p.frontier()
		}
	}
	in.Place = p.place()
	plan, err := breakpoint.Decide(&in)
	if err != nil {
		if p.gate == "" {
			return fall(filters.Law, err)
		}
		p.o.Gates[FilterGate{Gate: filters.Law}]++ // not even the replay's markers are lawful: the client's stand
	} else if p.out != nil {
		plan = p.lever(&in, plan)
	}
	p.marks = plan
	p.o.Breakpoints = BreakpointChanges{plan.Stripped, plan.Anchored, plan.Kept, plan.Placed, plan.Raised, plan.Lowered}
	return nil
}

// lever looks at what the provider holds of the outbound with these markers, and chooses how long they live.
func (p *pass) lever(in *breakpoint.Input, plan breakpoint.Plan) breakpoint.Plan {
	if p.scale == nil {
		p.scale = p.out.weigh()
	}
	p.worlds = p.survey(plan.Marks)
	if in.TTL, in.Lower = p.ttl(); in.TTL == 0 {
		return plan
	}
	raised, err := breakpoint.Decide(in)
	if err != nil || raised.Raised+raised.Lowered == 0 {
		p.bill.premium = 0
		return plan
	}
	return raised
}

// place reports whether breakpoints are set for a client that sets none. One request says nothing: the branch must have gone
// on within the life of what would have been written. A client that ever set one of its own is left alone for good.
func (p *pass) place() bool {
	if !p.r.Config.Levers.Place || p.ix.Format.Automatic() || p.b == nil || p.side != "" || p.b.Ledger.Marked || p.e.route(p.r.Route).refusesLevers() {
		return false
	}
	switch p.gate {
	case filters.Bypass, filters.Shadow, filters.Holdout, filters.Rollout, filters.Brake:
		return false
	default:
	}
	same := (p.m.kind == KindContinue || p.m.kind == KindRetry) && p.m.branch.Ledger.Parts == state.Parts(p.ix.Parts)
	return same && p.r.Now.Sub(p.b.Last) <= cache.Short
}

// frontier is the block to which a bridge may be needed: where the deepest entry ends that the provider holds by its own word,
// or else where the branch's previous outbound carried its last marker, if the prefix there is the same now and the provider
// may still hold it; -1 if there is neither. The latter is doubtful.
func (p *pass) frontier() (seq int32, doubtful bool) {
	cell := p.certain()
	f := p.b.Frontier
	if believed := f.Cells > 0 && f.Cells <= p.k && int(f.Cells) < len(p.out.ids) && p.out.ids[f.Cells] == f.ID; believed && f.Cells > cell {
		cell, doubtful = f.Cells, true
	}
	at, ok := slices.BinarySearch(p.out.cell, cell)
	if cell <= 0 || !ok {
		return -1, true
	}
	// What a marker of the client's would have written is missed when the client rewinds: a bridge must be worth that.
	doubtful = doubtful || p.scale.at[cell]-p.scale.at[p.survivors()(cell)] < p.scale.total/10
	return int32(at), doubtful
}

// certain is where the deepest entry ends that the provider holds of the outbound by its own word, 0 if there is none.
func (p *pass) certain() (cell int32) {
	for e := range p.met() {
		if e.SureAlive(p.r.Now) {
			cell = max(cell, e.Cells)
		}
	}
	return cell
}

// cacheMarks are the outbound's breakpoints as entries know them.
func (p *pass) cacheMarks() []cache.Mark {
	out := p.out
	if out == nil {
		out = &outbound{layout: p.layout, ids: p.layout.base}
	}
	marks := make([]cache.Mark, 0, len(p.marks.Marks))
	for _, m := range p.marks.Marks {
		n := out.cell[m.Seq]
		mark := cache.Mark{ID: out.ids[n], Cells: n, Msg: p.ix.Seq(m.Seq).Msg, TTL: m.TTL}
		if p.scale != nil {
			mark.Weight, mark.Thoughts = p.scale.at[n], p.scale.thoughts[n]
		}
		marks = append(marks, mark)
	}
	return marks
}
