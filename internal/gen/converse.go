package gen

import (
	"slices"
	"strconv"
	"strings"
)

// converse is the body of a Bedrock Converse request, whose model stands in the path. It has no place for server tools,
// messages of the system between others, documents, breakpoints inside results, and the name of a session.
func (c *Conversation) converse() Object {
	body := Object{}
	if prompt := c.prompt(); len(prompt) > 0 {
		system := make(List, len(prompt))
		for i := range prompt {
			system[i] = pointed(&prompt[i], Member{"text", prompt[i].str("text")})
		}
		body = append(body, Member{"system", system})
	}
	messages := List{}
	for i := range c.Messages {
		if m := &c.Messages[i]; m.Role != "system" {
			said := item(m.Seed, Member{"role", m.Role}, Member{"content", c.converseContent(m)})
			said.add(m.Extra...)
			messages = append(messages, said)
		}
	}
	body = append(body, Member{"messages", messages})
	if tools := c.converseTools(); len(tools) > 0 {
		body = append(body, Member{"toolConfig", Object{{"tools", tools}}})
	}
	if c.MaxTokens > 0 {
		body = append(body, Member{"inferenceConfig", Object{{"maxTokens", Number(strconv.Itoa(c.MaxTokens))}}})
	}
	return append(body, c.extra("metadata", "stream", "tool_choice")...)
}

// pointed is an item behind which stands the breakpoint of a block.
func pointed(b *Block, members ...Member) seeded {
	s := item(b.Seed, members...)
	s.b.Marker = b.Marker
	return s
}

func (c *Conversation) converseTools() (tools List) {
	for i := range c.Tools {
		b := &c.Tools[i]
		if _, ok := b.offered(); !ok {
			continue
		}
		spec := slices.Clone(b.describe("inputSchema"))
		for j := range spec {
			if spec[j].Key == "inputSchema" {
				spec[j].Value = Object{{"json", spec[j].Value}}
			}
		}
		tools = append(tools, pointed(b, Member{"toolSpec", spec}))
	}
	return tools
}

func (c *Conversation) converseContent(m *Message) List {
	content := List{}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if s, ok := b.said(); ok {
			content = append(content, pointed(b, Member{"text", s}))
		} else if image, ok := b.converseImage(); ok {
			content = append(content, pointed(b, image))
		} else if text, signature, ok := b.thought(); ok {
			reasoning := Object{{"reasoningText", Object{{"text", text}, {"signature", signature}}}}
			if b.Type() == "redacted_thinking" {
				reasoning = Object{{"redactedContent", signature}}
			}
			content = append(content, item(b.Seed, Member{"reasoningContent", reasoning}))
		} else if b.Type() == "tool_use" {
			use := Object{{"toolUseId", b.str("id")}, {"name", b.str("name")}, {"input", b.Get("input")}}
			content = append(content, pointed(b, Member{"toolUse", use}))
		} else if b.Type() == "tool_result" {
			content = append(content, pointed(b, Member{"toolResult", c.converseResult(b)}))
		}
	}
	return content
}

func (b *Block) converseImage() (Member, bool) {
	mime, data, ok := b.picture()
	format := strings.TrimPrefix(mime, "image/")
	return Member{"image", Object{{"format", format}, {"source", Object{{"bytes", data}}}}}, ok
}

// converseResult says whether the call succeeded where the client of Anthropic says anything about it.
func (c *Conversation) converseResult(b *Block) Object {
	parts, list := b.answer()
	content := List{}
	for i := range parts {
		if image, ok := parts[i].converseImage(); ok {
			content = append(content, Object{image})
			continue
		}
		s, _ := parts[i].said()
		if c.Dialect.JSON && !list && len(s)%3 == 0 {
			content = append(content, Object{{"json", Object{{"output", s}}}})
		} else {
			content = append(content, Object{{"text", s}})
		}
	}
	result := Object{{"toolUseId", b.str("tool_use_id")}, {"content", content}}
	switch {
	case b.failed():
		result = append(result, Member{"status", "error"})
	case b.Get("is_error") == false:
		result = append(result, Member{"status", "success"})
	}
	return result
}
