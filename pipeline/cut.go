package pipeline

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// span is a cut as it stands in one body.
type span struct {
	transcript.Gap
	cut  *state.Cut
	text []byte       // the stub as a JSON string
	hash state.Digest // of the stub's block
}

// first is the sequence number of the first block behind the span's head that is forwarded: the stub comes before it. It is -1
// without a span.
func (s *span) first(ix *transcript.Index) int32 {
	if s == nil {
		return -1
	}
	for m := s.Head + 1; int(m) < len(ix.Messages); m++ {
		if msg := &ix.Messages[m]; !s.Dropped[m] && msg.First < msg.Last {
			return ix.SeqOf(msg.First)
		}
	}
	return -1
}

// stands finds where a cut lies in the body: its head is the first message of a human, what stood behind it stands there, and no
// call is parted from its result. What the client changed behind that, or inside of the span, is its own affair. Of several messages
// that are like the one behind the span it is the first: a transcript grows at its end.
func (l *layout) stands(c *state.Cut) (s *span, ok bool) {
	head, next := l.ix.FirstHuman(), int32(-1)
	if head < 0 || l.ix.Messages[head].Hash != c.Head {
		return nil, false
	}
	for m := range l.ix.Messages {
		if l.ix.Messages[m].Hash == c.Next {
			next = int32(m)
			break
		}
	}
	if next <= head {
		return nil, false
	}
	return l.between(c, head, next)
}

// between is the span of a cut between two messages. ok is false if nothing would be left out or a pair would be parted.
func (l *layout) between(c *state.Cut, head, next int32) (s *span, ok bool) {
	g, ok := l.ix.Gap(head, next, c.KeepHuman)
	if !ok {
		return nil, false
	}
	s = &span{Gap: g, cut: c, text: transcript.AppendQuoted(nil, c.Stub)}
	s.hash = l.h.Plain(s.text)
	return s, true
}

// cutKey is what a cut is known by in one body.
type cutKey struct {
	head, next state.Digest
	keepHuman  bool
	stub       string
}

// cut is the layout of the body with a cut, nil if it does not stand. Forks share their cut, so it is worked out once.
func (l *layout) cut(c *state.Cut) *layout {
	key := cutKey{c.Head, c.Next, c.KeepHuman, c.Stub}
	if known, ok := l.cuts[key]; ok {
		return known
	}
	if l.cuts == nil {
		l.cuts = map[cutKey]*layout{}
	}
	l.cuts[key] = nil
	if s, ok := l.stands(c); ok {
		l.cuts[key] = l.without(s)
	}
	return l.cuts[key]
}

// without is the layout of the body with a span left out.
func (l *layout) without(s *span) *layout {
	c := *l
	c.span = s
	c.number()
	c.base = c.prefixes(nil, s.first(l.ix), l.base[:l.through(s.Head)+1])
	return &c
}

// gone reports whether a result lies in what is left out.
func (o *outbound) gone(result int32) bool {
	return o.span != nil && o.span.Dropped[o.ix.Results[result].Msg]
}

// droppedMessages says which messages are not forwarded, nil if all are.
func (o *outbound) droppedMessages() []bool {
	if o == nil || o.span == nil {
		return nil
	}
	return o.span.Dropped
}

// cutGate says why nothing could be cut out where the provider may hold k cells. A cut changes everything behind its head.
func (o *outbound) cutGate(k int32) filters.Gate {
	switch head := o.ix.FirstHuman(); {
	case head < 0:
		return filters.NoMessages
	case k > o.through(head) && o.lost:
		return filters.CutLost
	case k > o.through(head):
		return filters.CachedPrefix
	}
	return ""
}

// cut is that of the branch which the body continues, nil if there is none.
func (m *match) cut() *state.Cut {
	if m.branch == nil {
		return nil
	}
	return m.branch.Cut
}

// decidedNow reports whether this request changes the outbound.
func (p *pass) decidedNow() bool { return len(p.news) > 0 || p.newCut != nil }

// unproven is the gate that a failed proof stands for.
func (p *pass) unproven(err error) filters.Gate {
	switch {
	case p.newCut == nil:
		return filters.ProofFailed
	case errors.Is(err, errPrefix):
		return filters.PrefixMismatch
	}
	return filters.MalformedBody
}

// viewCut fills in what filters see of a cut. deep says that a move into what the provider holds may be made.
func (p *pass) viewCut(v *filters.View, deep bool) {
	v.CutGate = p.out.cutGate(p.k)
	switch {
	case p.bound:
		v.CutGate = filters.PrefixBound
	case v.CutGate == filters.CachedPrefix && deep:
		v.CutGate = ""
	}
	if v.CutGate == "" && p.stringHead() {
		v.CutGate = filters.StringHead
	}
	if s := p.out.span; s != nil {
		v.Cut = &filters.Cut{Head: s.Head, Next: s.Next, KeepHuman: s.cut.KeepHuman}
	}
	if v.CutGate == "" {
		v.Size = p.sizes(p.wishedFor)
	}
}

