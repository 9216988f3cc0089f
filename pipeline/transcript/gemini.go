package transcript

import "strings"

// A Gemini generateContent body, whose model stands in the path. JSON that stands for protocol buffers may be written in camel case
// or in snake case; both are read. What the model says is text, thought or calls, and what answers a call is a JSON object: of one
// that is a string and nothing else of any size, the string is the result. Ids are optional; see [Index.CallID].

const (
	gmContents = iota
	gmSystem
	gmTools
	gmGeneration
	gmCached
)

func geminiKey(name string) int {
	switch name {
	case "contents":
		return gmContents
	case "systemInstruction", "system_instruction":
		return gmSystem
	case "tools":
		return gmTools
	case "generationConfig", "generation_config":
		return gmGeneration
	case "cachedContent", "cached_content":
		return gmCached
	}
	return unknownKey
}

func (p *parser) geminiTop(n int, _ Span) error {
	switch n {
	case gmContents:
		return p.messages()
	case gmSystem:
		return p.geminiSystem()
	case gmTools:
		return p.geminiTools()
	case gmGeneration:
		return p.limits(func(name string) bool { return name == "maxOutputTokens" || name == "max_output_tokens" })
	}
	v, err := p.skip(topDepth)
	if n == gmCached && err == nil { // what was said before is stored at the provider
		p.ix.Delta = !p.blank(v)
	}
	return err
}

const (
	gcParts = iota
	gcRole
)

func geminiContentKey(name string) int {
	switch name {
	case "parts":
		return gcParts
	case "role":
		return gcRole
	}
	return unknownKey
}

// geminiSystem reads the system prompt, whose role says nothing. Google's own examples write a single part without a list.
func (p *parser) geminiSystem() error {
	switch p.peek() {
	case 'n':
		return p.null(topDepth)
	case '"':
		v, err := p.str()
		p.add(virtual(v, InSystem))
		return err
	}
	var known seen
	return p.object(topDepth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, geminiContentKey)
		if err != nil {
			return err
		}
		switch c := s.peek(); {
		case n == gcParts && c == '[':
			return p.geminiParts(InSystem, itemDepth)
		case n == gcParts && c == '{':
			return p.geminiPart(InSystem, itemDepth)
		}
		v, err := s.skip(itemDepth)
		if n < 0 {
			p.add(opaque(Span{key.Lo, v.Hi}, InSystem, Other))
		}
		return err
	})
}

func geminiToolKey(name string) int {
	if name == "functionDeclarations" || name == "function_declarations" {
		return 0
	}
	return unknownKey
}

// geminiTools reads the tools: every declared function is one, and so is each of the provider's own.
func (p *parser) geminiTools() error {
	if p.peek() == 'n' {
		return p.null(topDepth)
	}
	tool := func(raw Span) { p.ix.tools = append(p.ix.tools, opaque(raw, InTools, Tool)) }
	return p.array(topDepth, func(*scanner) error {
		var known seen
		return p.object(itemDepth, func(s *scanner, key Span) error {
			n, err := known.find(s, key, geminiToolKey)
			if err != nil {
				return err
			}
			if n == 0 && s.peek() == '[' {
				return p.array(contentDepth, func(*scanner) error {
					if err := p.room(); err != nil {
						return err
					}
					v, err := p.skip(blockDepth)
					tool(v)
					return err
				})
			}
			if err := p.room(); err != nil {
				return err
			}
			v, err := s.skip(contentDepth)
			tool(Span{key.Lo, v.Hi})
			return err
		})
	})
}

// geminiContent reads one message.
func (p *parser) geminiContent() error {
	ix, lo := p.ix, p.i
	msg := int32(len(ix.Messages))
	m := Message{First: int32(len(ix.Blocks)), Role: User, parts: p.parts}
	var known seen
	err := p.object(itemDepth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, geminiContentKey)
		if err != nil {
			return err
		}
		if n == gcParts && s.peek() != 'n' {
			at := uint32(s.i)
			err := p.geminiParts(msg, contentDepth)
			m.Content = Span{at, uint32(s.i)}
			return err
		}
		v, err := s.skip(contentDepth)
		if n == gcRole && err == nil {
			m.role, m.Role = v, s.geminiRole(v)
		}
		m.Extra = m.Extra || n < 0
		return err
	})
	if err != nil {
		return err
	}
	m.Raw, m.Last = Span{uint32(lo), uint32(p.i)}, int32(len(ix.Blocks))
	if m.Content.Len() == 0 {
		m.Content = Span{m.Raw.Hi, m.Raw.Hi} // what it has besides stands before
	}
	ix.Messages = append(ix.Messages, m)
	return nil
}

// geminiRole is who speaks: the user where nothing is said. Results had a role of their own in the first version of the API, and
// Google's examples for Vertex wrote roles in capitals.
func (s *scanner) geminiRole(v Span) Role {
	switch word := strings.ToLower(s.word(v)); {
	case word == "model":
		return Assistant
	case word == "user" || word == "function" || word == "" && (s.isString(v) || s.b[v.Lo] == 'n'):
		return User
	}
	return OtherRole
}

func (p *parser) geminiParts(msg int32, depth int) error {
	return p.array(depth, func(*scanner) error {
		if err := p.room(); err != nil {
			return err
		}
		return p.geminiPart(msg, depth+1)
	})
}

const (
	gpText = iota
	gpCall
	gpResponse
	gpThought
)

func geminiPartKey(name string) int {
	switch name {
	case "text":
		return gpText
	case "thought":
		return gpThought
	case "functionCall", "function_call":
		return gpCall
	case "functionResponse", "function_response":
		return gpResponse
	}
	return unknownKey
}

// geminiPart reads one part of a message or of system. A signature makes no part a thought.
func (p *parser) geminiPart(msg int32, depth int) error {
	lo, thought := p.i, false
	var u union
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := u.known.find(s, key, geminiPartKey)
		if err != nil {
			return err
		}
		u.members++
		c := s.peek()
		switch {
		case n == gpCall && c == '{' && msg >= 0:
			err = p.functionCall(&u, depth+1)
		case n == gpResponse && c == '{' && msg >= 0:
			err = p.functionResponse(&u, depth+1)
		case n == gpText:
			u.text, err = s.skip(depth + 1)
		default:
			_, err = s.skip(depth + 1)
			thought = thought || n == gpThought && c == 't'
		}
		return err
	})
	if err != nil {
		return err
	}
	if u.known &^= 1 << gpThought; !u.one() {
		return p.fault("a part that is several things")
	}
	b := opaque(Span{uint32(lo), uint32(p.i)}, msg, Other)
	switch {
	case u.call.Name.Len() > 0:
		p.call(u.call, b.Raw, msg)
		return nil
	case u.result.name.Len() > 0:
		b.Kind, b.Result = ToolResult, int32(len(p.ix.Results))
		r := u.result
		r.Block, r.Msg, r.Call = int32(len(p.ix.Blocks)), msg, -1
		p.ix.Results = append(p.ix.Results, r)
	case thought:
		b.Kind = Thinking
	case p.isString(u.text):
		b.Kind, b.Text, b.Plain, b.Empty = Text, u.text, u.members == 1, u.text.Len() <= 2
	}
	p.add(b)
	return nil
}
