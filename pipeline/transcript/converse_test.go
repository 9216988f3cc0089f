package transcript

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// converseReference builds the index that Parse must build of a Converse body, from what encoding/json says of it.
func converseReference(t rapid.TB, body []byte) *Index {
	t.Helper()
	root := treeOf(t, body)
	r := &reference{body: body, want: &Index{Body: body, Format: Converse, Top: Top{MaxTokens: -1}}}
	ix := r.want
	ix.MaxTokens = wholeOf(body, root.get("inferenceConfig").get("maxTokens"))
	ix.DropBlock = root.get("additionalModelRequestFields").get("thinking").get("block_binding").get("prefix_mismatch_behavior").is("drop_block")
	ix.End = root.at.Hi - 1
	r.points(root.get("toolConfig").get("tools"), &ix.Head, InTools)
	ix.HasTools = len(ix.Head) > 0
	r.points(root.get("system"), &ix.Head, InSystem)
	for i, m := range root.get("messages").items {
		r.turn(m, m.get("content"), "user", "assistant", func() { r.points(m.get("content"), &ix.Blocks, int32(i)) })
	}
	r.join()
	return ix
}

// turn adds a message whose blocks are added by parts.
func (r *reference) turn(n, content *node, user, model string, parts func()) {
	ix := r.want
	num := int32(len(ix.Messages))
	m := Message{Raw: n.at, Content: content.at, First: int32(len(ix.Blocks)), role: n.get("role").at}
	known := 0
	for _, k := range n.members {
		if k.key == "role" || k.value == content {
			known++
		}
	}
	m.Extra = len(n.members) > known
	switch role := n.get("role"); {
	case r.speaks(role, user):
		m.Role = User
	case r.speaks(role, model):
		m.Role = Assistant
	}
	ix.Messages = append(ix.Messages, m)
	parts()
	m.Last = int32(len(ix.Blocks))
	if num > 0 {
		m.Turn = ix.Messages[num-1].Turn
	}
	if m.Role == Assistant && (num == 0 || ix.Messages[num-1].Role != Assistant) {
		m.Turn++
	}
	ix.Messages[num] = m
	for i := range ix.Calls {
		if c := &ix.Calls[i]; c.Msg == num {
			c.Turn = m.Turn
		}
	}
}

// speaks reports whether a role is a word, which Gemini's may also be in capitals.
func (r *reference) speaks(role *node, word string) bool {
	return role.is(word) || r.want.Format == Gemini && role.kind == '"' && strings.ToLower(role.text) == word
}

// points reads a list in which breakpoints are elements.
func (r *reference) points(list *node, into *[]Block, area int32) {
	ix := r.want
	for i, e := range list.items {
		seq := int32(len(*into))
		if area >= 0 {
			seq += int32(len(ix.Head))
		}
		if e.get("cachePoint") != absent {
			m := r.pointAt(list, i)
			m.Seq = seq - 1
			(*into)[len(*into)-1].Marker = int32(len(ix.Markers))
			ix.Markers = append(ix.Markers, m)
			continue
		}
		b := Block{Raw: e.at, Msg: area, Marker: -1, Call: -1, Result: -1}
		text, use, result := e.get("text"), e.get("toolUse"), e.get("toolResult")
		switch {
		case area == InTools:
			b.Kind = Tool
		case text.kind == '"':
			b.Kind, b.Text, b.Plain, b.Empty = Text, text.at, len(e.members) == 1, text.text == ""
		case area < 0:
		case use != absent && use.get("type") == absent:
			b.Kind, b.Call = ToolUse, int32(len(ix.Calls))
			ix.Calls = append(ix.Calls, Call{ID: use.get("toolUseId").at, Name: use.get("name").at, Input: use.get("input").at, Block: int32(len(*into)), Msg: area, answer: -1})
		case result != absent && result.get("type") == absent:
			b.Kind, b.Result = ToolResult, int32(len(ix.Results))
			res := r.converseResult(result, seq)
			res.Block, res.Msg, res.Call = int32(len(*into)), area, -1
			ix.Results = append(ix.Results, res)
		case e.get("reasoningContent") != absent:
			b.Kind = Thinking
		}
		*into = append(*into, b)
	}
}

// pointAt is the breakpoint that is element i of a list. Without it the list is as if it had never been there.
func (r *reference) pointAt(list *node, i int) Marker {
	e := list.items[i]
	v := e.get("cachePoint")
	m := Marker{Member: e.at, Cut: e.at, Value: v.at, TTL: ttlOf(v), TTLVal: v.get("ttl").at}
	leading := true // nothing but breakpoints before it: the comma behind it goes
	for _, before := range list.items[:i] {
		leading = leading && before.get("cachePoint") != absent
	}
	switch {
	case !leading:
		end := list.items[i-1].at.Hi
		m.Cut.Lo = end + uint32(bytes.IndexByte(r.body[end:], ','))
	case i+1 < len(list.items):
		m.Cut.Hi = list.items[i+1].at.Lo
	}
	return m
}

