package transcript

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wholeOf is a number that has a whole value, -1 for anything else.
func wholeOf(body []byte, n *node) int64 {
	f, err := strconv.ParseFloat(string(n.at.Of(body)), 64)
	if err != nil || f != float64(int64(f)) {
		return -1
	}
	return int64(f)
}

// either is a member that has two names.
func (n *node) either(a, b string) *node {
	if v := n.get(a); v != absent {
		return v
	}
	return n.get(b)
}

// geminiReference builds the index that Parse must build of a Gemini body, from what encoding/json says of it.
func geminiReference(t rapid.TB, body []byte) *Index {
	t.Helper()
	root := treeOf(t, body)
	r := &reference{body: body, want: &Index{Body: body, Format: Gemini, Top: Top{MaxTokens: -1, TopMarker: true}}}
	ix := r.want
	ix.MaxTokens = wholeOf(body, root.either("generationConfig", "generation_config").either("maxOutputTokens", "max_output_tokens"))
	cached := root.either("cachedContent", "cached_content")
	ix.Delta = cached != absent && cached.kind != 'n' && !cached.is("") && (cached.kind != '[' || len(cached.items) > 0)
	ix.End = root.at.Hi - 1
	for _, tool := range root.get("tools").items {
		for _, m := range tool.members {
			if list := m.value; (m.key == "functionDeclarations" || m.key == "function_declarations") && list.kind == '[' {
				for _, f := range list.items {
					ix.Head = append(ix.Head, opaque(f.at, InTools, Tool))
				}
			} else {
				ix.Head = append(ix.Head, opaque(Span{m.at, m.value.at.Hi}, InTools, Tool))
			}
		}
	}
	ix.HasTools = len(ix.Head) > 0
	r.geminiSystem(root.either("systemInstruction", "system_instruction"))
	for i, m := range root.get("contents").items {
		parts := m.get("parts")
		if parts.kind != '[' {
			parts = &node{at: Span{m.at.Hi, m.at.Hi}}
		}
		r.turn(m, parts, "user", "model", func() {
			for _, p := range parts.items {
				r.geminiPart(&ix.Blocks, p, int32(i))
			}
		})
		msg := &ix.Messages[i]
		if role := m.get("role"); role == absent || role.kind == 'n' || role.is("") || r.speaks(role, "function") {
			msg.Role = User
		}
		msg.Extra = false
		for _, k := range m.members {
			msg.Extra = msg.Extra || k.key != "role" && k.key != "parts"
		}
	}
	r.join()
	r.ordered()
	return ix
}

func (r *reference) geminiSystem(n *node) {
	head := &r.want.Head
	switch n.kind {
	case '"':
		r.block(head, n, InSystem)
	case '{':
		for _, m := range n.members {
			switch {
			case m.key == "parts" && m.value.kind == '{':
				r.geminiPart(head, m.value, InSystem)
			case m.key == "parts":
				for _, p := range m.value.items {
					r.geminiPart(head, p, InSystem)
				}
			case m.key != "role":
				*head = append(*head, opaque(Span{m.at, m.value.at.Hi}, InSystem, Other))
			}
		}
	}
}

func (r *reference) geminiPart(into *[]Block, n *node, msg int32) {
	ix, num := r.want, int32(len(*into))
	b := Block{Raw: n.at, Msg: msg, Marker: -1, Call: -1, Result: -1}
	call, response := n.either("functionCall", "function_call"), n.either("functionResponse", "function_response")
	id := func(n *node) Span {
		if v := n.get("id"); v.kind == '"' && v.text != "" {
			return v.at
		}
		return Span{}
	}
	switch text := n.get("text"); {
	case call.kind == '{' && msg >= 0:
		b.Kind, b.Call = ToolUse, int32(len(ix.Calls))
		ix.Calls = append(ix.Calls, Call{ID: id(call), Name: call.get("name").at, Input: call.get("args").at, Block: num, Msg: msg, answer: -1})
	case response.kind == '{' && msg >= 0:
		b.Kind, b.Result = ToolResult, int32(len(ix.Results))
		res := r.geminiResult(response)
		res.CallID, res.name, res.Block, res.Msg, res.Call = id(response), response.get("name").at, num, msg, -1
		ix.Results = append(ix.Results, res)
	case n.get("thought").kind == 't':
		b.Kind = Thinking
	case text.kind == '"':
		b.Kind, b.Text, b.Plain, b.Empty = Text, text.at, len(n.members) == 1, text.text == ""
	}
	*into = append(*into, b)
}

