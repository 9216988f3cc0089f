package transcript

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// openAI are the formats that this file is about.
var openAI = map[Format]gen.Format{Chat: gen.Chat, Responses: gen.Responses}

// dialects are conversations of every shape that clients of any format write.
func anyDialect() *rapid.Generator[*gen.Conversation] {
	return gentest.Conversation(gen.Options{Dialects: true, Wild: true, ResultBytes: 60}, 5)
}

func formatOf(t *rapid.T) Format {
	return rapid.SampledFrom([]Format{Chat, Responses}).Draw(t, "format")
}

// turn is what one message of an index says, without how it is written.
type turn struct {
	Role    Role
	Turn    int32
	Texts   []string
	Calls   [][3]string // id, name, arguments
	Results [][2]string // id, text
	Other   int
	Thought int
}

// said is what an index says.
func said(ix *Index) (turns []turn) {
	for m := range ix.Messages {
		msg := &ix.Messages[m]
		t := turn{Role: msg.Role, Turn: msg.Turn}
		for i := msg.First; i < msg.Last; i++ {
			switch b := &ix.Blocks[i]; {
			case b.Call >= 0:
				c := &ix.Calls[b.Call]
				id := ""
				if c.ID.Len() > 0 {
					id = ix.str(c.ID)
				}
				t.Calls = append(t.Calls, [3]string{id, ix.ToolName(c), ix.InputText(c)})
			case b.Result >= 0:
				r := &ix.Results[b.Result]
				t.Results = append(t.Results, [2]string{ix.CallID(r), ix.ResultText(r)})
			case b.Kind == Text:
				t.Texts = append(t.Texts, validText(ix.BlockText(b)))
			case b.Kind == Thinking:
				t.Thought++
			default:
				t.Other++
			}
		}
		turns = append(turns, t)
	}
	return turns
}

// content is what encoding/json says of the content of a message or a result: its texts, and how many parts are none.
func content(v any) (texts []string, other int) {
	switch v := v.(type) {
	case string:
		texts = append(texts, v)
	case []any:
		for _, e := range v {
			if p, ok := e.(map[string]any); ok {
				kind, _ := p["type"].(string)
				if text, ok := p["text"].(string); ok && (kind == "text" || kind == "input_text" || kind == "output_text") {
					texts = append(texts, text)
					continue
				}
			}
			other++
		}
	}
	return texts, other
}

// reference is said, by encoding/json alone.
func referenceSaid(t rapid.TB, body []byte, f Format) (turns []turn) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(body, &root); err != nil {
		t.Fatal(err)
	}
	last := func(role Role, results bool) *turn { // of which the item may be a part
		if n := len(turns); n > 0 && turns[n-1].Role == role && (role == Assistant || results && len(turns[n-1].Results) > 0) {
			return &turns[n-1]
		}
		turns = append(turns, turn{Role: role})
		return &turns[len(turns)-1]
	}
	list := root["messages"]
	if f == Responses {
		list = root["input"]
	}
	for _, e := range list.([]any) {
		item := e.(map[string]any)
		str := func(key string) string { s, _ := item[key].(string); return s }
		role, kind := str("role"), str("type")
		switch {
		case (role == "system" || role == "developer") && len(turns) == 0:
		case role == "tool" || strings.HasSuffix(kind, "_output"):
			id, value := str("tool_call_id"), item["content"]
			if f == Responses {
				id, value = str("call_id"), item["output"]
			}
			texts, _ := content(value)
			r := last(User, true)
			r.Results = append(r.Results, [2]string{id, strings.Join(texts, "\n")})
		case role == "assistant" && f == Chat:
			turns = append(turns, turn{Role: Assistant})
			r := &turns[len(turns)-1]
			if item["content"] != "" {
				r.Texts, r.Other = content(item["content"])
			}
			if str("reasoning_content") != "" {
				r.Thought++
			}
			calls, _ := item["tool_calls"].([]any)
			for _, c := range calls {
				call := c.(map[string]any)
				inner, ok := call["function"].(map[string]any)
				if !ok {
					inner = call["custom"].(map[string]any)
				}
				input, ok := inner["arguments"].(string)
				if !ok {
					input, _ = inner["input"].(string)
				}
				r.Calls = append(r.Calls, [3]string{call["id"].(string), inner["name"].(string), input})
			}
		case role == "assistant":
			r := last(Assistant, false)
			texts, other := content(item["content"])
			r.Texts, r.Other = append(r.Texts, texts...), r.Other+other
		case kind == "reasoning":
			last(Assistant, false).Thought++
		case strings.HasSuffix(kind, "_call") && str("call_id") != "":
			r := last(Assistant, false)
			name, input := str("name"), str("arguments")
			if name == "" {
				name = kind
			}
			if input == "" {
				input = str("input")
			}
			r.Calls = append(r.Calls, [3]string{str("call_id"), name, input})
		case strings.HasSuffix(kind, "_call"):
			last(Assistant, false).Other++
		default:
			r := turn{Role: User}
			if role != "user" {
				r.Role = OtherRole
			}
			r.Texts, r.Other = content(item["content"])
			if role == "" {
				r.Other = 1
			}
			turns = append(turns, r)
		}
	}
	return turns
}

