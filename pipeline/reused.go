package pipeline

import (
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Bounds of what a request reads to find what of a cut is used again, in bytes. The rest waits for the branch's next request.
const (
	reusedBytes = 64 << 10 // of one request
	reusedBlock = 64 << 10 // of one block: a longer one is not read
	reusedWords = 1 << 16  // that are kept of a span
)

// spanKey is under which the words of a branch's cut lie.
type spanKey struct {
	session state.SessionKey
	branch  uint64
}

// spanWords is what stands in the span of a cut and nowhere else: paths and identifiers, each with the turn that brought it.
type spanWords struct {
	cut     state.Digest
	begun   int32 // messages that the transcript had when the reading began: what they use is not counted
	span    int32 // messages of the span before this one were read,
	shown   int32 // and blocks of what is forwarded before this one
	words   map[string]int32
	size    int
	counted map[int32]bool // turns of which something was used again
}

// Size is about how many bytes it holds.
func (s *spanWords) Size() int { return s.size + 64 }

// reused counts the tokens of the turns in the cut of which the model's new messages use something that stands nowhere else in
// what they were shown. Each turn counts once, as far as is remembered. It reads on from where the branch's last request stopped:
// first the span, then what is forwarded, in order.
func (p *pass) reused() (n int) {
	s := p.out.span
	if s == nil || p.newCut != nil || p.side != "" || p.m.kind != KindContinue {
		return 0
	}
	w := p.e.spans.take(spanKey{p.sess.key, p.b.ID})
	if w == nil || w.cut != s.hash {
		w = &spanWords{cut: s.hash, begun: p.m.shared, span: s.Head + 1, words: map[string]int32{}, counted: map[int32]bool{}}
	}
	left := p.readSpan(s, w, reusedBytes)
	for ; left > 0 && w.span >= s.Next && int(w.shown) < p.ix.Len(); w.shown++ {
		b := p.ix.Seq(w.shown)
		if b.Msg >= 0 && s.Dropped[b.Msg] {
			continue
		}
		uses := b.Msg >= w.begun && p.ix.Messages[b.Msg].Role == transcript.Assistant
		left -= p.words(b, func(word string) {
			turn, ok := w.words[word]
			if ok && uses && !w.counted[turn] {
				w.counted[turn] = true
				n += p.turnTokens(s, turn)
			}
			if ok {
				delete(w.words, word) // from here on it stands in what the model is shown
			}
		})
	}
	p.e.spans.put(spanKey{p.sess.key, p.b.ID}, w)
	return n
}

// readSpan reads on in a span, and returns how many bytes are left to be read.
func (p *pass) readSpan(s *span, w *spanWords, left int) int {
	for ; left > 0 && w.span < s.Next; w.span++ {
		if !s.Dropped[w.span] {
			continue
		}
		msg := &p.ix.Messages[w.span]
		for i := msg.First; i < msg.Last; i++ {
			left -= p.words(&p.ix.Blocks[i], func(word string) {
				if _, ok := w.words[word]; !ok && len(w.words) < reusedWords {
					w.words[strings.Clone(word)] = msg.Turn
					w.size += len(word) + 64
				}
			})
		}
	}
	return left
}

// words calls found with every path and identifier of a block but those of thinking, and returns how many bytes it read.
func (p *pass) words(b *transcript.Block, found func(word string)) int {
	at := b.Raw
	switch {
	case b.Kind == transcript.Text:
		at = b.Text
	case b.Call >= 0:
		c := &p.ix.Calls[b.Call]
		if path := p.ix.CallFacts(b.Call).Path; path != "" {
			found(path)
		}
		if at = c.Input; at.Len() <= reusedBlock {
			p.ix.CallRuns(c, func(piece string) { identifier.Each(piece, found) })
		}
		return at.Len()
	case b.Result >= 0:
		at = p.ix.Results[b.Result].Content
	case b.Kind == transcript.Thinking || b.Msg >= 0:
		return 0
	}
	if at.Len() > reusedBlock {
		return 0
	}
	p.ix.Runs(at, func(piece string) { identifier.Each(piece, found) })
	return at.Len()
}

// turnTokens is Est of what a span leaves out of a turn.
func (p *pass) turnTokens(s *span, turn int32) (n int) {
	for m := s.Head + 1; m < s.Next; m++ {
		if s.Dropped[m] && p.ix.Messages[m].Turn == turn {
			n += p.ix.EstMessage(m)
		}
	}
	return n
}