func (r *reference) converseResult(n *node, seq int32) Result {
	ix := r.want
	content := n.get("content")
	res := Result{CallID: n.get("toolUseId").at, Content: content.at, IsError: n.get("status").is("error"), Texts: Span{uint32(len(ix.Texts)), 0}}
	for i, e := range content.items {
		text := e.get("text")
		switch {
		case e.get("cachePoint") != absent:
			m := r.pointAt(content, i)
			m.Nested, m.Seq, res.NestedMarker = true, seq, true
			ix.Markers = append(ix.Markers, m)
			continue
		case text.kind != '"' || len(e.members) > 1:
			res.Form = MixedForm
			continue
		case res.Form == NoContent:
			res.Form = TextForm
		}
		ix.Texts = append(ix.Texts, text.at)
	}
	res.Texts.Hi = uint32(len(ix.Texts))
	return res
}

// odd bodies of Converse, which no generator makes.
var converseBodies = []string{
	`{"messages":[{"role":"user","content":[{"text":"a"}]}]}`,
	`{"messages":[{"role":"user","content":[]}],"system":null,"toolConfig":null,"inferenceConfig":null}`,
	` { "messages" : [ { "content" : [ { "text" : "a" } , { "cachePoint" : { "type" : "default" , "ttl" : "1h" } } ] , "role" : "user" } ] } `,
	`{"system":[{"text":"s"},{"cachePoint":{"type":"default"}},{"guardContent":{"text":{"text":"g"}}},{"cachePoint":{"ttl":"5m","type":"default"}}],
	 "toolConfig":{"toolChoice":{"auto":{}},"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"cachePoint":{}}}}},{"systemTool":{"name":"x"}},{"cachePoint":{"type":"default","ttl":"1h"}}]},
	 "messages":[{"role":"user","content":[{"text":"a"}]}],"inferenceConfig":{"maxTokens":1e3,"temperature":0},
	 "additionalModelRequestFields":{"thinking":{"block_binding":{"prefix_mismatch_behavior":"drop_block"}}}}`,
	`{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{}},{"cachePoint":{"ttl":null}}]},{"role":"assistant","content":[{"text":"b"},{"cachePoint":{"type":"default"}},{"text":"c"}]}]}`,
	`{"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f","input":{"cachePoint":{"a":1}}}},{"toolUse":{"toolUseId":"s","name":"g","input":null,"type":"server_tool_use"}},
	 {"toolResult":{"toolUseId":"s","type":"nova_grounding_result","content":[{"json":{}}]}},{"reasoningContent":{"reasoningText":{"text":"r","signature":"x"}}},{"cachePoint":{}}]},
	 {"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"text":"x"},{"cachePoint":{"type":"default"}},{"text":"y"}],"status":"error"}},{"cachePoint":{"type":"default","ttl":"2h"}}]}]}`,
	`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"cachePoint":{}} , {"cachePoint":{}} ,{"text":"y"}]}},{"toolResult":{"toolUseId":"u","content":[{"cachePoint":{}},{"cachePoint":{}}]}},
	 {"toolResult":{"content":[{"json":{"output":"z"}}],"toolUseId":"v","status":"success"}},{"toolResult":{"toolUseId":"w"}},{"toolResult":{"toolUseId":"w","content":null}},{"toolResult":{"toolUseId":"x","content":[{"text":"a","b":1}]}},{"image":{"format":"png"}},{}]}]}`,
	`{"messages":[{"role":"system","content":[{"text":"a","citations":[]},{"\u0074ext":""}],"x":{"cachePoint":{}}},{"role":7,"content":[]}],"requestMetadata":{"cachePoint":{}},"guardrailConfig":{}}`,
}

