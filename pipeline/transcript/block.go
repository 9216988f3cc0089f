package transcript

import "strings"

const (
	blkType = iota
	blkText
	blkCacheControl
	blkContent
	blkID
	blkName
	blkInput
	blkToolUseID
	blkIsError
	blkBreakpoint
	blkKeys
)

func blockKey(name string) int {
	switch name {
	case "type":
		return blkType
	case "text":
		return blkText
	case "cache_control":
		return blkCacheControl
	case "content":
		return blkContent
	case "id":
		return blkID
	case "name":
		return blkName
	case "input":
		return blkInput
	case "tool_use_id":
		return blkToolUseID
	case "is_error":
		return blkIsError
	case "prompt_cache_breakpoint":
		return blkBreakpoint
	}
	return unknownKey
}

// members is what was found in one block before its type was known.
type members struct {
	at     [blkKeys]Span
	res    Result
	known  seen
	marker int32
	null   bool // it has a cache_control that is null
	others bool
}

// block reads one block of system or of a message at the given depth.
func (p *parser) block(msg int32, depth int) (Block, error) {
	lo := p.i
	m := members{marker: -1}
	from := len(p.ix.Markers)
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := m.known.find(s, key, blockKey)
		if err != nil {
			return err
		}
		return p.blockMember(&m, n, key, depth+1)
	})
	if err != nil {
		return Block{}, err
	}
	b := Block{Raw: Span{uint32(lo), uint32(p.i)}, Msg: msg, Marker: m.marker, Call: -1, Result: -1, null: m.null}
	if msg >= 0 {
		p.locate(from, msg, len(p.ix.Blocks))
		err = p.classify(&b, &m)
		return b, err
	}
	p.locate(from, msg, len(p.ix.system))
	if p.d.text(p.word(m.at[blkType])) {
		p.textBlock(&b, &m)
		b.Billing = b.Kind == Text && strings.HasPrefix(opening(p.inside(b.Text), 6*len(billing)), billing)
	}
	return b, nil
}

// billing begins the text of the attribution block that Claude Code sends as the first of its system prompt.
const billing = "x-anthropic-billing-header:"

// toolDefer is the key that only tools have.
const toolDefer = blkKeys

func toolKey(name string) int {
	if name == "defer_loading" {
		return toolDefer
	}
	return blockKey(name)
}

// tool reads one entry of tools.
func (p *parser) tool() (Block, error) {
	b := Block{Raw: Span{Lo: uint32(p.i)}, Msg: InTools, Kind: Tool, Marker: -1, Call: -1, Result: -1}
	m := members{marker: -1}
	from := len(p.ix.Markers)
	err := p.object(itemDepth, func(s *scanner, key Span) error {
		n, err := m.known.find(s, key, toolKey)
		if err != nil {
			return err
		}
		if n == blkCacheControl || n == blkBreakpoint {
			return p.blockMember(&m, n, key, itemDepth+1)
		}
		v, err := s.skip(itemDepth + 1)
		if n == toolDefer && err == nil {
			b.Deferred = string(v.Of(p.b)) == "true"
		}
		return err
	})
	p.locate(from, InTools, len(p.ix.tools))
	b.Raw.Hi, b.Marker, b.null = uint32(p.i), m.marker, m.null
	return b, err
}

// locate tells the markers found since from in which block they stand: its area and its number there.
func (p *parser) locate(from int, area int32, block int) {
	for i := from; i < len(p.ix.Markers); i++ {
		p.ix.Markers[i].area, p.ix.Markers[i].Seq = area, int32(block)
	}
}

func (p *parser) blockMember(m *members, n int, key Span, depth int) (err error) {
	switch n {
	case unknownKey:
		m.others = true
		return p.deep(depth)
	case blkBreakpoint:
		if !p.ix.Format.Automatic() {
			m.others = true
			return p.deep(depth)
		}
		fallthrough
	case blkCacheControl:
		mk, ok, err := p.marker(key, depth)
		if m.null = !ok; ok {
			m.marker = int32(len(p.ix.Markers))
			p.ix.Markers = append(p.ix.Markers, mk)
		}
		return err
	case blkContent:
		lo := p.i
		m.res, err = p.resultContent(depth)
		m.at[n] = Span{uint32(lo), uint32(p.i)}
	default:
		m.at[n], err = p.skip(depth)
	}
	return err
}

