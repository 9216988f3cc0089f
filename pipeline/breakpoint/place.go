package breakpoint

import (
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// place sets markers where the client sets none at all: one on the last block of system, else of tools, and one on the tail.
// It stands down for good once the client sets any; one that is null, as some clients write wherever no breakpoint stands, is
// none.
func place(p *Plan, in *Input) {
	ix := in.Index
	if !in.Place || !unmarked(ix) || !takesMarkers(ix) {
		return
	}
	for _, n := range []int32{headEnd(ix), tail(in)} {
		if n >= 0 {
			p.Marks = append(p.Marks, Mark{Seq: n, TTL: short, marker: -1})
			p.Placed++
		}
	}
}

// unmarked reports whether a body has no marker anywhere.
func unmarked(ix *transcript.Index) bool { return len(ix.Markers) == 0 && !ix.TopMarker }

// placeable reports whether a marker may be placed on a block where the client has none at all. A block of another kind may
// refuse it, and the attribution block is never the end of anything that is cached.
func placeable(ix *transcript.Index, n int32) bool {
	b := ix.Seq(n)
	return b.Kind != transcript.Other && !b.Billing && Markable(ix, n)
}

// headEnd is the last block of system that may carry a marker, else of tools, -1 if there is none.
func headEnd(ix *transcript.Index) int32 {
	n := int32(len(ix.Head)) - 1
	for n >= 0 && !placeable(ix, n) {
		n--
	}
	return n
}

// tail is the last block of the last message that may carry a marker, if a user speaks there; if that message has none, as
// when its content is a string, the last one within reach before it. Nothing at or after a held block is taken. It is -1 if
// there is none.
func tail(in *Input) int32 {
	ix, held := in.Index, in.Held
	last := &ix.Messages[len(ix.Messages)-1]
	if last.Role != transcript.User {
		return -1
	}
	n := int32(ix.Len()) - 1
	if len(held) > 0 {
		n = slices.Min(held) - 1
	}
	for reach := lookback; n >= int32(len(ix.Head)) && reach >= 0; n-- {
		if gone(ix, in.Dropped, n) {
			continue
		}
		if ix.Messages[ix.Seq(n).Msg].Role != transcript.OtherRole && placeable(ix, n) {
			return n
		}
		if n <= ix.SeqOf(last.First) {
			reach -= step(ix, n)
		}
	}
	return -1
}
