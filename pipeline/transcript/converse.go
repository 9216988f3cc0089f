package transcript

import "github.com/tidwall/gjson"

// A Bedrock Converse body, whose model stands in the path. A breakpoint is an element of its own in the lists of tools, system and
// content ({"cachePoint":{…}}): here it is no block but the marker of the block before it, and its cut is the whole element. Blocks
// are unions: the one member of each says what it is. No other member of a body is read for breakpoints.

const (
	cvMessages = iota
	cvSystem
	cvToolConfig
	cvInference
	cvModelFields
)

func converseKey(name string) int {
	switch name {
	case "messages":
		return cvMessages
	case "system":
		return cvSystem
	case "toolConfig":
		return cvToolConfig
	case "inferenceConfig":
		return cvInference
	case "additionalModelRequestFields":
		return cvModelFields
	}
	return unknownKey
}

func (p *parser) converseTop(n int, _ Span) error {
	switch n {
	case cvMessages:
		return p.messages()
	case cvSystem:
		return p.pointed(InSystem, topDepth)
	case cvToolConfig:
		return p.toolConfig()
	case cvInference:
		return p.limits(func(name string) bool { return name == "maxTokens" })
	}
	v, err := p.skip(topDepth)
	if err == nil && n == cvModelFields {
		p.ix.DropBlock = gjson.GetBytes(v.Of(p.b), "thinking.block_binding.prefix_mismatch_behavior").Str == "drop_block"
	}
	return err
}

// limits reads an object of which one member bounds the output.
func (p *parser) limits(bound func(name string) bool) error {
	if p.peek() != '{' {
		_, err := p.skip(topDepth)
		return err
	}
	var known seen
	return p.object(topDepth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, func(name string) int {
			if bound(name) {
				return 0
			}
			return unknownKey
		})
		if err != nil {
			return err
		}
		v, err := s.skip(itemDepth)
		if n == 0 && err == nil {
			p.ix.MaxTokens = integer(view(v.Of(p.b)))
		}
		return err
	})
}

func toolConfigKey(name string) int {
	if name == "tools" {
		return 0
	}
	return unknownKey
}

func (p *parser) toolConfig() error {
	if p.peek() == 'n' {
		return p.null(topDepth)
	}
	var known seen
	return p.object(topDepth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, toolConfigKey)
		if err != nil {
			return err
		}
		if n == 0 {
			return p.pointed(InTools, itemDepth)
		}
		_, err = s.skip(itemDepth)
		return err
	})
}

// pointed reads a list of blocks in which breakpoints stand behind the blocks that they mark.
func (p *parser) pointed(area int32, depth int) error {
	if p.peek() == 'n' && area < 0 {
		return p.null(depth)
	}
	first := p.count(area)
	return p.array(depth, func(*scanner) error {
		if err := p.room(); err != nil {
			return err
		}
		return p.converseBlock(area, first, depth+1)
	})
}

const (
	cbText = iota
	cbToolUse
	cbToolResult
	cbReasoning
	cbCachePoint
)

func converseBlockKey(name string) int {
	switch name {
	case "text":
		return cbText
	case "toolUse":
		return cbToolUse
	case "toolResult":
		return cbToolResult
	case "reasoningContent":
		return cbReasoning
	case "cachePoint":
		return cbCachePoint
	}
	return unknownKey
}

// union is what one element of a list says.
type union struct {
	known   seen
	members int
	text    Span
	call    Call
	result  Result
	point   Marker
	own     bool // a call or a result of the provider's own tools
}

func (u *union) has(n int) bool { return u.known&(1<<n) != 0 }

// one reports whether the element is one thing at most, of those that are known here.
func (u *union) one() bool { return u.known&(u.known-1) == 0 }

