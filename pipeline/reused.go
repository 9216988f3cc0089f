package pipeline

import (
	"bytes"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// maxSpan bounds what is read of a span to find what of it is used again, in bytes. A longer one is not looked at.
const maxSpan = 4 << 20

// spanKey is under which the words of a branch's cut lie.
type spanKey struct {
	session state.SessionKey
	branch  uint64
}

// spanWords is what stands in the span of a cut: paths and identifiers, each with the turn that brought it.
type spanWords struct {
	cut     state.Digest
	words   map[string]int32
	size    int
	counted map[int32]bool // turns of which something was used again
}

// Size is about how many bytes it holds.
func (s *spanWords) Size() int { return s.size }

// reused counts the tokens of the turns in the cut of which the model's new messages use something that stands nowhere else in
// what they were shown. Each turn counts once, as far as is remembered.
func (p *pass) reused() (n int) {
	s := p.out.span
	if s == nil || p.newCut != nil || p.side != "" {
		return 0
	}
	var known *spanWords
	for m := max(p.m.shared, s.Next+1); m < int32(len(p.ix.Messages)); m++ {
		if p.ix.Messages[m].Role != transcript.Assistant {
			continue
		}
		if known == nil {
			if known = p.spanWords(s); known == nil {
				return 0
			}
		}
		p.uses(m, func(word string) {
			turn, ok := known.words[word]
			if ok && !known.counted[turn] && !p.shown(s, m, word) {
				known.counted[turn] = true
				n += p.turnTokens(s, turn)
			}
		})
	}
	if known != nil {
		p.e.spans.put(spanKey{p.sess.key, p.b.ID}, known)
	}
	return n
}

// spanWords are the words of a cut, nil if it is too long to be read.
func (p *pass) spanWords(s *span) *spanWords {
	if w := p.e.spans.take(spanKey{p.sess.key, p.b.ID}); w != nil && w.cut == s.hash {
		return w
	}
	size := 0
	for m, gone := range s.Dropped {
		if gone {
			size += p.ix.Messages[m].Raw.Len()
		}
	}
	if size > maxSpan {
		return nil
	}
	w := &spanWords{cut: s.hash, words: map[string]int32{}, counted: map[int32]bool{}}
	for m := s.Head + 1; m < s.Next; m++ {
		if !s.Dropped[m] {
			continue
		}
		p.uses(m, func(word string) {
			if _, ok := w.words[word]; !ok {
				w.words[strings.Clone(word)] = p.ix.Messages[m].Turn
				w.size += len(word) + 32
			}
		})
	}
	return w
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

// uses calls found with every path and identifier of a message but those of thinking.
func (p *pass) uses(m int32, found func(word string)) {
	look := func(piece string) { identifier.Each(piece, found) }
	msg := &p.ix.Messages[m]
	for i := msg.First; i < msg.Last; i++ {
		b := &p.ix.Blocks[i]
		switch {
		case b.Kind == transcript.Text:
			p.ix.Runs(b.Text, look)
		case b.Call >= 0:
			if path := p.ix.CallFacts(b.Call).Path; path != "" {
				found(path)
			}
			p.ix.Runs(p.ix.Calls[b.Call].Input, look)
		case b.Result >= 0:
			p.ix.Runs(p.ix.Results[b.Result].Content, look)
		}
	}
}

// shown reports whether a word stands in what is forwarded before a message.
func (p *pass) shown(s *span, before int32, word string) bool {
	if bytes.Contains(s.text, []byte(word)) {
		return true
	}
	for m := range before {
		if !s.Dropped[m] && bytes.Contains(p.ix.Messages[m].Raw.Of(p.ix.Body), []byte(word)) {
			return true
		}
	}
	return false
}
