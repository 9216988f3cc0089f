package simprovider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// refusal is one body that the provider refuses, and its words.
type refusal struct {
	name    string
	body    []byte
	status  int    // 0 is 400
	kind    string // empty is invalid_request_error
	message string
	header  http.Header
}

func shapeRefusals() []refusal {
	one := user(hi)
	return []refusal{
		{name: "empty body", body: nil, message: "The request body is not valid JSON: unexpected character"},
		{name: "cut off", body: conv(modern, "", one)[:40], message: "The request body is not valid JSON: unexpected character"},
		{
			name: "trailing bytes", body: append(conv(modern, "", one), '}'),
			message: "The request body is not valid JSON: unexpected character",
		},
		{
			name: "invalid inside a message", body: conv(modern, "", user(`{"type":"text","text":nul}`)),
			message: "The request body is not valid JSON: unexpected character",
		},
		{
			name: "lone surrogate", body: conv(modern, "", user(`{"type":"text","text":"\ud83d\u0041"}`)),
			message: "The request body is not valid JSON: no low surrogate in string",
		},
		{
			name: "not UTF-8", body: conv(modern, "", user("{\"type\":\"text\",\"text\":\"\xff\"}")),
			message: "The request body is not valid JSON: str is not valid UTF-8",
		},
		{
			name: "a text not UTF-8", body: []byte("\"\xa2\""),
			message: "The request body is not valid JSON: str is not valid UTF-8",
		},
		{
			name: "name not UTF-8", body: conv(modern, "\"\xff\":1,", one),
			message: "The request body is not valid JSON: str is not valid UTF-8",
		},
		{
			name: "too deep", body: conv(modern, `"metadata":`+strings.Repeat("[", 1100)+strings.Repeat("]", 1100)+",", one),
			message: "The request body is not valid JSON: recursion limit exceeded",
		},
		{
			name: "compressed", body: conv(modern, "", one), header: http.Header{"Content-Encoding": {"zstd"}},
			message: `The request body is not valid JSON: unsupported content-encoding "zstd"`,
		},
		{name: "a list", body: []byte(" [1]"), message: "Input should be an object"},
		{
			name: "over 32 MB", body: conv(modern, "", user(sized("a", 10_000_000))),
			status: 413, kind: "request_too_large", message: "Request exceeds the maximum size",
		},
		{name: "no model", body: []byte(`{"max_tokens":1,"messages":[` + one + `]}`), message: "model: Field required"},
		{name: "unknown model", body: conv("claude-gpt-4", "", one), status: 404, kind: "not_found_error", message: "model: claude-gpt-4"},
		{name: "no max_tokens", body: []byte(`{"model":"claude-opus-4-6","messages":[` + one + `]}`), message: "max_tokens: Field required"},
		{
			name: "max_tokens no integer", body: []byte(`{"model":"claude-opus-4-6","max_tokens":"9","messages":[` + one + `]}`),
			message: "max_tokens: Input should be a valid integer",
		},
		{
			name: "max_tokens no whole number", body: []byte(`{"model":"claude-opus-4-6","max_tokens":9.5,"messages":[` + one + `]}`),
			message: "max_tokens: Input should be a valid integer",
		},
		{
			name: "pre-warming stream", body: []byte(`{"model":"claude-opus-4-6","max_tokens":0,"stream":true,"messages":[` + one + `]}`),
			message: "max_tokens: Input should be greater than or equal to 1",
		},
		{name: "no messages", body: []byte(`{"model":"claude-opus-4-6","max_tokens":1}`), message: "messages: Field required"},
		{
			name: "messages no list", body: []byte(`{"model":"claude-opus-4-6","max_tokens":1,"messages":"hi"}`),
			message: "messages: Input should be a valid list",
		},
		{name: "no message", body: conv(modern, ""), message: "messages: at least one message is required"},
		{name: "message no object", body: conv(modern, "", "7"), message: "messages.0: Input should be an object"},
		{name: "no role", body: conv(modern, "", `{"content":"hi"}`), message: "messages.0.role: Field required"},
		{name: "no content", body: conv(modern, "", `{"role":"user"}`), message: "messages.0.content: Field required"},
		{
			name: "marker on a message", body: conv(modern, "", `{"role":"user","content":"hi"`+mark5m+`}`),
			message: "messages.0.cache_control: Extra inputs are not permitted",
		},
		{name: "block without type", body: conv(modern, "", user(hi, `{"text":"x"}`)), message: "messages.0.content.1.type: Field required"},
		{
			name: "block of no kind", body: conv(modern, "", user(`{"type":"txt"}`)),
			message: "messages.0.content.0: Input tag 'txt' found using 'type' does not match any of the expected tags",
		},
		{name: "text without text", body: conv(modern, "", user(`{"type":"text"}`)), message: "messages.0.content.0.text.text: Field required"},
		{
			name: "input no object", body: conv(modern, "", one, assistant(`{"type":"tool_use","id":"a","name":"b","input":"c"}`)),
			message: "messages.1.content.0.tool_use.input: Input should be an object",
		},
		{
			name: "thinking without signature", body: conv(modern, "", one, assistant(`{"type":"thinking","thinking":"x"}`)),
			message: "messages.1.content.0.thinking.signature: Field required",
		},
		{
			name: "result content", body: conv(modern, "", user(`{"type":"tool_result","tool_use_id":"a","content":7}`)),
			message: "messages.0.content.0.tool_result.content: Input should be a valid list",
		},
		{name: "tools no list", body: conv(modern, `"tools":{},`, one), message: "tools: Input should be a valid list"},
		{name: "tool without name", body: conv(modern, `"tools":[{}],`, one), message: "tools.0.custom.name: Field required"},
		{name: "tool without schema", body: conv(modern, `"tools":[{"name":"a"}],`, one), message: "tools.0.custom.input_schema: Field required"},
		{
			name: "tools of one name", body: conv(modern, `"tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}],`, one),
			message: "tools: Tool names must be unique.",
		},
		{
			name: "marker on a deferred tool", body: conv(modern, `"tools":[{"name":"a","input_schema":{},"defer_loading":true`+mark5m+`}],`, one),
			message: "tools.0: Tool 'a' cannot have both defer_loading=true and cache_control set.",
		},
		{name: "system no list", body: conv(modern, `"system":7,`, one), message: "system: Input should be a valid list"},
		{name: "thread without beta", body: conv(modern, `"thread":{"type":"create"},`, one), message: "thread: Extra inputs are not permitted"},
		{
			name: "block_binding without beta", body: conv(binding, `"thinking":{"type":"adaptive","block_binding":{}},`, one),
			message: "thinking.adaptive.block_binding: Extra inputs are not permitted",
		},
		{
			name: "block_binding value", header: http.Header{"Anthropic-Beta": {betaBinding}},
			body:    conv(binding, `"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"keep"}},`, one),
			message: "thinking.adaptive.block_binding.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'",
		},
		{
			name: "scripted", body: conv(modern, "", one), header: http.Header{simkit.HeaderStatus: {"529"}}, status: 529,
			kind: "overloaded_error", message: "Overloaded",
		},
	}
}

