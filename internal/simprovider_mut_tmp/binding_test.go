package simprovider

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// loop is a conversation with a bound model in which every answer began with thinking.
type loop struct {
	t        *testing.T
	sim      *Sim
	model    string
	messages []string
	members  string
	header   http.Header
}

func newLoop(t *testing.T, model string, opts Options) *loop {
	t.Helper()
	return &loop{t: t, sim: New(opts), model: model, messages: []string{user(hi)}, header: http.Header{"Anthropic-Beta": {betaBinding}}}
}

// turn asks, and appends the answer and the result of its call.
func (l *loop) turn() {
	l.t.Helper()
	id := fmt.Sprint("t", len(l.messages))
	h := answer(thinking(id, ""), use(id), use(id+"b"))
	h["Anthropic-Beta"] = l.header["Anthropic-Beta"]
	res := must(l.t, l.sim, l.body(), h, start)
	l.messages = append(l.messages, assistant(blocks(res)...), user(result(id), result(id+"b")))
}

func (l *loop) body() []byte { return conv(l.model, l.members, l.messages...) }

// ask sends the conversation after an edit, in the loop's own words and in another order of members.
func (l *loop) ask(edit func([]string)) Result {
	l.t.Helper()
	m := append([]string(nil), l.messages...)
	edit(m)
	return l.sim.Call(conv(l.model, l.members, m...), l.header, start)
}

func replace(i int, old, with string) func([]string) {
	return func(m []string) { m[i] = strings.Replace(m[i], old, with, 1) }
}

// withoutThinking removes the thinking block of a message.
func withoutThinking(messages ...int) func([]string) {
	return func(m []string) {
		for _, i := range messages {
			before, _, _ := strings.Cut(m[i], `{"type":"thinking"`)
			_, after, _ := strings.Cut(m[i], `{"type":"tool_use"`)
			m[i] = before + `{"type":"tool_use"` + after
		}
	}
}

const otherConversation = "messages.%d.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. " +
	"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."

// TestPrefixBinding: edits of what was sent are refused, what does not change a value is not.
func TestPrefixBinding(t *testing.T) {
	l := newLoop(t, binding, Options{})
	l.members = `"system":"s","tools":[{"name":"Read","input_schema":{}}],`
	for range 3 {
		l.turn()
	}
	for name, c := range map[string]struct {
		edit    func([]string)
		refused int // message whose thinking is refused, 0 for none
	}{
		"nothing":                        {func([]string) {}, 0},
		"a marker":                       {replace(2, `"content":"package a"`, `"content":"package a"`+mark5m), 0},
		"order of members":               {replace(2, `"tool_use_id":"t1","content":"package a"`, `"content":"package a","tool_use_id":"t1"`), 0},
		"escapes":                        {replace(2, "package", `\u0070ackage`), 0},
		"string for one text":            {func(m []string) { m[0] = `{"role":"user","content":"hi"}` }, 0},
		"thinking removed at the start":  {withoutThinking(1), 0},
		"more removed at the start":      {withoutThinking(1, 3), 0},
		"all thinking removed":           {withoutThinking(1, 3, 5), 0},
		"thinking removed at the end":    {withoutThinking(5), 0},
		"thinking removed in the middle": {withoutThinking(3), 5},
		"a shorter result":               {replace(2, "package a", "[left out]"), 3},
		"a shorter late result":          {replace(4, "package a", "[left out]"), 5},
		"a shorter last result":          {replace(6, "package a", "[left out]"), 0},
		"another text":                   {replace(0, "hi", "ho"), 1},
		"one text more":                  {func(m []string) { m[0] = user(hi, hi) }, 1},
		"another argument":               {replace(3, "a.go", "b.go"), 5},
	} {
		res := l.ask(c.edit)
		if want := fmt.Sprintf(otherConversation, c.refused); c.refused > 0 && (res.Err == nil || res.Err.Message != want) {
			t.Errorf("%s: got %v, want %s", name, res.Err, want)
		}
		if c.refused == 0 && res.Err != nil {
			t.Errorf("%s: refused: %v", name, res.Err)
		}
		if res.Transformations != nil {
			t.Errorf("%s: %v", name, res.Transformations)
		}
	}
	for name, members := range map[string]string{
		"system": strings.Replace(l.members, `"s"`, `"x"`, 1), "tools": strings.Replace(l.members, "Read", "Edit", 1),
		"tool added": strings.Replace(l.members, `}}]`, `}},{"name":"Edit","input_schema":{}}]`, 1),
	} {
		if res := l.sim.Call(conv(l.model, members, l.messages...), nil, start); res.Err == nil || res.Err.Message != fmt.Sprintf(otherConversation, 1) {
			t.Errorf("%s changed: %v", name, res.Err)
		}
	}
	for name, members := range map[string]string{
		"deferred tool": strings.Replace(l.members, `}}]`, `}},{"name":"Edit","input_schema":{},"defer_loading":true}]`, 1),
		"effort":        l.members + `"output_config":{"effort":"low"},"tool_choice":{"type":"none"},`,
	} {
		if res := l.sim.Call(conv(l.model, members, l.messages...), nil, start); res.Err != nil {
			t.Errorf("%s: %v", name, res.Err)
		}
	}
	count := l.sim.serve(pathCount, conv(l.model, `"system":"x",`, l.messages...), nil, start)
	if count.Err == nil || count.Err.Message != fmt.Sprintf(otherConversation, 1) {
		t.Errorf("count_tokens: %v", count.Err)
	}
}

