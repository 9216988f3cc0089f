package openai

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// refusal is one body that the provider refuses, and its words.
type refusal struct {
	name    string
	path    string
	body    []byte
	status  int // 0 is 400
	param   string
	code    string
	message string // its beginning
	header  http.Header
}

const badJSON = "We could not parse the JSON body of your request."

func chatRefusals() []refusal {
	talks := func(name, param, code, message string, messages ...string) refusal {
		return refusal{name: name, path: pathChat, body: talk(plain, "", messages...), param: param, code: code, message: message}
	}
	const lost = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
		"The following tool_call_ids did not have response messages: "
	const orphaned = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." //nolint:misspell // so the provider
	const roles = "Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
	return []refusal{
		talks("orphan tool message", "messages.[1].role", "",
			orphaned, hi, tool("a", "x")),
		talks("tool message after another turn", "messages.[3].role", "",
			orphaned,
			calls("a"), tool("a", "x"), hi, tool("a", "x")),
		talks("tool message of no call", "messages.[1].tool_call_id", "",
			"Invalid parameter: 'tool_call_id' of 'b' not found in 'tool_calls' of previous message.", calls("a"), tool("b", "x")),
		talks("lost tool messages", "messages", "", lost+"b, c", calls("a", "b", "c"), tool("a", "x"), hi),
		talks("lost tool message at the end", "messages", "", lost+"a", hi, calls("a")),
		talks("unknown role", "messages[1].role", codeValue, "Invalid value: 'robot'. "+roles, hi, `{"role":"robot","content":"x"}`),
		talks("no role", "messages[0].role", codeMissing, "Missing required parameter: 'messages[0].role'.", `{"content":"x"}`),
		talks("role no string", "messages[0].role", codeType, "Invalid type for 'messages[0].role': expected a string, but got an integer instead.",
			`{"role":1,"content":"x"}`),
		talks("no content", "messages[0].content", codeMissing, "Missing required parameter: 'messages[0].content'.", `{"role":"user"}`),
		talks("null content", "messages[0].content", "", "Invalid value for 'content': expected a string, got null.", `{"role":"user","content":null}`),
		talks("content of no type", "messages[0].content", codeType,
			"Invalid type for 'messages[0].content': expected one of a string or array of objects, but got a decimal instead.",
			`{"role":"user","content":1.5}`),
		talks("no content part", "messages[0].content", codeEmpty,
			"Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead.", says("user")),
		talks("part no object", "messages[0].content[0]", codeType,
			"Invalid type for 'messages[0].content[0]': expected an object, but got a boolean instead.", says("user", "true")),
		talks("part of no kind", "messages[0].content[0].type", codeValue,
			"Invalid value: 'input_text'. Supported values are: 'text', 'image_url', 'input_audio', and 'file'.", says("user", input("a", 20))),
		talks("image in a tool message", "messages[1].content[0].type", codeValue, "Invalid value: 'image_url'. Supported values are: 'text'.",
			calls("a"), `{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"x"}}]}`),
		talks("text without text", "messages[0].content[0].text", codeMissing, "Missing required parameter: 'messages[0].content[0].text'.",
			says("user", `{"type":"text"}`)),
		talks("tool message without id", "messages[0].tool_call_id", codeMissing, "Missing required parameter: 'messages[0].tool_call_id'.",
			`{"role":"tool","content":"x"}`),
		talks("no tool call", "messages[0].tool_calls", codeEmpty, "Invalid 'messages[0].tool_calls': empty array.", calls()),
		talks("tool calls no array", "messages[0].tool_calls", codeType, "Invalid type for 'messages[0].tool_calls': expected an array, but got an object instead.",
			`{"role":"assistant","tool_calls":{}}`),
		talks("call without id", "messages[0].tool_calls[0].id", codeMissing, "Missing required parameter: 'messages[0].tool_calls[0].id'.",
			`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"a","arguments":""}}]}`),
		talks("arguments no string", "messages[0].tool_calls[0].function.arguments", codeType,
			"Invalid type for 'messages[0].tool_calls[0].function.arguments': expected a string, but got an object instead.",
			`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"a","arguments":{}}}]}`),
		talks("no message", "messages", codeEmpty, "Invalid 'messages': empty array."),
		talks("breakpoint on a message", "messages[0].prompt_cache_breakpoint", codeUnknown, "Unknown parameter: 'messages[0].prompt_cache_breakpoint'.",
			`{"role":"user","content":"x"`+marked+`}`),
		talks("breakpoint of another provider", "messages[0].content[0].cache_control", codeUnknown,
			"Unknown parameter: 'messages[0].content[0].cache_control'.", says("user", sized("text", "a", 20, `,"cache_control":{"type":"ephemeral"}`))),
		talks("breakpoint for an old model", "messages[0].content[0].prompt_cache_breakpoint", codeUnsupported,
			"Unsupported parameter: 'messages[0].content[0].prompt_cache_breakpoint' is not supported with this model.", says("user", sized("text", "a", 20, marked))),
		{name: "no messages", path: pathChat, body: []byte(`{"model":"gpt-5"}`), param: "messages", code: codeMissing, message: "Missing required parameter: 'messages'."},
		{
			name: "messages no array", path: pathChat, body: []byte(`{"model":"gpt-5","messages":"hi"}`), param: "messages", code: codeType,
			message: "Invalid type for 'messages': expected an array, but got a string instead.",
		},
		{name: "no model", path: pathChat, body: []byte(`{"messages":[` + hi + `]}`), message: "you must provide a model parameter"},
		{
			name: "unknown model", path: pathChat, body: talk("gpt-99", "", hi), status: 404, code: "model_not_found",
			message: "The model `gpt-99` does not exist or you do not have access to it.",
		},
		{
			name: "model without chat", path: pathChat, body: talk("gpt-5.1-codex", "", hi), status: 404, param: "model",
			message: "This model is only supported in v1/responses and not in v1/chat/completions.",
		},
		{
			name: "unknown deployment", path: "/openai/deployments/mine/chat/completions", body: talk("gpt-99", "", hi), status: 404, code: "DeploymentNotFound",
			message: "The API deployment for this resource does not exist.",
		},
		{name: "no tool", path: pathChat, body: talk(plain, `"tools":[],`, hi), param: "tools", code: codeEmpty, message: "Invalid 'tools': empty array."},
		{
			name: "tool without function", path: pathChat, body: talk(plain, `"tools":[{"type":"function"}],`, hi), param: "tools[0].function", code: codeMissing,
			message: "Missing required parameter: 'tools[0].function'.",
		},
		{
			name: "breakpoint on a tool", path: pathChat, body: talk(modern, `"tools":[{"type":"function","function":{"name":"a"}`+marked+`}],`, hi),
			param: "tools[0].prompt_cache_breakpoint", code: codeUnknown, message: "Unknown parameter: 'tools[0].prompt_cache_breakpoint'.",
		},
		{
			name: "usage of no stream", path: pathChat, body: talk(plain, `"stream_options":{"include_usage":true},`, hi), param: "stream_options",
			message: "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
		},
		{
			name: "too long", path: pathChat, body: talk("gpt-4o", "", says("user", sized("text", "a", 111_617))), param: "messages", code: "context_length_exceeded",
			message: "This model's maximum context length is 111616 tokens. However, your messages resulted in 111617 tokens.",
		},
	}
}

