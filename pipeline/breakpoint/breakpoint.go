package breakpoint

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// The provider's limits.
const (
	MaxMarkers = 4  // in tools, system, messages and the top level together
	lookback   = 18 // positions that a bridge may span: a marker finds entries 20 positions back, itself included
)

// ErrLaw says that the plan would make lawful markers unlawful.
var ErrLaw = errors.New("breakpoint: the markers would be unlawful")

// The TTLs of a marker.
const (
	short = 5 * time.Minute
	long  = time.Hour
)

// Mark is one breakpoint of the outbound.
type Mark struct {
	Seq    int32 // block that carries it, in the provider's order
	TTL    time.Duration
	nested bool
	top    bool
	marker int32 // index of the client's marker, -1 if it is ours
}

// Input is what the placement depends on.
type Input struct {
	Index *transcript.Index
	// Held are the sequence numbers of results held out of the cache.
	Held []int32
	// Replaced are the sequence numbers of results whose content is replaced: markers inside it are gone.
	Replaced []int32
	// Dropped are the messages that are not forwarded: their markers are gone, and none of ours may stand there. Nil: none.
	Dropped []bool
	// Frontier is the block that carried the last breakpoint of the branch's previous outbound, -1 if there was none or it
	// does not stand at the same prefix now.
	Frontier int32
	// Doubtful: the entry at the frontier is believed, not certain. Then no marker of the client's makes room for a bridge.
	Doubtful bool
	// TTL is what every marker of the outbound asks for, five minutes or one hour; 0 leaves them as the client asks.
	TTL time.Duration
	// Lower lets TTL be less than the client asks for; otherwise markers are only raised.
	Lower bool
	// Place sets markers on a body that has none at all.
	Place bool
}

// Plan is what is forwarded.
type Plan struct {
	Marks    []Mark  // in the provider's order
	Edits    []Edit  // sorted, disjoint, each one that IsEdit accepts
	Stripped int     // client markers taken off for a hold
	Anchored int     // markers set before a held result
	Kept     int     // markers set to bridge a gap
	Placed   int     // markers set because the client sets none
	Raised   int     // markers of the outbound, ours too, that ask for one hour and would not if no TTL were asked for
	Lowered  int     // the same for five minutes
	Fixed    TTLGate // why the TTL asked for could not be given
}

// Decide places the markers. A body with more of them than the provider accepts is left as it is: it will be refused.
func Decide(in *Input) (Plan, error) {
	ix := in.Index
	client := slices.DeleteFunc(Forwarded(ix, in.Dropped), func(m Mark) bool { return m.nested && slices.Contains(in.Replaced, m.Seq) })
	p := Plan{Marks: slices.Clone(client)}
	if len(client) > MaxMarkers || ix.Format.Automatic() {
		return p, nil
	}
	rescue(&p, in)
	hold(&p, in)
	place(&p, in)
	keepPrevious(&p, in)
	setTTL(&p, in)
	if p.Stripped+p.Anchored+p.Kept+p.Placed+p.Raised+p.Lowered == 0 {
		return p, nil
	}
	slices.SortStableFunc(p.Marks, func(a, b Mark) int { return cmp.Compare(a.Seq, b.Seq) })
	if !lawful(ix, p.Marks, client, p.Placed) || slices.ContainsFunc(p.Marks, func(m Mark) bool { return gone(ix, in.Dropped, m.Seq) }) {
		return Plan{Marks: client}, ErrLaw
	}
	p.Edits = edits(ix, client, p.Marks)
	return p, nil
}