func markRefusals() []refusal {
	system := func(marker string) string { return `"system":[{"type":"text","text":"s"` + marker + `}],` }
	bad := func(control string) []byte { return conv(modern, system(`,"cache_control":`+control), user(hi)) }
	const order = ": a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. " +
		"Note that blocks are processed in the following order: tools, system, messages."
	b, b5, b1 := sized("a", 9), sized("a", 9, mark5m), sized("a", 9, mark1h)
	nested := `{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"%s}]%s}`
	loop := func(result string) []byte { return conv(modern, "", user(b5, b5), assistant(use("t")), user(result)) }
	return []refusal{
		{
			name: "five markers", body: conv(modern, system(mark5m), user(b5, b5, b5, b5)),
			message: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
		},
		{
			name: "the top level counts", body: conv(modern, `"cache_control":{"type":"ephemeral"},`+system(mark5m), user(b5, b5, b5)),
			message: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
		},
		{
			name: "nested markers count", body: loop(fmt.Sprintf(nested, mark5m, mark5m) + "," + b5),
			message: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
		},
		{name: "1h after 5m", body: conv(modern, system(mark5m), user(b, b1)), message: "messages.0.content.1.cache_control.ttl" + order},
		{
			name: "1h after 5m in system", body: conv(modern, `"tools":[{"name":"a","input_schema":{}`+mark5m+`}],`+system(mark1h), user(b)),
			message: "system.0.cache_control.ttl" + order,
		},
		{
			name: "1h after 5m on top", body: conv(modern, `"cache_control":{"type":"ephemeral","ttl":"1h"},`+system(mark5m), user(b)),
			message: "cache_control.ttl" + order,
		},
		{
			name: "other ttl on the last block", body: conv(modern, `"cache_control":{"type":"ephemeral"},`, user(b1)),
			message: "cache_control: the last block already has a cache_control with a different ttl",
		},
		{
			name: "on thinking", body: conv(modern, "", user(hi), assistant(`{"type":"thinking","thinking":"x","signature":"y"`+mark5m+`}`), user(hi)),
			message: "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
		},
		{
			name: "on redacted thinking", body: conv(modern, "", user(hi), assistant(`{"type":"redacted_thinking","data":"x"`+mark5m+`}`), user(hi)),
			message: "messages.1.content.0.redacted_thinking.cache_control: Extra inputs are not permitted",
		},
		{
			name: "on empty text", body: conv(modern, "", user(hi, `{"type":"text","text":""`+mark5m+`}`)),
			message: "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
		},
		{name: "unknown member", body: bad(`{"type":"ephemeral","keep":1}`), message: "system.0.cache_control.ephemeral.keep: Extra inputs are not permitted"},
		{
			name: "scope without beta", body: bad(`{"type":"ephemeral","scope":"global"}`),
			message: "system.0.cache_control.ephemeral.scope: Extra inputs are not permitted",
		},
		{name: "ttl", body: bad(`{"type":"ephemeral","ttl":"2h"}`), message: "system.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"},
		{name: "ttl in seconds", body: bad(`{"type":"ephemeral","ttl":300}`), message: "system.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"},
		{
			name: "type", body: bad(`{"type":"persistent"}`),
			message: "system.0.cache_control: Input tag 'persistent' found using 'type' does not match any of the expected tags: 'ephemeral'",
		},
		{name: "no type", body: bad(`{}`), message: "system.0.cache_control: Unable to extract tag using discriminator 'type'"},
		{
			name: "in a message", body: conv(modern, "", user(sized("a", 9, `,"cache_control":{"type":"ephemeral","ttl":"x"}`))),
			message: "messages.0.content.0.text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
		},
	}
}