func itemRefusals() []refusal {
	asks := func(name, param, code, message string, items ...string) refusal {
		return refusal{name: name, path: pathResponses, body: conv(plain, "", items...), param: param, code: code, message: message}
	}
	has := func(name, members, param, code, message string) refusal {
		return refusal{name: name, path: pathResponses, body: conv(modern, members, hi), param: param, code: code, message: message}
	}
	custom := `{"type":"custom_tool_call","call_id":"a","name":"apply_patch","input":"x"}`
	return []refusal{
		asks("lost output", "input", "", "No tool output found for function call call_1.", hi, call("call_1"), hi),
		asks("lost output at the end", "input", "", "No tool output found for function call call_1.", hi, call("call_1")),
		asks("lost output of a custom tool", "input", "", "No tool output found for custom tool call a.", hi, custom),
		asks("lost output of a shell", "input", "", "No tool output found for local shell call a.",
			`{"type":"local_shell_call","call_id":"a","action":{"type":"exec","command":["ls"]}}`),
		asks("orphan output", "input", "", "No tool call found for function call output with call_id a.", hi, output("a", "x")),
		asks("output before its call", "input", "", "No tool call found for function call output with call_id a.", output("a", "x"), call("a")),
		asks("output of another kind", "input", "", "No tool call found for function call output with call_id a.", custom, output("a", "x")),
		asks("the same item twice", "input", "", "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.",
			`{"id":"msg_1","role":"user","content":"a"}`, `{"id":"msg_1","role":"user","content":"a"}`),
		asks("unknown role", "input[0].role", codeValue, "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
			`{"role":"tool","content":"x"}`),
		asks("unknown kind", "input[0].type", codeValue, "Invalid value: 'thought'. Supported values are: 'additional_tools', ", `{"type":"thought"}`),
		asks("no kind", "input[0].type", codeMissing, "Missing required parameter: 'input[0].type'.", `{"id":"x"}`),
		asks("kind no string", "input[0].type", codeType, "Invalid type for 'input[0].type': expected a string, but got an integer instead.", `{"type":1}`),
		asks("item no object", "input[1]", codeType, "Invalid type for 'input[1]': expected an object, but got null instead.", hi, "null"),
		asks("message without content", "input[0].content", codeMissing, "Missing required parameter: 'input[0].content'.", `{"role":"user"}`),
		asks("input text of the assistant", "input[0].content[0].type", codeValue,
			"Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.", says("assistant", input("a", 20))),
		asks("text of chat", "input[0].content[0].type", codeValue,
			"Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and 'input_file'.", says("user", sized("text", "a", 20))),
		asks("call without call_id", "input[0].call_id", codeMissing, "Missing required parameter: 'input[0].call_id'.",
			`{"type":"function_call","name":"a","arguments":""}`),
		asks("arguments no string", "input[0].arguments", codeType, "Invalid type for 'input[0].arguments': expected a string, but got an object instead.",
			`{"type":"function_call","call_id":"a","name":"a","arguments":{}}`),
		asks("call without output", "input[1].output", codeMissing, "Missing required parameter: 'input[1].output'.",
			call("a"), `{"type":"function_call_output","call_id":"a"}`),
		asks("output of no type", "input[1].output", codeType,
			"Invalid type for 'input[1].output': expected one of a string or array of objects, but got an object instead.",
			call("a"), `{"type":"function_call_output","call_id":"a","output":{}}`),
		asks("breakpoint on an item", "input[1].prompt_cache_breakpoint", codeUnknown, "Unknown parameter: 'input[1].prompt_cache_breakpoint'.",
			call("a"), `{"type":"function_call_output","call_id":"a","output":"x"`+marked+`}`),
		asks("breakpoint on what the assistant said", "input[0].content[0].prompt_cache_breakpoint", codeUnknown,
			"Unknown parameter: 'input[0].content[0].prompt_cache_breakpoint'.", says("assistant", sized("output_text", "a", 20, marked))),
		asks("breakpoint without mode", "input[0].content[0].prompt_cache_breakpoint.mode", codeMissing,
			"Missing required parameter: 'input[0].content[0].prompt_cache_breakpoint.mode'.", says("user", input("a", 20, `,"prompt_cache_breakpoint":{}`))),
		asks("breakpoint of another mode", "input[0].content[0].prompt_cache_breakpoint.mode", codeValue, "Invalid value: 'implicit'. Supported values are: 'explicit'.",
			says("user", input("a", 20, `,"prompt_cache_breakpoint":{"mode":"implicit"}`))),
		asks("breakpoint with a ttl", "input[0].content[0].prompt_cache_breakpoint.ttl", codeUnknown,
			"Unknown parameter: 'input[0].content[0].prompt_cache_breakpoint.ttl'.",
			says("user", input("a", 20, `,"prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}`))),
		asks("breakpoint no object", "input[0].content[0].prompt_cache_breakpoint", codeType,
			"Invalid type for 'input[0].content[0].prompt_cache_breakpoint': expected an object, but got a boolean instead.",
			says("user", input("a", 20, `,"prompt_cache_breakpoint":true`))),
		asks("breakpoint for an old model", "input[1].output[0].prompt_cache_breakpoint", codeUnsupported,
			"Unsupported parameter: 'input[1].output[0].prompt_cache_breakpoint' is not supported with this model.",
			call("a"), `{"type":"function_call_output","call_id":"a","output":[`+input("a", 20, marked)+`]}`),
		asks("foreign encrypted content", "", "invalid_encrypted_content",
			"The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
			`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAAbcd"}`, hi),
		asks("foreign encrypted content without id", "", "invalid_encrypted_content",
			"The encrypted content gAAA...bcd= could not be verified.", `{"type":"compaction","encrypted_content":"gAAAAAbcd="}`, hi),
		asks("reasoning without summary", "input[0].summary", codeMissing, "Missing required parameter: 'input[0].summary'.", `{"type":"reasoning","id":"rs_1"}`),
		asks("no input", "input", codeMissing, `One of "input" or "previous_response_id" or 'prompt' or 'conversation_id' must be provided.`),
		has("unknown answer", `"previous_response_id":"resp_1",`, "previous_response_id", "previous_response_not_found", "Previous response with id 'resp_1' not found."),
		has("answer of no type", `"previous_response_id":1,`, "previous_response_id", codeType, "Invalid type for 'previous_response_id': expected a string, but got an integer instead."),
		has("two histories", `"previous_response_id":"resp_1","conversation":{"id":"conv_1"},`, "previous_response_id", "mutually_exclusive_parameters",
			"Mutually exclusive parameters: 'previous_response_id' and 'conversation'."),
		has("conversation without id", `"conversation":{},`, "conversation.id", codeMissing, "Missing required parameter: 'conversation.id'."),
		has("lifetime and retention", `"prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"},`, "prompt_cache_options.ttl", "",
			"The parameters 'prompt_cache_options.ttl' and 'prompt_cache_retention' cannot be used together."),
		has("another lifetime", `"prompt_cache_options":{"ttl":"1h"},`, "prompt_cache_options.ttl", codeValue, "Invalid value: '1h'. Supported values are: '30m'."),
		has("another mode", `"prompt_cache_options":{"mode":"auto"},`, "prompt_cache_options.mode", codeValue, "Invalid value: 'auto'. Supported values are: 'implicit' and 'explicit'."),
		has("unknown option", `"prompt_cache_options":{"life":1},`, "prompt_cache_options.life", codeUnknown, "Unknown parameter: 'prompt_cache_options.life'."),
		has("options of no type", `"prompt_cache_options":"explicit",`, "prompt_cache_options", codeType, "Invalid type for 'prompt_cache_options': expected an object, but got a string instead."),
		has("another retention", `"prompt_cache_retention":"1h",`, "prompt_cache_retention", codeValue, "Invalid value: '1h'. Supported values are: 'in_memory' and '24h'."),
		has("key of no type", `"prompt_cache_key":1,`, "prompt_cache_key", codeType, "Invalid type for 'prompt_cache_key': expected a string, but got an integer instead."),
		has("instructions of no type", `"instructions":[],`, "instructions", codeType, "Invalid type for 'instructions': expected a string, but got an array instead."),
		has("stream of no type", `"stream":"yes",`, "stream", codeType, "Invalid type for 'stream': expected a boolean, but got a string instead."),
		has("tool without name", `"tools":[{"type":"function"}],`, "tools[0].name", codeMissing, "Missing required parameter: 'tools[0].name'."),
		has("breakpoint on a tool", `"tools":[{"type":"function","name":"a"`+marked+`}],`, "tools[0].prompt_cache_breakpoint", codeUnknown,
			"Unknown parameter: 'tools[0].prompt_cache_breakpoint'."),
		has("tools no array", `"tools":{},`, "tools", codeType, "Invalid type for 'tools': expected an array, but got an object instead."),
		{
			name: "unknown item", path: pathResponses, body: conv(plain, "", `{"type":"item_reference","id":"msg_9"}`), status: 404, param: "input",
			message: "Item with id 'msg_9' not found. Items are not persisted when `store` is set to false.",
		},
		{
			name: "reasoning that nobody kept", path: pathResponses, body: conv(plain, "", `{"type":"reasoning","id":"rs_9","summary":[]}`, call("a"), output("a", "x")), status: 404,
			param: "input", message: "Item with id 'rs_9' not found.",
		},
		{
			name: "unknown conversation", path: pathResponses, body: conv(plain, `"conversation":"conv_9",`, hi), status: 404, param: "conversation",
			message: "Conversation with id 'conv_9' not found.",
		},
		{
			name: "options for an old model", path: pathResponses, body: conv(coarse, `"prompt_cache_options":{"mode":"explicit"},`, hi), param: "prompt_cache_options",
			code: codeUnsupported, message: "Unsupported parameter: 'prompt_cache_options' is not supported with this model.",
		},
		{
			name: "retention that a model has not", path: pathResponses, body: conv(coarse, `"prompt_cache_retention":"in_memory",`, hi), param: "prompt_cache_retention",
			code:    "unsupported_value",
			message: "Unsupported value: 'prompt_cache_retention' does not support 'in_memory' with this model. Supported values are: '24h'.",
		},
		{name: "no model", path: pathResponses, body: []byte(`{"input":"hi"}`), param: "model", code: codeMissing, message: "Missing required parameter: 'model'."},
		{
			name: "model no string", path: pathResponses, body: []byte(`{"model":5,"input":"hi"}`), param: "model", code: codeType,
			message: "Invalid type for 'model': expected a string, but got an integer instead.",
		},
		{
			name: "unknown model", path: pathCompact, body: conv("gpt-99", "", hi), param: "model", code: "model_not_found",
			message: "The requested model 'gpt-99' does not exist.",
		},
		{
			name: "input of no type", path: pathResponses, body: []byte(`{"model":"gpt-5","input":7}`), param: "input", code: codeType,
			message: "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead.",
		},
		{
			name: "too long", path: pathResponses, body: conv(plain, "", says("user", input("a", 272_001))), param: "input", code: "context_length_exceeded",
			message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
		},
	}
}

