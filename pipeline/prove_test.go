package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// TestProveForms: what may stand for a string is a string, for a list of text a list of one text block.
func TestProveForms(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":%}]}]}`
	texts := []string{`"x"`, `"\u00e9\n"`, `[{"type":"text","text":"x"}]`, `[{"type":"text","text":"\u00e9\n"}]`} // the lawful ones of both forms
	unlawful := []string{
		"", `""`, `"`, `"x`, `x"`, `"x" `, ` "x"`, `"x"y"`, "\"\n\"", "null", "1", "{}", "[]", `["x"]`, `[{"type":"text","text":""}]`, `[{"type":"text","text":1}]`,
		`[{"type":"text","text":"x"}`, `"x"}]`, `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, `[{"type":"text","text":"x","y":1}]`, `[{"type":"image","text":"x"}]`,
	}
	for content, lawful := range map[string][]string{
		`"a"`: texts[:2], `[{"type":"text","text":"a"}]`: texts[2:], `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: texts[2:],
		`""`: nil, `[]`: nil, "null": nil, `[{"type":"image"}]`: nil, "{}": nil,
	} {
		ix, err := transcript.Parse([]byte(strings.Replace(body, "%", content, 1)), transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(slices.Clone(texts), unlawful...) {
			edits := []pipeline.Edit{{Span: ix.Results[0].Content, Text: []byte(text)}}
			err := pipeline.Prove(ix, edits, pipeline.Splice(ix.Body, edits))
			if want := slices.Contains(lawful, text); (err == nil) != want {
				t.Errorf("%s for %s: %v, lawful %v", text, content, err, want)
			}
		}
		ix.Release()
	}
}

// TestProveDeepRefuses: an outbound that is not what was planned is refused when it is read again.
func TestProveDeepRefuses(t *testing.T) {
	const body = `{"model":"m","tools":[{"name":"Read"}],"system":[{"type":"text","text":"be brief"}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"go"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Read","input":{"path":"f"}},{"type":"tool_use","id":"d","name":"Read","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"long"},` +
		`{"type":"tool_result","tool_use_id":"d","content":"kept","cache_control":{"type":"ephemeral"}}]}]}`
	ix, err := transcript.Parse([]byte(body), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	ix.Digest(spliceHasher)
	edits := []pipeline.Edit{{Span: ix.Results[0].Content, Text: []byte(`"short"`)}}
	out := string(pipeline.Splice(ix.Body, edits))
	if err := pipeline.ProveDeep(ix, spliceHasher, edits, marksOf(ix, edits), []byte(out)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to string }{
		{"no JSON", "]}]}", "]}]"},
		{"another model", `"m"`, `"n"`},
		{"another tool", `{"name":"Read"}]`, `{"name":"Edit"}]`},
		{"another system prompt", "be brief", "be long"},
		{"another text", `"go"`, `"no"`},
		{"another argument", `"f"`, `"g"`},
		{"another replacement", `"short"`, `"shirt"`},
		{"another result", `"kept"`, `"lost"`},
		{"a block less", `{"type":"text","text":"go"}`, ""},
		{"a block more", `{"type":"text","text":"go"}`, `{"type":"text","text":"go"},{"type":"text","text":"go"}`},
		{"a message less", `{"role":"user","content":[{"type":"text","text":"go"}]},`, ""},
		{"a message more", `"messages":[`, `"messages":[{"role":"user","content":[]},`},
		{"messages joined", `]},{"role":"assistant","content":[`, ","},
		{"a block in another message", `{"type":"text","text":"go"}]},{"role":"assistant","content":[`, `]},{"role":"assistant","content":[{"type":"text","text":"go"},`},
		{"a question that nobody asked", `]}]}`, `]}],"diagnostics":{"previous_message_id":null}}`},
		{"a marker less", `,"cache_control":{"type":"ephemeral"}`, ""},
		{"a marker more", `"text":"go"`, `"text":"go","cache_control":{"type":"ephemeral"}`},
		{"a marker for longer", `{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`},
		{
			"a marker elsewhere", `"short"},{"type":"tool_result","tool_use_id":"d","content":"kept","cache_control":{"type":"ephemeral"}`,
			`"short","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"d","content":"kept"`,
		},
	} {
		if strings.Count(out, c.from) != 1 {
			t.Fatalf("%s: %s stands %d times", c.name, c.from, strings.Count(out, c.from))
		}
		wrong := []byte(strings.Replace(out, c.from, c.to, 1))
		if pipeline.ProveDeep(ix, spliceHasher, edits, marksOf(ix, edits), wrong) == nil {
			t.Errorf("%s is accepted: %s", c.name, wrong)
		}
	}
}

// TestProveQuestion: a body is asked for a diagnosis once, at its end, and not where the client asks itself.
func TestProveQuestion(t *testing.T) {
	for body, lawful := range map[string]bool{
		`{"messages":[{"role":"user","content":"a"}]}`:                            true,
		"{\"messages\":[{\"role\":\"user\",\"content\":\"}\"}] \n} \n":            true,
		`{"messages":[{"role":"user","content":"a"}],"x":{"diagnostics":null}}`:   true,
		`{"messages":[{"role":"user","content":"a"}],"diagnostics":null}`:         false,
		`{"\u0064iagnostics":{},"messages":[{"role":"user","content":"a"}]}`:      false,
		`{"diagnostics":"x","messages":[{"role":"user","content":"a"}],"y":null}`: false,
	} {
		ix, err := transcript.Parse([]byte(body), transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		edits := []pipeline.Edit{question(ix, `"msg_1"`)}
		if err := pipeline.Prove(ix, edits, pipeline.Splice(ix.Body, edits)); (err == nil) != lawful {
			t.Errorf("%s: %v, lawful %v", body, err, lawful)
		}
		ix.Release()
	}
}
