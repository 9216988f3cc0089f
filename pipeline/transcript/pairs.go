package transcript

import "strings"

// Where calls and results have no ids, results answer the calls of the turn before them in its order. The provider wants as many
// results as calls; where that is not so nothing is joined.

// unnamed begins what stands in the place of an id that is not there.
const unnamed = "#"

// pairing is what is needed to join the calls and results of one turn. It is kept for the next turn, and for the next body.
type pairing struct {
	byName map[string]int32 // lanes, by name
	lanes  []lane
	next   []int32 // by call of the turn: the next one of its name
}

// lane is what one turn holds of one tool: calls that have no answer yet, and results that have no call yet.
type lane struct {
	name           string
	first, last    int32 // calls, as Index.Calls numbers them
	calls, results int32
}

// ordered joins by order what ids do not join, turn by turn.
func (ix *Index) ordered() {
	c := 0
	for lo := 0; lo < len(ix.Results); {
		turn := ix.Messages[ix.Results[lo].Msg].Turn
		hi := lo + 1
		for hi < len(ix.Results) && ix.Messages[ix.Results[hi].Msg].Turn == turn {
			hi++
		}
		for c < len(ix.Calls) && ix.Calls[c].Turn < turn {
			c++
		}
		end := c
		for end < len(ix.Calls) && ix.Calls[end].Turn == turn {
			end++
		}
		ix.joinTurn(int32(c), int32(end), ix.Results[lo:hi])
		lo, c = hi, end
	}
	for i := range ix.Results { // an id that looks like what stands in the place of one
		if r := &ix.Results[i]; r.CallID.Len() > 0 && strings.HasPrefix(ix.CallID(r), unnamed) {
			r.Ambiguous = true
		}
	}
}

// joinTurn joins the calls from first to end with results, those of one name with each other before others.
func (ix *Index) joinTurn(first, end int32, results []Result) {
	var calls, open, callIDs, resultIDs int
	for i := first; i < end; i++ {
		if c := &ix.Calls[i]; c.answer < 0 {
			calls++
			callIDs += min(c.ID.Len(), 1)
		}
	}
	for i := range results {
		if r := &results[i]; ix.loose(r) {
			open++
			resultIDs += min(r.CallID.Len(), 1)
		}
	}
	if calls == 0 || open == 0 {
		return
	}
	if callIDs > 0 && resultIDs > 0 { // some have ids that belong to nothing
		for i := range results {
			results[i].Ambiguous = results[i].Ambiguous || ix.loose(&results[i])
		}
		return
	}
	ix.lay(first, end, results)
	rest := ix.rest()
	other := first
	for i := range results {
		r := &results[i]
		if !ix.loose(r) {
			continue
		}
		switch l := ix.laneOf(ix.resultName(r)); {
		case l.calls > 0 && l.calls == l.results:
			c := l.first
			l.first = ix.pairs.next[c-first]
			ix.answer(r, c)
		case l.calls > 0 || !rest:
			r.Ambiguous = true
		default:
			for ix.Calls[other].answer >= 0 || ix.laneOf(ix.ToolName(&ix.Calls[other])).results > 0 {
				other++
			}
			ix.answer(r, other)
		}
	}
}

// rest reports whether calls and results that have no name in common belong to each other, in their order.
func (ix *Index) rest() bool {
	var calls, results int32
	for _, l := range ix.pairs.lanes {
		switch {
		case l.results == 0:
			calls += l.calls
		case l.calls == 0:
			results += l.results
		case l.calls != l.results:
			return false
		}
	}
	return calls == results
}

// lay sorts what is to be joined into lanes.
func (ix *Index) lay(first, end int32, results []Result) {
	p := &ix.pairs
	for i := range p.lanes {
		delete(p.byName, p.lanes[i].name)
	}
	p.lanes, p.next = p.lanes[:0], p.next[:0]
	for i := first; i < end; i++ {
		p.next = append(p.next, -1)
		c := &ix.Calls[i]
		if c.answer >= 0 {
			continue
		}
		l := ix.laneOf(ix.ToolName(c))
		if l.calls == 0 {
			l.first = i
		} else {
			p.next[l.last-first] = i
		}
		l.last = i
		l.calls++
	}
	for i := range results {
		if r := &results[i]; ix.loose(r) {
			ix.laneOf(ix.resultName(r)).results++
		}
	}
}

// clear forgets the names, which are parts of the body.
func (p *pairing) clear() {
	clear(p.byName)
	clear(p.lanes[:cap(p.lanes)])
	p.lanes = p.lanes[:0]
}

func (ix *Index) laneOf(name string) *lane {
	p := &ix.pairs
	n, ok := p.byName[name]
	if !ok {
		n = int32(len(p.lanes))
		p.byName[name] = n
		p.lanes = append(p.lanes, lane{name: name})
	}
	return &p.lanes[n]
}

// loose reports whether a result may be joined by order: it has no call yet, and its id stands once.
func (ix *Index) loose(r *Result) bool {
	return r.Call < 0 && !r.Ambiguous && ix.Messages[r.Msg].Role != Assistant
}

func (ix *Index) resultName(r *Result) string { return ix.str(r.name) }

// answer joins a result to the call that it answers. An id of its own that no call has is none.
func (ix *Index) answer(r *Result, call int32) {
	c := &ix.Calls[call]
	r.own, r.CallID = r.CallID, Span{}
	r.Call, r.Turn, c.answer = call, c.Turn, ix.Blocks[r.Block].Result
}
