package replay

import (
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// concordance knows of a whole conversation where every identifier that a result introduced stands. Its rule is that of the
// filter coref, kept in the plainest way: it is what the filter's verdicts are held against.
type concordance struct {
	ix    *transcript.Index
	marks map[string]*mark
	news  [][]*mark        // by result: identifiers that stood nowhere before it, nor beside it in its turn
	calls map[string]int32 // result by call
}

// mark is one identifier.
type mark struct {
	id     string
	owner  int32   // result that introduced it, none if none did
	places []place // in order; nothing is kept without an owner
}

// place is where an identifier stands.
type place struct {
	msg, result int32 // result is none for texts and calls
	said        bool  // by the model
}

const none = -1

// newConcordance reads a conversation to its end. The body must not change while the concordance is in use.
func newConcordance(body []byte, format transcript.Format) (*concordance, error) {
	ix, err := transcript.Parse(body, format)
	if err != nil {
		return nil, err
	}
	l := &concordance{
		ix: ix, marks: map[string]*mark{}, news: make([][]*mark, len(ix.Results)), calls: map[string]int32{},
	}
	for i := range ix.Results {
		l.calls[ix.CallID(&ix.Results[i])] = int32(i)
	}
	for i := range ix.Blocks {
		l.block(&ix.Blocks[i])
	}
	for r, marks := range l.news {
		l.news[r] = slices.DeleteFunc(marks, func(m *mark) bool { return m.owner == none })
	}
	return l, nil
}

// block enters what one block says. Thinking says nothing.
func (l *concordance) block(b *transcript.Block) {
	p := place{msg: b.Msg, result: none, said: l.ix.Messages[b.Msg].Role == transcript.Assistant}
	look := func(piece string) { identifier.Each(piece, func(id string) { l.enter(id, p) }) }
	switch b.Kind {
	case transcript.Text:
		l.ix.Runs(b.Text, look)
	case transcript.ToolUse:
		c := &l.ix.Calls[b.Call]
		l.ix.Runs(c.Name, look)
		l.ix.CallRuns(c, look)
	case transcript.ToolResult:
		r := &l.ix.Results[b.Result]
		p.result = b.Result
		if r.Form == transcript.StringForm {
			l.ix.Runs(r.Content, look)
		}
		for _, t := range l.ix.Texts[r.Texts.Lo:r.Texts.Hi] {
			l.ix.Runs(t, look)
		}
	case transcript.Thinking, transcript.Tool, transcript.Other:
	}
}

func (l *concordance) enter(id string, p place) {
	m := l.marks[id]
	if m == nil {
		m = &mark{id: id, owner: p.result}
		l.marks[id] = m
		if p.result != none {
			l.news[p.result] = append(l.news[p.result], m)
		}
	}
	switch {
	case m.owner == none:
	case m.owner != p.result && l.turn(p) == l.turn(m.places[0]):
		m.owner, m.places = none, nil // it stands beside the result too
	case len(m.places) == 0 || m.places[len(m.places)-1] != p:
		m.places = append(m.places, p)
	}
}

func (l *concordance) turn(p place) int32 { return l.ix.Messages[p.msg].Turn }

// size is Est of a result's text.
func (l *concordance) size(result int32) int { return l.ix.ResultTokens(result) }

// cutAt is the moment before message msg, when so many results had been answered by the model.
type cutAt struct{ msg, results int32 }

// at returns the moment at which the conversation had so many messages.
func (l *concordance) at(messages int32) (c cutAt) {
	c.msg = min(messages, int32(len(l.ix.Messages)))
	answered := c.msg - 1
	for answered >= 0 && l.ix.Messages[answered].Role != transcript.Assistant {
		answered--
	}
	for c.results < int32(len(l.ix.Results)) && l.ix.Results[c.results].Msg < answered {
		c.results++
	}
	return c
}

// introduced lists what a result introduced that was no furniture of the session by then.
func (l *concordance) introduced(result int32, at cutAt) []*mark {
	common := max(furniture, int(at.results/4))
	var out []*mark
	for _, m := range l.news[result] {
		spread, last := 0, int32(none)
		for _, p := range m.places {
			if p.result != none && p.result < at.results && p.result != last {
				spread, last = spread+1, p.result
			}
		}
		if spread <= common {
			out = append(out, m)
		}
	}
	return out
}

// furniture is the number of results up to which an identifier in them is no furniture of any session.
const furniture = 5

// next is the first place after the moment where the model says it.
func (m *mark) next(at cutAt) (place, bool) {
	i := slices.IndexFunc(m.places, func(p place) bool { return p.said && p.msg >= at.msg })
	if i < 0 {
		return place{}, false
	}
	return m.places[i], true
}

// used says how many turns after the moment the model first uses what a result introduced, and which identifiers it uses
// sooner or later; 0 turns if it never does.
func (l *concordance) used(result int32, at cutAt) (turns int, ids []string) {
	first := int32(0)
	for _, m := range l.introduced(result, at) {
		if p, ok := m.next(at); ok {
			if ids = append(ids, m.id); first == 0 || l.turn(p) < first {
				first = l.turn(p)
			}
		}
	}
	if ids == nil {
		return 0, nil
	}
	return int(first - l.ix.Messages[max(at.msg-1, 0)].Turn), ids
}

// missed reports whether the model uses something after the moment that only this result had introduced and that, with the
// cut results gone, stands nowhere before.
func (l *concordance) missed(result int32, at cutAt, cut map[int32]bool) bool {
	return slices.ContainsFunc(l.introduced(result, at), func(m *mark) bool {
		p, ok := m.next(at)
		if !ok {
			return false
		}
		for _, before := range m.places {
			if before.msg < p.msg && (before.result == none || !cut[before.result]) {
				return false
			}
		}
		return !l.live(m.id, p.msg, cut)
	})
}

// live reports whether a word stands in the head or before a message, in anything but the cut results.
func (l *concordance) live(id string, msg int32, cut map[int32]bool) bool {
	in := func(b *transcript.Block) bool { return stands(legible(b.Raw.Of(l.ix.Body), l.ix.Format), id) }
	for i := range l.ix.Head {
		if in(&l.ix.Head[i]) {
			return true
		}
	}
	for i := range l.ix.Blocks[:l.ix.Messages[msg].First] {
		b := &l.ix.Blocks[i]
		if (b.Result < 0 || !cut[b.Result]) && in(b) {
			return true
		}
	}
	return false
}