// Client returns the markers of the body as it came, in the provider's order: one inside a block stands before the block's
// own. Automatic caching counts as one on the last block that may carry it; in a format where it is the rule it is the only one.
func Client(ix *transcript.Index) []Mark {
	marks := make([]Mark, 0, MaxMarkers+1)
	for i := range ix.Markers {
		if ix.Format.Automatic() { // whatever they ask for, the whole prompt is expected to be cached
			break
		}
		m := &ix.Markers[i]
		marks = append(marks, Mark{Seq: m.Seq, TTL: m.TTL, nested: m.Nested, marker: int32(i)})
	}
	if ix.TopMarker {
		n := int32(ix.Len()) - 1
		for n >= 0 && (ix.Seq(n).Kind == transcript.Thinking || ix.Seq(n).Empty) {
			n--
		}
		if n >= 0 {
			marks = append(marks, Mark{Seq: n, TTL: ix.TopTTL, top: true, marker: -1})
		}
	}
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), nestedFirst(a, b)) })
	return marks
}

// Forwarded is Client without the markers of messages that are not forwarded.
func Forwarded(ix *transcript.Index, dropped []bool) []Mark {
	return slices.DeleteFunc(Client(ix), func(m Mark) bool { return gone(ix, dropped, m.Seq) })
}

func nestedFirst(a, b Mark) int {
	switch {
	case a.nested == b.nested:
		return 0
	case a.nested:
		return -1
	}
	return 1
}

// HoldGate says why a result could not be held by moving markers.
type HoldGate uint8

// Hold gates.
const (
	CanHold      HoldGate = iota
	NoMarker              // no marker stands at or after the result: nothing would cache it
	NoAnchor              // no block before it may carry a marker, or the body has too many as it is
	NestedMarker          // a marker stands inside a result at or after it
	Automatic             // the provider places a marker itself
)

// CanHoldAt reports whether the result at a block can be held out of the cache when these messages are not forwarded.
func CanHoldAt(ix *transcript.Index, dropped []bool, seq int32) HoldGate {
	if ix.TopMarker {
		return Automatic
	}
	marked := false
	for i := range ix.Markers {
		if m := &ix.Markers[i]; m.Seq >= seq {
			if m.Nested {
				return NestedMarker
			}
			marked = true
		}
	}
	switch {
	case !marked:
		return NoMarker
	case len(ix.Markers) > MaxMarkers || anchor(ix, dropped, seq) < 0:
		return NoAnchor
	}
	return CanHold
}

// anchor is the last block of the messages before seq that may carry a marker, -1 if there is none.
func anchor(ix *transcript.Index, dropped []bool, seq int32) int32 {
	for n := seq - 1; n >= int32(len(ix.Head)); n-- {
		if Markable(ix, n) && !gone(ix, dropped, n) {
			return n
		}
	}
	return -1
}

// gone reports whether a block stands in a message that is not forwarded.
func gone(ix *transcript.Index, dropped []bool, n int32) bool {
	msg := ix.Seq(n).Msg
	return msg >= 0 && int(msg) < len(dropped) && dropped[msg]
}

// Markable reports whether a block may carry a marker of ours. The provider knows no block without members, and there the
// comma before ours would make no JSON. Bedrock Converse refuses a marker right behind a document that is no PDF.
func Markable(ix *transcript.Index, n int32) bool {
	b := ix.Seq(n)
	return b.Markable() && !bare(ix, b.Raw) && (b.Kind != transcript.Other || ix.Format != transcript.Converse)
}

// bare reports whether an object has no members.
func bare(ix *transcript.Index, object transcript.Span) bool {
	return len(bytes.TrimSpace(ix.Body[object.Lo+1:object.Hi-1])) == 0
}

// rescue anchors the last message marker of the client's that stood in messages which are not forwarded, if no other is left: on the
// last block before it that may carry one.
func rescue(p *Plan, in *Input) {
	ix := in.Index
	if len(in.Dropped) == 0 || slices.ContainsFunc(p.Marks, func(m Mark) bool { return m.Seq >= int32(len(ix.Head)) }) {
		return
	}
	for _, m := range slices.Backward(ix.Markers) {
		if !gone(ix, in.Dropped, m.Seq) {
			continue
		}
		if at := anchor(ix, in.Dropped, m.Seq); at >= 0 {
			p.Marks = append(p.Marks, Mark{Seq: at, TTL: m.TTL, marker: -1})
			p.Anchored++
		}
		return
	}
}