func bodyRefusals() []refusal {
	good := string(conv(plain, "", hi))
	var list []refusal
	for _, path := range []string{pathChat, pathResponses} {
		for name, body := range map[string]string{
			"empty body": "", "cut off": good[:30], "trailing bytes": good + "}", "lone surrogate": strings.Replace(good, "hi", `\ud83d`, 1),
			"not UTF-8": strings.Replace(good, "hi", "\xff", 1), "invalid inside": strings.Replace(good, `"hi"`, "nul", 1),
			"too deep": strings.Replace(good, `"hi"`, strings.Repeat("[", 1100)+strings.Repeat("]", 1100), 1),
		} {
			list = append(list, refusal{name: name, path: path, body: []byte(body), message: badJSON})
		}
		list = append(list, refusal{name: "a list", path: path, body: []byte(" [1]"), code: codeType, message: "Invalid type for request body: expected an object."})
	}
	for _, coding := range []string{"gzip", "zstd", "br"} {
		list = append(list, refusal{
			name: "not " + coding, path: pathResponses, body: []byte(good), header: http.Header{"Content-Encoding": {coding}}, message: badJSON,
		})
	}
	return append(list,
		refusal{name: "no such path", path: "/v1/completions", body: []byte(good), status: 404, message: "Invalid URL (POST /v1/completions)"},
		refusal{name: "over 64 MB", path: pathResponses, body: make([]byte, maxBody+1), status: 413, message: "Request body too large."},
		refusal{
			name: "over 64 MB, compressed", path: pathResponses, body: zip(make([]byte, maxBody+1)), header: http.Header{"Content-Encoding": {"gzip"}}, status: 413,
			message: "Request body too large.",
		},
	)
}

