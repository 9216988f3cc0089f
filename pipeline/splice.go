package pipeline

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Edit replaces a span of the body by bytes.
type Edit struct {
	Span transcript.Span
	Text []byte
}

// errProof says that edits are not what they must be.
var errProof = errors.New("pipeline: proof failed")

// edits collects the byte edits of an outbound, its breakpoints and its question, sorted.
func (o *outbound) edits(plan *breakpoint.Plan) []Edit {
	out := make([]Edit, 0, o.applied+len(plan.Edits))
	for i, d := range o.over {
		if d != nil {
			out = append(out, Edit{Span: o.ix.Results[i].Content, Text: d.Content})
		}
	}
	for _, e := range plan.Edits {
		out = append(out, Edit{Span: e.Span, Text: []byte(e.Text)})
	}
	slices.SortFunc(out, func(a, b Edit) int {
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
// result's content by a valid JSON value of the same form, takes off, adds or changes the ttl of one cache_control or adds the
// member that asks for a diagnosis, and that the lengths of body, edits and out add up.
func Prove(ix *transcript.Index, edits []Edit, out []byte) error {
	size, at := len(ix.Body), uint32(0)
	r := 0
	for i := range edits {
		e := &edits[i]
		if e.Span.Lo < at || e.Span.Hi < e.Span.Lo || int(e.Span.Hi) > len(ix.Body) || i > 0 && e.Span == edits[i-1].Span {
			return fmt.Errorf("%w: edit %d overlaps", errProof, i)
		}
		at = e.Span.Hi
		size += len(e.Text) - e.Span.Len()
		for r < len(ix.Results) && ix.Results[r].Content.Lo < e.Span.Lo {
			r++
		}
		if r < len(ix.Results) && ix.Results[r].Content == e.Span {
			if !sameForm(&ix.Results[r], e.Text) {
				return fmt.Errorf("%w: edit %d is no replacement of its form", errProof, i)
			}
		} else if !breakpoint.IsEdit(ix, breakpoint.Edit{Span: e.Span, Text: string(e.Text)}) && !isAsk(ix, e) {
			return fmt.Errorf("%w: edit %d covers no single value", errProof, i)
		}
	}
	if len(out) != size {
		return fmt.Errorf("%w: %d bytes, not %d", errProof, len(out), size)
	}
	return nil
}

// sameForm reports whether text is a JSON value of the result's form that is not empty: a string for a string, a list of one
// text block for a list.
func sameForm(r *transcript.Result, text []byte) bool {
	switch r.Form {
	case transcript.StringForm:
	case transcript.TextForm:
		var opens, closes bool
		text, opens = bytes.CutPrefix(text, []byte(`[{"type":"text","text":`))
		text, closes = bytes.CutSuffix(text, []byte("}]"))
		if !opens || !closes {
			return false
		}
	default:
		return false
	}
	return len(text) > 2 && text[0] == '"' && text[len(text)-1] == '"' && gjson.ValidBytes(text)
}

// proveDeep parses the outbound again and compares it with what was planned: the same messages and blocks with the same
// digests, the decisions' digests where results are replaced, and markers where they were put.
func (o *outbound) proveDeep(out []byte, plan *breakpoint.Plan) error {
	again, err := transcript.Parse(out, o.ix.Format)
	if err != nil {
		return fmt.Errorf("%w: %w", errProof, err)
	}
	defer again.Release()
	again.Digest(o.h)
	if again.Key != o.ix.Key || again.Len() != o.ix.Len() || len(again.Messages) != len(o.ix.Messages) || len(again.Results) != len(o.ix.Results) {
		return fmt.Errorf("%w: the outbound has another shape", errProof)
	}
	for s := range int32(o.ix.Len()) {
		a, b := o.ix.Seq(s), again.Seq(s)
		want := a.Hash
		if a.Result >= 0 && o.decided(a.Result) {
			want = o.over[a.Result].Out
		}
		if b.Hash != want || b.Kind != a.Kind || b.Msg != a.Msg {
			return fmt.Errorf("%w: block %d is not what was planned", errProof, s)
		}
	}
	if again.Diagnostics != (o.ix.Diagnostics || o.ask != "") {
		return fmt.Errorf("%w: the question is not what was planned", errProof)
	}
	marks := breakpoint.Client(again)
	if len(marks) != len(plan.Marks) {
		return fmt.Errorf("%w: %d markers, not %d", errProof, len(marks), len(plan.Marks))
	}
	for i := range marks {
		if marks[i].Seq != plan.Marks[i].Seq || marks[i].TTL != plan.Marks[i].TTL {
			return fmt.Errorf("%w: marker %d is not where it was put", errProof, i)
		}
	}
	return nil
}
