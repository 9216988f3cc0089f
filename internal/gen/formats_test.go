package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

func read(t *rapid.T, f gen.Format, body []byte) []gentest.Piece {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("%s: invalid JSON:\n%s", f, body)
	}
	pieces, err := gentest.Read(f, body)
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

// However strange a conversation is, each format is JSON, the same every time, and every result answers a call before it.
func TestFormats(t *testing.T) {
	strange := gentest.Conversation(gen.Options{Strange: true, Wild: true, Dialects: true}, 5)
	differ := map[gen.Format]bool{}
	rapid.Check(t, func(t *rapid.T) {
		c := strange.Draw(t, "conversation")
		for _, f := range gen.Formats {
			body := c.As(f)
			open, answered := map[string]int{}, 0
			for _, p := range read(t, f, body) {
				switch p.Kind {
				case "call":
					open[p.ID]++
				case "result":
					answered++
					if open[p.ID]--; open[p.ID] < 0 {
						t.Fatalf("%s: result %q answers nothing:\n%s", f, p.ID, body)
					}
				}
			}
			for id, n := range open {
				if n != 0 {
					t.Fatalf("%s: call %q is not answered:\n%s", f, id, body)
				}
			}
			if !bytes.Equal(body, c.As(f)) {
				t.Fatalf("%s is written in two ways", f)
			}
			compact := c.CompactAs(f)
			if bytes.ContainsAny(compact, "\n\t") || bytes.Contains(compact, []byte(`", "`)) && !bytes.Contains(body, []byte(`", "`)) {
				t.Fatalf("%s is not compact:\n%s", f, compact)
			}
			read(t, f, compact)
			differ[f] = differ[f] || !bytes.Equal(body, compact)
		}
	})
	for _, f := range gen.Formats {
		if !differ[f] {
			t.Errorf("%s was written in one way only", f)
		}
	}
}

// What a conversation says, each format says, in the same order.
func TestFormatsSayTheSame(t *testing.T) {
	for _, o := range []gen.Options{{Wild: true, Dialects: true}, {Wild: true, Dialects: true, Comparable: true}, {Dialects: true}} {
		kinds := map[string]int{}
		conversations := gentest.Conversation(o, 5)
		rapid.Check(t, func(t *rapid.T) {
			c := conversations.Draw(t, "conversation")
			c.Dialect.LocalShell = false // which keeps a command and nothing else
			want := pieces(t, c, gen.Anthropic)
			for _, f := range gen.Formats[1:] {
				if diff := cmp.Diff(want, pieces(t, c, f)); diff != "" {
					t.Fatalf("%s says something else: %s", f, diff)
				}
			}
			for _, p := range want {
				kinds[p.Role+" "+p.Kind]++
			}
		})
		for _, k := range []string{"system text", "user text", "assistant text", "assistant call", "user result"} {
			if kinds[k] == 0 {
				t.Errorf("%+v: no %s", o, k)
			}
		}
	}
}

// pieces are what all formats have: Gemini may have no ids, OpenAI has no error flag, and nobody else an attribution.
func pieces(t *rapid.T, c *gen.Conversation, f gen.Format) (list []gentest.Piece) {
	for _, p := range read(t, f, c.As(f)) {
		if p.Role == "system" && strings.HasPrefix(p.Text, "x-anthropic-billing-header:") {
			continue
		}
		p.ID, p.Failed = "", false
		list = append(list, p)
	}
	return list
}

// Formats that have an error flag set it alike.
func TestFailed(t *testing.T) {
	conversations := gentest.Comparable(gen.Options{}, 6)
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := conversations.Draw(t, "conversation")
		for _, f := range []gen.Format{gen.Anthropic, gen.Converse, gen.Gemini} {
			for _, p := range read(t, f, c.As(f)) {
				refused := false
				for _, head := range []string{"<tool_use_error>", "Exit code 1\n", "<returncode>2<"} {
					refused = refused || strings.HasPrefix(p.Result, head)
				}
				if p.Failed != refused {
					t.Fatalf("%s: the flag is %t: %s", f, p.Failed, p.Result)
				}
				failed += b2i(refused)
			}
		}
	})
	if failed == 0 {
		t.Error("no call failed")
	}
}

