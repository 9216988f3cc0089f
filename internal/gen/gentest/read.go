package gentest

import (
	"encoding/json"
	"fmt"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// Piece is one thing that a body says: a text of somebody, a call, or a result.
type Piece struct {
	Role   string // system, user or assistant; what answers calls is the user's
	Text   string
	Call   string // name of the tool
	Args   string // of a call, as JSON with sorted keys; the input of a custom tool stands in {"input": ...}
	Result string // all text of a result
	Kind   string // text, call or result
	ID     string // of a call or a result; empty where the format has none
	Failed bool   // the result has an error flag, where its format has one
}

// Read is what a body says, system prompt first, in the order in which it stands there. Thinking, images, empty texts
// and what it does not know are left out. It shares no code with the reader that it is compared with.
func Read(f gen.Format, body []byte) ([]Piece, error) {
	var top any
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, fmt.Errorf("read a body: %w", err)
	}
	r := reading{}
	switch f {
	case gen.Chat:
		r.chat(top)
	case gen.Responses:
		r.responses(top)
	case gen.Converse:
		r.converse(top)
	case gen.Gemini:
		r.gemini(top)
	default:
		r.anthropic(top)
	}
	return r.pieces, nil
}

type reading struct{ pieces []Piece }

func (r *reading) text(role string, v any) {
	for _, s := range texts(v) {
		if s != "" {
			r.pieces = append(r.pieces, Piece{Role: role, Text: s, Kind: "text"})
		}
	}
}

func (r *reading) call(id, name string, args any) {
	b, err := json.Marshal(args)
	if err != nil {
		b = nil // what was decoded always marshals
	}
	r.pieces = append(r.pieces, Piece{Role: "assistant", Call: name, Args: string(b), Kind: "call", ID: id})
}

func (r *reading) result(id string, failed bool, content any) {
	p := Piece{Role: "user", Kind: "result", ID: id, Failed: failed}
	for _, s := range texts(content) {
		p.Result += s
	}
	r.pieces = append(r.pieces, p)
}

func (r *reading) anthropic(top any) {
	r.text("system", get(top, "system"))
	for _, m := range list(get(top, "messages")) {
		role := str(get(m, "role"))
		if s, ok := get(m, "content").(string); ok {
			r.text(role, s)
		}
		for _, b := range list(get(m, "content")) {
			switch str(get(b, "type")) {
			case "text":
				r.text(role, []any{b})
			case "tool_use":
				r.call(str(get(b, "id")), str(get(b, "name")), get(b, "input"))
			case "tool_result":
				r.result(str(get(b, "tool_use_id")), get(b, "is_error") == true, get(b, "content"))
			}
		}
	}
}

func (r *reading) chat(top any) {
	for _, m := range list(get(top, "messages")) {
		role := leader(str(get(m, "role")))
		if role == "tool" {
			r.result(str(get(m, "tool_call_id")), false, get(m, "content"))
			continue
		}
		r.text(role, get(m, "content"))
		for _, c := range list(get(m, "tool_calls")) {
			if f := get(c, "function"); f != nil {
				r.call(str(get(c, "id")), str(get(f, "name")), decoded(get(f, "arguments")))
			} else {
				f = get(c, "custom")
				r.call(str(get(c, "id")), str(get(f, "name")), map[string]any{"input": get(f, "input")})
			}
		}
	}
}

func (r *reading) responses(top any) {
	r.text("system", get(top, "instructions"))
	for _, it := range list(get(top, "input")) {
		id := str(get(it, "call_id"))
		switch str(get(it, "type")) {
		case "", "message":
			r.text(leader(str(get(it, "role"))), get(it, "content"))
		case "function_call":
			r.call(id, str(get(it, "name")), decoded(get(it, "arguments")))
		case "custom_tool_call":
			r.call(id, str(get(it, "name")), map[string]any{"input": get(it, "input")})
		case "local_shell_call":
			r.call(id, "local_shell", get(it, "action"))
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
			r.result(id, false, get(it, "output"))
		}
	}
}

func (r *reading) converse(top any) {
	r.text("system", get(top, "system"))
	for _, m := range list(get(top, "messages")) {
		for _, b := range list(get(m, "content")) {
			r.text(str(get(m, "role")), []any{b})
			if use := get(b, "toolUse"); use != nil {
				r.call(str(get(use, "toolUseId")), str(get(use, "name")), get(use, "input"))
			} else if res := get(b, "toolResult"); res != nil {
				r.result(str(get(res, "toolUseId")), get(res, "status") == "error", get(res, "content"))
			}
		}
	}
}

func (r *reading) gemini(top any) {
	r.text("system", get(get(top, "systemInstruction"), "parts"))
	for _, m := range list(get(top, "contents")) {
		role := str(get(m, "role"))
		if role == "model" {
			role = "assistant"
		}
		for _, p := range list(get(m, "parts")) {
			if call := get(p, "functionCall"); call != nil {
				r.call(str(get(call, "id")), str(get(call, "name")), get(call, "args"))
			} else if res := get(p, "functionResponse"); res != nil {
				response := get(res, "response")
				failed := get(response, "error")
				if failed != nil {
					response = failed
				} else {
					response = get(response, "output")
				}
				r.result(str(get(res, "id")), failed != nil, response)
			} else if get(p, "thought") != true {
				r.text(role, []any{p})
			}
		}
	}
}

// leader is the role of whom a developer's message is.
func leader(role string) string {
	if role == "developer" {
		return "system"
	}
	return role
}

// texts are the texts of content: of a string, or of the parts of a list.
func texts(v any) (out []string) {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	for _, p := range list(v) {
		if s, ok := get(p, "text").(string); ok {
			out = append(out, s)
		} else if s, ok := get(get(p, "json"), "output").(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func get(v any, key string) any {
	o, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	return o[key]
}

func list(v any) []any {
	l, ok := v.([]any)
	if !ok {
		return nil
	}
	return l
}

func str(v any) string {
	s, ok := v.(string)
	if !ok {
		return ""
	}
	return s
}

// decoded is the value whose JSON a string holds; anything else is left as it is.
func decoded(v any) any {
	var inner any
	if json.Unmarshal([]byte(str(v)), &inner) != nil {
		return v
	}
	return inner
}