// converseBlock reads an element of a list whose first block has the number first in its area.
func (p *parser) converseBlock(area int32, first, depth int) error {
	lo, from := p.i, len(p.ix.Markers)
	var u union
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := u.known.find(s, key, converseBlockKey)
		if err != nil {
			return err
		}
		u.members++
		switch {
		case n == cbText:
			u.text, err = s.skip(depth + 1)
		case n == cbCachePoint:
			u.point, err = p.cachePoint(depth + 1)
		case n == cbToolUse && area >= 0:
			err = p.toolUse(&u, depth+1)
		case n == cbToolResult && area >= 0:
			err = p.toolResult(&u, depth+1)
		default:
			_, err = s.skip(depth + 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	raw, n := Span{uint32(lo), uint32(p.i)}, p.count(area)
	if !u.one() {
		return p.fault("a block that is several things")
	}
	if !u.has(cbCachePoint) {
		p.locate(from, area, n)
		return p.converseAdd(&u, raw, area)
	}
	if n == first {
		return p.fault("a breakpoint with no block before it")
	}
	u.point.area, u.point.Seq = area, int32(n)-1
	return p.point(&u, raw, false)
}

// converseAdd adds the block that an element is.
func (p *parser) converseAdd(u *union, raw Span, area int32) error {
	b := opaque(raw, area, Other)
	n := int32(len(p.ix.Blocks))
	switch {
	case area == InTools:
		b.Kind = Tool
	case u.has(cbText) && p.isString(u.text):
		b.Kind, b.Text, b.Plain, b.Empty = Text, u.text, u.members == 1, u.text.Len() <= 2
	case area < 0:
	case u.own:
		if u.has(cbToolResult) {
			p.ix.Texts = p.ix.Texts[:u.result.Texts.Lo]
		}
	case u.has(cbToolUse):
		if !p.isString(u.call.ID) || !p.isString(u.call.Name) || u.call.Input.Len() == 0 {
			return p.fault("a tool call without id, name or input")
		}
		p.call(u.call, raw, area)
		return nil
	case u.has(cbToolResult):
		if !p.isString(u.result.CallID) {
			return p.fault("a tool result without toolUseId")
		}
		b.Kind, b.Result = ToolResult, int32(len(p.ix.Results))
		r := u.result
		r.Block, r.Msg, r.Call = n, area, -1
		p.ix.Results = append(p.ix.Results, r)
	case u.has(cbReasoning):
		b.Kind = Thinking
	}
	p.add(b)
	return nil
}

// cachePoint reads the value of a breakpoint.
func (p *parser) cachePoint(depth int) (m Marker, err error) {
	if len(p.ix.cuts) >= MaxBlocks {
		return m, p.fault("too many breakpoints")
	}
	lo := p.i
	m, err = p.markerObject(depth)
	m.Value = Span{uint32(lo), uint32(p.i)}
	return m, err
}

// point notes a breakpoint that is an element of its own.
func (p *parser) point(u *union, raw Span, nested bool) error {
	if u.members != 1 {
		return p.fault("a breakpoint that is something else besides")
	}
	ix, m := p.ix, u.point
	m.Member, m.Nested, m.Cut = raw, nested, p.cut(raw)
	if n := len(ix.cuts); n > 0 && m.Cut.Lo < ix.cuts[n-1].Hi { // the comma before it went with the breakpoint before it
		m.Cut = p.cutBehind(raw)
	}
	ix.cuts = append(ix.cuts, m.Cut)
	ix.Markers = append(ix.Markers, m)
	return nil
}

const (
	ctID = iota
	ctName
	ctInput
	ctType
	ctContent
	ctStatus
)

func converseToolKey(name string) int {
	switch name {
	case "toolUseId":
		return ctID
	case "name":
		return ctName
	case "input":
		return ctInput
	case "type":
		return ctType
	case "content":
		return ctContent
	case "status":
		return ctStatus
	}
	return unknownKey
}

// toolUse reads a call. One that has a type is of a tool that the provider runs itself.
func (p *parser) toolUse(u *union, depth int) error {
	var known seen
	return p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, converseToolKey)
		if err != nil {
			return err
		}
		v, err := s.skip(depth + 1)
		switch n {
		case ctID:
			u.call.ID = v
		case ctName:
			u.call.Name = v
		case ctInput:
			u.call.Input = v
		case ctType:
			u.own = !p.blank(v)
		}
		return err
	})
}

// toolResult reads a result.
func (p *parser) toolResult(u *union, depth int) error {
	r := &u.result
	texts := uint32(len(p.ix.Texts))
	r.Texts = Span{texts, texts}
	isError := false
	var known seen
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, converseToolKey)
		if err != nil {
			return err
		}
		lo := uint32(s.i)
		if n == ctContent {
			err = p.converseContent(r, depth+1)
			r.Content = Span{lo, uint32(s.i)}
			return err
		}
		v, err := s.skip(depth + 1)
		switch n {
		case ctID:
			r.CallID = v
		case ctStatus:
			isError = err == nil && s.word(v) == "error"
		case ctType:
			u.own = !p.blank(v)
		}
		return err
	})
	r.IsError = isError
	return err
}

// converseContent reads the content of a result.
func (p *parser) converseContent(r *Result, depth int) error {
	if p.peek() == 'n' {
		return p.null(depth)
	}
	markers := len(p.ix.Markers)
	err := p.array(depth, func(*scanner) error { return p.conversePart(r, depth+1) })
	r.Texts.Hi, r.NestedMarker = uint32(len(p.ix.Texts)), len(p.ix.Markers) > markers
	return err
}

func conversePartKey(name string) int {
	switch name {
	case "text":
		return cbText
	case "cachePoint":
		return cbCachePoint
	}
	return unknownKey
}

// conversePart reads one element of a result's content. A breakpoint there is not lawful at the provider.
func (p *parser) conversePart(r *Result, depth int) error {
	if err := p.room(); err != nil {
		return err
	}
	p.parts++
	lo := p.i
	var u union
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := u.known.find(s, key, conversePartKey)
		if err != nil {
			return err
		}
		if u.members++; n == cbCachePoint {
			u.point, err = p.cachePoint(depth + 1)
			return err
		}
		v, err := s.skip(depth + 1)
		if n == cbText {
			u.text = v
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case u.has(cbCachePoint):
		return p.point(&u, Span{uint32(lo), uint32(p.i)}, true)
	case u.members != 1 || !p.isString(u.text):
		r.Form = MixedForm
		return nil
	case r.Form == NoContent:
		r.Form = TextForm
	}
	p.ix.Texts = append(p.ix.Texts, u.text)
	return nil
}