// items are the elements of a list of the body as they stand there.
func items(t *rapid.T, f gen.Format, body []byte) []json.RawMessage {
	key := map[gen.Format]string{gen.Responses: "input", gen.Gemini: "contents"}[f]
	if key == "" {
		key = "messages"
	}
	var top map[string]json.RawMessage
	var list []json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(top[key], &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// Requests of one conversation only grow: what was sent keeps its bytes, in every format and dialect.
func TestFormatsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := gen.New(gentest.Source(t), gen.Options{Strange: rapid.Bool().Draw(t, "strange"), Wild: true, Dialects: true})
		c := m.Start()
		for range 3 {
			before := c.Clone()
			m.Turn(c)
			for _, f := range gen.Formats {
				old, all := items(t, f, before.As(f)), items(t, f, c.As(f))
				if len(all) <= len(old) {
					t.Fatalf("%s: %d items after %d", f, len(all), len(old))
				}
				for i := range old {
					if !bytes.Equal(old[i], all[i]) {
						t.Fatalf("%s: item %d changed:\n%s\n%s", f, i, old[i], all[i])
					}
				}
				if !bytes.HasPrefix(within(t, c.As(f), all[0]), bytes.TrimRight(untilEnd(t, before.As(f), old), " \n\t\r")) {
					t.Fatalf("%s: what stands between items changed", f)
				}
			}
		}
	})
}

// within is the body from an item on; untilEnd is the body from the first item to the last.
func within(t *rapid.T, body, first []byte) []byte {
	i := bytes.Index(body, first)
	if i < 0 {
		t.Fatal("an item does not stand in its body")
	}
	return body[i:]
}

func untilEnd(t *rapid.T, body []byte, list []json.RawMessage) []byte {
	rest := within(t, body, list[0])
	last := list[len(list)-1]
	return rest[:len(rest)-len(within(t, rest, last))+len(last)]
}

// A delta holds what came after a stored response, written as it would stand in the whole body.
func TestDelta(t *testing.T) {
	conversations := gentest.Conversation(gen.Options{Wild: true, Dialects: true}, 4)
	rapid.Check(t, func(t *rapid.T) {
		c := conversations.Draw(t, "conversation")
		from := len(c.Messages) - 1
		body := c.Delta(from, "resp_1")
		var top struct {
			Previous string `json:"previous_response_id"`
			Store    bool
		}
		if err := json.Unmarshal(body, &top); err != nil || top.Previous != "resp_1" || !top.Store {
			t.Fatalf("%+v, %v", top, err)
		}
		if from == 0 {
			return
		}
		all, news := items(t, gen.Responses, c.As(gen.Responses)), items(t, gen.Responses, body)
		if len(news) == 0 || !slices.EqualFunc(news, all[len(all)-len(news):], func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("a delta of %d items:\n%s", len(news), body)
		}
		earlier := c.Clone()
		earlier.Truncate(from)
		if n := len(items(t, gen.Responses, earlier.As(gen.Responses))); n+len(news) != len(all) {
			t.Fatalf("%d items and %d are not %d", n, len(news), len(all))
		}
	})
}

// Taking a breakpoint away from what Bedrock caches leaves the bytes of the body without it.
func TestCachePoint(t *testing.T) {
	conversations := gentest.Conversation(gen.Options{Wild: true, Strange: true}, 3)
	points := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := conversations.Draw(t, "conversation")
		c.Mark([]gen.Marker{gen.Short, gen.Long}[rapid.IntRange(0, 1).Draw(t, "ttl")])
		body := c.As(gen.Converse)
		c.Unmark()
		bare := c.As(gen.Converse)
		if len(items(t, gen.Converse, body)) != len(items(t, gen.Converse, bare)) || bytes.Contains(bare, []byte("cachePoint")) {
			t.Fatalf("a message more or less, or a breakpoint left:\n%s\n%s", body, bare)
		}
		if !subsequence(bare, body) {
			t.Fatalf("other bytes changed:\n%s\n%s", body, bare)
		}
		for _, v := range []string{`"type"`, `"ttl"`} {
			points[v] += bytes.Count(body, []byte(v)) - bytes.Count(bare, []byte(v))
		}
	})
	if points[`"type"`] == 0 || points[`"type"`] <= points[`"ttl"`] {
		t.Errorf("breakpoints with and without a ttl: %v", points)
	}
}

