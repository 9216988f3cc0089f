package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Edit replaces a span of the body by bytes.
type Edit struct {
	Span transcript.Span
	Text []byte
}

// What can be wrong with edits.
var (
	errProof     = errors.New("pipeline: proof failed") // they are not what they must be
	errPrefix    = fmt.Errorf("%w: what the provider may hold has changed", errProof)
	errMalformed = fmt.Errorf("%w: a cut is not whole", errProof)
)

// edits collects the byte edits of an outbound, its breakpoints and its question, sorted.
func (o *outbound) edits(plan *breakpoint.Plan) []Edit {
	out := make([]Edit, 0, o.applied+len(plan.Edits)+4)
	for _, e := range plan.Edits {
		out = append(out, Edit{Span: e.Span, Text: []byte(e.Text)})
	}
	for i, d := range o.over {
		if d != nil {
			out = append(out, Edit{Span: o.ix.Results[i].Content, Text: d.Content})
		}
	}
	out = append(out, o.span.edits(o.ix)...) // behind breakpoints at the same place
	out = append(out, o.toolEdits()...)      // too
	slices.SortStableFunc(out, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Span.Lo, b.Span.Lo), cmp.Compare(a.Span.Hi, b.Span.Hi))
	})
	if o.ask != "" { // behind everything else
		out = append(out, Edit{Span: askSpan(o.ix), Text: []byte(o.ask)})
	}
	return out
}

// Splice returns body with the edits applied. Every other byte is copied. The edits must be sorted and disjoint; Prove
// checks that.
func Splice(body []byte, edits []Edit) []byte {
	size := len(body)
	for i := range edits {
		size += len(edits[i].Text) - edits[i].Span.Len()
	}
	out, at := make([]byte, 0, size), uint32(0)
	for i := range edits {
		out = append(append(out, body[at:edits[i].Span.Lo]...), edits[i].Text...)
		at = edits[i].Span.Hi
	}
	return append(out, body[at:]...)
}

// Prove checks, from the index of the body alone, that edits are sorted and disjoint, that each replaces exactly one
// result's content by a valid JSON value of the same form, takes off, adds or changes the ttl of one cache_control, adds the
// member that asks for a diagnosis or a tool that gives originals back, or is a part of one cut, that the cut parts no pair, and that the lengths of body, edits and
// out add up.
func Prove(ix *transcript.Index, edits []Edit, out []byte) error {
	size, at := len(ix.Body), uint32(0)
	r := 0
	var c cutting
	for i := range edits {
		e := &edits[i]
		if e.Span.Lo < at || e.Span.Hi < e.Span.Lo || int(e.Span.Hi) > len(ix.Body) || i > 0 && e.Span == edits[i-1].Span && !stubBehind(ix, &edits[i-1], e) && !isTool(ix, e) {
			return fmt.Errorf("%w: edit %d overlaps", errProof, i)
		}
		at = e.Span.Hi
		size += len(e.Text) - e.Span.Len()
		for r < len(ix.Results) && ix.Results[r].Content.Lo < e.Span.Lo {
			r++
		}
		if r < len(ix.Results) && ix.Results[r].Content == e.Span {
			if !ix.IsReplacement(&ix.Results[r], e.Text) {
				return fmt.Errorf("%w: edit %d is no replacement of its form", errProof, i)
			}
		} else if !c.takes(ix, e) && !breakpoint.IsEdit(ix, breakpoint.Edit{Span: e.Span, Text: string(e.Text)}) && !isAsk(ix, e) && !isTool(ix, e) {
			return fmt.Errorf("%w: edit %d covers no single value", errProof, i)
		}
	}
	if len(out) != size {
		return fmt.Errorf("%w: %d bytes, not %d", errProof, len(out), size)
	}
	return c.prove(ix)
}
