package transcript

// A Chat Completions body: a list of messages, the system prompt among them. Results are messages of their own; those that follow
// each other are one message here. A message of system or developer before every other is a part of the system prompt.

const (
	chatMessages = oaList + iota
	chatFunctions
)

func chatKey(name string) int {
	switch name {
	case "messages":
		return chatMessages
	case "functions":
		return chatFunctions
	}
	return openAIKey(name)
}

func (p *parser) chatTop(n int, _ Span) error {
	switch n {
	case chatMessages:
		return p.messages()
	case chatFunctions:
		v, err := p.skip(topDepth)
		if err == nil && !p.blank(v) {
			err = p.fault("functions instead of tools")
		}
		return err
	}
	return p.openAITop(n)
}

const (
	cmRole = iota
	cmContent
	cmCalls
	cmCallID
	cmFunctionCall
	cmCacheControl
	cmBreakpoint
	cmThinking    // the first of several
	cmThinkingEnd = cmThinking + len(thinkingKeys)
)

// thinkingKeys are the members in which servers return a model's thinking and want it back.
var thinkingKeys = [...]string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "thinking", "signature", "encrypted_content", "reasoning_opaque"}

func chatMessageKey(name string) int {
	switch name {
	case "role":
		return cmRole
	case "content":
		return cmContent
	case "tool_calls":
		return cmCalls
	case "tool_call_id":
		return cmCallID
	case "function_call":
		return cmFunctionCall
	case "cache_control":
		return cmCacheControl
	case "prompt_cache_breakpoint":
		return cmBreakpoint
	}
	for i, k := range thinkingKeys {
		if k == name {
			return cmThinking + i
		}
	}
	return unknownKey
}

// chatMessage reads one message.
func (p *parser) chatMessage() error {
	lo := p.i
	list, err := p.noted(itemDepth, chatMessageKey)
	if err != nil {
		return err
	}
	ix, raw := p.ix, Span{uint32(lo), uint32(p.i)}
	role, content := valueOf(list, cmRole), valueOf(list, cmContent)
	word := p.word(role)
	switch {
	case word == "":
		return p.fault("a message without a role")
	case word == "function" || !p.blank(valueOf(list, cmFunctionCall)):
		return p.fault("function calls instead of tool calls")
	case word == "tool":
		return p.toolMessage(list, raw)
	case word != "assistant" && content.Len() == 0:
		return p.fault("a message without content")
	case (word == "system" || word == "developer") && len(ix.Messages) == 0:
		return p.chatParts(list, InSystem, word)
	}
	msg := int32(len(ix.Messages))
	m := Message{Raw: raw, Content: content, First: int32(len(ix.Blocks)), role: role, Role: p.role(role), parts: p.parts}
	ix.Messages = append(ix.Messages, m)
	err = p.chatParts(list, msg, word)
	ix.Messages[msg].Last = int32(len(ix.Blocks))
	return err
}

// toolMessage reads a message that answers a call.
func (p *parser) toolMessage(list []keyed, raw Span) error {
	id := valueOf(list, cmCallID)
	if !p.isString(id) {
		return p.fault("a tool message without tool_call_id")
	}
	if err := p.result(raw, id, valueOf(list, cmContent), contentDepth); err != nil {
		return err
	}
	msg, first := int32(len(p.ix.Messages))-1, len(p.ix.Blocks)-1
	for _, m := range list {
		if m.n == cmCacheControl || m.n == cmBreakpoint {
			if err := p.marks(m, msg, first); err != nil {
				return err
			}
		}
	}
	return nil
}

// chatParts reads the members of a message that is no result, each as blocks of its own.
func (p *parser) chatParts(list []keyed, msg int32, role string) error {
	first := p.count(msg)
	for _, m := range list {
		var err error
		switch {
		case m.n == cmRole || m.n == cmCallID || m.n == cmFunctionCall:
		case m.n == cmContent && role == "assistant" && p.blank(m.value): // as clients write where there are calls alone
		case m.n == cmContent:
			err = p.says(m.value, msg, contentDepth)
		case m.n == cmCalls && role == "assistant":
			err = p.chatCalls(m.value, msg)
		case m.n == cmCacheControl || m.n == cmBreakpoint:
			err = p.marks(m, msg, first)
		case p.blank(m.value):
		case m.n >= cmThinking && m.n < cmThinkingEnd && role == "assistant":
			p.add(opaque(m.value, msg, Thinking))
		default:
			p.add(opaque(Span{m.key.Lo, m.value.Hi}, msg, Other))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	ccID = iota
	ccType
	ccFunction
	ccCustom
)

func chatCallKey(name string) int {
	switch name {
	case "id":
		return ccID
	case "type":
		return ccType
	case "function":
		return ccFunction
	case "custom":
		return ccCustom
	}
	return unknownKey
}

const (
	cfName = iota
	cfArguments
)

func chatFunctionKey(name string) int {
	switch name {
	case "name":
		return cfName
	case "arguments", "input":
		return cfArguments
	}
	return unknownKey
}

// chatCalls reads the calls of a message.
func (p *parser) chatCalls(v Span, msg int32) error {
	if p.blank(v) {
		return nil
	}
	return p.again(v, func() error {
		return p.array(contentDepth, func(*scanner) error {
			if err := p.room(); err != nil {
				return err
			}
			lo := p.i
			var id, inner Span
			var known seen
			err := p.object(blockDepth, func(s *scanner, key Span) error {
				n, err := known.find(s, key, chatCallKey)
				if err != nil {
					return err
				}
				v, err := s.skip(blockDepth + 1)
				switch {
				case n == ccID:
					id = v
				case (n == ccFunction || n == ccCustom) && !p.blank(v): // clients that write every member write null for the other one
					inner = v
				}
				return err
			})
			if err != nil {
				return err
			}
			return p.chatCall(Span{uint32(lo), uint32(p.i)}, id, inner, msg)
		})
	})
}

// chatCall reads what a call says of its function or custom tool.
func (p *parser) chatCall(raw, id, inner Span, msg int32) error {
	c := Call{ID: id}
	if inner.Len() == 0 {
		return p.fault("a tool call of no known kind")
	}
	err := p.again(inner, func() error {
		var known seen
		return p.object(blockDepth+1, func(s *scanner, key Span) error {
			n, err := known.find(s, key, chatFunctionKey)
			if err != nil {
				return err
			}
			v, err := s.skip(blockDepth + 2)
			switch n {
			case cfName:
				c.Name = v
			case cfArguments:
				c.Input = v
			}
			return err
		})
	})
	if err == nil && (!p.isString(id) || !p.isString(c.Name)) {
		err = p.fault("a tool call without id or name")
	}
	if err == nil {
		p.call(c, raw, msg)
	}
	return err
}