// zip compresses a body.
func zip(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// TestRefused: what the provider refuses is refused with its status and words, and touches no cache.
func TestRefused(t *testing.T) {
	for _, c := range append(append(chatRefusals(), itemRefusals()...), bodyRefusals()...) {
		t.Run(c.name, func(t *testing.T) {
			s := New(Options{})
			res := s.Call(c.path, c.body, c.header, start)
			if c.status == 0 {
				c.status = 400
			}
			if res.Err == nil {
				t.Fatalf("accepted: %.500s", c.body)
			}
			if res.Status != c.status || res.Err.Param != c.param || res.Err.Code != c.code || !strings.HasPrefix(res.Err.Message, c.message) {
				t.Errorf("got  %d %q %q %s\nwant %d %q %q %s", res.Status, res.Err.Param, res.Err.Code, res.Err.Message, c.status, c.param, c.code, c.message)
			}
			if res.Usage != (Usage{}) || res.Output != nil || len(s.Requests()[0].Live) > 0 {
				t.Errorf("a refusal left %+v", res)
			}
		})
	}
}

// TestAccepted: what clients really send is no fault.
func TestAccepted(t *testing.T) {
	shell := `{"type":"local_shell_call","id":"lsh_1","call_id":"s","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}}`
	for _, c := range []struct {
		name, path string
		body       []byte
	}{
		{"parallel calls", pathChat, talk(plain, "", hi, calls("a", "b"), tool("b", "2"), tool("a", "1"), hi)},
		{"no content beside calls", pathChat, talk(plain, "", hi, strings.Replace(calls("a"), `"content":null,`, "", 1), tool("a", "1"))},
		{"a refusal", pathChat, talk(plain, "", hi, `{"role":"assistant","content":null,"refusal":"no"}`, hi)},
		{"a custom tool", pathChat, talk(plain, "", `{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"x","input":"y"}}]}`, tool("a", "1"))},
		{"an image", pathChat, talk(plain, "", says("user", `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`))},
		{"a breakpoint on what the assistant said", pathChat, talk(modern, "", hi, says("assistant", sized("text", "a", 20, marked)), hi)},
		{"breakpoints by the dozen", pathChat, talk(modern, "", says("user", repeat(sized("text", "a", 20, marked), 12)...))},
		{"nulls", pathChat, talk(plain, `"tools":null,"stop":null,"stream_options":null,"prompt_cache_key":null,`, hi)},
		{"a deployment", "/openai/deployments/gpt-5/chat/completions", []byte(`{"messages":[` + hi + `]}`)},
		{"a deployment of another name", "/openai/deployments/mine/chat/completions", talk(plain, "", hi)},
		{"Azure's newer path", "/openai/v1/chat/completions", talk(plain, "", hi)},
		{"Azure's responses", "/openai/v1/responses", conv(plain, "", hi)},
		{"no version", "/responses", conv(plain, "", hi)},
		{"a string", pathResponses, []byte(`{"model":"gpt-5","input":"hi"}`)},
		{"outputs later and in another order", pathResponses, conv(plain, "", hi, call("a"), call("b"), hi, output("b", "2"), output("a", "1"))},
		{"a shell", pathResponses, conv(plain, "", shell, `{"type":"local_shell_call_output","call_id":"s","output":"{}"}`)},
		{"a list of outputs", pathResponses, conv(modern, "", call("a"), `{"type":"function_call_output","call_id":"a","output":[`+input("a", 20, marked)+`]}`)},
		{"a search", pathResponses, conv(plain, "", hi, `{"type":"web_search_call","id":"ws_1","status":"completed","action":{}}`, hi)},
		{"tools of every kind", pathResponses, conv(plain, `"tools":[{"type":"function","name":"a","parameters":{}},{"type":"web_search"},{"type":"namespace","name":"n","tools":[]}],`, hi)},
		{"a retention", pathResponses, conv(modern, `"prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"},`, hi)},
		{"a snapshot", pathResponses, conv("gpt-5-2025-08-07", "", hi)},
		{"a Codex model", pathResponses, conv("gpt-5.1-codex-max", "", hi)},
	} {
		t.Run(c.name, func(t *testing.T) { must(t, New(Options{}), c.path, c.body, nil, start) })
	}
}

// TestCompressedBodies: a body says the same in every coding.
func TestCompressedBodies(t *testing.T) {
	body := conv(modern, "", says("user", input("a", 1500)))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	must(t, s, pathResponses, body, nil, start)
	for coding, packed := range map[string][]byte{"gzip": zip(body), "zstd": z.EncodeAll(body, nil)} {
		if got := must(t, s, pathResponses, packed, http.Header{"Content-Encoding": {coding}}, start).Usage.Read; got != 1500 {
			t.Errorf("%s: read %d", coding, got)
		}
	}
	for _, rec := range s.Requests() {
		if !bytes.Equal(rec.Body, body) {
			t.Errorf("the log has %.100q", rec.Body)
		}
	}
}