// textBlock makes b a text block if its text is one.
func (p *parser) textBlock(b *Block, m *members) {
	if !p.isString(m.at[blkText]) {
		return
	}
	b.Kind, b.Text = Text, m.at[blkText]
	b.Empty = b.Text.Len() <= 2
	b.Plain = !m.others && m.known&^(1<<blkCacheControl|1<<blkBreakpoint) == 1<<blkType|1<<blkText
}

// classify turns the members of a message's block into what its type says it is.
func (p *parser) classify(b *Block, m *members) error {
	ix, n := p.ix, int32(len(p.ix.Blocks))
	switch kind := p.word(m.at[blkType]); {
	case p.d.text(kind):
		p.textBlock(b, m)
	case kind == "tool_use":
		if !p.isString(m.at[blkID]) || !p.isString(m.at[blkName]) || m.at[blkInput].Len() == 0 {
			return p.fault("a tool call without id, name or input")
		}
		b.Kind, b.Call = ToolUse, int32(len(ix.Calls))
		ix.Calls = append(ix.Calls, Call{
			ID: m.at[blkID], Name: m.at[blkName], Input: m.at[blkInput], Block: n, Msg: b.Msg, answer: -1,
		})
	case kind == "tool_result":
		if !p.isString(m.at[blkToolUseID]) {
			return p.fault("a tool result without tool_use_id")
		}
		b.Kind, b.Result = ToolResult, int32(len(ix.Results))
		r := m.res
		r.CallID, r.Content, r.Block, r.Msg, r.Call = m.at[blkToolUseID], m.at[blkContent], n, b.Msg, -1
		r.IsError = string(m.at[blkIsError].Of(p.b)) == "true"
		ix.Results = append(ix.Results, r)
	case kind == "thinking" || kind == "redacted_thinking":
		b.Kind = Thinking
	}
	return nil
}

// resultContent reads the content of what may be a tool result.
func (p *parser) resultContent(depth int) (Result, error) {
	texts, markers := uint32(len(p.ix.Texts)), len(p.ix.Markers)
	r := Result{Form: StrangeForm, Texts: Span{texts, texts}}
	switch p.peek() {
	case '"':
		v, err := p.str()
		if r.Form = StringForm; v.Len() <= 2 {
			r.Form = NoContent
		}
		return r, err
	case '[':
		r.Form = NoContent
		err := p.array(depth, func(*scanner) error { return p.part(&r, depth+1) })
		r.Texts.Hi, r.NestedMarker = uint32(len(p.ix.Texts)), len(p.ix.Markers) > markers
		return r, err
	case 'n':
		r.Form = NoContent
	}
	err := p.deep(depth)
	r.NestedMarker = len(p.ix.Markers) > markers
	return r, err
}

// part reads one element of a result's list.
func (p *parser) part(r *Result, depth int) error {
	if err := p.room(); err != nil {
		return err
	}
	if p.parts++; p.peek() != '{' {
		r.Form = MixedForm
		return p.deep(depth)
	}
	var known seen
	var typ, text Span
	err := p.object(depth, func(s *scanner, key Span) (err error) {
		n, err := known.find(s, key, blockKey)
		if err != nil {
			return err
		}
		switch n {
		case blkType:
			typ, err = s.skip(depth + 1)
		case blkText:
			text, err = s.skip(depth + 1)
		case blkCacheControl:
			err = p.nested(key, depth+1)
		case blkBreakpoint:
			err = p.breakpointOrData(key, depth+1)
		default:
			err = p.deep(depth + 1)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !p.d.text(p.word(typ)) || !p.isString(text) {
		r.Form = MixedForm
		return nil
	}
	if r.Form == NoContent {
		r.Form = TextForm
	}
	p.ix.Texts = append(p.ix.Texts, text)
	return nil
}
