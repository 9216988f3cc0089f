package gen

import (
	"slices"
	"strconv"
)

// responses is the body of an OpenAI Responses request: the items of the messages from the given on. It has no place for
// error flags and images that the assistant shows; breakpoints are left out unless the dialect writes them. A block of the
// assistant that is neither said, thought nor called becomes an item that nobody may touch: a web search, or one of a type
// that is not known.
func (c *Conversation) responses(from int, previous string) Object {
	body, prompt := Object{}, c.prompt()
	if c.Model != "" {
		body = append(body, Member{"model", c.Model})
	}
	input := List{}
	if !c.Dialect.Developer && len(prompt) > 0 {
		prompt[0].Marker = NoMarker
		body = append(body, Member{"instructions", literal(prompt[0])})
		prompt = prompt[1:]
	}
	if from == 0 {
		for i := range prompt {
			input = append(input, c.message("developer", prompt[i:i+1], false, prompt[i].Seed))
		}
	}
	r := replies{c: c, custom: map[string]bool{}, shell: map[string]bool{}}
	for i := range c.Messages {
		if items := r.items(&c.Messages[i]); i >= from {
			input = append(input, items...)
		}
	}
	body = append(body, Member{"input", input})
	if c.Tools != nil {
		body = append(body, Member{"tools", c.responsesTools()})
	}
	if c.MaxTokens > 0 {
		body = append(body, Member{"max_output_tokens", Number(strconv.Itoa(c.MaxTokens))})
	}
	body = append(body, Member{"store", previous != ""}, Member{"include", List{"reasoning.encrypted_content"}})
	if previous != "" {
		body = append(body, Member{"previous_response_id", previous})
	}
	if s := c.session(); s != "" {
		body = append(body, Member{"prompt_cache_key", s})
	}
	return append(body, c.extra("metadata")...)
}

// replies remembers how calls were made, for their outputs are written alike.
type replies struct {
	c             *Conversation
	custom, shell map[string]bool
}

// items are the items of one message.
func (r *replies) items(m *Message) (items List) {
	if m.Role != "assistant" {
		return r.heard(m)
	}
	for i := 0; i < len(m.Blocks); i++ {
		b := &m.Blocks[i]
		if _, ok := b.said(); ok {
			n := 1
			for i+n < len(m.Blocks) && m.Blocks[i+n].Type() == "text" {
				n++
			}
			items = append(items, r.c.message(m.Role, m.Blocks[i:i+n], m.String, m.Seed))
			i += n - 1
		} else if text, signature, ok := b.thought(); ok {
			items = append(items, r.c.reasoning(b, text, signature))
		} else if b.Type() == "tool_use" {
			items = append(items, r.call(b))
		} else if other, ok := r.c.other(b); ok {
			items = append(items, other)
		}
	}
	return items
}

// heard are the outputs in a message, then what else it says.
func (r *replies) heard(m *Message) (items List) {
	for i := range m.Blocks {
		if b := &m.Blocks[i]; b.Type() == "tool_result" {
			items = append(items, r.output(b))
		}
	}
	role := m.Role
	if role == "system" {
		role = "developer"
	}
	if spoken := len(items) == 0; spoken || len(r.c.inputParts(m.Role, m.Blocks)) > 0 {
		items = append(items, r.c.message(role, m.Blocks, m.String, m.Seed))
	}
	return items
}

// message is a message item of texts and images. A client that writes strings also leaves the type out.
func (c *Conversation) message(role string, blocks []Block, text bool, seed uint64) seeded {
	parts := c.inputParts(role, blocks)
	if text && len(parts) == 1 {
		if s, ok := blocks[0].said(); ok && len(blocks) == 1 && parts[0].(seeded).b.Marker == NoMarker {
			b := Text(s)
			b.Seed = blocks[0].Seed
			return item(seed, Member{"role", role}, Member{"content", literal(b)})
		}
	}
	m := item(seed, Member{"type", "message"}, Member{"role", role}, Member{"content", parts})
	if c.Dialect.IDs {
		name := role
		if len(blocks) > 0 {
			name += blocks[0].str("text")
		}
		m.add(Member{"id", mark("msg_", name)})
		if role == "assistant" {
			m.add(Member{"status", "completed"})
		}
	}
	return m
}

// inputParts are the texts and images of blocks.
func (c *Conversation) inputParts(role string, blocks []Block) List {
	parts := List{}
	for i := range blocks {
		b := &blocks[i]
		if s, ok := b.said(); ok && role == "assistant" {
			parts = append(parts, item(b.Seed, Member{"type", "output_text"}, Member{"text", s}, Member{"annotations", List{}}))
		} else if ok {
			parts = append(parts, c.marked(b, Member{"type", "input_text"}, Member{"text", s}))
		} else if image, ok := b.inputImage(); ok && role != "assistant" {
			parts = append(parts, c.marked(b, image...))
		}
	}
	return parts
}

// marked is a part with the breakpoint of its block, where the dialect writes one.
func (c *Conversation) marked(b *Block, members ...Member) seeded {
	s := item(b.Seed, members...)
	s.b.Marker = c.marker(b, Responses)
	return s
}

