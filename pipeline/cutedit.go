package pipeline

import (
	"bytes"
	"fmt"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// frames are how a stub is written: as the last block of a list, or beside a string, which becomes the first block of one.
type frames struct{ open, close, stringOpen, stringMid, stringEnd string }

func framesOf(f transcript.Format) frames {
	open, end := f.TextBlock()
	return frames{open: "," + open, close: end, stringOpen: "[" + open, stringMid: end + "," + open, stringEnd: end + "]"}
}

// edits are the bytes that leave a span out and put its stub in.
func (s *span) edits(ix *transcript.Index) []Edit {
	if s == nil {
		return nil
	}
	head, f := &ix.Messages[s.Head], framesOf(ix.Format)
	var out []Edit
	if isString(ix, head) {
		out = append(out, Edit{point(head.Content.Lo), []byte(f.stringOpen)}, Edit{point(head.Content.Hi), wrap(f.stringMid, s.text, f.stringEnd)})
	} else {
		out = append(out, Edit{point(head.Content.Hi - 1), wrap(f.open, s.text, f.close)})
	}
	for m := s.Head + 1; m < s.Next; m++ { // there is a message before each run of them: the head stays
		if !s.Dropped[m] {
			continue
		}
		from := m
		for m+1 < s.Next && s.Dropped[m+1] {
			m++
		}
		out = append(out, Edit{Span: transcript.Span{Lo: ix.Messages[from-1].Raw.Hi, Hi: ix.Messages[m].Raw.Hi}})
	}
	return out
}

func isString(ix *transcript.Index, m *transcript.Message) bool { return ix.Body[m.Content.Lo] == '"' }

func point(at uint32) transcript.Span { return transcript.Span{Lo: at, Hi: at} }

func wrap(before string, text []byte, after string) []byte {
	return append(append(append(make([]byte, 0, len(before)+len(text)+len(after)), before...), text...), after...)
}

// cutting collects the edits of a cut while a proof walks over all edits.
type cutting struct {
	dropped []bool // by message
	next    int    // message that the next run of dropped ones may begin with
	opened  int32  // message whose string was opened, 0: none; the body's first is 1
	stub    int32  // message with the stub, 0: none
}

// takes reports whether an edit is a part of a cut, and remembers it.
func (c *cutting) takes(ix *transcript.Index, e *Edit) bool {
	switch {
	case e.Span.Len() > 0 && len(e.Text) == 0:
		return c.drops(ix, e.Span)
	case e.Span.Len() > 0 || len(e.Text) == 0:
		return false
	}
	f := framesOf(ix.Format)
	for i := range ix.Messages {
		m, n := &ix.Messages[i], int32(i+1)
		if m.Role != transcript.User || m.Content.Len() == 0 {
			continue
		}
		switch text := isString(ix, m); {
		case text && e.Span == point(m.Content.Lo) && string(e.Text) == f.stringOpen && c.opened == 0:
			c.opened = n
			return true
		case text && e.Span == point(m.Content.Hi) && c.opened == n && c.stub == 0 && isStub(e.Text, f.stringMid, f.stringEnd),
			!text && m.First < m.Last && e.Span == point(m.Content.Hi-1) && c.stub == 0 && isStub(e.Text, f.open, f.close):
			c.stub = n
			return true
		}
	}
	return false
}

// stubBehind reports whether a stub stands behind the breakpoint of the block before it, at the same place. In Converse a breakpoint
// is an element of its own.
func stubBehind(ix *transcript.Index, before, e *Edit) bool {
	point, f := string(before.Text), framesOf(ix.Format)
	return ix.Format == transcript.Converse && (point == breakpoint.Point(cache.Short) || point == breakpoint.Point(cache.Long)) && isStub(e.Text, f.open, f.close)
}

// isStub reports whether text is a string that is not empty, in its frame.
func isStub(text []byte, before, after string) bool {
	text, ok := bytes.CutPrefix(text, []byte(before))
	if !ok {
		return false
	}
	text, ok = bytes.CutSuffix(text, []byte(after))
	return ok && transcript.IsText(text)
}

// drops reports whether a span of the body is a run of whole messages, with the comma before each.
func (c *cutting) drops(ix *transcript.Index, s transcript.Span) bool {
	first := c.next
	for first < len(ix.Messages) && ix.Messages[first].Raw.Hi < s.Lo {
		first++
	}
	last := first
	for last < len(ix.Messages) && ix.Messages[last].Raw.Hi < s.Hi {
		last++
	}
	if last >= len(ix.Messages) || last == first || ix.Messages[first].Raw.Hi != s.Lo || ix.Messages[last].Raw.Hi != s.Hi {
		return false
	}
	if c.dropped == nil {
		c.dropped = make([]bool, len(ix.Messages))
	}
	for m := first + 1; m <= last; m++ {
		c.dropped[m] = true
	}
	c.next = last
	return true
}

// prove checks that what was collected is a whole cut, or none: messages are left out behind a stub, which stands on the first
// message of a human, the last message stays, and calls and results stay together.
func (c *cutting) prove(ix *transcript.Index) error {
	switch {
	case c.dropped == nil && c.stub == 0 && c.opened == 0:
		return nil
	case c.dropped == nil || c.stub == 0 || c.opened != 0 && c.opened != c.stub:
		return fmt.Errorf("%w: a stub without a span, or a span without a stub", errMalformed)
	case c.stub-1 != ix.FirstHuman() || c.dropped[len(c.dropped)-1]:
		return fmt.Errorf("%w: the head or the last message", errMalformed)
	}
	for m := range ix.Messages {
		if c.dropped[m] && int32(m) < c.stub {
			return fmt.Errorf("%w: message %d stands before the stub", errMalformed, m)
		}
	}
	if !ix.Whole(c.dropped) {
		return fmt.Errorf("%w: a result is parted from its call", errMalformed)
	}
	return nil
}
