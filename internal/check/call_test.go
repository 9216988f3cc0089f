package check_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// A call is read as it stands in a request of any format, and says which format that is.
func TestCallOfEachFormat(t *testing.T) {
	for call, format := range map[string]string{
		`{"name":"read_file","arguments":{"path":"a.go","offset":2}}`:                                                 "openai.chat",
		`{"name":"read_file","arguments":"{\"path\":\"a.go\",\"offset\":2}"}`:                                         "openai.chat",
		`{"id":"1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.go\",\"offset\":2}"}}`: "openai.chat",
		`{"type":"function_call","call_id":"1","name":"read_file","arguments":"{\"path\":\"a.go\",\"offset\":2}"}`:    "openai.responses",
		`{"type":"tool_use","id":"1","name":"read_file","input":{"path":"a.go","offset":2}}`:                          "anthropic.messages",
		`{"toolUse":{"toolUseId":"1","name":"read_file","input":{"path":"a.go","offset":2}}}`:                         "bedrock.converse",
		`{"functionCall":{"name":"read_file","args":{"path":"a.go","offset":2}}}`:                                     "gemini.generate",
	} {
		got, err := check.Call(nil, call, nil)
		if err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		want := &check.CallReport{Tool: "read_file", Format: format, Role: "read", By: "tool read_file", Path: "a.go", Range: "from 2"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", call, diff)
		}
	}
}

func TestCall(t *testing.T) {
	roles, err := transcript.NewRoleTable([]transcript.RoleRule{{Name: "kb_*", Role: transcript.Search}})
	if err != nil {
		t.Fatal(err)
	}
	success, cut, stub := "Success. Updated the following files:\nM a.go", "1\tx\n…900 tokens truncated…", "File unchanged since last read."
	for _, c := range []struct {
		call   string
		result *string
		want   string
	}{
		{`{"type":"custom_tool_call","name":"apply_patch","input":"*** Update File: a.go\n*** Add File: b.go\n"}`, &success, `tool     apply_patch
format   openai.responses
role     edit (by tool apply_patch)
file     edit a.go
file     write b.go
outcome  succeeded (by done: Success. Updated the following files:)
`},
		{`{"type":"local_shell_call","action":{"type":"exec","command":["bash","-lc","cd /w && sed -n 1,9p a.go > b.go"]}}`, nil, `tool     local_shell_call
format   openai.responses
role     shell (by tool local_shell_call)
shell    write /w/b.go
`},
		{`{"name":"kb_get","arguments":{}}`, nil, "tool     kb_get\nformat   openai.chat\nrole     search (by rule kb_*)\n"},
		{`{"name":"mystery","arguments":{"text":"x"}}`, nil, "tool     mystery\nformat   openai.chat\nrole     other (by nothing known of the name or the arguments)\n"},
		{`{"type":"tool_use","name":"Read","input":{"file_path":"a"}}`, &cut, `tool     Read
format   anthropic.messages
role     read (by tool read)
path     a
outcome  succeeded (by the format has an error flag, and it is not set)
cut      …900 tokens truncated…
`},
		{`{"name":"Read","arguments":{"file_path":"a"}}`, &stub, `tool     Read
format   openai.chat
role     read (by tool read)
path     a
outcome  unknown (by nothing known says how it went)
stub     yes: a reference to what was sent before, no read
`},
	} {
		got, err := check.Call(roles, c.call, c.result)
		if err != nil {
			t.Errorf("%s: %v", c.call, err)
			continue
		}
		if diff := cmp.Diff(c.want, got.String()); diff != "" {
			t.Errorf("%s: %s", c.call, diff)
		}
	}
	for _, call := range []string{"", "read_file", "{}", "[]", `{"name":7}`, `{"arguments":{}}`, `{"name":"a"`, `{"function":{}}`} {
		if _, err := check.Call(nil, call, nil); !errors.Is(err, check.ErrCall) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Whatever the texts are, the report has a tool and a role, or the text is no call.
func TestCallNeverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, input, result := rapid.String().Draw(t, "name"), rapid.String().Draw(t, "input"), rapid.String().Draw(t, "result")
		call, err := json.Marshal(map[string]string{"name": name, "arguments": input})
		if err != nil {
			t.Fatal(err)
		}
		r, err := check.Call(nil, string(call), &result)
		if (err != nil) != (name == "") || err == nil && (r.Tool != name || r.Role == "" || r.Outcome == "" || r.Why == "") {
			t.Fatalf("%s: %+v, %v", call, r, err)
		}
	})
}
