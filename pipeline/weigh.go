package pipeline

import (
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Sizes inside a request are weights: characters of JSON as the tokenizer feels them. They cost nothing to know, and what
// is compared with them are shares. The provider's usage says how many tokens a character of this conversation is.
const (
	maxOpaque  = 6000      // weight of an image or a document, whatever its bytes: about 1,600 tokens
	charTokens = 1.0 / 3.5 // tokens of a character before the provider said anything
)

// weight is that of one block as it came.
func weight(ix *transcript.Index, b *transcript.Block) int {
	raw := b.Raw.Len()
	switch {
	case b.Deferred || b.Billing:
		return 0
	case b.Kind == transcript.Thinking: // text, and a signature of about the same length that counts half
		return raw * 5 / 8
	case b.Kind == transcript.Other:
		return min(raw, maxOpaque)
	case b.Result >= 0 && ix.Results[b.Result].Form == transcript.MixedForm:
		r := &ix.Results[b.Result]
		n := maxOpaque
		for _, t := range ix.Texts[r.Texts.Lo:r.Texts.Hi] {
			n += t.Len()
		}
		return min(raw, n)
	}
	return raw
}

// scale is the weights of an outbound.
type scale struct {
	at       []int32 // by cell: weight of the prefix that ends there
	thoughts []int32 // by cell: thinking blocks in it
	total    int32   // with what stands behind the last cell
}

// weigh adds up the outbound.
func (o *outbound) weigh() *scale {
	s := &scale{at: make([]int32, o.cells()+1), thoughts: make([]int32, o.cells()+1)}
	s.total = int32(len(o.tool))
	thoughts, stub := int32(0), o.span.first(o.ix)
	for n := range int32(len(o.cell)) {
		b := o.ix.Seq(n)
		if n == stub {
			s.total += int32(len(o.span.text) + stubFrame)
			at := o.through(o.span.Head) + 1
			s.at[at], s.thoughts[at] = s.total, thoughts
		}
		if !o.sent(b) {
			continue
		}
		w := weight(o.ix, b)
		if b.Result >= 0 && o.decided(b.Result) {
			w += len(o.over[b.Result].Content) - o.ix.Results[b.Result].Content.Len()
		}
		s.total += int32(w)
		if b.Kind == transcript.Thinking {
			thoughts++
		}
		if b.Counts() {
			s.at[o.cell[n]], s.thoughts[o.cell[n]] = s.total, thoughts
		}
	}
	return s
}

// stubFrame is what a stub's block has besides its text, in bytes.
const stubFrame = len(`{"type":"text","text":},`)

// positions counts, by sequence number, the places that the provider's lookback counts: a run of calls, or of results, is one.
func (l *layout) positions() []int32 {
	at := make([]int32, len(l.cell))
	n, was, stub := int32(0), transcript.Other, l.span.first(l.ix)
	for i := range at {
		if b := l.ix.Seq(int32(i)); l.sent(b) {
			if int32(i) == stub {
				n, was = n+1, transcript.Text
			}
			if run := b.Kind == was && (was == transcript.ToolUse || was == transcript.ToolResult); !run {
				n++
			}
			was = b.Kind
		}
		at[i] = n
	}
	return at
}

// lookback is how many positions before a breakpoint the provider still finds an entry.
const lookback = 19

// tokens is how many tokens a weight is on a branch.
func tokens(b *state.Branch, weight float64) float64 {
	if b != nil && b.Ledger.Ratio > 0 {
		return weight * b.Ledger.Ratio
	}
	return weight * charTokens
}