// TestBoundModels: on which models an edit is refused, for new accounts and for old ones.
func TestBoundModels(t *testing.T) {
	for model, want := range map[string]struct{ young, old bool }{
		"claude-fable-5-2": {true, true}, "claude-mythos-5-2": {true, true}, "claude-fable-5-1": {true, false},
		"claude-mythos-5-1": {true, false}, "claude-opus-5-5": {true, false}, "claude-sonnet-5-5": {true, false},
		"claude-haiku-5-5": {true, false}, "claude-opus-5": {}, "claude-opus-4-8": {}, "claude-sonnet-5": {},
	} {
		for oldAccount, want := range map[bool]bool{false: want.young, true: want.old} {
			l := newLoop(t, model, Options{OldAccount: oldAccount})
			l.turn()
			res := l.ask(replace(0, "hi", "ho"))
			if refused := res.Err != nil; refused != want {
				t.Errorf("%s, old account %v: %v", model, oldAccount, res.Err)
			}
			if facts, _ := lookup(model); facts.bound && !want && !reflect.DeepEqual(res.Transformations,
				[]Transformation{{"thinking_mismatch_allowed", "messages.1.content.0", "prefix_binding_mismatch"}}) {
				t.Errorf("%s: told %v", model, res.Transformations)
			}
			l.members = `"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"error"}},`
			if facts, _ := lookup(model); (l.ask(replace(0, "hi", "ho")).Err != nil) != facts.bound {
				t.Errorf("%s: the request's own wish is not heard", model)
			}
		}
	}
}

// TestDropBlock: the block that does not fit and every later one leave the prompt, and the cache starts anew at the edit.
func TestDropBlock(t *testing.T) {
	l := newLoop(t, binding, Options{})
	l.members = `"system":[` + sized("s", 600, mark5m) + `],"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}},`
	for range 3 {
		l.turn()
	}
	whole := l.ask(func([]string) {})
	edited := replace(2, `"content":"package a"`, `"content":"package b"`)
	res := l.ask(edited)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	want := []Transformation{
		{"thinking_dropped", "messages.3.content.0", "prefix_binding_mismatch"},
		{"thinking_dropped", "messages.5.content.0", "prefix_binding_mismatch"},
	}
	if !reflect.DeepEqual(res.Transformations, want) {
		t.Errorf("told %v\nwant %v", res.Transformations, want)
	}
	none := l.ask(func(m []string) { edited(m); withoutThinking(3, 5)(m) })
	if none.Err != nil || res.Prompt != none.Prompt || res.Prompt >= whole.Prompt {
		t.Errorf("prompt %d, without the blocks %d (%v), with them %d", res.Prompt, none.Prompt, none.Err, whole.Prompt)
	}
	if res.Usage.Read != 600 {
		t.Errorf("read %d, want the system prompt alone", res.Usage.Read)
	}
	later := l.ask(func(m []string) {
		edited(m)
		m[5] = strings.Replace(m[5], `"content":[`, `"content":[`+thinking("x", "Eu8B")+",", 1)
	})
	if n := len(later.Transformations); n != 3 {
		t.Errorf("of a foreign block that follows, %d blocks are dropped, want 3", n)
	}
	again := l.ask(edited)
	if !reflect.DeepEqual(again.Transformations, want) {
		t.Errorf("told %v the second time", again.Transformations)
	}
}

