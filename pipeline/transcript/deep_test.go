package transcript

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// isJSON takes what encoding/json takes, unless it is nested deeper than a body may be.
func TestIsJSON(t *testing.T) {
	parts := []string{"{", "}", "[", "]", `"a"`, `"\\n"`, ":", ",", "1", "-0.5e3", "01", "true", "null", " ", "\n", "x", "\x00"}
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
		want := json.Valid([]byte(text))
		if valid += b2i(want); isJSON(text) != want {
			t.Fatalf("%q: %t, want %t", text, !want, want)
		}
	})
	if valid == 0 {
		t.Error("no text was JSON")
	}
	for depth, want := range map[int]bool{MaxDepth: true, MaxDepth + 1: false} {
		if text := strings.Repeat("[", depth) + strings.Repeat("]", depth); isJSON(text) != want {
			t.Errorf("depth %d: %t", depth, !want)
		}
	}
}

// Texts that a body may hold are JSON of any depth: arguments, what tools print and programs. A reader that recursed as deep would
// run out of stack, which ends the process.
func TestDeepTexts(t *testing.T) {
	deep := strings.Repeat("[", 12<<20)
	quoted := func(text string) string { return string(AppendQuoted(nil, text)) }
	for what, input := range map[string][3]string{
		"arguments": {"Bash", `{"command":` + deep, "a"},
		"list":      {"shell", deep, "a"},
		"result":    {"read_files", `{"files":[]}`, `{"query":` + deep},
		"results":   {"run_commands", `{"commands":[]}`, `[{"query":` + deep},
		"program":   {"exec", `const r = await tools.exec_command({cmd:` + deep + strings.Repeat("]", len(deep)) + `})`, "a"},
		"patch":     {"exec", `await tools.apply_patch(` + deep + strings.Repeat("]", len(deep)) + `)`, "a"},
	} {
		for _, f := range []Format{Chat, Responses} {
			body := []byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":` + quoted(input[0]) + `,"arguments":` + quoted(input[1]) +
				`}}]},{"role":"tool","tool_call_id":"1","content":` + quoted(input[2]) + `}]}`)
			if f == Responses {
				body = []byte(`{"input":[{"type":"function_call","call_id":"1","name":` + quoted(input[0]) + `,"arguments":` + quoted(input[1]) +
					`},{"type":"function_call_output","call_id":"1","output":` + quoted(input[2]) + `}]}`)
			}
			ix, err := Parse(body, f)
			if err != nil {
				t.Fatal(err)
			}
			if ix.CallFacts(0).Path != "" || ix.ResultOutcome(&ix.Results[0]) != Unknown {
				t.Errorf("%s: %+v, %v", what, ix.CallFacts(0), ix.ResultOutcome(&ix.Results[0]))
			}
			ix.CallRuns(&ix.Calls[0], func(string) {})
			ix.Release()
		}
	}
}
