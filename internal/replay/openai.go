package replay

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// What a client of OpenAI's APIs sends: there are no markers, results are messages or items of their own, and the system prompt is
// a message or the instructions.

// openAI reports whether bodies are of one of OpenAI's formats.
func openAI(f transcript.Format) bool { return f == transcript.Chat || f == transcript.Responses }

// listOf is the member that holds a conversation.
func listOf(f transcript.Format) string {
	if f == transcript.Responses {
		return "input"
	}
	return "messages"
}

// speaker is who says a message or an item: a role, or assistant and tool for items without one.
func speaker(item gjson.Result, f transcript.Format) string {
	kind := item.Get("type").Str
	switch {
	case f != transcript.Responses, kind == "message", kind == "":
		return item.Get("role").Str
	case kind == "reasoning", strings.HasSuffix(kind, "_call"):
		return "assistant"
	}
	return "tool"
}

// hole is where a filler goes in what stands around the messages.
const hole = "\x00"

// filled returns the function that puts a filler into a frame with a hole; without one the frame stays as it is.
func filled(head, tail string) func(string) (string, string) {
	return func(filler string) (string, string) {
		return strings.Replace(head, hole, filler, 1), strings.Replace(tail, hole, filler, 1)
	}
}

// chatFrame has the filler in the first tool's description: the system prompt is one of the messages.
func (s *session) chatFrame() (func(string) (head, tail string), error) {
	model, err := plain(modelName(s.Model))
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	tools := string(s.Tools)
	if !s.declares() {
		var list []string
		for _, t := range s.calledTools() {
			list = append(list, `{"type":"function","function":{"name":`+t.name+`,"description":"A tool.`+hole+`","parameters":{"type":"object"}}}`)
		}
		tools = oneHole(list)
	}
	tail := `],"tools":` + tools + `,"stream":true}`
	if tools == "[]" { // the API takes no empty list
		tail = `],"stream":true}`
	}
	return filled(`{"model":`+model+`,"messages":[`, tail), nil
}

// responsesFrame has the filler in the instructions. The request is what Codex sends to the API.
func (s *session) responsesFrame() (func(string) (head, tail string), error) {
	system := ""
	if s.System != nil {
		system = *s.System
	}
	var words [3]string
	for i, w := range []string{modelName(s.Model), system, s.ID} {
		text, err := plain(w)
		if err != nil {
			return nil, fmt.Errorf("encode frame: %w", err)
		}
		words[i] = text
	}
	tools := string(s.Tools)
	if !s.declares() {
		var list []string
		for _, t := range s.calledTools() {
			if t.custom {
				list = append(list, `{"type":"custom","name":`+t.name+`,"description":"A tool."}`)
			} else {
				list = append(list, `{"type":"function","name":`+t.name+`,"description":"A tool.","strict":false,"parameters":{"type":"object"}}`)
			}
		}
		tools = "[" + strings.Join(list, ",") + "]"
	}
	return filled(
		`{"model":`+words[0]+`,"stream":true,"instructions":`+strings.TrimSuffix(words[1], `"`)+hole+`","input":[`,
		`],"tools":`+tools+`,"tool_choice":"auto","parallel_tool_calls":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":`+words[2]+`}`,
	), nil
}

// declares reports whether the recording holds the tools that its client declared.
func (s *session) declares() bool {
	tools := string(s.Tools)
	return tools != "" && tools != "null" && tools != "[]"
}

// oneHole is a list of values of which the first one alone keeps its hole.
func oneHole(list []string) string {
	for i := range list {
		if i > 0 {
			list[i] = strings.Replace(list[i], hole, "", 1)
		}
	}
	return "[" + strings.Join(list, ",") + "]"
}

// calledTool is a tool that a session calls.
type calledTool struct {
	name   string // JSON
	custom bool   // it takes text
}

// calledTools lists the tools that a session of OpenAI's APIs calls, in the order of their first calls.
func (s *session) calledTools() (list []calledTool) {
	seen := map[calledTool]bool{}
	note := func(call gjson.Result, custom bool) {
		t := calledTool{call.Get("name").Raw, custom}
		if t.name != "" && !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	for _, raw := range s.Messages {
		m := gjson.ParseBytes(raw)
		switch m.Get("type").Str {
		case "function_call":
			note(m, false)
		case "custom_tool_call":
			note(m, true)
		}
		for _, call := range m.Get("tool_calls").Array() {
			note(call.Get("function"), false)
		}
	}
	return list
}