// stringHead reports whether a stub would make a list of the string that the first human message is, for a server of which nobody
// knows whether it takes lists. Some that speak Chat Completions do not.
func (p *pass) stringHead() bool {
	head := p.ix.FirstHuman()
	return p.ix.Format == transcript.Chat && !p.price.Known && head >= 0 && p.out.span == nil && isString(p.ix, &p.ix.Messages[head])
}

// cutMade is a cut as it would be made, and what it leaves out that was forwarded before.
type cutMade struct {
	gone   []bool // by message
	whole  int    // Est of it as the client sends it,
	tokens int    // and as it was forwarded
	bytes  int    // of the same, less those that the stub adds
	stub   int    // tokens that the stub adds
	gate   filters.Gate
}

// decideCut makes the cut that a proposal asks for, or says why not.
func (p *pass) decideCut(w *wish) (c cutMade, gate filters.Gate) {
	if c, ok := p.cuts[w.Cut]; ok {
		return c, c.gate
	}
	c = p.makeCut(w)
	if p.cuts == nil {
		p.cuts = map[*filters.Cut]cutMade{}
	}
	p.cuts[w.Cut] = c
	return c, c.gate
}

func (p *pass) makeCut(w *wish) (c cutMade) {
	was, keepHuman := p.out.span, w.Cut.KeepHuman
	if was != nil {
		keepHuman = was.cut.KeepHuman // what is left out does not come back
	}
	gap, ok := p.ix.Gap(w.Cut.Head, w.Cut.Next, keepHuman)
	switch {
	case !ok || w.Cut.Head != p.ix.FirstHuman() || w.Cut.Next >= p.fresh || was != nil && w.Cut.Next <= was.Next:
		c.gate = filters.OpenPair
		return c
	case slices.Contains(p.chain[:w.Cut.Next], p.chain[w.Cut.Next]): // it would not be found again
		c.gate = filters.AmbiguousID
		return c
	}
	c.gone = gap.Dropped
	size := p.sizes(nil)
	for m := range c.gone {
		if was != nil && was.Dropped[m] {
			c.gone[m] = false
		}
		if c.gone[m] {
			c.whole += p.estMessage(int32(m))
			c.tokens += size(int32(m))
			c.bytes += p.ix.Messages[m].Raw.Len() + 1
		}
	}
	for i, d := range p.out.over {
		if d != nil && c.gone[p.ix.Results[i].Msg] {
			c.bytes -= p.ix.Results[i].Content.Len() - len(d.Content)
		}
	}
	var back filters.Back
	if p.keeps(w) {
		back = filters.Back{ID: strings.Repeat("0", transcript.IDLen), Tool: p.restoreTool()} // as long as it will be
	}
	text := w.Stub(p.ix, c.gone, c.whole, back)
	c.stub = transcript.Est(text)
	c.bytes -= len(transcript.AppendQuoted(nil, text)) + stubFrame
	if c.tokens-c.stub < filters.MinGain || c.bytes <= 0 {
		c.gate = filters.Unprofitable
	}
	return c
}

// write makes what is stored of a cut: the stub, and the original where it is kept.
func (c *cutMade) write(p *pass, w *wish) (cut *state.Cut, original *state.Original) {
	content := []byte{'['}
	for m := range c.gone {
		if c.gone[m] {
			if len(content) > 1 {
				content = append(content, ',')
			}
			content = append(content, p.ix.Messages[m].Raw.Of(p.ix.Body)...)
		}
	}
	content = append(content, ']')
	digest := sha256.Sum256(content)
	var back filters.Back
	if p.keeps(w) {
		back = filters.Back{ID: p.e.originalID(p.sess.key, "cut", digest), Tool: p.restoreTool()}
	}
	cut = &state.Cut{
		Head: p.chain[w.Cut.Head], Next: p.chain[w.Cut.Next], KeepHuman: w.Cut.KeepHuman,
		Stub: w.Stub(p.ix, c.gone, c.whole, back), Filter: w.filter, Verdict: w.Verdict, Tokens: c.whole, StubTokens: c.stub, At: p.r.Now,
	}
	if was := p.out.span; was != nil { // what was left out before keeps its words
		cut.KeepHuman, cut.Stub, cut.IDs = was.cut.KeepHuman, was.cut.Stub+"\n"+cut.Stub, slices.Clone(was.cut.IDs)
		cut.Tokens, cut.StubTokens = cut.Tokens+was.cut.Tokens, cut.StubTokens+was.cut.StubTokens
	}
	if back.ID != "" {
		cut.IDs = append(cut.IDs, back.ID)
		original = &state.Original{
			ID: back.ID, Session: p.sess.key, Content: content, Size: len(content), SHA256: digest, At: p.r.Now,
			About: filters.Spanned(p.ix, c.gone), Filter: w.filter,
		}
	}
	return cut, original
}

