package transcript

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// vector is a call of a client, what it answered, and what that says in a format without an error flag and in one with it.
type vector struct {
	Client, Tool, Input, Result string
	Chat, Anthropic             string
	Stub, Cut                   bool
}

func vectors(tb testing.TB) (list []vector) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) == 0 {
		tb.Fatalf("%d vectors: %v", len(list), err)
	}
	return list
}

// Each client's envelopes, refusals, answers, references and notices are known for what they are.
func TestResultVectors(t *testing.T) {
	by := map[string][]vector{}
	for _, v := range vectors(t) {
		by[v.Client] = append(by[v.Client], v)
	}
	for client, list := range by {
		t.Run(client, func(t *testing.T) {
			for _, v := range list {
				v.check(t)
			}
		})
	}
}

func (v *vector) check(t *testing.T) {
	t.Helper()
	for format, want := range map[Format]string{Chat: v.Chat, Responses: v.Chat, Gemini: v.Chat, Anthropic: v.Anthropic, Converse: v.Anthropic} {
		e := Explain(nil, format, v.Tool, v.Input, v.Result, true)
		if e.Outcome.String() != want || e.Why == "" {
			t.Errorf("%s in %s: %q %s by %q, not %s", v.Tool, format, v.Result, e.Outcome, e.Why, want)
		}
		if e.Stub != v.Stub || e.Cut != "" != v.Cut {
			t.Errorf("%s: %q: stub %v, cut %q", v.Tool, v.Result, e.Stub, e.Cut)
		}
	}
}

// A result in a body is judged as one that lies there alone, however it is escaped and in however many blocks it comes.
func TestResultsInBodies(t *testing.T) {
	for _, v := range vectors(t) {
		if !json.Valid([]byte(v.Input)) || v.Input[0] != '{' {
			continue
		}
		text, err := json.Marshal(v.Result)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{string(text), `"` + escaped(v.Result) + `"`, fmt.Sprintf(`[{"type":"text","text":%s}]`, text)} {
			if len(content) > 6*headBytes && content[1] == '\\' {
				continue // so escaped that less of it is looked at
			}
			ix := parse(t, fmt.Appendf(nil, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":%q,"input":%s}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":%s}]}]}`, v.Tool, v.Input, content))
			r := &ix.Results[0]
			for range 2 {
				if got := ix.ResultOutcome(r); got.String() != v.Anthropic && len(content) < headBytes {
					t.Errorf("%s: %s answered %s: %s, not %s", v.Client, v.Tool, content, got, v.Anthropic)
				}
				if ix.IsStub(r) != v.Stub || ix.IsCut(r) != v.Cut && len(content) < headBytes {
					t.Errorf("%s: %s answered %s: stub %v, cut %v", v.Client, v.Tool, content, ix.IsStub(r), ix.IsCut(r))
				}
			}
			ix.Release()
		}
	}
}

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		raw  string
		n    int
		want string
	}{
		{"abc", 9, "abc"},
		{"abc", 3, "abc"},
		{"abc", 2, "bc"},
		{"abc", 0, ""},
		{"", 5, ""},
		{`ab\n`, 1, ""},
		{`ab\n`, 2, "\n"},
		{`ab\nc`, 2, "c"},
		{`ab\\n`, 2, "n"},
		{`ab\\n`, 3, `\n`},
		{`ab\\\n`, 1, ""},
		{`ab\\\n`, 2, "\n"},
		{`\u0041b`, 1, "b"},
		{`\u0041b`, 2, "b"},
		{`\u0041b`, 5, "b"},
		{`\u0041b`, 6, "b"},
		{`\u0041b`, 7, "Ab"},
		{`\\u0041`, 5, "u0041"},
		{`\\u0041`, 6, "u0041"},
	} {
		if got := ending(c.raw, c.n); got != c.want {
			t.Errorf("the last %d bytes of %s are %q, not %q", c.n, c.raw, got, c.want)
		}
	}
}

// However much is cut off, what is left is the end of the text.
func FuzzResult(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Tool, v.Input, v.Result, 7)
	}
	f.Fuzz(func(t *testing.T, tool, input, result string, n int) {
		if len(result)+len(input) > maxFuzz || n < 0 {
			return
		}
		for _, format := range []Format{Chat, Anthropic} {
			e := Explain(nil, format, tool, input, result, true)
			if e.Why == "" || format.flagged() && e.Outcome == Unknown && e.Why == byNone {
				t.Fatalf("%s: %s by %q", format, e.Outcome, e.Why)
			}
		}
		raw, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		raw = raw[1 : len(raw)-1]
		whole := unquote(string(raw))
		if end := ending(string(raw), n); len(end) > n || whole[len(whole)-len(end):] != end {
			t.Fatalf("%q does not end in %q", whole, end)
		}
	})
}