// number counts turns as Message.Turn does.
func number(turns []turn) []turn {
	n, was := int32(0), OtherRole
	for i := range turns {
		if turns[i].Role == Assistant && was != Assistant {
			n++
		}
		turns[i].Turn, was = n, turns[i].Role
	}
	return turns
}

// Every body that a client may write is read as encoding/json reads it.
func TestOpenAIEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := formatOf(t)
		body := anyDialect().Draw(t, "conversation").As(openAI[f])
		ix, err := Parse(body, f)
		if err != nil {
			t.Fatalf("%v in %s", err, clip(body))
		}
		defer ix.Release()
		got, want := said(ix), number(referenceSaid(t, body, f))
		for i := range got {
			for c := range got[i].Calls { // an action is no string
				if strings.HasSuffix(got[i].Calls[c][1], "_call") {
					got[i].Calls[c][2] = ""
				}
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("differs from encoding/json (-want +got):\n%s\nof %s", diff, clip(body))
		}
		checkSpans(t, ix)
	})
}

// checkSpans: every span is one JSON value, calls and results lie in their blocks, and those in their messages, in order.
func checkSpans(t rapid.TB, ix *Index) {
	t.Helper()
	inside := func(in, out Span) bool { return out.Lo <= in.Lo && in.Hi <= out.Hi }
	at := uint32(0)
	for m := range ix.Messages {
		msg := &ix.Messages[m]
		if msg.Raw.Lo < at || msg.Raw.Hi <= msg.Raw.Lo || msg.First > msg.Last {
			t.Fatalf("message %d lies at %v", m, msg.Raw)
		}
		at = msg.Raw.Hi
		for i := msg.First; i < msg.Last; i++ {
			b := &ix.Blocks[i]
			if b.Msg != int32(m) || !inside(b.Raw, msg.Raw) {
				t.Fatalf("block %d of message %d lies at %v", i, m, b.Raw)
			}
			if raw := b.Raw.Of(ix.Body); b.Kind != Other && !json.Valid(raw) || b.Kind == Other && !json.Valid(raw) && !json.Valid([]byte("{"+string(raw)+"}")) {
				t.Fatalf("block %d is no value: %s", i, clip(raw))
			}
		}
	}
	for i := range ix.Calls {
		if c := &ix.Calls[i]; ix.Blocks[c.Block].Call != int32(i) || !inside(c.ID, ix.Blocks[c.Block].Raw) || !inside(c.Name, ix.Blocks[c.Block].Raw) {
			t.Fatalf("call %d is not in its block", i)
		}
	}
	for i := range ix.Results {
		r := &ix.Results[i]
		if ix.Blocks[r.Block].Result != int32(i) || r.Content.Len() > 0 && (!inside(r.Content, ix.Blocks[r.Block].Raw) || !json.Valid(r.Content.Of(ix.Body))) {
			t.Fatalf("result %d is not in its block", i)
		}
	}
	for i := range ix.Markers {
		if m := &ix.Markers[i]; int(m.Seq) >= ix.Len() || i > 0 && ix.Markers[i-1].Seq > m.Seq {
			t.Fatalf("marker %d stands on block %d", i, m.Seq)
		}
	}
	for i := 1; i < len(ix.cuts); i++ {
		if ix.cuts[i].Lo < ix.cuts[i-1].Hi {
			t.Fatal("breakpoints are not in order")
		}
	}
}

