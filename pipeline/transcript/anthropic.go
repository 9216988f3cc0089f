package transcript

import (
	"errors"
	"math"
	"strconv"

	"github.com/tidwall/gjson"
)

// parser fills an Index from an Anthropic Messages body.
type parser struct {
	scanner
	ix    *Index
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

const (
	topModel = iota
	topMessages
	topSystem
	topTools
	topMaxTokens
	topThinking
	topMetadata
	topThread
	topCacheControl
	topDiagnostics
)

func topKey(name string) int {
	switch name {
	case "model":
		return topModel
	case "messages":
		return topMessages
	case "system":
		return topSystem
	case "tools":
		return topTools
	case "max_tokens":
		return topMaxTokens
	case "thinking":
		return topThinking
	case "metadata":
		return topMetadata
	case "thread":
		return topThread
	case "cache_control":
		return topCacheControl
	case "diagnostics":
		return topDiagnostics
	}
	return unknownKey
}

// parseAnthropic reads an Anthropic Messages body (also Bedrock InvokeModel and Vertex rawPredict, whose model is in the
// path: such a body has none). With a memo it reads on where the memo ends.
func parseAnthropic(ix *Index, m *Memo) error {
	p := &parser{scanner: scanner{b: ix.Body}, ix: ix}
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
	if err := p.elements(p.message); err != nil {
		return err
	}
	more, err := p.next('}')
	if !more || err != nil {
		return err
	}
	return p.members(p.member)
}

func (p *parser) member(s *scanner, key Span) error {
	n, err := p.known.find(s, key, topKey)
	if err != nil {
		return err
	}
	return p.top(n, key)
}

func (p *parser) top(n int, key Span) error {
	ix := p.ix
	switch n {
	case topMessages:
		p.opened()
		return p.array(topDepth, p.message)
	case topSystem:
		return p.system()
	case topTools:
		return p.tools()
	case topCacheControl:
		m, ok, err := p.marker(key, topDepth)
		ix.TopMarker, ix.TopTTL = ok, m.TTL
		return err
	}
	v, err := p.skip(topDepth)
	if err != nil {
		return err
	}
	raw := v.Of(p.b)
	switch n {
	case topModel:
		if p.isString(v) {
			ix.Model = ix.str(v)
		}
	case topMaxTokens:
		ix.MaxTokens = integer(view(raw))
	case topThinking:
		ix.DropBlock = gjson.Get(view(raw), "block_binding.prefix_mismatch_behavior").Str == "drop_block"
	case topMetadata:
		ix.UserID = textOf(gjson.Get(view(raw), "user_id"))
	case topThread:
		ix.Delta = raw[0] == '{'
	case topDiagnostics:
		ix.Diagnostics = true
	}
	return nil
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

// system reads the system prompt: a list of blocks, or a string.
func (p *parser) system() error {
	switch p.peek() {
	case 'n':
		return p.null(topDepth)
	case '"':
		v, err := p.str()
		p.ix.system = append(p.ix.system, virtual(v, InSystem))
		return err
	}
	return p.array(topDepth, func(*scanner) error {
		if err := p.room(); err != nil {
			return err
		}
		b, err := p.block(InSystem, itemDepth)
		p.ix.system = append(p.ix.system, b)
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

const (
	msgRole = iota
	msgContent
)

func messageKey(name string) int {
	switch name {
	case "role":
		return msgRole
	case "content":
		return msgContent
	}
	return unknownKey
}

func (p *parser) message(*scanner) error {
	ix, lo := p.ix, p.i
	if err := p.room(); err != nil {
		return err
	}
	m := Message{First: int32(len(ix.Blocks)), parts: p.parts}
	msg := int32(len(ix.Messages))
	var known seen
	err := p.object(itemDepth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, messageKey)
		if err != nil {
			return err
		}
		at := uint32(s.i)
		if n == msgContent {
			err := p.content(msg)
			m.Content = Span{at, uint32(s.i)}
			return err
		}
		v, err := s.skip(contentDepth)
		if n == msgRole && err == nil {
			m.role, m.Role = v, s.role(v)
		}
		m.Extra = m.Extra || n < 0
		return err
	})
	if err != nil {
		return err
	}
	if known != 1<<msgRole|1<<msgContent {
		return p.fault("a message without role or content")
	}
	m.Raw, m.Last = Span{uint32(lo), uint32(p.i)}, int32(len(ix.Blocks))
	ix.Messages = append(ix.Messages, m)
	return nil
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

func (p *parser) content(msg int32) error {
	if p.peek() == '"' {
		v, err := p.str()
		p.ix.Blocks = append(p.ix.Blocks, virtual(v, msg))
		return err
	}
	return p.array(contentDepth, func(*scanner) error {
		if err := p.room(); err != nil {
			return err
		}
		b, err := p.block(msg, blockDepth)
		if err != nil {
			return err
		}
		p.ix.Blocks = append(p.ix.Blocks, b)
		return nil
	})
}
