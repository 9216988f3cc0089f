package simagent

import (
	"encoding/json"
	"fmt"
	"strings"
)

// block is one content block; json is its members without braces, so that a marker can be added.
type block struct {
	kind string // text, use, result, thinking
	json string
	size int
	use  call
}

// call is what a later result needs to know of a call.
type call struct {
	id, role, path string
}

type message struct {
	role   string
	blocks []block
	human  bool
}

// marker values of cache_control; empty: none.
type marker string

func (m marker) json() string {
	if m == "1h" {
		return `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

// body is a request of the client before it is written.
type body struct {
	model     string
	tools     []string
	system    []block
	messages  []message
	marks     map[[2]int]marker // message (-1: system), block
	maxTokens int
	drop      bool
	flips     map[int]bool // single-text messages that are written with string content
}

// write renders the body as a client of the JavaScript kind would: compact, messages last or first as it likes.
func (b *body) write() []byte {
	var w strings.Builder
	fmt.Fprintf(&w, `{"model":%q,"max_tokens":%d,`, b.model, b.maxTokens)
	if b.drop {
		w.WriteString(`"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}},`)
	}
	w.WriteString(`"messages":[`)
	for i, m := range b.messages {
		if i > 0 {
			w.WriteByte(',')
		}
		b.message(&w, i, &m)
	}
	w.WriteString(`],"system":[`)
	b.list(&w, -1, b.system)
	w.WriteByte(']')
	if len(b.tools) > 0 {
		w.WriteString(`,"tools":[` + strings.Join(b.tools, ",") + `]`)
	}
	w.WriteString(`,"stream":true}`)
	return []byte(w.String())
}

func (b *body) message(w *strings.Builder, i int, m *message) {
	if len(m.blocks) == 1 && m.blocks[0].kind == "text" && b.flips[i] && b.marks[[2]int{i, 0}] == "" {
		text := strings.TrimPrefix(m.blocks[0].json, `"type":"text","text":`)
		fmt.Fprintf(w, `{"role":%q,"content":%s}`, m.role, text)
		return
	}
	fmt.Fprintf(w, `{"role":%q,"content":[`, m.role)
	b.list(w, i, m.blocks)
	w.WriteString(`]}`)
}

func (b *body) list(w *strings.Builder, msg int, blocks []block) {
	for j, x := range blocks {
		if j > 0 {
			w.WriteByte(',')
		}
		w.WriteString("{" + x.json)
		if m := b.marks[[2]int{msg, j}]; m != "" {
			w.WriteString(m.json())
		}
		w.WriteByte('}')
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func textBlock(text string) block {
	return block{kind: "text", json: `"type":"text","text":` + quote(text), size: len(text)}
}

func thinkingBlock(text, signature string) block {
	return block{kind: "thinking", json: `"type":"thinking","thinking":` + quote(text) + `,"signature":` + quote(signature), size: len(text)}
}

func resultBlock(id, text string, failed bool) block {
	j := `"tool_use_id":` + quote(id) + `,"type":"tool_result","content":` + quote(text)
	if failed {
		j += `,"is_error":true`
	}
	return block{kind: "result", json: j, size: len(text), use: call{id: id}}
}

// useBlock is a call as Claude Code makes it.
func useBlock(c call, filler string) block {
	name, input := "Bash", `{"command":`+quote("run "+filler)+`}`
	switch c.role {
	case "read":
		name, input = "Read", `{"file_path":`+quote(c.path)+`}`
	case "edit":
		name, input = "Edit", `{"file_path":`+quote(c.path)+`,"old_string":"a","new_string":`+quote(filler)+`}`
	}
	return block{kind: "use", json: fmt.Sprintf(`"type":"tool_use","id":%q,"name":%q,"input":%s`, c.id, name, input), size: len(filler), use: c}
}

// replyJSON is the answer's blocks as the provider is told to give them.
func replyJSON(blocks []block) string {
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = "{" + b.json + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}