// hold takes off every message marker at or after the earliest held block and anchors one before it. The anchor takes the
// client's TTL; a marker that stands there already keeps its own. Nothing stripped, nothing added. Under automatic caching
// nothing can be kept out, so the client's markers stand.
func hold(p *Plan, in *Input) {
	if len(in.Held) == 0 || in.Index.TopMarker {
		return
	}
	ix, first := in.Index, slices.Min(in.Held)
	at := anchor(ix, in.Dropped, first)
	i := slices.IndexFunc(p.Marks, func(m Mark) bool { return m.Seq >= first })
	if i < 0 || at < 0 {
		return
	}
	ttl := p.Marks[i].TTL
	before := len(p.Marks)
	p.Marks = slices.DeleteFunc(p.Marks, func(m Mark) bool { return m.Seq >= first })
	p.Stripped = before - len(p.Marks)
	if !slices.ContainsFunc(p.Marks, func(m Mark) bool { return m.Seq == at && !m.nested }) {
		p.Marks = append(p.Marks, Mark{Seq: at, TTL: ttl, marker: -1})
		p.Anchored++
	}
}

// keepPrevious puts a marker on the block that carried the last one of the previous outbound if no marker stands near
// enough behind it to find the entry that was written there. It takes a free slot, or that of the first message marker.
func keepPrevious(p *Plan, in *Input) {
	ix, f := in.Index, in.Frontier
	if f < int32(len(ix.Head)) || !Markable(ix, f) || gone(ix, in.Dropped, f) {
		return
	}
	marks := p.Marks
	next := slices.IndexFunc(marks, func(m Mark) bool { return m.Seq >= f })
	if next < 0 || !far(in, f, marks[next].Seq) {
		return
	}
	bridge := Mark{Seq: f, TTL: marks[next].TTL, marker: -1} // the next one's TTL keeps the order of TTLs
	if len(marks) < MaxMarkers {
		marks = append(marks, bridge)
		p.Marks, p.Kept = marks, 1
		return
	}
	first := slices.IndexFunc(marks, func(m Mark) bool { return m.Seq >= int32(len(ix.Head)) && !m.nested })
	if first >= 0 && first < len(marks)-1 && !in.Doubtful { // the last one, which may be ours or automatic, never makes room
		marks = append(slices.Delete(marks, first, first+1), bridge)
		p.Marks, p.Kept = marks, 1
	}
}

// far reports whether block b lies more than lookback positions behind block a. Of what is not forwarded the stub alone counts,
// and its place is not known here: it is a position.
func far(in *Input, a, b int32) bool {
	n, ix := 0, in.Index
	if len(in.Dropped) > 0 {
		n++
	}
	for i := a + 1; i <= b; i++ {
		if gone(ix, in.Dropped, i) {
			continue
		}
		if n += step(ix, i); n > lookback {
			return true
		}
	}
	return false
}

// step is the number of positions that a block adds to those before it: a run of calls, or of results, is one position. Of
// Bedrock's Converse that is not known.
func step(ix *transcript.Index, n int32) int {
	k := ix.Seq(n).Kind
	if n > 0 && ix.Format != transcript.Converse && (k == transcript.ToolUse || k == transcript.ToolResult) && k == ix.Seq(n-1).Kind {
		return 0
	}
	return 1
}

// lawful reports whether the marks break no rule that the client's own kept. Where the client sets none, those placed count
// as the client's.
func lawful(ix *transcript.Index, marks, client []Mark, placed int) bool {
	if len(marks) > MaxMarkers || len(marks) > max(len(client), placed)+1 {
		return false
	}
	if !ordered(marks) && ordered(client) {
		return false
	}
	for _, m := range marks {
		if m.marker < 0 && !m.top && !Markable(ix, m.Seq) {
			return false
		}
	}
	return true
}

// ordered reports whether every 1h marker stands before every 5m one.
func ordered(marks []Mark) bool {
	after := false
	for _, m := range marks {
		if m.TTL < long {
			after = true
		} else if after {
			return false
		}
	}
	return true
}
