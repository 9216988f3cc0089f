package coref

import (
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// index says which identifiers the results of a transcript brought into it, and which assistant turns used them. It is read
// message by message and knows messages and results by their numbers alone, so that what was read of a transcript holds for
// every longer one that begins with the same messages.
type index struct {
	messages int32 // read so far
	outputs  []output
	tokens   []token
	uses     []use
	numbers  map[uint64]int32 // of tokens, by their hashes; a map of Go's own, as nobody can choose words that share its slots
	full     bool             // there are too many identifiers: nothing is known
}

// output is one result. The identifiers that stood nowhere before it are tokens[first:last].
type output struct{ turn, first, last int32 }

// token is one identifier, known by its hash: the texts are not kept, and two that share one are only taken for used.
type token struct {
	hash   uint64
	owner  int32 // the result that introduced it, -1 if none did
	spread int32 // results that hold it
	latest int32 // the last of them
	use    int32 // the last use by a turn after its owner's, -1 without one
}

// use is one assistant turn that used an identifier.
type use struct{ turn, msg, before int32 }

const (
	none      = -1
	maxTokens = 1 << 19 // a bound for hostile bodies: a megabyte of code holds about 20,000
	perNumber = 24      // bytes of one entry of a map, about
	minSpread = 5       // an identifier in more results than this, and in more than a quarter of them, is furniture of the session
)

// Messages implements [filters.Memo].
func (x *index) Messages() int32 { return x.messages }

// Size implements [filters.Memo].
func (x *index) Size() int {
	return int(unsafe.Sizeof(*x)) + cap(x.outputs)*int(unsafe.Sizeof(output{})) + cap(x.tokens)*int(unsafe.Sizeof(token{})) +
		cap(x.uses)*int(unsafe.Sizeof(use{})) + len(x.numbers)*perNumber
}

// read goes on to the last assistant message. What follows is too new to have been used, and clients still change it.
func (x *index) read(ix *transcript.Index) {
	s := surface{index: x}
	look := func(piece string) { identifier.Each(piece, s.found) }
	for end := ix.LastAssistant() + 1; x.messages < end; x.messages++ {
		m := &ix.Messages[x.messages]
		s.msg, s.turn, s.speaks = x.messages, m.Turn, m.Role == transcript.Assistant
		for i := m.First; i < m.Last && !x.full; i++ {
			s.block(ix, &ix.Blocks[i], look)
		}
	}
	if x.full {
		x.tokens, x.uses, x.numbers = nil, nil, nil
	}
}

// surface is where the index is being read.
type surface struct {
	*index
	msg, turn int32
	speaks    bool  // an assistant message
	output    int32 // the result, -1 for text and calls
}

// block reads what one block of a message says.
func (s *surface) block(ix *transcript.Index, b *transcript.Block, look func(string)) {
	s.output = none
	switch b.Kind {
	case transcript.Text:
		ix.Runs(b.Text, look)
	case transcript.ToolUse:
		c := &ix.Calls[b.Call]
		ix.Runs(c.Name, look)
		ix.CallRuns(c, look)
	case transcript.ToolResult:
		r := &ix.Results[b.Result]
		s.output = b.Result
		s.outputs = append(s.outputs, output{turn: s.turn, first: int32(len(s.tokens))})
		if r.Form == transcript.StringForm {
			ix.Runs(r.Content, look)
		}
		for _, t := range ix.Texts[r.Texts.Lo:r.Texts.Hi] {
			ix.Runs(t, look)
		}
		s.outputs[s.output].last = int32(len(s.tokens))
	case transcript.Thinking, transcript.Tool, transcript.Other:
	}
}

// found enters one identifier.
func (s *surface) found(id string) {
	if s.full {
		return
	}
	n, known := s.token(xxhash.Sum64String(id))
	t := &s.tokens[n]
	switch {
	case !known:
		*t = token{hash: t.hash, owner: s.output, spread: 1, latest: s.output, use: none}
	case t.owner == none:
	case s.output != none:
		if t.latest != s.output {
			t.spread, t.latest = t.spread+1, s.output
		}
		if t.owner != s.output && s.outputs[t.owner].turn == s.turn {
			t.owner = none // a sibling shows it too
		}
	case s.outputs[t.owner].turn == s.turn:
		t.owner = none // it stands in what came with the result
	case s.speaks:
		s.used(t)
	}
}

// used enters that the turn uses an identifier.
func (s *surface) used(t *token) {
	if t.use != none && s.uses[t.use].turn == s.turn {
		s.uses[t.use].msg = s.msg
		return
	}
	s.uses = append(s.uses, use{turn: s.turn, msg: s.msg, before: t.use})
	t.use = int32(len(s.uses)) - 1
}

// token returns the number of the token with a hash, and whether it was there before.
func (x *index) token(hash uint64) (n int32, known bool) {
	if n, known = x.numbers[hash]; known {
		return n, true
	}
	x.full = len(x.tokens) >= maxTokens
	n = int32(len(x.tokens))
	x.tokens = append(x.tokens, token{hash: hash})
	x.numbers[hash] = n
	return n, false
}

// evidence is what the index says of one result.
type evidence struct {
	introduced int
	references int   // assistant turns that used any of it
	last       int32 // message of the last of them
}

// evidence sums up a result. turns is scratch.
func (x *index) evidence(result int32, turns *[]int32) (e evidence) {
	o := &x.outputs[result]
	common := max(minSpread, int32(len(x.outputs)/4))
	*turns = (*turns)[:0]
	for n := o.first; n < o.last; n++ {
		t := &x.tokens[n]
		if t.owner == none || t.spread > common {
			continue
		}
		e.introduced++
		if t.use != none {
			e.last = max(e.last, x.uses[t.use].msg)
		}
		for u := t.use; u != none; u = x.uses[u].before {
			*turns = append(*turns, x.uses[u].turn)
		}
	}
	slices.Sort(*turns)
	e.references = len(slices.Compact(*turns))
	return e
}