// geminiResult looks for the one string that a response is.
func (r *reference) geminiResult(n *node) Result {
	texts := uint32(len(r.want.Texts))
	res := Result{Form: StrangeForm, Texts: Span{texts, texts}}
	v := n.get("response")
	res.Content = v.at
	small := func(n *node) bool { return n.kind != '{' && n.kind != '[' && n.at.Len() <= maxScalar }
	var text *node
	for _, key := range []string{"output", "result", "content"} {
		if m := v.get(key); text == nil && m.kind == '"' {
			text = m
		}
	}
	texts = 0
	for _, m := range v.members {
		if m.value.kind == '"' {
			texts++
		}
		if e := m.value; m.key == "error" && e.kind != 'n' && e.kind != 'f' && !e.is("") && (e.kind != '[' || string(e.at.Of(r.body)) != "[]") {
			res.IsError = true
		}
	}
	for _, m := range v.members {
		if text == nil && texts == 1 && m.value.kind == '"' {
			text = m.value
		}
	}
	whole := text != nil
	for _, m := range v.members {
		whole = whole && (m.value == text || small(m.value))
	}
	switch {
	case v.kind == 'n', v == absent, v.kind == '{' && len(v.members) == 0:
		res.Form = NoContent
	case whole && text.text == "":
		res.Form, res.Content = NoContent, text.at
	case whole:
		res.Form, res.Content = StringForm, text.at
	}
	if parts := n.get("parts"); parts != absent && parts.kind != 'n' && !parts.is("") && string(parts.at.Of(r.body)) != "[]" {
		if res.Form == StringForm {
			r.want.Texts = append(r.want.Texts, res.Content)
			res.Texts.Hi++
		}
		res.Form = MixedForm
	}
	return res
}

// ordered joins what ids do not join: of each turn, name by name, and then what is left.
func (r *reference) ordered() {
	ix := r.want
	name := func(s Span) string { return (&Index{Body: r.body}).str(s) }
	for turn := range ix.LastTurn() + 1 {
		var calls, results []int
		ids := [2]int{}
		for i := range ix.Calls {
			if c := &ix.Calls[i]; c.Turn == turn && c.answer < 0 {
				calls = append(calls, i)
				ids[0] += min(1, c.ID.Len())
			}
		}
		for i := range ix.Results {
			if res := &ix.Results[i]; ix.Messages[res.Msg].Turn == turn && ix.Messages[res.Msg].Role != Assistant && res.Call < 0 && !res.Ambiguous {
				results = append(results, i)
				ids[1] += min(1, res.CallID.Len())
			}
		}
		of := map[string][2][]int{}
		for _, c := range calls {
			lane := of[name(ix.Calls[c].Name)]
			lane[0] = append(lane[0], c)
			of[name(ix.Calls[c].Name)] = lane
		}
		for _, res := range results {
			lane := of[name(ix.Results[res].name)]
			lane[1] = append(lane[1], res)
			of[name(ix.Results[res].name)] = lane
		}
		var rest [2][]int
		certain := true
		for _, c := range calls {
			if len(of[name(ix.Calls[c].Name)][1]) == 0 {
				rest[0] = append(rest[0], c)
			}
		}
		for _, res := range results {
			if len(of[name(ix.Results[res].name)][0]) == 0 {
				rest[1] = append(rest[1], res)
			}
		}
		for _, lane := range of {
			certain = certain && (len(lane[0]) == 0 || len(lane[1]) == 0 || len(lane[0]) == len(lane[1]))
		}
		join := func(calls, results []int, sure bool) {
			for i, res := range results {
				if !sure || len(calls) != len(results) {
					ix.Results[res].Ambiguous = true
					continue
				}
				c, answer := &ix.Calls[calls[i]], &ix.Results[res]
				answer.own = answer.CallID
				c.answer, answer.Call, answer.Turn, answer.CallID = int32(res), int32(calls[i]), c.Turn, Span{}
			}
		}
		if len(calls) == 0 || len(results) == 0 {
			continue
		}
		known := ids[0] == 0 || ids[1] == 0
		for _, lane := range of {
			if len(lane[0]) > 0 {
				join(lane[0], lane[1], known)
			}
		}
		join(rest[0], rest[1], known && certain)
	}
	for i := range ix.Results {
		if res := &ix.Results[i]; res.CallID.Len() > 0 && strings.HasPrefix(name(res.CallID), "#") {
			res.Ambiguous = true
		}
	}
}