// admitCut carries out a cut, or says why not.
func (p *pass) admitCut(w *wish) filters.Gate {
	switch {
	case w.Mode == filters.Meter:
		return filters.MeterOnly
	case p.newCut != nil:
		return filters.Outranked
	case p.cellOf(w) <= p.k:
		if gate := p.deep[w.Result]; gate != "" {
			return gate
		}
		if w.Policy.Warm && p.rewriteGate == filters.BreakEven {
			return filters.Unprofitable
		}
		return cmp.Or(p.rewriteGate, filters.CachedPrefix)
	}
	if gate := p.movesWith(w); gate != "" {
		return gate
	}
	c, gate := p.decideCut(w)
	if gate == "" && p.small(p.left-c.bytes) {
		gate = filters.SmallPrompt
	}
	if gate != "" {
		return gate
	}
	for r := range maps.Clone(p.held) {
		if c.gone[p.ix.Results[r].Msg] {
			p.release(r)
		}
	}
	cut, original := c.write(p, w)
	p.b.Cut, p.newCut, p.newGone = cut, cut, c.gone
	p.moved(w.Cut.Head, c.tokens-c.stub, w.filter, c.bytes)
	p.left -= c.bytes
	id, digest := "", ""
	if original != nil {
		id, digest = original.ID, hex.EncodeToString(original.SHA256[:])
		p.saved = append(p.saved, *original)
	}
	p.o.New = append(p.o.New, DecisionMade{
		Filter: w.filter, Verdict: w.Verdict, ID: id, Msg: w.Cut.Head, Drop: true, Calls: p.callsIn(c.gone), Tokens: c.tokens,
		MarkerTokens: c.stub, Calibrated: p.removedTokens(c.bytes), SHA256: digest,
	})
	p.must = true
	return ""
}

// messageSizes are Est of the first messages of a transcript.
type messageSizes []int32

// Messages implements [filters.Memo].
func (s messageSizes) Messages() int32 { return int32(len(s)) }

// Size implements [filters.Memo].
func (s messageSizes) Size() int { return 4 * cap(s) }

// estMessage is Est of a message. What was worked out is kept for the branch's next request.
func (p *pass) estMessage(msg int32) int {
	if p.ests == nil {
		p.ests = p.estMessages()
	}
	return int(p.ests[msg])
}

func (p *pass) estMessages() messageSizes {
	known, _ := p.memo("", func(kept filters.Memo) filters.Memo {
		sizes, _ := kept.(messageSizes)
		for m := len(sizes); m < len(p.ix.Messages); m++ {
			sizes = append(sizes, int32(p.ix.EstMessage(int32(m))))
		}
		return sizes
	}).(messageSizes)
	return known
}

// callsIn lists the calls of messages.
func (p *pass) callsIn(gone []bool) (calls []string) {
	for i := range p.ix.Results {
		if r := &p.ix.Results[i]; gone[r.Msg] {
			calls = append(calls, strings.Clone(p.ix.CallID(r)))
		}
	}
	return calls
}

// sizes returns about how many tokens of a message are forwarded, with what is in force and with what is wished for.
func (p *pass) sizes(wished map[int32]int) func(msg int32) int {
	less := map[int32]int{}
	for i, d := range p.out.over {
		if d != nil {
			less[p.ix.Results[i].Msg] += d.Tokens - d.MarkerTokens
		}
	}
	return func(msg int32) int {
		if s := p.out.span; s != nil && s.Dropped[msg] {
			return 0
		}
		return max(0, p.estMessage(msg)-less[msg]-wished[msg])
	}
}

// wished counts what a wish would leave out of its message.
func (p *pass) wished(w *filters.Proposal) {
	if w.Action != filters.Replace || w.Mode == filters.Meter {
		return
	}
	p.wishedFor[p.ix.Results[w.Result].Msg] += p.leavesOut(w)
}

// leavesOut is about how many tokens a replacement would leave out.
func (p *pass) leavesOut(w *filters.Proposal) int {
	return max(0, p.ix.ResultTokens(w.Result)-markerTokens-transcript.Est(w.Extra))
}