func turnRefusals() []refusal {
	const lost = "`tool_use` ids were found without `tool_result` blocks immediately after: %s. " +
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	const orphan = "unexpected `tool_use_id` found in `tool_result` blocks: %s. " +
		"Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
	const prefill = "This model does not support assistant message prefill. The conversation must end with a user message."
	blank := `{"type":"text","text":" \n"}`
	return []refusal{
		{name: "assistant first", body: conv(modern, "", assistant(hi), user(hi)), message: `messages: first message must use the "user" role`},
		{name: "unknown role", body: conv(modern, "", user(hi), says("tool", []string{hi})), message: "messages.1.role: Input should be 'user' or 'assistant'"},
		{
			name: "system among messages", body: conv(oldest, "", user(hi), says("system", []string{hi})),
			message: "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role.",
		},
		{
			name: "empty list", body: conv(modern, "", user(hi), assistant(), user(hi)),
			message: "messages.1: all messages must have non-empty content except for the optional final assistant message",
		},
		{
			name: "empty string", body: conv(modern, "", `{"role":"user","content":""}`),
			message: "messages.0: all messages must have non-empty content except for the optional final assistant message",
		},
		{name: "empty text", body: conv(modern, "", user(hi, `{"type":"text","text":""}`)), message: "messages: text content blocks must be non-empty"},
		{name: "blank text", body: conv(modern, "", user(blank)), message: "messages: text content blocks must contain non-whitespace text"},
		{name: "empty system text", body: conv(modern, `"system":[{"type":"text","text":""}],`, user(hi)), message: "system: text content blocks must be non-empty"},
		{name: "blank system", body: conv(modern, `"system":" ",`, user(hi)), message: "system: text content blocks must contain non-whitespace text"},
		{name: "empty text in a result", body: conv(modern, "", user(hi), assistant(use("a")),
			user(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}`)), message: "messages: text content blocks must be non-empty"},
		{
			name: "lost result", body: conv(modern, "", user(hi), assistant(use("a"), use("b"), use("c")), user(result("b"), hi)),
			message: "messages.1: " + fmt.Sprintf(lost, "a, c"),
		},
		{
			name: "lost result before an answer", body: conv(modern, "", user(hi), assistant(use("a")), user(hi), assistant(hi), user(hi)),
			message: "messages.1: " + fmt.Sprintf(lost, "a"),
		},
		{name: "call at the end", body: conv(modern, "", user(hi), assistant(use("a"))), message: "messages.1: " + fmt.Sprintf(lost, "a")},
		{
			name: "result after text", body: conv(modern, "", user(hi), assistant(use("a")), user(hi, result("a"))),
			message: "messages.1: " + fmt.Sprintf(lost, "a"),
		},
		{
			name: "result after a neighbour's text", body: conv(modern, "", user(hi), assistant(use("a")), user(hi), user(result("a"))),
			message: "messages.1: " + fmt.Sprintf(lost, "a"),
		},
		{
			name: "result after text and system", body: conv(modern, "", user(hi), assistant(use("a")), user(hi), says("system", []string{hi}), user(result("a"))),
			message: "messages.1: " + fmt.Sprintf(lost, "a"),
		},
		{
			name: "lost call", body: conv(modern, "", user(hi), assistant(use("a")), user(result("a"), result("b"))),
			message: "messages.2.content.1: " + fmt.Sprintf(orphan, "b"),
		},
		{
			name: "result too late", body: conv(modern, "", user(hi), assistant(use("a")), user(result("a")), assistant(hi), user(result("a"))),
			message: "messages.4.content.0: " + fmt.Sprintf(orphan, "a"),
		},
		{
			name: "two results", body: conv(modern, "", user(hi), assistant(use("a")), user(result("a"), result("a"))),
			message: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a",
		},
		{
			name: "one id twice", body: conv(modern, "", user(hi), assistant(use("a")), user(result("a")), assistant(hi, use("a")), user(result("a"))),
			message: "messages.3.content.1: `tool_use` ids must be unique",
		},
		{
			name: "result of the assistant", body: conv(modern, "", user(hi), assistant(result("a")), user(hi)),
			message: "messages.1: `tool_result` blocks can only be in `user` messages",
		},
		{name: "call of the user", body: conv(modern, "", user(use("a"))), message: "messages.0: `tool_use` blocks can only be in `assistant` messages"},
		{name: "prefill", body: conv("claude-opus-4-6", "", user(hi), assistant(hi)), message: prefill},
		{name: "prefill before system", body: conv(modern, "", user(hi), assistant(hi), says("system", []string{hi})), message: prefill},
		{
			name: "prefill with a trailing blank", body: conv(oldest, "", user(hi), assistant(`{"text":"so ","type":"text"}`)),
			message: "messages: final assistant content cannot end with trailing whitespace",
		},
		{name: "prompt too long", body: conv(oldest, "", user(sized("a", 200_001))), message: "prompt is too long: 200001 tokens > 200000 maximum"},
		{
			name: "forged signature", body: conv(modern, "", user(hi), assistant(thinking("x", signaturePrefix+"0.0")), user(hi)),
			message: "messages.1.content.0: Invalid `signature` in `thinking` block",
		},
	}
}

func TestRefusals(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range append(append(shapeRefusals(), markRefusals()...), turnRefusals()...) {
		t.Run(c.name, func(t *testing.T) {
			if seen[c.name] {
				t.Fatal("a second case of this name")
			}
			seen[c.name] = true
			s := New(Options{})
			res := s.Call(c.body, c.header, start)
			want := Error{Status: c.status, Type: c.kind, Message: c.message}
			if want.Status == 0 {
				want.Status = 400
			}
			if want.Type == "" {
				want.Type = "invalid_request_error"
			}
			if res.Err == nil {
				t.Fatalf("accepted; want %v", want)
			}
			if res.Status != want.Status || res.Err.Type != want.Type || res.Err.Message != want.Message {
				t.Errorf("got %d %v\nwant %d %v", res.Status, res.Err, want.Status, &want)
			}
			if res.Usage != (Usage{}) || res.Content != nil || s.Cached(c.body, start) != 0 {
				t.Errorf("a refused request has an effect: %+v", res)
			}
			if log := s.Requests(); len(log) != 1 || log[0].Status != want.Status || log[0].Error != want.Error() || len(log[0].Live) > 0 {
				t.Errorf("logged %+v", log)
			}
		})
	}
}

// TestAccepted holds what must not be refused.
func TestAccepted(t *testing.T) {
	system := says("system", []string{hi})
	for name, body := range map[string][]byte{
		"neighbours of one role":               conv(modern, "", user(hi), user(hi), assistant(use("a")), assistant(use("b")), user(result("a")), user(result("b"), hi)),
		"system between a call and its result": conv(modern, "", user(hi), assistant(use("a")), system, user(result("a")), system),
		"prefill":                              conv(oldest, "", user(hi), assistant(hi)),
		"empty prefill":                        conv(oldest, "", user(hi), assistant()),
		"empty result":                         conv(modern, "", user(hi), assistant(use("a")), user(`{"type":"tool_result","tool_use_id":"a","content":""}`)),
		"result without content":               conv(modern, "", user(hi), assistant(use("a")), user(`{"type":"tool_result","tool_use_id":"a"}`)),
		"cache_control as data":                conv(modern, "", user(hi), assistant(`{"type":"tool_use","id":"a","name":"b","input":{"cache_control":1}}`), user(result("a"))),
		"null cache_control":                   conv(modern, "", user(sized("a", 9, `,"cache_control":null`))),
		"four markers of falling ttl":          conv(modern, "", user(sized("a", 9, mark1h), sized("b", 9, mark1h), sized("c", 9, mark5m), sized("d", 9, mark5m))),
		"same ttl on top and on the last":      conv(modern, `"cache_control":{"type":"ephemeral","ttl":"5m"},`, user(sized("a", 9, mark5m))),
		"foreign thinking":                     conv(modern, "", user(hi), assistant(thinking("x", "Eu8B")), user(hi)),
		"surrogate pair, escaped u":            conv(modern, "", user(`{"type":"text","text":"\ud83d\ude00 \\ud83d \"\\"}`)),
		"empty system":                         conv(modern, `"system":"",`, user(hi)),
		"server tool":                          conv(modern, `"tools":[{"type":"web_search_20250305","name":"web_search"}],`, user(hi)),
		"unknown members":                      conv(modern, `"metadata":{"user_id":"u"},"anything":[1,2.5e3,null],`, user(hi)),
		"pre-warming":                          []byte(`{"model":"claude-opus-4-6","max_tokens":0,"messages":[` + user(hi) + `]}`),
	} {
		t.Run(name, func(t *testing.T) { must(t, New(Options{}), body, nil, start) })
	}
	scoped := conv(modern, `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","scope":"global"}}],`, user(hi))
	must(t, New(Options{}), scoped, http.Header{"Anthropic-Beta": {"x", "y," + betaScope}}, start)
}