// One conversation says the same in every format: messages, turns, calls and results.
func TestFormatsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Comparable(gen.Options{Wild: true, ResultBytes: 60}, 6).Draw(t, "conversation")
		first, err := Parse(c.As(gen.Anthropic), Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Release()
		for f, name := range openAI {
			ix, err := Parse(c.As(name), f)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(plainly(t, first), plainly(t, ix)); diff != "" {
				t.Fatalf("%s (+) differs from %s (-):\n%s", f, Anthropic, diff)
			}
			for i := range ix.Results {
				a, b := &first.Results[i], &ix.Results[i]
				if a.Call != b.Call || a.Turn != b.Turn || a.Ambiguous != b.Ambiguous || first.ResultTokens(int32(i)) != ix.ResultTokens(int32(i)) ||
					first.ResultOutcome(a) != ix.ResultOutcome(b) {
					t.Fatalf("%s: result %d: %+v, want %+v (%s)", f, i, b, a, clip([]byte(ix.ResultText(b))))
				}
			}
			ix.Release()
		}
	})
}

// plainly is said with arguments in one form.
func plainly(t rapid.TB, ix *Index) []turn {
	t.Helper()
	turns := said(ix)
	for i := range turns {
		for c := range turns[i].Calls {
			input := &turns[i].Calls[c][2]
			var v any
			if json.Unmarshal([]byte(*input), &v) != nil {
				v = map[string]any{"input": *input}
			}
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			*input = string(raw)
		}
	}
	return turns
}

// Where breakpoints stand makes no difference to any digest; another text does.
func TestOpenAIDigests(t *testing.T) {
	h := NewHasher(secret)
	rapid.Check(t, func(t *rapid.T) {
		f := formatOf(t)
		c := anyDialect().Draw(t, "conversation")
		c.Dialect.CacheControl = true
		digests := func() (Digest, []Digest) {
			ix, err := Parse(c.As(openAI[f]), f)
			if err != nil {
				t.Fatal(err)
			}
			defer ix.Release()
			ix.Digest(h)
			var chain []Digest
			for i := range ix.Messages {
				chain = append(chain, ix.Messages[i].Hash)
			}
			return ix.Key, chain
		}
		c.Unmark()
		key, chain := digests()
		c.Mark(gen.Short)
		markedKey, marked := digests()
		if key != markedKey || gocmp.Diff(chain, marked) != "" {
			t.Fatalf("breakpoints change digests of %s", clip(c.As(openAI[f])))
		}
		c.Messages[0].Blocks = append(c.Messages[0].Blocks, gen.Text("another text"))
		c.Messages[0].String = false
		if _, other := digests(); other[0] == chain[0] {
			t.Fatal("another text has the same digest")
		}
	})
}

// Reading on from a memo gives what reading the whole body gives.
func TestOpenAIReadOn(t *testing.T) {
	h, followed := NewHasher(secret), 0
	rapid.Check(t, func(t *rapid.T) {
		f := formatOf(t)
		maker := gen.New(gentest.Source(t), gen.Options{Dialects: true, Wild: true, ResultBytes: 60})
		c := maker.Conversation(1)
		var m *Memo
		for range rapid.IntRange(2, 5).Draw(t, "turns") {
			body := c.As(openAI[f])
			ix, known := readOnAs(t, body, f, m, h)
			if known {
				followed++
			}
			m = ix.Memo(h)
			ix.Release()
			for range 5 {
				if other, _ := readOnAs(t, mutate(t, body), f, m, h); other != nil {
					other.Release()
				}
			}
			maker.Turn(c)
		}
	})
	if followed == 0 {
		t.Error("nothing was read on")
	}
}

// A results message that a memo ends with may go on: it is another message then.
func TestReadOnJoins(t *testing.T) {
	h := NewHasher(secret)
	for f, parts := range map[Format][3]string{
		Chat: {
			`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"2","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"},`,
			`{"role":"user","content":"b"}]}`, `{"role":"tool","tool_call_id":"2","content":"y"}]}`,
		},
		Responses: {
			`{"model":"m","input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},`,
			`{"role":"user","content":"b"}]}`, `{"type":"function_call","call_id":"2","name":"f","arguments":"{}"}]}`,
		},
	} {
		ix, _ := readOnAs(t, []byte(parts[0]+parts[1]), f, nil, h)
		messages := len(ix.Messages)
		m := ix.Memo(h)
		ix.Release()
		ix, known := readOnAs(t, []byte(parts[0]+parts[2]), f, m, h)
		if !known || len(ix.Messages) != messages-1 {
			t.Errorf("%s: known %t, %d messages", f, known, len(ix.Messages))
		}
		ix.Release()
	}
}

