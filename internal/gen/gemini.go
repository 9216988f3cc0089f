package gen

import (
	"encoding/base64"
	"strconv"
)

// gemini is the body of a Gemini generateContent request, whose model stands in the path. It has no place for server tools
// that are used, messages of the system between others, documents, redacted thinking, breakpoints and the name of a session.
// Arguments are objects there, so others stand in one; the texts of a result become one string.
func (c *Conversation) gemini() Object {
	body := Object{}
	if prompt := c.prompt(); len(prompt) > 0 {
		parts := make(List, len(prompt))
		for i := range prompt {
			parts[i] = item(prompt[i].Seed, Member{"text", prompt[i].str("text")})
		}
		body = append(body, Member{"systemInstruction", Object{{"parts", parts}}})
	}
	contents, names := List{}, map[string]string{}
	for i := range c.Messages {
		m := &c.Messages[i]
		if m.Role == "system" {
			continue
		}
		role := m.Role
		if role == "assistant" {
			role = "model"
		}
		said := item(m.Seed, Member{"role", role}, Member{"parts", c.geminiParts(m, names)})
		said.add(m.Extra...)
		contents = append(contents, said)
	}
	body = append(body, Member{"contents", contents})
	if tools := c.geminiTools(); len(tools) > 0 {
		body = append(body, Member{"tools", tools})
	}
	if c.MaxTokens > 0 {
		body = append(body, Member{"generationConfig", Object{{"maxOutputTokens", Number(strconv.Itoa(c.MaxTokens))}}})
	}
	return append(body, c.extra("metadata", "stream", "tool_choice")...)
}

func (c *Conversation) geminiTools() (tools List) {
	declared, search := List{}, false
	for i := range c.Tools {
		b := &c.Tools[i]
		name, ok := b.offered()
		if ok {
			declared = append(declared, item(b.Seed, b.describe("parameters")...))
		}
		search = search || !ok && name == "web_search"
	}
	if len(declared) > 0 {
		tools = append(tools, Object{{"functionDeclarations", declared}})
	}
	if search {
		tools = append(tools, Object{{"googleSearch", Object{}}})
	}
	return tools
}

// geminiParts are the parts of a message; names are those of the calls so far, by id. Of parallel calls only the first one
// has a signature.
func (c *Conversation) geminiParts(m *Message, names map[string]string) List {
	parts, signed := List{}, false
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if s, ok := b.said(); ok {
			parts = append(parts, item(b.Seed, Member{"text", s}))
		} else if image, ok := b.inlineData(); ok {
			parts = append(parts, item(b.Seed, image))
		} else if text, _, ok := b.thought(); ok && b.Type() == "thinking" {
			parts = append(parts, item(b.Seed, Member{"text", text}, Member{"thought", true}))
		} else if b.Type() == "tool_use" {
			names[b.str("id")] = b.str("name")
			part := item(b.Seed, Member{"functionCall", c.functionCall(b)})
			if !signed {
				signature := base64.StdEncoding.EncodeToString([]byte(mark("thought of ", b.str("id"))))
				part.add(Member{"thoughtSignature", signature})
			}
			parts, signed = append(parts, part), true
		} else if b.Type() == "tool_result" {
			parts = append(parts, item(b.Seed, Member{"functionResponse", c.functionResponse(b, names)}))
		}
	}
	return parts
}

func (c *Conversation) functionCall(b *Block) Object {
	args, ok := b.Get("input").(Object)
	if !ok {
		args = Object{{"value", b.Get("input")}}
	}
	call := Object{{"name", b.str("name")}, {"args", args}}
	if c.Dialect.IDs {
		call = append(call, Member{"id", b.str("id")})
	}
	return call
}

// functionResponse says by the key whether the call failed. Images stand beside the response.
func (c *Conversation) functionResponse(b *Block, names map[string]string) Object {
	key := "output"
	if b.failed() {
		key = "error"
	}
	id := b.str("tool_use_id")
	o := Object{{"name", names[id]}, {"response", Object{{key, b.answerText()}}}}
	if c.Dialect.IDs {
		o = append(o, Member{"id", id})
	}
	parts, _ := b.answer()
	images := List{}
	for i := range parts {
		if image, ok := parts[i].inlineData(); ok {
			images = append(images, Object{image})
		}
	}
	if len(images) > 0 {
		o = append(o, Member{"parts", images})
	}
	return o
}

func (b *Block) inlineData() (Member, bool) {
	mime, data, ok := b.picture()
	return Member{"inlineData", Object{{"mimeType", mime}, {"data", data}}}, ok
}