// TestOtherModel: thinking of another model is dropped without an error.
func TestOtherModel(t *testing.T) {
	l := newLoop(t, modern, Options{})
	l.turn()
	l.model = binding
	res := l.ask(func([]string) {})
	if want := []Transformation{{"thinking_dropped", "messages.1.content.0", "model_binding_mismatch"}}; res.Err != nil || !reflect.DeepEqual(res.Transformations, want) {
		t.Errorf("%v, told %v", res.Err, res.Transformations)
	}
}

// TestModifiedThinking: on any model, thinking is as the provider gave it or not there.
func TestModifiedThinking(t *testing.T) {
	for _, model := range []string{binding, modern} {
		l := newLoop(t, model, Options{})
		l.turn()
		l.turn()
		const latest = "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. " +
			"These blocks must remain as they were in the original response."
		if res := l.ask(replace(3, `"thinking":"t3"`, `"thinking":"t4"`)); res.Err == nil || res.Err.Message != latest {
			t.Errorf("%s: %v", model, res.Err)
		}
		const earlier = "messages.1.content.0: Invalid `signature` in `thinking` block"
		if res := l.ask(replace(1, `"thinking":"t1"`, `"thinking":""`)); res.Err == nil || res.Err.Message != earlier {
			t.Errorf("%s: %v", model, res.Err)
		}
		if res := l.ask(replace(1, signaturePrefix, signaturePrefix+"x")); res.Err == nil || res.Err.Message != earlier {
			t.Errorf("%s: %v", model, res.Err)
		}
	}
	known := thinking("x", signaturePrefix+"known")
	if res := must(t, New(Options{}), conv(binding, "", user(hi)), answer(known, hi), start); string(res.Content[0]) != known {
		t.Errorf("a signature of the simulator's form became %s", res.Content[0])
	}
	redacted := `{"type":"redacted_thinking","data":"x"}`
	s := New(Options{})
	res := must(t, s, conv(binding, "", user(hi)), answer(redacted, hi), start)
	if got := signature(t, string(res.Content[0])); !strings.HasPrefix(got, signaturePrefix) {
		t.Errorf("data %q", got)
	}
	if res := s.Call(conv(binding, "", user(sized("x", 9)), assistant(blocks(res)...), user(hi)), nil, start); res.Err == nil ||
		!strings.Contains(res.Err.Message, "Invalid `signature` in `redacted_thinking` block. The block is bound") {
		t.Errorf("%v", res.Err)
	}
}

// TestOpeningThinking: old models want the thinking of a tool loop back when thinking is enabled.
func TestOpeningThinking(t *testing.T) {
	const want = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. " +
		"When `thinking` is enabled, a final `assistant` message must start with a thinking block"
	for model, refused := range map[string]bool{oldest: true, modern: false} {
		l := newLoop(t, model, Options{})
		l.turn()
		if res := l.ask(withoutThinking(1)); res.Err != nil {
			t.Errorf("%s, thinking not enabled: %v", model, res.Err)
		}
		l.members = `"thinking":{"type":"enabled","budget_tokens":1024},`
		if res := l.ask(withoutThinking(1)); (res.Err != nil) != refused || refused && res.Err.Message != want {
			t.Errorf("%s: %v", model, res.Err)
		}
		if res := l.ask(func([]string) {}); res.Err != nil {
			t.Errorf("%s: %v", model, res.Err)
		}
	}
}
