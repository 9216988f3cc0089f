package compress

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// cached makes all that is returned count as cached for an hour, the longest that the provider offers, whatever the gateway asks
// for. It is never returned.
const cached = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`

// standIns are tools for requests that say nothing of theirs: without any the engine takes a request for side traffic.
var standIns = map[transcript.Format]string{
	transcript.Anthropic: `[{"name":"tool","input_schema":{"type":"object"}}]`,
	transcript.Chat:      `[{"type":"function","function":{"name":"tool"}}]`,
	transcript.Responses: `[{"type":"function","name":"tool"}]`,
}

// beside are the members of each format that the engine gets besides model, tools and the list, in the order in which it gets them.
var beside = map[transcript.Format][]string{
	transcript.Anthropic: {"thinking", "thread", "metadata", "system"},
	transcript.Chat:      {"prompt_cache_key", "prompt_cache_retention"},
	transcript.Responses: {"prompt_cache_key", "prompt_cache_retention", "previous_response_id", "conversation", "instructions"},
}

// body is the request as a body of its format, for the engine: what its members say, and the list as it came, last. The list
// begins at the given place and ends before the last byte.
func (a *asked) body() (body []byte, at int) {
	size := len(a.list) + 256
	for _, m := range a.members {
		size += len(m.Raw)
	}
	b := make([]byte, 0, size)
	add := func(name, raw string) { b = append(append(append(append(b, `,"`...), name...), `":`...), raw...) }
	b = append(append(b, `{"model":`...), a.members["model"].Raw...)
	if a.format == transcript.Anthropic {
		b = append(b, cached...)
	}
	switch tools := a.members["tools"]; {
	case !blank(tools):
		add("tools", tools.Raw)
	case a.acts:
		add("tools", standIns[a.format])
	}
	for _, name := range beside[a.format] {
		if m := a.head(name); m.Exists() {
			add(name, m.Raw)
		}
	}
	list := messages
	if a.format == transcript.Responses {
		list = input
	}
	add(list, "")
	at = len(b)
	return append(append(b, a.list...), '}'), at
}

// head is a member of the request. The system prompt may come by either API's name.
func (a *asked) head(name string) gjson.Result {
	m := a.members[name]
	switch {
	case m.Exists():
	case name == "system":
		return a.members["instructions"]
	case name == "instructions":
		return a.members["system"]
	}
	return m
}

// blank reports whether a member says nothing: it is absent, null or an empty list.
func blank(v gjson.Result) bool {
	return !v.Exists() || v.Type == gjson.Null || v.IsArray() && !v.Get("0").Exists()
}

// listOf is the list in what the engine made of a body, false if it changed anything else.
func listOf(out, body []byte, at int) (string, bool) {
	if len(out) < at+2 || !bytes.Equal(out[:at], body[:at]) || !bytes.HasSuffix(out[at:], []byte("]}")) {
		return "", false
	}
	return string(out[at : len(out)-1]), true
}

// isItem reports whether an item of Responses is a call or the output of one.
func isItem(kind string) bool {
	return strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_call_output")
}