func (b *Block) inputImage() (Object, bool) {
	mime, data, ok := b.picture()
	return Object{{"type", "input_image"}, {"image_url", "data:" + mime + ";base64," + data}, {"detail", "auto"}}, ok
}

func (c *Conversation) reasoning(b *Block, text, signature string) seeded {
	summary := List{}
	if text != "" {
		summary = append(summary, Object{{"type", "summary_text"}, {"text", text}})
	}
	s := item(b.Seed, Member{"type", "reasoning"}, Member{"summary", summary}, Member{"encrypted_content", signature})
	c.identify(s, "rs_", text+signature, false)
	return s
}

// identify adds the id and the status that a client keeps if it keeps everything.
func (c *Conversation) identify(s seeded, prefix, text string, status bool) {
	if !c.Dialect.IDs {
		return
	}
	s.add(Member{"id", mark(prefix, text)})
	if status {
		s.add(Member{"status", "completed"})
	}
}

func (r *replies) call(b *Block) seeded {
	id, name := b.str("id"), b.str("name")
	input, custom := r.c.raw(b)
	command, shell := r.c.command(b)
	r.custom[id], r.shell[id] = custom, shell
	var s seeded
	switch {
	case custom:
		s = item(b.Seed, Member{"type", "custom_tool_call"}, Member{"call_id", id}, Member{"name", name}, Member{"input", input})
		r.c.identify(s, "ctc_", id, true)
	case shell:
		action := Object{{"type", "exec"}, {"command", List{"bash", "-lc", command}}, {"env", Object{}}}
		s = item(b.Seed, Member{"type", "local_shell_call"}, Member{"call_id", id}, Member{"action", action}, Member{"status", "completed"})
		r.c.identify(s, "lsc_", id, false)
	default:
		s = item(b.Seed, Member{"type", "function_call"}, Member{"call_id", id}, Member{"name", name}, Member{"arguments", encoded{b.Get("input")}})
		r.c.identify(s, "fc_", id, true)
	}
	return s
}

// command is the command of a call that is written as local_shell_call.
func (c *Conversation) command(call *Block) (string, bool) {
	o, ok := call.Get("input").(Object)
	if !ok || !c.Dialect.LocalShell || call.str("name") != "Bash" {
		return "", false
	}
	s, ok := (&Block{Members: o}).Get("command").(string)
	return s, ok
}

func (r *replies) output(b *Block) seeded {
	id := b.str("tool_use_id")
	if r.shell[id] { // its output is always a string, and its id is the call's
		return item(b.Seed, Member{"type", "local_shell_call_output"}, Member{"id", id}, Member{"call_id", id}, Member{"output", b.answerText()})
	}
	kind, prefix := "function_call_output", "fco_"
	if r.custom[id] {
		kind, prefix = "custom_tool_call_output", "ctco_"
	}
	s := item(b.Seed, Member{"type", kind}, Member{"call_id", id}, Member{"output", r.content(b)})
	r.c.identify(s, prefix, id, false)
	return s
}

// content is a string, or a list of texts and images where the result is a list, whose last part has the breakpoint.
func (r *replies) content(b *Block) any {
	parts, list := b.answer()
	if !list || len(parts) == 0 {
		return b.answerText()
	}
	out := make(List, len(parts))
	for i := range parts {
		s, _ := parts[i].said()
		p := Block{Members: Object{{"type", "input_text"}, {"text", s}}, Marker: r.c.marker(&parts[i], Responses)}
		if image, ok := parts[i].inputImage(); ok {
			p.Members = image
		}
		out[i] = p
	}
	markLast(out, r.c.marker(b, Responses))
	return out
}

// other is an item that the provider made and nobody may touch.
func (c *Conversation) other(b *Block) (seeded, bool) {
	switch t := b.Type(); t {
	case "", "image", "document", "search_result", "text":
		return seeded{}, false
	case "server_tool_use":
		action := Object{{"type", "search"}, {"query", b.str("id")}}
		s := item(b.Seed, Member{"type", "web_search_call"}, Member{"status", "completed"}, Member{"action", action})
		s.add(Member{"id", mark("ws_", b.str("id"))})
		return s, true
	}
	return item(b.Seed, slices.Clone(b.Members)...), true
}

func (c *Conversation) responsesTools() List {
	list := List{}
	for i := range c.Tools {
		b := &c.Tools[i]
		name, ok := b.offered()
		switch {
		case ok && c.custom(name):
			list = append(list, item(b.Seed, append(Object{{"type", "custom"}, grammar}, b.describe("")...)...))
		case ok && name == "Bash" && c.Dialect.LocalShell:
			list = append(list, item(b.Seed, Member{"type", "local_shell"}))
		case ok:
			list = append(list, item(b.Seed, append(Object{{"type", "function"}, {"strict", false}}, b.describe("parameters")...)...))
		case name == "web_search":
			list = append(list, item(b.Seed, Member{"type", "web_search"}))
		}
	}
	return list
}