func subsequence(a, b []byte) bool {
	for _, c := range b {
		if len(a) > 0 && a[0] == c {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// The dialects are drawn, and each one shows in a body.
func TestDialects(t *testing.T) {
	call := func(name string, input gen.Object) *gen.Conversation {
		c := &gen.Conversation{System: []gen.Block{gen.Text("s")}, MaxTokens: 9, Tools: []gen.Block{{Members: gen.Object{{"name", name}}}}}
		result := gen.Result("1", "abc")
		result.Marker = gen.Long
		c.Messages = []gen.Message{
			{Role: "user", Blocks: []gen.Block{gen.Text("u")}},
			{Role: "assistant", Blocks: []gen.Block{gen.Text("a"), gen.Call("1", name, input)}},
			{Role: "user", Blocks: []gen.Block{result}},
			{Role: "assistant", Blocks: []gen.Block{gen.Text("a")}},
			{Role: "user", Blocks: []gen.Block{{Members: gen.Text("v").Members, Marker: gen.Long}}},
		}
		return c
	}
	bash, patch := gen.Object{{"command", "ls"}}, gen.Object{{"input", "*** Begin Patch"}}
	for _, v := range []struct {
		f     gen.Format
		d     gen.Dialect
		c     *gen.Conversation
		shows string
	}{
		{gen.Chat, gen.Dialect{}, call("Bash", bash), `"messages":[{"role":"system","content":"s"},`},
		{gen.Chat, gen.Dialect{Developer: true}, call("Bash", bash), `{"role":"developer","content":"s"}`},
		{gen.Chat, gen.Dialect{Parts: true}, call("Bash", bash), `{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":[`},
		{gen.Chat, gen.Dialect{OldLimit: true}, call("Bash", bash), `"max_tokens":9`},
		{gen.Chat, gen.Dialect{CacheControl: true}, call("Bash", bash), `"content":"abc","cache_control":{"type":"ephemeral","ttl":"1h"}`},
		{gen.Chat, gen.Dialect{Explicit: true}, call("Bash", bash), `{"type":"text","text":"v","prompt_cache_breakpoint":{"mode":"explicit"}}`},
		{gen.Chat, gen.Dialect{Custom: true}, call("apply_patch", patch), `{"id":"1","type":"custom","custom":{"name":"apply_patch","input":"*** Begin Patch"}}`},
		{gen.Chat, gen.Dialect{}, call("apply_patch", patch), `"function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin Patch\"}"}`},
		{gen.Responses, gen.Dialect{}, call("Bash", bash), `{"instructions":"s","input":[{"type":"message","role":"user",`},
		{gen.Responses, gen.Dialect{Developer: true}, call("Bash", bash), `{"input":[{"type":"message","role":"developer",`},
		{gen.Responses, gen.Dialect{Explicit: true}, call("Bash", bash), `{"type":"input_text","text":"v","prompt_cache_breakpoint":{"mode":"explicit"}}`},
		{gen.Responses, gen.Dialect{Custom: true}, call("apply_patch", patch), `{"type":"custom_tool_call_output","call_id":"1","output":"abc"}`},
		{gen.Responses, gen.Dialect{LocalShell: true}, call("Bash", bash), `"action":{"type":"exec","command":["bash","-lc","ls"],"env":{}}`},
		{gen.Responses, gen.Dialect{LocalShell: true}, call("Bash", bash), `{"type":"local_shell_call_output","id":"1","call_id":"1","output":"abc"}`},
		{gen.Responses, gen.Dialect{IDs: true}, call("Bash", bash), `,"id":"fc_`},
		{gen.Converse, gen.Dialect{}, call("Bash", bash), `"content":[{"text":"abc"}]}},{"cachePoint":{"type":"default","ttl":"1h"}}]`},
		{gen.Converse, gen.Dialect{JSON: true}, call("Bash", bash), `"content":[{"json":{"output":"abc"}}]`},
		{gen.Gemini, gen.Dialect{}, call("Bash", bash), `{"functionResponse":{"name":"Bash","response":{"output":"abc"}}}`},
		{gen.Gemini, gen.Dialect{IDs: true}, call("Bash", bash), `{"functionCall":{"name":"Bash","args":{"command":"ls"},"id":"1"},"thoughtSignature":"`},
	} {
		v.c.Dialect = v.d
		if body := string(v.c.CompactAs(v.f)); !strings.Contains(body, v.shows) {
			t.Errorf("%s %+v: no %s in\n%s", v.f, v.d, v.shows, body)
		}
	}
	var seen string
	conversations := gentest.Conversation(gen.Options{Dialects: true}, 0)
	rapid.Check(t, func(t *rapid.T) { seen += fmt.Sprintf("%+v", conversations.Draw(t, "conversation").Dialect) })
	for _, choice := range []string{"Developer", "Parts", "OldLimit", "CacheControl", "Explicit", "Custom", "LocalShell", "IDs", "JSON"} {
		if !strings.Contains(seen, choice+":true") || !strings.Contains(seen, choice+":false") {
			t.Errorf("%s is always the same", choice)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
