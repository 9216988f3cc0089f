package gen

import (
	"slices"
	"strconv"
)

// chat is the body of an OpenAI Chat Completions request. It has no place for server tools, redacted thinking, images that
// the assistant or a tool shows, and error flags; breakpoints are left out unless the dialect writes them.
func (c *Conversation) chat() Object {
	body := Object{}
	if c.Model != "" {
		body = append(body, Member{"model", c.Model})
	}
	if c.MaxTokens > 0 {
		key := "max_completion_tokens"
		if c.Dialect.OldLimit {
			key = "max_tokens"
		}
		body = append(body, Member{key, Number(strconv.Itoa(c.MaxTokens))})
	}
	messages := c.chatSystem()
	for i := range c.Messages {
		messages = append(messages, c.chatMessages(&c.Messages[i])...)
	}
	body = append(body, Member{"messages", messages})
	if c.Tools != nil {
		body = append(body, Member{"tools", c.chatTools()})
	}
	if s := c.session(); s != "" {
		body = append(body, Member{"prompt_cache_key", s})
	}
	return append(body, c.extra("metadata")...)
}

// leader is the role that speaks before the user.
func (c *Conversation) leader() string {
	if c.Dialect.Developer {
		return "developer"
	}
	return "system"
}

// chatSystem is one message with a part for each system block, or one message for each.
func (c *Conversation) chatSystem() (messages List) {
	prompt := c.prompt()
	if c.Dialect.Parts && len(prompt) > 0 {
		content := c.chatContent(prompt, false)
		return List{item(prompt[0].Seed, Member{"role", c.leader()}, Member{"content", content})}
	}
	for i := range prompt {
		content := c.chatContent(prompt[i:i+1], true)
		messages = append(messages, item(prompt[i].Seed, Member{"role", c.leader()}, Member{"content", content}))
	}
	return messages
}

// chatContent are the texts and images of blocks; a single text without a breakpoint is a string if the client says so.
func (c *Conversation) chatContent(blocks []Block, text bool) any {
	parts := List{}
	for i := range blocks {
		b := &blocks[i]
		p := Block{Marker: c.marker(b, Chat), Seed: b.Seed}
		if s, ok := b.said(); ok {
			p.Members = Text(s).Members
		} else if mime, data, ok := b.picture(); ok {
			url := Object{{"url", "data:" + mime + ";base64," + data}}
			p.Members = Object{{"type", "image_url"}, {"image_url", url}}
		} else {
			continue
		}
		parts = append(parts, seeded{&p})
	}
	if len(parts) == 1 && text {
		if b := parts[0].(seeded).b; b.plain() {
			return literal(*b)
		}
	}
	return parts
}

// chatMessages are the messages of one message: results come first, each as a message of its own.
func (c *Conversation) chatMessages(m *Message) (messages List) {
	switch m.Role {
	case "assistant":
		return List{c.chatAssistant(m)}
	case "system":
		content := c.chatContent(m.Blocks, m.String)
		return List{item(m.Seed, Member{"role", c.leader()}, Member{"content", content})}
	}
	for i := range m.Blocks {
		if b := &m.Blocks[i]; b.Type() == "tool_result" {
			messages = append(messages, c.chatResult(b))
		}
	}
	content := c.chatContent(m.Blocks, m.String)
	if list, ok := content.(List); ok && len(list) == 0 && len(messages) > 0 {
		return messages
	}
	said := item(m.Seed, Member{"role", m.Role}, Member{"content", content})
	said.add(m.Extra...)
	return append(messages, said)
}

// chatResult is the message of a result: its content is a string, or a list of texts where the result is a list. What
// marks a list stands on its last part, what marks a string on the message.
func (c *Conversation) chatResult(b *Block) seeded {
	parts, list := b.answer()
	texts := List{}
	for i := range parts {
		if s, ok := parts[i].said(); ok {
			p := Text(s)
			p.Marker = c.marker(&parts[i], Chat)
			texts = append(texts, p)
		}
	}
	m := item(b.Seed, Member{"role", "tool"}, Member{"tool_call_id", b.str("tool_use_id")}, Member{"content", texts})
	if list && len(texts) > 0 {
		markLast(texts, c.marker(b, Chat))
		return m
	}
	m.b.Set("content", b.answerText())
	if !c.Dialect.Explicit {
		m.b.Marker = c.marker(b, Chat)
	}
	return m
}

func (c *Conversation) chatAssistant(m *Message) seeded {
	calls, reasoning, thought := List{}, "", false
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type() == "tool_use" {
			calls = append(calls, c.chatCall(b))
		} else if text, _, ok := b.thought(); ok && text != "" {
			reasoning, thought = reasoning+text, true
		}
	}
	texts := slices.DeleteFunc(slices.Clone(m.Blocks), func(b Block) bool { _, ok := b.said(); return !ok })
	content := c.chatContent(texts, m.String || !c.Dialect.Parts)
	if len(texts) == 0 && len(calls) > 0 {
		content = nil
	} else if len(texts) == 0 {
		content = ""
	}
	said := item(m.Seed, Member{"role", "assistant"}, Member{"content", content})
	if thought {
		said.add(Member{"reasoning_content", reasoning})
	}
	if len(calls) > 0 {
		said.add(Member{"tool_calls", calls})
	}
	said.add(m.Extra...)
	return said
}

func (c *Conversation) chatCall(b *Block) seeded {
	id, name := Member{"id", b.str("id")}, Member{"name", b.str("name")}
	if input, ok := c.raw(b); ok {
		return item(b.Seed, id, Member{"type", "custom"}, Member{"custom", Object{name, {"input", input}}})
	}
	function := Object{name, {"arguments", encoded{b.Get("input")}}}
	return item(b.Seed, id, Member{"type", "function"}, Member{"function", function})
}

func (c *Conversation) chatTools() List {
	list := List{}
	for i := range c.Tools {
		b := &c.Tools[i]
		name, ok := b.offered()
		if !ok {
			continue
		}
		t := item(b.Seed, Member{"type", "function"}, Member{"function", b.describe("parameters")})
		if c.custom(name) {
			t = item(b.Seed, Member{"type", "custom"}, Member{"custom", append(b.describe(""), chatGrammar)})
		}
		if !c.Dialect.Explicit {
			t.b.Marker = c.marker(b, Chat)
		}
		list = append(list, t)
	}
	return list
}
