package transcript

import "strings"

// A Responses body: a flat list of items. The items of one run of the assistant (reasoning, messages, calls) are one message here,
// and so are outputs that follow each other: then a conversation has the same messages as in formats in which a message holds
// several blocks. Instructions, and messages of system or developer before every other item, are the system prompt; tools that
// come as an item there are tools.

const (
	rsInput = oaList + iota
	rsInstructions
	rsPrevious
	rsConversation
)

func responsesKey(name string) int {
	switch name {
	case "input":
		return rsInput
	case "instructions":
		return rsInstructions
	case "previous_response_id":
		return rsPrevious
	case "conversation":
		return rsConversation
	}
	return openAIKey(name)
}

func (p *parser) responsesTop(n int, _ Span) error {
	switch n {
	case rsInput:
		if p.peek() != '"' {
			return p.messages()
		}
		v, err := p.str()
		p.opened()
		p.ix.Messages = append(p.ix.Messages, Message{Raw: v, Content: v, First: 0, Last: 1, Role: User})
		p.ix.Blocks = append(p.ix.Blocks, virtual(v, 0))
		return err
	case rsInstructions:
		v, err := p.skip(topDepth)
		if err == nil && !p.blank(v) {
			from := len(p.ix.system)
			if err = p.says(v, InSystem, topDepth); from > 0 {
				p.ix.first = [2]int{from, len(p.ix.system)}
			}
		}
		return err
	case rsPrevious, rsConversation:
		v, err := p.skip(topDepth)
		p.ix.Delta = p.ix.Delta || !p.blank(v)
		return err
	}
	return p.openAITop(n)
}

const (
	itType = iota
	itRole
	itContent
	itCallID
	itID
	itStatus
	itName
	itInput
	itOutput
)

func itemKey(name string) int {
	switch name {
	case "type":
		return itType
	case "role":
		return itRole
	case "content":
		return itContent
	case "call_id":
		return itCallID
	case "id":
		return itID
	case "status":
		return itStatus
	case "name":
		return itName
	case "arguments", "input", "action", "operation":
		return itInput
	case "output":
		return itOutput
	}
	return unknownKey
}

// isItemText reports whether a part of a message or of an output is a text.
func isItemText(kind string) bool {
	return kind == "input_text" || kind == "output_text" || kind == "text"
}

// item reads one item of the input.
func (p *parser) item() error {
	lo := p.i
	list, err := p.noted(itemDepth, itemKey)
	if err != nil {
		return err
	}
	ix, raw := p.ix, Span{uint32(lo), uint32(p.i)}
	kind, id := p.word(valueOf(list, itType)), valueOf(list, itCallID)
	switch {
	case kind == "message" || kind == "" && valueOf(list, itRole).Len() > 0:
		return p.messageItem(list, raw)
	case strings.HasSuffix(kind, "_output") && p.isString(id):
		err := p.result(raw, id, valueOf(list, itOutput), contentDepth)
		r := &ix.Results[len(ix.Results)-1]
		r.IsError = p.word(valueOf(list, itStatus)) == "failed"
		return err
	case kind == "reasoning":
		p.assistant(raw, opaque(raw, 0, Thinking))
	case strings.HasSuffix(kind, "_call") && p.isString(id):
		c := Call{ID: id, Name: valueOf(list, itName), Input: valueOf(list, itInput)}
		if !p.isString(c.Name) { // a tool of the API's own: it is called by its type
			c.Name = valueOf(list, itType)
		}
		p.call(c, raw, p.speaks(raw))
		ix.Messages[len(ix.Messages)-1].Last = int32(len(ix.Blocks))
	case strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_output") || kind == "compaction" || kind == "mcp_list_tools" || kind == "mcp_approval_request":
		p.assistant(raw, opaque(raw, 0, Other))
	case kind == "additional_tools" && len(ix.Messages) == 0:
		ix.tools = append(ix.tools, opaque(raw, InTools, Tool))
	default:
		ix.Delta = ix.Delta || kind == "item_reference" || kind == "" && p.isString(valueOf(list, itID)) // its type may be left out
		role := OtherRole
		if kind == "mcp_approval_response" {
			role = User
		}
		what := Other
		if kind == "additional_tools" {
			what = Tool
		}
		n := int32(len(ix.Blocks))
		ix.Messages = append(ix.Messages, Message{Raw: raw, First: n, Last: n + 1, Role: role, parts: p.parts})
		ix.Blocks = append(ix.Blocks, opaque(raw, int32(len(ix.Messages))-1, what))
	}
	return nil
}

// speaks is the message to which an item of the assistant belongs.
func (p *parser) speaks(raw Span) int32 {
	ix := p.ix
	n := int32(len(ix.Messages))
	if n > 0 && ix.Messages[n-1].Role == Assistant {
		p.reopen(n-1, raw)
		return n - 1
	}
	first := int32(len(ix.Blocks))
	ix.Messages = append(ix.Messages, Message{Raw: raw, First: first, Last: first, Role: Assistant, parts: p.parts})
	return n
}

// assistant adds an item of the assistant that is one block.
func (p *parser) assistant(raw Span, b Block) {
	b.Msg = p.speaks(raw)
	p.ix.Blocks = append(p.ix.Blocks, b)
	p.ix.Messages[b.Msg].Last = int32(len(p.ix.Blocks))
}

// messageItem reads an item in which somebody speaks.
func (p *parser) messageItem(list []keyed, raw Span) error {
	ix, role, content := p.ix, valueOf(list, itRole), valueOf(list, itContent)
	word := p.word(role)
	if content.Len() == 0 || word == "" {
		return p.fault("a message without role or content")
	}
	var msg int32
	switch {
	case (word == "system" || word == "developer") && len(ix.Messages) == 0:
		msg = InSystem
	case word == "assistant":
		msg = p.speaks(raw)
	default:
		msg = int32(len(ix.Messages))
		n := int32(len(ix.Blocks))
		ix.Messages = append(ix.Messages, Message{Raw: raw, Content: content, First: n, Last: n, role: role, Role: p.role(role), parts: p.parts})
	}
	for _, m := range list {
		switch {
		case m.n == itContent:
			if err := p.says(m.value, msg, contentDepth); err != nil {
				return err
			}
		case m.n == itType || m.n == itRole || m.n == itID || m.n == itStatus || p.blank(m.value):
		default: // it may say something to the model
			p.add(opaque(Span{m.key.Lo, m.value.Hi}, msg, Other))
		}
	}
	if msg >= 0 {
		ix.Messages[msg].Last = int32(len(ix.Blocks))
	}
	return nil
}
