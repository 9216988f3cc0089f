package transcript

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// RestoreTool is the name of the tool that gives originals back, and OriginalsPath what stands before an id where one is asked for
// by HTTP.
const (
	RestoreTool   = "context_restore"
	OriginalsPath = "/v1/originals/"
)

// IDLen is the length of an original's id, in hex digits.
const IDLen = 24

// IsRestoreTool reports whether a tool of this name gives originals back: it stands alone, or behind the name of an MCP server
// that names tidemark, however a client joins the two. Other products have tools of a like name.
func IsRestoreTool(name string) bool {
	server, ok := strings.CutSuffix(name, RestoreTool)
	return ok && (server == "" || strings.Contains(strings.ToLower(server), "tidemark"))
}

// Restores reports whether a call asks for an original: by the tool, from a script that calls it, or by HTTP in whatever tool the
// model has for either.
func (ix *Index) Restores(call int32) bool {
	c := &ix.Calls[call]
	if IsRestoreTool(ix.ToolName(c)) {
		return true
	}
	input := c.Input.Of(ix.Body)
	if bytes.Contains(input, []byte(RestoreTool)) && scripted.Match(input) {
		return true
	}
	for {
		_, rest, found := bytes.Cut(input, []byte(OriginalsPath))
		if !found {
			return false
		}
		if len(rest) >= IDLen && IsID(view(rest[:IDLen])) {
			return true
		}
		input = rest
	}
}

// scripted finds a call of the tool in a script, as models write them for clients whose only tool runs one: by the name that the
// client joins of the MCP server's and the tool's, as a member of an object or in brackets. The script stands in JSON, where a quote
// is escaped.
var scripted = regexp.MustCompile(`(?i:\w*tidemark\w*)` + RestoreTool + `(?:\\?["']\])?\(`)

// IsID reports whether a text has the form of an original's id.
func IsID(text string) bool {
	if len(text) != IDLen {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// RestoreTool is the name of the body's tool that gives originals back, empty if it has none.
func (ix *Index) RestoreTool() string {
	for i := range ix.Head {
		b := &ix.Head[i]
		raw := b.Raw.Of(ix.Body)
		if b.Kind != Tool || b.Deferred || !bytes.Contains(raw, []byte(RestoreTool)) {
			continue
		}
		for _, name := range gjson.GetManyBytes(raw, "name", "function.name", "toolSpec.name") {
			if name.Type == gjson.String && IsRestoreTool(name.Str) {
				return strings.Clone(name.Str)
			}
		}
	}
	return ""
}

// Tools is how many tools the body has.
func (ix *Index) Tools() (n int) {
	for i := range ix.Head {
		if b := &ix.Head[i]; b.Msg == InTools && b.Kind == Tool {
			n++
		}
	}
	return n
}

// LastTool is the number of the last block of the list of tools, -1 where the body has no list to add one to.
func (ix *Index) LastTool() int32 {
	for i := len(ix.Head) - 1; i >= 0; i-- {
		b := &ix.Head[i]
		if b.Msg != InTools || b.Kind != Tool {
			continue
		}
		raw := b.Raw.Of(ix.Body)
		switch {
		case ix.Format == Responses && gjson.GetBytes(raw, "type").Str == "additional_tools": // an item of the input
		case ix.Format == Gemini && gjson.GetBytes(raw, "name").Type != gjson.String: // one of the provider's own, beside the functions
		default:
			return int32(i)
		}
	}
	return -1
}

// ToolsEnd is where one more tool would be added, behind the last one; ok is false where there is no list to add it to.
func (ix *Index) ToolsEnd() (at uint32, ok bool) {
	last := ix.LastTool()
	if last < 0 {
		return 0, false
	}
	at = ix.Head[last].Raw.Hi
	for i := range ix.Markers {
		if m := &ix.Markers[i]; m.area == InTools && ix.Format == Converse { // a cachePoint is an element of its own
			at = max(at, m.Member.Hi)
		}
	}
	return at, true
}

// IsToolOf reports whether a JSON value is the definition of a tool of this name in the format.
func IsToolOf(f Format, value []byte, name string) bool {
	path := "name"
	switch f {
	case Chat:
		path = "function.name"
	case Converse:
		path = "toolSpec.name"
	default:
	}
	return gjson.ValidBytes(value) && gjson.GetBytes(value, path).Str == name
}

// Tool is the definition of a tool in the format. The schema is that of its input, as JSON.
func (f Format) Tool(name, description, schema string) []byte {
	quoted := func(s string) string { return string(AppendQuoted(nil, s)) }
	head := `"name":` + quoted(name) + `,"description":` + quoted(description) + `,`
	switch f {
	case Chat:
		return []byte(`{"type":"function","function":{` + head + `"parameters":` + schema + `}}`)
	case Responses: // strict is on by default there, and asks for every property
		return []byte(`{"type":"function",` + head + `"strict":false,"parameters":` + schema + `}`)
	case Converse:
		return []byte(`{"toolSpec":{` + head + `"inputSchema":{"json":` + schema + `}}}`)
	case Gemini:
		return []byte(`{` + head + `"parameters":` + schema + `}`)
	default:
		return []byte(`{` + head + `"input_schema":` + schema + `}`)
	}
}

// ForcedTool reports whether the request leaves the model no choice but to call a tool.
func (ix *Index) ForcedTool() bool {
	choice := gjson.GetManyBytes(ix.Body, "tool_choice", "toolConfig.toolChoice", "toolConfig.functionCallingConfig.mode", "tool_config.function_calling_config.mode")
	switch c := choice[0]; {
	case c.Type == gjson.String && c.Str != "auto" && c.Str != "none", c.IsObject() && c.Get("type").Str != "auto" && c.Get("type").Str != "none":
		return true
	}
	return choice[1].IsObject() && !choice[1].Get("auto").Exists() || strings.EqualFold(choice[2].Str+choice[3].Str, "any")
}
