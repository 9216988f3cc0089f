package transcript

import (
	"strings"

	"github.com/tidwall/gjson"
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
	topVersion
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
	case "anthropic_version":
		return topVersion
	}
	return unknownKey
}

// top reads a member of an Anthropic Messages body (also Bedrock InvokeModel and Vertex rawPredict, whose model is in the path:
// such a body has none).
func (p *parser) top(n int, key Span) error {
	ix := p.ix
	switch n {
	case topMessages:
		return p.messages()
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
	case topVersion:
		ix.Versioned, ix.Bedrock = true, strings.HasPrefix(p.word(v), "bedrock-")
	}
	return nil
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

func (p *parser) message() error {
	ix, lo := p.ix, p.i
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

func (p *parser) content(msg int32) error {
	if p.ix.Format == Converse {
		return p.pointed(msg, contentDepth)
	}
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
