package breakpoint

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Edit replaces a span of the body.
type Edit struct {
	Span transcript.Span
	Text string
}

// How TTLs are written.
const (
	ttlKey   = `"ttl":`
	shortTTL = `"5m"`
	longTTL  = `"1h"`
)

// Text is a marker of ours as it is put before the brace that closes a block.
func Text(ttl time.Duration) string {
	if ttl >= long {
		return `,"cache_control":{"type":"ephemeral",` + ttlKey + longTTL + `}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

// Point is a marker of ours as it is put behind a block of Bedrock Converse, where markers are elements of their own.
func Point(ttl time.Duration) string {
	if ttl >= long {
		return `,{"cachePoint":{"type":"default",` + ttlKey + longTTL + `}}`
	}
	return `,{"cachePoint":{"type":"default"}}`
}

// add is the edit that puts a marker of ours on a block.
func add(ix *transcript.Index, n int32, ttl time.Duration) Edit {
	raw := ix.Seq(n).Raw
	if ix.Format == transcript.Converse {
		return Edit{transcript.Span{Lo: raw.Hi, Hi: raw.Hi}, Point(ttl)}
	}
	return Edit{closing(raw), Text(ttl)}
}

// edits are the bytes that turn the client's markers into marks.
func edits(ix *transcript.Index, client, marks []Mark) []Edit {
	var out []Edit
	for _, c := range client {
		if c.marker >= 0 && !slices.ContainsFunc(marks, func(m Mark) bool { return m.marker == c.marker }) {
			out = append(out, Edit{Span: ix.Markers[c.marker].Cut})
		}
	}
	for _, m := range marks {
		switch {
		case m.top:
		case m.marker < 0:
			out = append(out, add(ix, m.Seq, m.TTL))
		case m.TTL != ix.Markers[m.marker].TTL:
			out = append(out, other(ix, &ix.Markers[m.marker]))
		}
	}
	slices.SortFunc(out, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Span.Lo, b.Span.Lo), cmp.Compare(a.Span.Hi, b.Span.Hi))
	})
	return out
}

// closing is the place before the brace that closes an object.
func closing(object transcript.Span) transcript.Span {
	return transcript.Span{Lo: object.Hi - 1, Hi: object.Hi - 1}
}

// other is the edit that gives a client's marker the other TTL: in the place of the value, or as a member where there is
// none.
func other(ix *transcript.Index, m *transcript.Marker) Edit {
	value := longTTL
	if m.TTL >= long {
		value = shortTTL
	}
	switch {
	case m.TTLVal.Len() > 0:
		return Edit{m.TTLVal, value}
	case bare(ix, m.Value):
		return Edit{closing(m.Value), ttlKey + value}
	}
	return Edit{closing(m.Value), "," + ttlKey + value}
}

// IsEdit reports whether an edit does one of these things:
//   - it takes off one marker: the span is its Cut, the text empty; in Converse none that stands inside a block;
//   - it adds a [Text] before the brace that closes a block which may carry it and does not yet, or a [Point] behind it: a block
//     of a message, or one of system or tools if the body has no marker at all;
//   - it gives a marker the other TTL where [CanSetTTL] allows that: the span is its TTLVal and the text the value, or the
//     span is the place before the brace that closes it and the text the member.
//
// Where the provider caches by itself there are none. Whether several such edits together are lawful is for [Decide] to say.
func IsEdit(ix *transcript.Index, e Edit) bool {
	if ix.Format.Automatic() {
		return false
	}
	if e.Text == "" {
		return slices.ContainsFunc(ix.Markers, func(m transcript.Marker) bool {
			return m.Cut == e.Span && (!m.Nested || ix.Format != transcript.Converse)
		})
	}
	return isAdded(ix, e) || slices.ContainsFunc(ix.Markers, func(m transcript.Marker) bool { return e == other(ix, &m) }) &&
		CanSetTTL(ix) == FreeTTL
}

func isAdded(ix *transcript.Index, e Edit) bool {
	end := e.Span.Hi
	if ix.Format != transcript.Converse {
		end++
	}
	i, ok := slices.BinarySearchFunc(ix.Blocks, end, func(b transcript.Block, hi uint32) int { return cmp.Compare(b.Raw.Hi, hi) })
	n := ix.SeqOf(int32(i))
	if !ok && unmarked(ix) {
		n = int32(slices.IndexFunc(ix.Head, func(b transcript.Block) bool { return b.Raw.Hi == end }))
		ok = n >= 0 && placeable(ix, n)
	}
	return ok && (e == add(ix, n, short) || e == add(ix, n, long)) && ix.Seq(n).Marker < 0 && Markable(ix, n)
}