// odd bodies of Gemini, which no generator makes.
var geminiBodies = []string{
	`{"contents":[{"parts":[{"text":"a"}]}]}`,
	`{"contents":[{"role":"user"}],"systemInstruction":null,"tools":null,"generationConfig":null,"cachedContent":null}`,
	` { "system_instruction" : { "role" : "system" , "parts" : { "text" : "s" } , "x" : 1 } , "contents" : [ { "role" : "model" , "parts" : [ { "function_call" : { "name" : "f" } } ] , "y" : 2 } ,
	 { "role" : "function" , "parts" : [ { "function_response" : { "name" : "f" , "response" : { "result" : "r" , "ok" : true } } } ] } ] ,
	 "generation_config" : { "max_output_tokens" : 7 , "responseSchema" : { } } , "cached_content" : "cachedContents/1" } `,
	`{"systemInstruction":"s","contents":[{"role":"","parts":null},{"role":null,"parts":[]},{"role":"tool","parts":[{}]},{"role":7,"parts":[{"text":1}]}],
	 "tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}],"googleSearch":{}},{},{"function_declarations":null},{"codeExecution":{}}]}`,
	`{"contents":[{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"x"},{"thoughtSignature":"x"},{"text":"","thoughtSignature":"x"},{"text":"b","thought":false},
	 {"functionCall":{"name":"f","args":{"a":1},"id":""},"thoughtSignature":"x"},{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},{"inlineData":{"mimeType":"image/png","data":""}}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f"}}]},
	 {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1","error":null}}},{"functionResponse":{"name":"f","response":{"error":"2"}}},{"functionResponse":{"name":"g","response":{"content":"3","code":0}}}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","id":"1"}},{"functionCall":{"name":"f","id":"2"}},{"functionCall":{"name":"g"}}]},
	 {"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}},{"functionResponse":{"name":"f","id":"2","response":{"output":"b"}}},{"functionResponse":{"name":"f","id":"1","response":{"output":""}}}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}}]},
	 {"role":"user","parts":[{"functionResponse":{"name":"f","id":"x","response":{"output":"a"}}},{"functionResponse":{"name":"f","id":"x","response":{"output":"b"}}}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"g"}}]},
	 {"role":"user","parts":[{"functionResponse":{"name":"h","response":{"output":"a"}}},{"functionResponse":{"name":"i","id":"#0","response":{"output":"b"}}}]},
	 {"role":"model","parts":[{"functionCall":{"name":"f","id":"#1"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","id":"#1","response":{"output":"c"}}}]}]}`,
	`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","id":"a"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","id":"b","response":{"output":"a"}}}]}]}`,
	`{"contents":[{"parts":[{"functionResponse":{"name":"f","response":{"output":{"a":1}}}},{"functionResponse":{"name":"f","response":"s"}},{"functionResponse":{"name":"f","response":null}},{"functionResponse":{"name":"f"}},
	 {"functionResponse":{"name":"f","response":{"a":"1","b":"2"}}},{"functionResponse":{"name":"f","response":{"a":"1","b":2}}},{"functionResponse":{"name":"f","response":{"output":"1","b":"2"}}},
	 {"functionResponse":{"name":"f","response":{"output":"1","b":[2]}}},{"functionResponse":{"name":"f","response":{"output":"1"},"parts":[{"inlineData":{}}]}},{"functionResponse":{"name":"f","response":{"output":1,"result":"2"},"parts":[]}},
	 {"functionResponse":{"name":"f","response":{"output":"1","b":"` + strings.Repeat("x", maxScalar) + `"}}},{"functionResponse":{"name":"f","response":{"b":"` + strings.Repeat("x", maxScalar) + `","error":false}}}]}]}`,
	`{"contents":[{"role":"USER","parts":[{"text":"a"}]},{"role":"MODEL","parts":[{"functionCall":{"name":"f"}}]},{"role":"Function","parts":[{"functionResponse":{"name":"f","response":{"output":"b"}}}]},{"role":"Model","parts":[]}]}`,
}

