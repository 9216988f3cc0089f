package transcript

import (
	"errors"
	"math"
	"strconv"
)

// parser fills an Index.
type parser struct {
	scanner
	ix    *Index
	d     *dialect
	known seen  // members of the body so far
	parts int32 // elements of result lists so far
}

// Depths at which things stand in a body; whatever is inside stands one deeper.
const (
	bodyDepth    = 1
	topDepth     = 2 // messages, tools, system and every other member
	itemDepth    = 3 // a message, a tool or a system block
	contentDepth = 4
	blockDepth   = 5
)

// dialect is how the bodies of one format are read.
type dialect struct {
	key     func(name string) int                  // number of a member of the body
	top     func(p *parser, n int, key Span) error // reads the value of a member
	message func(p *parser) error                  // reads one element of the list of messages
	text    func(kind string) bool                 // reports whether a part of this type is a text
}

var dialects = [...]dialect{
	Anthropic: {topKey, (*parser).top, (*parser).message, isText},
	Chat:      {chatKey, (*parser).chatTop, (*parser).chatMessage, isText},
	Responses: {responsesKey, (*parser).responsesTop, (*parser).item, isItemText},
	Converse:  {converseKey, (*parser).converseTop, (*parser).message, isText},
	Gemini:    {geminiKey, (*parser).geminiTop, (*parser).geminiContent, isText},
}

func isText(kind string) bool { return kind == "text" }

// readBody reads a body. With a memo it reads on where the memo ends.
func readBody(ix *Index, m *Memo) error {
	p := &parser{scanner: scanner{b: ix.Body}, ix: ix, d: &dialects[ix.Format]}
	err := p.body(m)
	if err != nil {
		return err
	}
	ix.End = uint32(p.i - 1)
	if p.peek(); p.i != len(p.b) {
		return p.fault("something after the body")
	}
	if len(ix.Messages) == 0 {
		return errors.New("no messages")
	}
	ix.finish()
	return nil
}

func (p *parser) body(m *Memo) error {
	if m == nil {
		p.peek()
		return p.object(bodyDepth, p.member)
	}
	m.restore(p)
	if err := p.elements(p.element); err != nil {
		return err
	}
	more, err := p.next('}')
	if !more || err != nil {
		return err
	}
	return p.members(p.member)
}

func (p *parser) member(s *scanner, key Span) error {
	n, err := p.known.find(s, key, p.d.key)
	if err != nil {
		return err
	}
	return p.d.top(p, n, key)
}

// messages reads the list of messages.
func (p *parser) messages() error {
	p.opened()
	return p.array(topDepth, p.element)
}

func (p *parser) element(*scanner) error {
	if err := p.room(); err != nil {
		return err
	}
	return p.d.message(p)
}

// integer is a JSON number that has a whole value, in whatever form it is written, and -1 for anything else.
func integer(raw string) int64 {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return -1
	}
	return int64(f)
}

// tools reads the list of tools. Breakpoints stand on tools themselves; what is inside is the business of the tools.
func (p *parser) tools() error {
	if p.peek() == 'n' {
		return p.null(topDepth)
	}
	return p.array(topDepth, func(*scanner) error {
		if err := p.room(); err != nil {
			return err
		}
		b, err := p.tool()
		p.ix.tools = append(p.ix.tools, b)
		return err
	})
}

// null reads a value that must be null.
func (p *parser) null(depth int) error {
	v, err := p.skip(depth)
	if err == nil && string(v.Of(p.b)) != "null" {
		err = p.fault("expected null")
	}
	return err
}

// room refuses blocks over the limit.
func (p *parser) room() error {
	if ix := p.ix; len(ix.tools)+len(ix.system)+len(ix.Blocks) >= MaxBlocks || len(ix.Messages) >= MaxBlocks || p.parts >= MaxBlocks {
		return p.fault("too many blocks")
	}
	return nil
}

// virtual is string content: it stands for one text block.
func virtual(v Span, msg int32) Block {
	return Block{Raw: v, Text: v, Msg: msg, Marker: -1, Call: -1, Result: -1, Kind: Text, Virtual: true, Plain: true, Empty: v.Len() <= 2}
}

func (s *scanner) role(v Span) Role {
	switch s.word(v) {
	case "user":
		return User
	case "assistant":
		return Assistant
	}
	return OtherRole
}
