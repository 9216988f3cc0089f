package pipeline

import (
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// layout is what a body's blocks have in common for every outbound that may be made of it with the same cut, or none.
type layout struct {
	ix      *transcript.Index
	h       *transcript.Hasher
	span    *span // what is left out; nil: nothing
	cuts    map[cutKey]*layout
	tool    string  // definition of a tool that is added; empty: none
	offered *layout // the same with a tool added
	cell    []int32 // by sequence number: hashed blocks that are forwarded, through this one
	msg     []int32 // by message: cells through its last block, without the stub
	base    []state.Digest
	// byCall lists the results of each call id, in order; several mean that the id is ambiguous.
	byCall map[string][]int32
}

// newLayout numbers the cells and computes the prefix ids of the body as it came.
func newLayout(ix *transcript.Index, h *transcript.Hasher) *layout {
	l := &layout{ix: ix, h: h}
	l.number()
	l.base = l.prefixes(nil, 0, nil)
	return l
}

// number counts the cells. The stub's comes right before that of the first block behind it that is forwarded.
func (l *layout) number() {
	l.cell, l.msg = make([]int32, l.ix.Len()), make([]int32, len(l.ix.Messages))
	n := int32(0)
	stub := l.span.first(l.ix)
	for s := range int32(l.ix.Len()) {
		b := l.ix.Seq(s)
		if s == stub {
			n++
		}
		if b.Counts() && l.sent(b) {
			n++
		}
		l.cell[s] = n
		if b.Msg >= 0 {
			l.msg[b.Msg] = n
		}
	}
	for m := 1; m < len(l.msg); m++ { // a message with no block of its own ends where the one before it ends
		l.msg[m] = max(l.msg[m], l.msg[m-1])
	}
}

// sent reports whether a block is forwarded.
func (l *layout) sent(b *transcript.Block) bool {
	return l.span == nil || b.Msg < 0 || !l.span.Dropped[b.Msg]
}

// cells is the number of hashed blocks.
func (l *layout) cells() int32 {
	if len(l.cell) == 0 {
		return 0
	}
	return l.cell[len(l.cell)-1]
}

// position is the number of blocks of the body through the one that a cell ends.
func (l *layout) position(cell int32) int32 {
	n, _ := slices.BinarySearch(l.cell, cell)
	return min(int32(n)+1, int32(len(l.cell)))
}

// through is the number of cells that a span through message m covers.
func (l *layout) through(m int32) int32 {
	if m < 0 || len(l.msg) == 0 {
		return 0
	}
	return l.msg[min(int(m), len(l.msg)-1)]
}

// prefixes computes the prefix ids of an outbound from a block on: element n is the id after n cells. over holds, by result, the
// decision that stands for it. The first ids are known, as they are those of another outbound that begins alike.
func (l *layout) prefixes(over []*state.Decision, from int32, known []state.Digest) []state.Digest {
	ids := make([]state.Digest, l.cells()+1)
	if copy(ids, known) == 0 {
		ids[0] = l.h.Sum([]byte(l.ix.Model + l.tool))
	}
	stub := l.span.first(l.ix)
	for s := from; s < int32(len(l.cell)); s++ {
		b := l.ix.Seq(s)
		n := l.cell[s]
		if s == stub {
			at := l.through(l.span.Head) + 1
			ids[at] = l.h.Step(ids[at-1], byte(transcript.User), l.span.hash)
		}
		if !b.Counts() || !l.sent(b) {
			continue
		}
		hash := b.Hash
		if b.Result >= 0 && over != nil && over[b.Result] != nil {
			hash = over[b.Result].Out
		}
		ids[n] = l.h.Step(ids[n-1], l.ix.Area(b), hash)
	}
	return ids
}

// results lists the results that answer a call id.
func (l *layout) results(call string) []int32 {
	if l.byCall == nil {
		l.byCall = make(map[string][]int32, len(l.ix.Results))
		for i := range l.ix.Results {
			id := l.ix.CallID(&l.ix.Results[i])
			l.byCall[id] = append(l.byCall[id], int32(i))
		}
	}
	return l.byCall[call]
}

// outbound is a body with the decisions in force on a branch applied.
type outbound struct {
	*layout
	over    []*state.Decision // by result; nil: nothing is replaced
	applied int               // number of replaced results
	lost    bool              // the branch has a cut that does not stand in this body
	ids     []state.Digest    // prefix ids by cell
	ask     string            // member that asks for a diagnosis, empty for none
}

// replay applies the decisions and the cut of a branch that shares the first n messages with the body. A decision applies
// where its result stands unchanged: below n always, beyond it only if its call id is unique in the body; not inside the cut.
// One that does not apply is kept for the day on which its result comes back.
func (l *layout) replay(b *state.Branch, n int32) *outbound {
	if b == nil {
		return &outbound{layout: l, ids: l.base}
	}
	l = l.offering(b.Tool)
	o := &outbound{layout: l, ids: l.base}
	if b.Cut != nil {
		if c := l.cut(b.Cut); c != nil {
			o.layout, o.ids = c, c.base
		} else {
			o.lost = true
		}
	}
	for i := range b.InForce {
		d := &b.InForce[i]
		if r, ok := l.find(d.Ref, n); ok && !o.gone(r) {
			o.set(r, d)
		}
	}
	o.refresh()
	return o
}

// find returns the result that a reference names on a branch that shares the first n messages with the body: the first
// one with its id, as a later one of the same id is another result. Where calls have no ids it is that of the same call.
func (l *layout) find(ref state.ResultRef, n int32) (result int32, ok bool) {
	all := l.results(ref.Call)
	for _, r := range all {
		res := &l.ix.Results[r]
		known := res.Msg < n || len(all) == 1
		if res.CallID.Len() == 0 {
			known = res.Call >= 0 && l.ix.Calls[res.Call].Msg < n
		}
		if l.ix.Blocks[res.Block].Hash == ref.Block && known {
			return r, true
		}
	}
	return 0, false
}

// set makes a decision stand for a result; refresh must follow before ids are read.
func (o *outbound) set(result int32, d *state.Decision) {
	if o.over == nil {
		o.over = make([]*state.Decision, len(o.ix.Results))
	}
	if o.over[result] == nil {
		o.applied++
	}
	o.over[result] = d
}

func (o *outbound) refresh() {
	if first := slices.IndexFunc(o.over, func(d *state.Decision) bool { return d != nil }); first >= 0 {
		from := o.ix.SeqOf(o.ix.Results[first].Block)
		o.ids = o.prefixes(o.over, from, o.base[:o.cell[from]])
	}
}

// decided reports whether a decision stands for the result.
func (o *outbound) decided(result int32) bool {
	return int(result) < len(o.over) && o.over[result] != nil
}

// holds reports whether an exact entry's prefix is a part of the outbound.
func (o *outbound) holds(e *cache.Entry) bool {
	return !e.Assumed && int(e.Cells) < len(o.ids) && o.ids[e.Cells] == e.ID
}

// renews is holds for what the outbound keeps alive. A client that makes one message of two, or two of one, changes no prefix: then
// the entry ends in another message than a fork knows of.
func (o *outbound) renews(e *cache.Entry) bool {
	if !o.holds(e) {
		return false
	}
	if s, ok := slices.BinarySearch(o.cell, e.Cells); ok {
		e.Msg = max(e.Msg, o.ix.Seq(int32(s)).Msg)
	}
	return true
}

// resultCell is the cell of a result's block.
func (o *outbound) resultCell(result int32) int32 {
	return o.cell[o.ix.SeqOf(o.ix.Results[result].Block)]
}

// common is the number of leading messages that two chains share.
func common(a, b []state.Digest) int32 {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return int32(i)
		}
	}
	return int32(n)
}
