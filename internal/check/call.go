package check

import (
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Access is one thing that a call does to one file.
type Access struct {
	Role  string `json:"role"`
	Path  string `json:"path"`
	Range string `json:"range,omitempty"`
}

// CallReport says how a call is classified, and its result if there is one; By and Why say what told so.
type CallReport struct {
	Tool    string   `json:"tool"`
	Format  string   `json:"format"`
	Role    string   `json:"role"`
	By      string   `json:"by,omitempty"`
	Path    string   `json:"path,omitempty"`
	Range   string   `json:"range,omitempty"`
	Files   []Access `json:"files,omitempty"`
	Shell   []Access `json:"shell,omitempty"`
	Outcome string   `json:"outcome,omitempty"`
	Why     string   `json:"why,omitempty"`
	Stub    bool     `json:"stub,omitempty"`
	Cut     string   `json:"cut,omitempty"` // the notice by which the client says that it left something out
}

// ErrCall says that a text is no tool call.
var ErrCall = errors.New(`must be a tool call in JSON, such as {"name": "read_file", "arguments": {"path": "a.go"}}`)

// Call classifies one tool call, given as it stands in a request of any format, or as {"name", "arguments"}. The result is the
// text that answers it, nil without one. Where the call's own form is of no format, it is taken to come from one that flags no
// failures.
func Call(roles *transcript.RoleTable, call string, result *string) (*CallReport, error) {
	format, name, input := takeApart(call)
	if name == "" {
		return nil, ErrCall
	}
	var text string
	if result != nil {
		text = *result
	}
	e := transcript.Explain(roles, format, name, input, text, result != nil)
	r := &CallReport{
		Tool: name, Format: format.String(), Role: e.Facts.Role.String(), By: e.Row, Path: e.Facts.Path, Range: e.Facts.Range.String(),
		Files: accesses(e.Facts.Files), Shell: accesses(e.Facts.Shell),
	}
	if result != nil {
		r.Outcome, r.Why, r.Stub, r.Cut = e.Outcome.String(), e.Why, e.Stub, e.Cut
	}
	return r, nil
}

// takeApart finds the format, the name and the input of a call. Without a name it is none.
func takeApart(call string) (format transcript.Format, name, input string) {
	if !gjson.Valid(call) {
		return transcript.UnknownFormat, "", ""
	}
	v := gjson.Parse(call)
	kind := v.Get("type").Str
	part := func(v gjson.Result, keys ...string) string {
		for _, key := range keys {
			switch in := v.Get(key); {
			case in.Type == gjson.String:
				return in.Str
			case in.Exists():
				return in.Raw
			}
		}
		return ""
	}
	switch {
	case v.Get("functionCall").IsObject():
		v = v.Get("functionCall")
		return transcript.Gemini, v.Get("name").Str, part(v, "args")
	case v.Get("toolUse").IsObject():
		v = v.Get("toolUse")
		return transcript.Converse, v.Get("name").Str, part(v, "input")
	case v.Get("function").IsObject():
		v = v.Get("function")
		return transcript.Chat, v.Get("name").Str, part(v, "arguments")
	case kind == "tool_use":
		return transcript.Anthropic, v.Get("name").Str, part(v, "input")
	case strings.HasSuffix(kind, "_call"):
		if name = v.Get("name").Str; name == "" {
			name = kind
		}
		return transcript.Responses, name, part(v, "arguments", "input", "action", "operation")
	}
	return transcript.Chat, v.Get("name").Str, part(v, "arguments", "input", "args")
}

func accesses(list []transcript.Access) (out []Access) {
	for _, a := range list {
		out = append(out, Access{Role: a.Role.String(), Path: a.Path, Range: a.Range.String()})
	}
	return out
}

// String is the report for people: one line a fact.
func (r *CallReport) String() string {
	var b strings.Builder
	line := func(key, value, by string) {
		if value == "" {
			return
		}
		b.WriteString(key + strings.Repeat(" ", max(1, 9-len(key))) + value)
		if by != "" {
			b.WriteString(" (by " + by + ")")
		}
		b.WriteByte('\n')
	}
	line("tool", r.Tool, "")
	line("format", r.Format, "")
	by := r.By
	if by == "" {
		by = "nothing known of the name or the arguments"
	}
	line("role", r.Role, by)
	line("path", r.Path, "")
	line("range", r.Range, "")
	for _, list := range []struct {
		key string
		of  []Access
	}{{"file", r.Files}, {"shell", r.Shell}} {
		for _, a := range list.of {
			line(list.key, strings.TrimSpace(a.Role+" "+a.Path+" "+a.Range), "")
		}
	}
	line("outcome", r.Outcome, r.Why)
	if r.Stub {
		line("stub", "yes: a reference to what was sent before, no read", "")
	}
	line("cut", r.Cut, "")
	return b.String()
}
