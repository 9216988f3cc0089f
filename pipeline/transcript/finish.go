package transcript

import (
	"cmp"
	"slices"
)

// finish puts the head together, numbers turns and markers, and joins results to calls.
func (ix *Index) finish() {
	ix.instruct()
	ix.HasTools = len(ix.tools) > 0 || ix.laterTools()
	if byPlace := func(a, b Span) int { return cmp.Compare(a.Lo, b.Lo) }; !slices.IsSortedFunc(ix.cuts, byPlace) {
		slices.SortFunc(ix.cuts, byPlace) // members of an item may be read in another order than they stand
	}
	ix.Head = append(append(ix.Head, ix.tools...), ix.system...)
	ix.number()
	ix.turns()
	ix.join()
}

// instruct brings instructions before the messages that belong to the system prompt, wherever they stand in the body: the provider
// does.
func (ix *Index) instruct() {
	from, to := ix.first[0], ix.first[1]
	if from == 0 || from == to {
		return
	}
	ix.system = slices.Concat(ix.system[from:to], ix.system[:from], ix.system[to:])
	for i := range ix.Markers {
		switch m := &ix.Markers[i]; {
		case m.area != InSystem || int(m.Seq) >= to:
		case int(m.Seq) >= from:
			m.Seq -= int32(from)
		default:
			m.Seq += int32(to - from)
		}
	}
	ix.known.system = 0 // what came from a memo stands elsewhere now
}

// laterTools reports whether an item of the messages brings tools.
func (ix *Index) laterTools() bool {
	return ix.Format == Responses && slices.ContainsFunc(ix.Blocks, func(b Block) bool { return b.Kind == Tool })
}

// number gives every marker the sequence number of its block and sorts them by it: a body may hold tools after messages.
func (ix *Index) number() {
	for i := range ix.Markers {
		switch m := &ix.Markers[i]; m.area {
		case InTools:
		case InSystem:
			m.Seq += int32(len(ix.tools))
		default:
			m.Seq = ix.SeqOf(m.Seq)
		}
	}
	slices.SortFunc(ix.Markers, func(a, b Marker) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Member.Lo, b.Member.Lo))
	})
	for i := range ix.Markers {
		if m := &ix.Markers[i]; !m.Nested {
			ix.Seq(m.Seq).Marker = int32(i)
		}
	}
}

// turns numbers messages, calls and blocks by assistant turns: a turn is a maximal run of assistant messages.
func (ix *Index) turns() {
	turn, last := int32(0), OtherRole
	for i := range ix.Messages {
		m := &ix.Messages[i]
		if m.Role == Assistant && last != Assistant {
			turn++
		}
		m.Turn, last = turn, m.Role
	}
	for i := range ix.Calls {
		ix.Calls[i].Turn = ix.Messages[ix.Calls[i].Msg].Turn
	}
}

// join finds the call of each result and marks ids that stand twice. Some clients use an id again in a later turn, so the
// nearest call before a result is the one that it answers; an answer that stands before its call is none.
func (ix *Index) join() {
	next := 0
	add := func(before int32) {
		for ; next < len(ix.Calls) && ix.Calls[next].Block < before; next++ {
			if ix.Calls[next].ID.Len() == 0 {
				continue
			}
			id := ix.str(ix.Calls[next].ID)
			if _, twice := ix.ids[id]; twice {
				ix.dup[id] = struct{}{}
			}
			ix.ids[id] = int32(next)
		}
	}
	for i := range ix.Results {
		r := &ix.Results[i]
		add(r.Block)
		if r.CallID.Len() == 0 {
			continue
		}
		id := ix.str(r.CallID)
		c, ok := ix.ids[id]
		if !ok {
			continue
		}
		r.Call, r.Turn = c, ix.Calls[c].Turn
		if ix.Calls[c].answer >= 0 {
			ix.dup[id] = struct{}{}
		} else {
			ix.Calls[c].answer = int32(i)
		}
	}
	add(int32(len(ix.Blocks)))
	for i := range ix.Results {
		if r := &ix.Results[i]; len(ix.dup) > 0 && r.CallID.Len() > 0 {
			_, r.Ambiguous = ix.dup[ix.str(r.CallID)]
		}
	}
	if ix.Format == Gemini {
		ix.ordered()
	}
}

// Answer returns the result that answers a call, nil if there is none yet.
func (ix *Index) Answer(call int32) *Result {
	if i := ix.Calls[call].answer; i >= 0 {
		return &ix.Results[i]
	}
	return nil
}