// What the bodies say at their top.
func TestOpenAITop(t *testing.T) {
	for _, c := range []struct {
		f    Format
		body string
		want Top
		fail string
	}{
		{
			f: Chat, body: `{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":7,"prompt_cache_key":"k","session_id":"s"}`,
			want: Top{Model: "m", MaxTokens: 7, CacheKey: "k", SessionID: "s"},
		},
		{f: Chat, body: `{"messages":[{"role":"user","content":[]}],"prompt_cache_retention":"24h","max_tokens":1}`, want: Top{MaxTokens: 1, TopTTL: 24 * 3600e9}},
		{f: Chat, body: `{"messages":[{"role":"user","content":"a"}],"prompt_cache_retention":"in_memory"}`, want: Top{MaxTokens: -1, TopTTL: 3600e9}},
		{f: Chat, body: `{"messages":[{"role":"user","content":"a"}],"prompt_cache_retention":"forever"}`, want: Top{MaxTokens: -1, TopTTL: 1<<63 - 1}},
		{f: Responses, body: `{"model":"m","input":"a","instructions":"b","max_output_tokens":3}`, want: Top{Model: "m", MaxTokens: 3}},
		{f: Responses, body: `{"input":[{"role":"user","content":"a"}],"previous_response_id":"r"}`, want: Top{MaxTokens: -1, Delta: true}},
		{f: Responses, body: `{"input":[{"role":"user","content":"a"}],"previous_response_id":null,"conversation":null}`, want: Top{MaxTokens: -1}},
		{f: Responses, body: `{"input":[{"role":"user","content":"a"}],"conversation":{"id":"c"}}`, want: Top{MaxTokens: -1, Delta: true}},
		{f: Responses, body: `{"input":[{"type":"item_reference","id":"i"},{"role":"user","content":"a"}]}`, want: Top{MaxTokens: -1, Delta: true}},
		{f: Chat, body: `{"messages":[{"role":"function","name":"f","content":"a"}]}`, fail: "function calls"},
		{f: Chat, body: `{"messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}]}`, fail: "function calls"},
		{f: Responses, body: `{"input":[{"role":"user","content":"a"},{"id":"i"}]}`, want: Top{MaxTokens: -1, Delta: true}},
		{f: Responses, body: `{"input":[{"role":"user","content":"a"},{"id":"i","type":null}]}`, want: Top{MaxTokens: -1, Delta: true}},
		{f: Chat, body: `{"functions":[],"messages":[{"role":"user","content":"a"}]}`, want: Top{MaxTokens: -1}},
		{f: Chat, body: `{"functions":null,"messages":[{"role":"user","content":"a"}]}`, want: Top{MaxTokens: -1}},
		{f: Chat, body: `{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"},"custom":null},{"custom":{"name":"f","input":""},"id":"2","function":null}]}]}`, want: Top{MaxTokens: -1}},
		{f: Chat, body: `{"functions":[{"name":"f"}],"messages":[{"role":"user","content":"a"}]}`, fail: "functions"},
		{f: Chat, body: `{"messages":[{"role":"user"}]}`, fail: "without content"},
		{f: Chat, body: `{"messages":[{"content":"a"}]}`, fail: "without a role"},
		{f: Chat, body: `{"messages":[{"role":"tool","content":"a"}]}`, fail: "tool_call_id"},
		{f: Chat, body: `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]}`, fail: "no known kind"},
		{f: Chat, body: `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, fail: "without id"},
		{f: Chat, body: `{"messages":[{"role":"user","role":"user","content":"a"}]}`, fail: "twice"},
		{f: Chat, body: `{"messages":[]}`, fail: "no messages"},
		{f: Responses, body: `{"input":[{"type":"message","role":"user"}]}`, fail: "without role or content"},
		{f: Responses, body: `{"input":[7]}`, fail: "expected"},
		{f: Responses, body: `{"input":null}`, fail: "expected"},
	} {
		ix, err := Parse([]byte(c.body), c.f)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v, want %q", c.body, err, c.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		c.want.TopMarker = true
		if diff := gocmp.Diff(c.want, ix.Top); diff != "" {
			t.Errorf("%s: %s", c.body, diff)
		}
		ix.Release()
	}
}

// Items of Responses that are neither said, called nor answered.
func TestResponsesItems(t *testing.T) {
	body := `{"input":[
		{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f"}]},
		{"type":"message","role":"developer","content":"rules"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x</environment_context>"}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]},
		{"type":"reasoning","summary":[],"encrypted_content":"e"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"on it"}],"phase":"commentary","id":"m","status":"completed"},
		{"type":"local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"]},"status":"completed"},
		{"type":"apply_patch_call","call_id":"c2","operation":{"type":"delete_file","path":"a"}},
		{"type":"web_search_call","id":"w","action":{"query":"q"}},
		{"type":"local_shell_call_output","call_id":"c1","output":"a"},
		{"type":"apply_patch_call_output","call_id":"c2","status":"failed","output":"no such file"},
		{"type":"mcp_approval_response","approval_request_id":"p","approve":true},
		{"type":"compaction_trigger"},
		{"type":"compaction","encrypted_content":"c"}]}`
	ix, err := Parse([]byte(body), Responses)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	var got []string
	for i, turn := range said(ix) {
		got = append(got, fmt.Sprintf("%d %d %q %v %v %d %d", ix.Messages[i].Role, turn.Turn, turn.Texts, turn.Calls, turn.Results, turn.Other, turn.Thought))
	}
	want := []string{
		`1 0 ["<environment_context>x</environment_context>"] [] [] 0 0`,
		`1 0 ["go"] [] [] 0 0`,
		`2 1 ["on it"] [[c1 local_shell_call {"type":"exec","command":["ls"]}] [c2 apply_patch_call {"type":"delete_file","path":"a"}]] [] 2 1`,
		`1 1 [] [] [[c1 a] [c2 no such file]] 0 0`,
		`1 1 [] [] [] 1 0`,
		`0 1 [] [] [] 1 0`,
		`2 2 [] [] [] 1 0`,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !ix.HasTools || len(ix.Head) != 2 || !ix.Results[1].IsError || ix.Results[0].IsError || !ix.Compacted() {
		t.Errorf("tools %t, head %d, results %+v, compacted %t", ix.HasTools, len(ix.Head), ix.Results, ix.Compacted())
	}
	if ix.FirstHuman() != 1 {
		t.Errorf("the first human speaks in message %d", ix.FirstHuman())
	}
}

// Whatever the bytes are: either an error, or JSON whose spans are values, and reading on gives the same.
func FuzzOpenAI(f *testing.F) {
	for seed := range uint64(20) {
		m := gen.New(rand.New(rand.NewPCG(seed, 1)), gen.Options{Dialects: true, Strange: seed%3 == 0, Wild: seed%2 == 0, ResultBytes: 30})
		c := m.Conversation(int(seed % 4))
		f.Add(c.As(gen.Chat), false)
		f.Add(c.As(gen.Responses), true)
	}
	h := NewHasher(secret)
	f.Fuzz(func(t *testing.T, body []byte, responses bool) {
		if len(body) > maxFuzz {
			return
		}
		format := Chat
		if responses {
			format = Responses
		}
		ix, err := Parse(body, format)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatal("no JSON, and yet it was read")
		}
		checkSpans(t, ix)
		ix.Digest(h)
		for i := range ix.Results {
			r := &ix.Results[i]
			_, _, _ = ix.ResultText(r), ix.ResultOutcome(r), ix.ResultTokens(int32(i))
			if content := ix.Replacement(r, "x"); (r.Form == StringForm || r.Form == TextForm) && !ix.IsReplacement(r, content) {
				t.Fatalf("replaced by %s", content)
			}
		}
		for c := range ix.Calls {
			checkFacts(t, ix.CallFacts(int32(c)))
			ix.CallRuns(&ix.Calls[c], func(string) {})
		}
		m := ix.Memo(h)
		ix.Release()
		if again, _ := readOnAs(t, body, format, m, h); again != nil {
			again.Release()
		}
	})
}

// Instructions are the beginning of the system prompt wherever they stand, also for who reads on.
func TestInstructionsComeFirst(t *testing.T) {
	h := NewHasher(secret)
	const input = `"input":[{"role":"developer","content":[{"type":"input_text","text":"rules","prompt_cache_breakpoint":{"mode":"explicit"}}]},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`
	const instructions = `"instructions":"You are an agent."`
	early := `{"model":"m",` + instructions + `,` + input + `}`
	late := `{"model":"m",` + input + `,` + instructions + `}`
	var keys []Digest
	for _, body := range []string{early, late} {
		ix, _ := readOnAs(t, []byte(body), Responses, nil, h)
		keys = append(keys, ix.Key)
		m := ix.Memo(h)
		if ix.Head[1].Marker != 0 || ix.Head[0].Marker >= 0 {
			t.Errorf("the breakpoint stands on another block in %s", body)
		}
		ix.Release()
		again, known := readOnAs(t, []byte(body), Responses, m, h)
		if !known || again.Key != keys[0] {
			t.Errorf("read on: known %t, another key %t", known, again.Key != keys[0])
		}
		again.Release()
	}
	if keys[0] != keys[1] {
		t.Error("the order of members is a part of the key")
	}
}