func TestGeminiRejects(t *testing.T) {
	for body, why := range map[string]string{
		`{"contents":[]}`:                                                 "no messages",
		`{"contents":{}}`:                                                 "expected [",
		`{"contents":["a"]}`:                                              "expected {",
		`{"contents":[{"parts":{"text":"a"}}]}`:                           "expected [",
		`{"contents":[{"parts":["a"]}]}`:                                  "expected {",
		`{"contents":[{"parts":[{"functionCall":{}}]}]}`:                  "without a name",
		`{"contents":[{"parts":[{"functionResponse":{"response":{}}}]}]}`: "without a name",
		`{"contents":[{"parts":[{"functionResponse":{"name":"f","response":{"output":"a","output":"b"}}}]}]}`: "twice",
		`{"contents":[{"parts":[{"functionCall":{"name":"f"},"function_call":{"name":"f"}}]}]}`:               "twice",
		`{"contents":[{"parts":[]}],"systemInstruction":{},"system_instruction":{}}`:                          "twice",
		`{"contents":[{"parts":[]}],"systemInstruction":[]}`:                                                  "expected {",
		`{"contents":[{"parts":[]}],"tools":{}}`:                                                              "expected [",
	} {
		if _, err := Parse([]byte(body), Gemini); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", body, err, why)
		}
	}
}

// Results without ids are known by names that stay when the body grows, and answer the calls of their turn.
func TestUnnamedResults(t *testing.T) {
	body := geminiBodies[5]
	for _, grown := range []string{body, strings.TrimSuffix(body, "]}") + `,{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`} {
		ix := parseAs(t, []byte(grown), Gemini)
		for i, want := range []int32{0, 2, 1} {
			r := &ix.Results[i]
			if r.Call != want || r.Ambiguous || ix.CallID(r) != "#"+strconv.Itoa(i) || ix.Answer(want) != r {
				t.Errorf("result %d answers %d, is %q", i, r.Call, ix.CallID(r))
			}
		}
		if ix.Results[0].IsError || !ix.Results[1].IsError {
			t.Error("what failed is what says so")
		}
		ix.Release()
	}
}

// An id that no call has says nothing where the order joins its result, and does so as soon as later calls have it: whatever the
// bodies before it were read for.
func TestUnnamedResultsReadOn(t *testing.T) {
	h, joined, again := NewHasher(secret), 0, 0
	id := rapid.SampledFrom([]string{"", "", `"id":"x",`, `"id":"y",`, `"id":"#1",`})
	name := rapid.SampledFrom([]string{"f", "g"})
	rapid.Check(t, func(t *rapid.T) {
		var turns []string
		for range rapid.IntRange(2, 12).Draw(t, "turns") {
			var calls, results []string
			for range rapid.IntRange(1, 2).Draw(t, "calls") {
				calls = append(calls, `{"functionCall":{`+id.Draw(t, "id")+`"name":"`+name.Draw(t, "name")+`"}}`)
				results = append(results, `{"functionResponse":{`+id.Draw(t, "id")+`"name":"`+name.Draw(t, "name")+`","response":{"output":"a"}}}`)
			}
			turns = append(turns, `{"role":"model","parts":[`+strings.Join(calls, ",")+`]},{"parts":[`+strings.Join(results, ",")+`]}`)
		}
		var m *Memo
		for n := 1; n <= len(turns); n++ {
			ix, known := readOnAs(t, []byte(`{"contents":[`+strings.Join(turns[:n], ",")+`]}`), Gemini, m, h)
			again += b2i(known)
			for i := range ix.Results {
				joined += b2i(ix.Results[i].own.Len() > 0)
			}
			m = ix.Memo(h)
			ix.Release()
		}
	})
	if joined == 0 || again == 0 {
		t.Errorf("%d ids were taken off, %d bodies read on", joined, again)
	}
}
