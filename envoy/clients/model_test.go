//go:build unix

package clients_test

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// conversation is what the model makes of a request, whatever its format.
type conversation struct {
	side    bool     // it offers no tools: no turn of the task
	answers int      // how often the model has answered
	seen    string   // what the newest results say
	results []string // what all results say, oldest first
	tools   []string // names of what is offered
	body    string   // all of it
}

// hears takes in what a result says.
func (c *conversation) hears(content gjson.Result) {
	text := said(content)
	c.seen += text + "\n"
	c.results = append(c.results, text)
}

// offered are the names of tools in a list of them, those of a namespace behind its name and a dot.
func offered(list gjson.Result) (names []string) {
	for _, tool := range list.Array() {
		name := cmp.Or(tool.Get("name").Str, tool.Get("function.name").Str)
		if kids := tool.Get("tools"); kids.Exists() {
			for _, kid := range offered(kids) {
				names = append(names, name+"."+kid)
			}
			continue
		}
		names = append(names, name)
	}
	return names
}

// wire is a format in which a client speaks with the model.
type wire struct {
	path  string // how the API's path ends
	read  func(body []byte) conversation
	write func(words string, calls []call) any // an answer, in the form of the simulator's x-sim-reply
}

// call is one call of a tool. Its arguments are raw text where the tool is a custom one.
type call struct {
	name      string
	space     string // the namespace of the tool
	arguments map[string]any
	raw       string
	search    bool // it is the format's own search for tools
}

var anthropic = wire{path: "/v1/messages", read: readMessages, write: func(words string, calls []call) any {
	var blocks []map[string]any
	if words != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": words})
	}
	for _, c := range calls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "name": c.name, "input": c.arguments})
	}
	return blocks
}}

var chat = wire{path: "/v1/chat/completions", read: readChat, write: func(words string, calls []call) any {
	answer := map[string]any{"content": words}
	var all []map[string]any
	for _, c := range calls {
		all = append(all, map[string]any{"function": map[string]any{"name": c.name, "arguments": marshal(c.arguments)}})
	}
	if len(all) > 0 {
		answer["tool_calls"] = all
	}
	return answer
}}

var responses = wire{path: "/v1/responses", read: readResponses, write: func(words string, calls []call) any {
	var items []map[string]any
	if words != "" {
		items = append(items, map[string]any{"type": "message", "content": words})
	}
	for _, c := range calls {
		item := map[string]any{"type": "function_call", "name": c.name, "arguments": marshal(c.arguments)}
		switch {
		case c.raw != "":
			item = map[string]any{"type": "custom_tool_call", "name": c.name, "input": c.raw}
		case c.search:
			item = map[string]any{"type": "tool_search_call", "call_id": "call_search", "execution": "client", "status": "completed", "arguments": c.arguments}
		case c.space != "":
			item["namespace"] = c.space
		}
		items = append(items, item)
	}
	return items
}}

func readMessages(body []byte) conversation {
	c := conversation{tools: offered(gjson.GetBytes(body, "tools"))}
	c.side = len(c.tools) == 0
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		if m.Get("role").Str == "assistant" {
			c.answers++
			c.seen = ""
		}
		for _, b := range m.Get("content").Array() {
			if b.Get("type").Str == "tool_result" {
				c.hears(b.Get("content"))
			}
		}
	}
	return c
}

func readChat(body []byte) conversation {
	c := conversation{tools: offered(gjson.GetBytes(body, "tools"))}
	c.side = len(c.tools) == 0
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		switch m.Get("role").Str {
		case "assistant":
			c.answers++
			c.seen = ""
		case "tool":
			c.hears(m.Get("content"))
		}
	}
	return c
}

// readResponses takes items of the model that follow each other for one answer.
func readResponses(body []byte) conversation {
	c := conversation{side: !offersTools(body), tools: offered(gjson.GetBytes(body, "tools"))}
	speaking := false
	for _, item := range gjson.GetBytes(body, "input").Array() {
		kind, before := item.Get("type").Str, speaking
		speaking = kind == "reasoning" || item.Get("role").Str == "assistant" || strings.HasSuffix(kind, "_call")
		switch {
		case kind == "additional_tools" || kind == "tool_search_output":
			c.tools = append(c.tools, offered(item.Get("tools"))...)
		case speaking && !before:
			c.answers++
			c.seen = ""
		case strings.HasSuffix(kind, "_call_output"):
			c.hears(item.Get("output"))
		}
	}
	return c
}

// offersTools reports whether a body of Responses offers tools, at its top or as an item.
func offersTools(body []byte) bool {
	return len(gjson.GetBytes(body, "tools").Array()) > 0 || gjson.GetBytes(body, `input.#(type=="additional_tools")`).Exists()
}

// said is the text of a content that is a string or a list of blocks.
func said(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.Str
	}
	var all []string
	for _, b := range content.Array() {
		all = append(all, b.Get("text").Str)
	}
	return strings.Join(all, "\n")
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // nothing that a test makes up cannot be marshaled
		return err.Error()
	}
	return string(b)
}
