package openai

import (
	"slices"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// indexed is the path of an element.
func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// chatRoles are the roles of Chat Completions, in the provider's order.
var chatRoles = []string{"system", "assistant", "user", "function", "tool", "developer"}

// chatParts lists the content parts by role; of a role that is not listed only texts.
var chatParts = map[string][]string{
	"user":      {"text", "image_url", "input_audio", "file"},
	"assistant": {"text", "refusal"},
}

// partFields lists the member that a content part must have, and its node kind.
var partFields = map[string]struct {
	name string
	kind byte
}{
	"text":        {"text", 's'},
	"image_url":   {"image_url", '{'},
	"input_audio": {"input_audio", '{'},
	"file":        {"file", '{'},
	"refusal":     {"refusal", 's'},
	"input_text":  {"text", 's'},
	"output_text": {"text", 's'},
}

// readMessage reads a message of Chat Completions.
func (p *parser) readMessage(it *item, n *simkit.Node) *flaw {
	it.kind = "message"
	if f := wants(n, "", "role", 's'); f != nil {
		return f
	}
	it.role, _ = n.Str("role")
	if !slices.Contains(chatRoles, it.role) {
		return badValue(".role", it.role, chatRoles...)
	}
	if it.role == "tool" {
		if f := wants(n, "", "tool_call_id", 's'); f != nil {
			return f
		}
		it.call, _ = n.Str("tool_call_id")
	}
	lead := leadOf(it.role, bare(n, "role", "content", "tool_calls", "id"))
	content, calls := n.Get("content"), n.Get("tool_calls")
	if calls.Is("null") || it.role != "assistant" {
		calls = nil
	}
	if f := p.readChatContent(it, content, lead, calls != nil || it.role == "assistant" && hasOther(n)); f != nil || calls == nil {
		return f
	}
	return p.readCalls(it, calls, lead)
}

// hasOther reports whether a message of the assistant may be without content, as it says something else.
func hasOther(n *simkit.Node) bool {
	for _, name := range []string{"refusal", "function_call", "audio"} {
		if kid := n.Get(name); kid != nil && !kid.Is("null") {
			return true
		}
	}
	return false
}

func (p *parser) readChatContent(it *item, content *simkit.Node, lead []byte, optional bool) *flaw {
	allowed := chatParts[it.role]
	if allowed == nil {
		allowed = []string{"text"}
	}
	switch {
	case content == nil && optional, content.Is("null") && optional:
		return nil
	case content == nil:
		return missing(".content")
	case content.Is("null"):
		return &flaw{".content", "", "", "Invalid value for 'content': expected a string, got null."}
	}
	return p.readParts(it, content, lead, ".content", "text", allowed)
}

// readParts reads content: a string, which equals a list of one text part, or a list of parts.
func (p *parser) readParts(it *item, content *simkit.Node, lead []byte, path, text string, allowed []string) *flaw {
	switch content.Kind {
	case 's':
		it.blocks = append(it.blocks, p.newBlock(simkit.TextNode(text, content.Text), lead, false))
		return nil
	case '[':
	default:
		return badType(path, "one of a string or array of objects", content)
	}
	if len(content.Kids) == 0 && text == "text" {
		return empty(path)
	}
	for i, kid := range content.Kids {
		at := indexed(path, i)
		if f := checkPart(kid, at, allowed); f != nil {
			return f
		}
		mark, f := newMark(kid, at, it.role, allowed)
		if f != nil {
			return f
		}
		b := p.newBlock(bare(kid, breakpoint, "annotations", "logprobs"), lead, false)
		b.mark = mark
		it.blocks = append(it.blocks, b)
	}
	return nil
}

func checkPart(n *simkit.Node, path string, allowed []string) *flaw {
	if n.Kind != '{' {
		return badType(path, anObject, n)
	}
	if f := wants(n, path, "type", 's'); f != nil {
		return f
	}
	kind, _ := n.Str("type")
	if !slices.Contains(allowed, kind) {
		return badValue(path+".type", kind, allowed...)
	}
	if field, ok := partFields[kind]; ok {
		if f := wants(n, path, field.name, field.kind); f != nil {
			return f
		}
	}
	return stray(n.Without(breakpoint), path)
}

// newMark reports whether a part carries a breakpoint. Chat Completions ignores one on what the assistant said, Responses
// refuses it.
func newMark(n *simkit.Node, path, role string, allowed []string) (bool, *flaw) {
	mark := n.Get(breakpoint)
	if mark == nil || mark.Is("null") {
		return false, nil
	}
	path += "." + breakpoint
	if slices.Contains(allowed, "output_text") {
		return false, unknown(path)
	}
	if mark.Kind != '{' {
		return false, badType(path, anObject, mark)
	}
	if f := wants(mark, path, "mode", 's'); f != nil {
		return false, f
	}
	if mode, _ := mark.Str("mode"); mode != "explicit" {
		return false, badValue(path+".mode", mode, "explicit")
	}
	if rest := mark.Without("mode"); len(rest.Names) > 0 {
		return false, unknown(path + "." + rest.Names[0])
	}
	return role != "assistant", nil
}

func (p *parser) readCalls(it *item, calls *simkit.Node, lead []byte) *flaw {
	const path = ".tool_calls"
	switch {
	case calls.Kind != '[':
		return badType(path, anArray, calls)
	case len(calls.Kids) == 0:
		return empty(path)
	}
	for i, kid := range calls.Kids {
		at := indexed(path, i)
		if kid.Kind != '{' {
			return badType(at, anObject, kid)
		}
		for _, name := range []string{"id", "type"} {
			if f := wants(kid, at, name, 's'); f != nil {
				return f
			}
		}
		kind, _ := kid.Str("type")
		fields := map[string][]string{"function": {"name", "arguments"}, "custom": {"name", "input"}}[kind]
		if fields == nil {
			return badValue(at+".type", kind, "function", "custom")
		}
		if f := wants(kid, at, kind, '{'); f != nil {
			return f
		}
		for _, name := range fields {
			if f := wants(kid.Get(kind), at+"."+kind, name, 's'); f != nil {
				return f
			}
		}
		if f := stray(kid, at); f != nil {
			return f
		}
		id, _ := kid.Str("id")
		it.calls = append(it.calls, id)
		it.blocks = append(it.blocks, p.newBlock(kid, lead, true))
	}
	return nil
}

// leadOf is what the digests of an item's blocks start with.
func leadOf(who string, shell *simkit.Node) []byte {
	return shell.Encode(simkit.AppendText(nil, who), true)
}
