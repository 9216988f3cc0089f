package readlifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Equal paths are other files where the client's shell may stand in another directory, and at another server, host or revision:
// the first read, which alone shows what it shows, stays.
func TestOtherFilesOfOnePath(t *testing.T) {
	const (
		cat  = `Bash {"command":"cat go.mod"}`
		echo = `Bash {"command":"echo x > go.mod"}`
		edit = `Edit {"file_path":"go.mod","old_string":"a","new_string":"b"}`
	)
	for _, c := range []struct {
		name  string
		calls []string
		want  string
	}{
		{"again", []string{cat, cat}, readlifecycle.Superseded},
		{"behind a cd", []string{cat, `Bash {"command":"cd sub && ls"}`, cat}, ""},
		{"behind a cd on a line of its own", []string{cat, `Bash {"command":"ls\ncd sub"}`, cat}, ""},
		{"behind a cd of the shell's terminal", []string{cat, `write_stdin {"session_id":1,"chars":"cd sub\n"}`, cat}, ""},
		{"twice behind a cd", []string{`Bash {"command":"cd sub"}`, cat, cat}, readlifecycle.Superseded},
		{"absolute", []string{`Bash {"command":"cat /go.mod"}`, `Bash {"command":"cd sub"}`, `Bash {"command":"cat /go.mod"}`}, readlifecycle.Superseded},
		{"written behind a cd", []string{cat, `Bash {"command":"pushd sub"}`, echo}, ""},
		{"written", []string{cat, `Bash {"command":"ls"}`, echo}, readlifecycle.Stale},
		{"edited where the client began", []string{`Bash {"command":"cd sub"}`, cat, edit}, ""},
		{"edited", []string{cat, edit}, readlifecycle.Stale},
		{"another server", []string{`Read {"file_path":"a.go"}`, `mcp__github__delete_file {"path":"a.go","branch":"b"}`}, ""},
		{"another revision", []string{`read_file {"path":"a.go","ref":"main"}`, `read_file {"path":"a.go","ref":"old"}`}, ""},
		{"another host", []string{`run_command {"command":"cat /a","host":"a"}`, `run_command {"command":"cat /a","host":"b"}`}, ""},
		{"with files that only a pattern names", []string{`read_many_files {"include":["a","b/*"]}`, `read_file {"path":"a"}`}, ""},
		{"with files of another argument", []string{`read_many_files {"paths":["a"],"include":["b/*"]}`, `Edit {"file_path":"a"}`}, ""},
	} {
		if got := first(t, c.calls); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// first is the verdict on the first read of a session of calls, each a turn of its own.
func first(t *testing.T, calls []string) string {
	t.Helper()
	var body strings.Builder
	body.WriteString(`{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[{"role":"user","content":"go"}`)
	at := -1
	for i, call := range calls {
		name, input, _ := strings.Cut(call, " ")
		if at < 0 && strings.Contains(input, "a") && (strings.HasPrefix(input, `{"command":"cat`) || strings.Contains(strings.ToLower(name), "read")) {
			at = i
		}
		text, err := json.Marshal(strings.Repeat("module x\n", 100))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&body, `,{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":%q,"input":%s}]}`, i, name, input)
		fmt.Fprintf(&body, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, i, text)
	}
	body.WriteString(`]}`)
	ix, err := transcript.Parse([]byte(body.String()), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	c := readlifecycle.Default()
	c.BashEdits = true
	f, err := readlifecycle.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Propose(filtertest.AllOpen(ix)) {
		if int(p.Result) == at && p.Action == filters.Replace {
			return p.Verdict
		}
	}
	return ""
}