func TestConverseRejects(t *testing.T) {
	for body, why := range map[string]string{
		`{"messages":[]}`: "no messages",
		`{"messages":[{"role":"user","content":"a"}]}`:                                                                         "expected [",
		`{"messages":[{"role":"user","content":null}]}`:                                                                        "expected [",
		`{"messages":[{"role":"user","content":["a"]}]}`:                                                                       "expected {",
		`{"messages":[{"role":"user"}]}`:                                                                                       "without role or content",
		`{"messages":[{"role":"user","content":[{"cachePoint":{}},{"text":"a"}]}]}`:                                            "no block before it",
		`{"messages":[{"role":"user","content":[{"text":"a"}]}],"system":[{"cachePoint":{}}]}`:                                 "no block before it",
		`{"messages":[{"role":"user","content":[{"text":"a"}]}],"toolConfig":{"tools":[{"cachePoint":{}}]}}`:                   "no block before it",
		`{"messages":[{"role":"user","content":[{"text":"a"},{"text":"b","cachePoint":{}}]}]}`:                                 "several things",
		`{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{},"b":0}]}]}`:                                      "something else besides",
		`{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":null}]}]}`:                                          "expected {",
		`{"messages":[{"role":"user","content":[{"text":"a","text":"b"}]}]}`:                                                   "twice",
		`{"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{"ttl":"5m","ttl":"1h"}}]}]}`:                       "twice",
		`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":"a"}}]}]}`:                            "expected [",
		`{"messages":[{"role":"user","content":[{"toolResult":{"content":[]}}]}]}`:                                             "without toolUseId",
		`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"text":"a","cachePoint":{}}]}}]}]}`: "something else besides",
		`{"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f"}}]}]}`:                             "without id, name or input",
		`{"messages":[{"role":"user","content":[{"text":"a"}]}],"toolConfig":{"tools":[],"tools":[]}}`:                         "twice",
		`{"messages":[{"role":"user","content":[{"text":"a"}]}],"inferenceConfig":{"maxTokens":1,"maxTokens":2}}`:              "twice",
		`{"messages":[{"role":"user","content":[{"text":"a"}` + strings.Repeat(`,{"cachePoint":{}}`, MaxBlocks+1) + `]}]}`:     "too many breakpoints",
	} {
		if _, err := Parse([]byte(body), Converse); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", clip([]byte(body)), err, why)
		}
	}
}

// A Converse body without one of its breakpoints, or without all, is what a client sends that does not set them.
func TestCachePointCut(t *testing.T) {
	cut := 0
	each := func(t rapid.TB, body []byte, which int) {
		t.Helper()
		ix := parseAs(t, body, Converse)
		defer ix.Release()
		for i := range ix.Markers {
			if m := &ix.Markers[i]; !m.Nested && (which < 0 || i == which%len(ix.Markers)) {
				one := parseAs(t, slices.Concat(body[:m.Cut.Lo], body[m.Cut.Hi:]), Converse)
				if len(one.Markers) != len(ix.Markers)-1 {
					t.Fatalf("%d breakpoints without one of %d in %s", len(one.Markers), len(ix.Markers), one.Body)
				}
				one.Release()
				cut++
			}
		}
		none := parseAs(t, ix.appendWithout(nil, Span{0, uint32(len(body))}, ix.cuts), Converse)
		defer none.Release()
		if len(none.Markers) > 0 || len(none.Blocks) != len(ix.Blocks) {
			t.Fatalf("breakpoints are left in %s", none.Body)
		}
		h := NewHasher(secret)
		ix.Digest(h)
		none.Digest(h)
		for i := range ix.Messages {
			if !ix.Messages[i].Extra && ix.Messages[i].Hash != none.Messages[i].Hash {
				t.Fatalf("message %d has another digest without breakpoints in %s", i, body)
			}
		}
		if ix.Key != none.Key {
			t.Fatalf("the key is another one without breakpoints in %s", body)
		}
	}
	for _, body := range converseBodies {
		each(t, []byte(body), -1)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := strange().Draw(t, "conversation")
		scatter(t, c)
		body := c.As("bedrock.converse")
		each(t, body, rapid.IntRange(0, 9).Draw(t, "which"))
		ix := parseAs(t, body, Converse)
		defer ix.Release()
		none := ix.appendWithout(nil, Span{0, uint32(len(body))}, ix.cuts)
		c.Unmark()
		if want := c.As("bedrock.converse"); !bytes.Equal(none, want) {
			t.Fatalf("without breakpoints it is\n%s\nnot\n%s", none, want)
		}
	})
	if cut == 0 {
		t.Error("no breakpoint was cut")
	}
}

// A call of the provider's own tools stays with its result.
func TestConverseOwnPairs(t *testing.T) {
	ix := parseAs(t, []byte(`{"messages":[{"role":"user","content":[{"text":"a"}]},`+
		`{"role":"assistant","content":[{"toolUse":{"toolUseId":"s","name":"g","input":{},"type":"server_tool_use"}}]},`+
		`{"role":"assistant","content":[{"toolResult":{"toolUseId":"s","type":"nova_grounding_result","content":[]}}]},{"role":"user","content":[{"text":"b"}]}]}`), Converse)
	defer ix.Release()
	var pairs [][2]int32
	ix.Pairs(func(call, result int32) { pairs = append(pairs, [2]int32{call, result}) })
	if len(pairs) != 1 || pairs[0] != [2]int32{1, 2} || len(ix.Calls)+len(ix.Results) > 0 {
		t.Errorf("pairs %v, calls %v, results %v", pairs, ix.Calls, ix.Results)
	}
}
