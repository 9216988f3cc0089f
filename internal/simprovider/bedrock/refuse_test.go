package bedrock

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// refusal is a body and how Bedrock refuses it.
type refusal struct {
	name  string
	path  string
	body  []byte
	want  string
	wants string // its type; empty is a ValidationException
}

// converseRefusals are refused by Bedrock itself.
func converseRefusals() []refusal {
	path := at(sonnet, "converse")
	pair := []string{hi, says("assistant", use("a"), use("b"))}
	list := []refusal{
		{"no user at the start", "", conv("", says("assistant", words("x"))), "A conversation must start with a user message. Try again with a conversation that starts with a user message.", ""},
		{"no messages", "", conv(""), "A conversation must start with a user message. Try again with a conversation that starts with a user message.", ""},
		{"the user twice", "", conv("", hi, hi), "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.", ""},
		{"a system message", "", conv("", hi, says("system", words("x"))), "1 validation error detected: Value 'system' at 'messages.2.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]", ""},
		{"no role", "", conv("", `{"content":[{"text":"x"}]}`), "1 validation error detected: Value null at 'messages.1.member.role' failed to satisfy constraint: Member must not be null", ""},
		{"no content", "", conv("", `{"role":"user"}`), "1 validation error detected: Value null at 'messages.1.member.content' failed to satisfy constraint: Member must not be null", ""},
		{"empty content", "", conv("", hi, says("assistant")), "The content field in the Message object at messages.1 is empty. Add a ContentBlock object to the content field and try again.", ""},
		{"a blank text", "", conv("", says("user", words("x"), words(" \n"))), "The text field in the ContentBlock object at messages.0.content.1 is blank. Add text to the text field, and try again.", ""},
		{"an unknown block", "", conv("", says("user", `{"type":"text"}`)), "ContentBlock object at messages.0.content.0 must set one of the following keys: text, image, toolUse, toolResult, document, video, cachePoint, reasoningContent, citationsContent, searchResult.", ""},
		{"two in one", "", conv("", says("user", `{"text":"x","cachePoint":{"type":"default"}}`)), "ContentBlock object at messages.0.content.0 can only set one of the following keys: text, image, toolUse, toolResult, document, video, cachePoint, reasoningContent, citationsContent, searchResult.", ""},
		{"a video", "", conv("", says("user", `{"video":{}}`)), "This model doesn't support the video field. Remove video and try again.", ""},
		{"string content", "", conv("", `{"role":"user","content":"hi"}`), "STRING_VALUE can not be converted to a List", "SerializationException"},
		{"a text that is none", "", conv("", says("user", `{"text":1}`)), "NUMBER_VALUE can not be converted to a String", "SerializationException"},
		{"no JSON", "", []byte(`{`), "Unable to parse the request body as JSON.", "SerializationException"},
		{"no tools", "", conv("", hi, says("assistant", use("a")), says("user", result("a", "x"))), "The toolConfig field must be defined when using toolUse and toolResult content blocks.", ""},
		{"no result", "", conv(tools, pair[0], pair[1], says("user", result("b", "x"))), "Expected toolResult blocks at messages.2.content for the following Ids: a", ""},
		{"no results", "", conv(tools, pair[0], pair[1], hi), "Expected toolResult blocks at messages.2.content for the following Ids: a, b", ""},
		{"a result too many", "", conv(tools, pair[0], pair[1], says("user", result("a", "x"), result("b", "x"), result("c", "x"))), "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.", ""},
		{"a result of nothing", "", conv(tools, says("user", result("a", "x"))), "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks of previous turn.", ""},
		{"a result of another call", "", conv(tools, pair[0], pair[1], says("user", result("a", "x"), result("c", "x"))), "Expected toolResult blocks at messages.2.content for the following Ids: b", ""},
		{"a result twice", "", conv(tools, pair[0], pair[1], says("user", result("a", "x"), result("a", "x"))), "The toolResult blocks at messages.2.content contain duplicate Ids: a", ""},
		{"a call twice", "", conv(tools, hi, says("assistant", use("a"), use("a"))), "The toolUse blocks at messages.1.content contain duplicate Ids: a", ""},
		{"an empty failure", "", conv(tools, pair[0], says("assistant", use("a")), says("user", `{"toolResult":{"toolUseId":"a","content":[],"status":"error"}}`)), "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.", ""},
		{"an odd status", "", conv(tools, pair[0], says("assistant", use("a")), says("user", `{"toolResult":{"toolUseId":"a","content":[],"status":"bad"}}`)), "1 validation error detected: Value 'bad' at 'messages.3.member.content.1.member.toolResult.status' failed to satisfy constraint: Member must satisfy enum value set: [success, error]", ""},
		{"an id with a dot", "", conv(tools, hi, says("assistant", use("a.b"))), "1 validation error detected: Value 'a.b' at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+", ""},
		{"a long id", "", conv(tools, hi, says("assistant", use(strings.Repeat("a", 65)))), "1 validation error detected: Value '" + strings.Repeat("a", 65) + "' at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must have length less than or equal to 64", ""},
		{"an unknown model", at("anthropic.claude-x-1", "converse"), conv("", hi), "The provided model identifier is invalid.", ""},
		{"another's model", at("amazon.nova-pro-v1:0", "converse"), conv("", hi), "The provided model identifier is invalid.", ""},
		{"no such operation", at(sonnet, "talk"), conv("", hi), "Unable to determine service/operation name to be authorized", "UnknownOperationException"},
	}
	for i := range list {
		if list[i].path == "" {
			list[i].path = path
		}
	}
	return list
}

// pointRefusals are about cachePoints, by Bedrock or by the model behind it.
func pointRefusals() []refusal {
	path := at(sonnet, "converse")
	five := `"system":[{"text":"a"},` + point + `,{"text":"b"},` + point + `],`
	ordered := said + "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. " +
		"Note that blocks are processed in the following order: tools, system, messages."
	return []refusal{
		{"another type", path, conv("", says("user", words("x"), `{"cachePoint":{"type":"x"}}`)), "1 validation error detected: Value 'x' at 'messages.1.member.content.2.member.cachePoint.type' failed to satisfy constraint: Member must satisfy enum value set: [default]", ""},
		{"no type", path, conv("", says("user", words("x"), `{"cachePoint":{}}`)), "1 validation error detected: Value null at 'messages.1.member.content.2.member.cachePoint.type' failed to satisfy constraint: Member must not be null", ""},
		{"another lifetime", path, conv("", says("user", words("x"), `{"cachePoint":{"type":"default","ttl":"2h"}}`)), "1 validation error detected: Value '2h' at 'messages.1.member.content.2.member.cachePoint.ttl' failed to satisfy constraint: Member must satisfy enum value set: [5m, 1h]", ""},
		{"an hour after five minutes", path, conv(`"system":[{"text":"a"},`+point+`],`, says("user", words("x"), pointLong)), ordered, ""},
		{"an hour after five minutes of tools", path, conv(`"toolConfig":{"tools":[{"toolSpec":{"name":"read","inputSchema":{"json":{}}}},`+point+`]},`, says("user", words("x"), pointLong)), ordered, ""},
		{"five", path, conv(five, says("user", words("x"), point, words("y"), point, words("z"), point)), said + "A maximum of 4 blocks with cache_control may be provided. Found 5.", ""},
		{"at the start", path, conv("", says("user", point, words("x"))), said + "messages.0.content.0.type: Field required", ""},
		{"twice", path, conv("", says("user", words("x"), point, point)), said + "messages.0.content.2.type: Field required", ""},
		{"behind a document", path, conv("", says("user", `{"document":{"format":"md","name":"a","source":{"bytes":"eA=="}}}`, point)), said + "messages.0.content.1.type: Field required", ""},
		{"at the start of the system", path, conv(`"system":[`+point+`],`, hi), said + "system.0.type: Field required", ""},
		{"on reasoning", path, conv("", hi, says("assistant", `{"reasoningContent":{"reasoningText":{"text":"x","signature":"eA=="}}}`, point, words("x")), hi), said + "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted", ""},
		{"in a result", path, conv(tools, hi, says("assistant", use("a")), says("user", `{"toolResult":{"toolUseId":"a","content":[{"text":"x"},`+point+`]}}`)), "ToolResultContentBlock object at messages.2.content.0.toolResult.content.1 must set one of the following keys: json, text, image, document, video, searchResult.", ""},
		{"a lifetime that the model does not know", at(old, "converse"), conv("", says("user", words("x"), pointLong)), said + "messages.0.content.0.text.cache_control.ephemeral.ttl: Extra inputs are not permitted", ""},
		{"a model without caching", at(oldest, "converse"), conv("", says("user", words("x"), point)), "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.", "AccessDeniedException"},
	}
}

// modelRefusals are those of the model: in Converse they stand behind words of Bedrock's.
func modelRefusals() []refusal {
	marked := `{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}`
	path := at(sonnet, "invoke")
	unanswered := "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	return []refusal{
		{"calls at the end", at(sonnet, "converse"), conv(tools, hi, says("assistant", use("a"))), said + unanswered, ""},
		{"a foreign field", at(sonnet, "converse"), conv(`"additionalModelRequestFields":{"cache_control":{"type":"ephemeral"}},`, hi), said + "cache_control: Extra inputs are not permitted", ""},
		{"a beta", at(sonnet, "converse"), conv(`"additionalModelRequestFields":{"anthropic_beta":["message-threads-2026-08-12"]},`, hi), said + "invalid beta flag", ""},
		{"reasoning without a signature", at(sonnet, "converse"), conv("", hi, says("assistant", `{"reasoningContent":{"reasoningText":{"text":"x"}}}`), hi), said + "messages.1.content.0.thinking.signature: Field required", ""},
		{"calls at the end of InvokeModel", path, inv("", hiThere, says("assistant", `{"type":"tool_use","id":"a","name":"read","input":{}}`)), unanswered, ""},
		{"a model", path, inv(`"model":"x",`, hiThere), "model: Extra inputs are not permitted", ""},
		{"a stream", path, inv(`"stream":true,`, hiThere), "stream: Extra inputs are not permitted", ""},
		{"automatic caching", path, inv(`"cache_control":{"type":"ephemeral"},`, hiThere), "cache_control: Extra inputs are not permitted", ""},
		{"a thread", path, inv(`"thread":{"type":"create"},`, hiThere), "thread: Extra inputs are not permitted", ""},
		{"compaction on demand", path, inv(`"compaction":{},`, hiThere), "compaction: Extra inputs are not permitted", ""},
		{"a beta of InvokeModel", path, inv(`"anthropic_beta":["compact-2026-09-04"],`, hiThere), "invalid beta flag", ""},
		{"betas that are no list", path, inv(`"anthropic_beta":"x",`, hiThere), "anthropic_beta: Input should be a valid list", ""},
		{"no version", path, []byte(`{"max_tokens":1,"messages":[` + hiThere + `]}`), "anthropic_version: Field required", ""},
		{"another version", path, []byte(`{"anthropic_version":"2023-06-01","max_tokens":1,"messages":[` + hiThere + `]}`), "anthropic_version: Input should be 'bedrock-2023-05-31'", ""},
		{"no limit", path, []byte(`{"anthropic_version":"bedrock-2023-05-31","messages":[` + hiThere + `]}`), "max_tokens: Field required", ""},
		{"no JSON in InvokeModel", path, []byte(`{"messages":`), "Malformed input request, please reformat your input and try again.", ""},
		{"an empty text", path, inv("", `{"role":"user","content":[{"type":"text","text":""}]}`), "messages: text content blocks must be non-empty", ""},
		{"an unknown model of InvokeModel", at("anthropic.claude-x-1", "invoke"), inv("", hiThere), "The provided model identifier is invalid.", ""},
		{"a lifetime that InvokeModel does not know", at(old, "invoke"), inv("", marked), "messages.0.content.0.text.cache_control.ephemeral.ttl: Extra inputs are not permitted", ""},
		{"a lifetime of tools", at(old, "invoke"), inv(`"tools":[{"name":"x","input_schema":{},"cache_control":{"type":"ephemeral","ttl":"5m"}}],`, hiThere), "tools.0.custom.cache_control.ephemeral.ttl: Extra inputs are not permitted", ""},
		{"a lifetime of the system", at(old, "invoke"), inv(`"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"5m"}}],`, hiThere), "system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted", ""},
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range append(append(converseRefusals(), pointRefusals()...), modelRefusals()...) {
		t.Run(c.name, func(t *testing.T) {
			s := New(Options{})
			res := s.Call(c.path, c.body, nil, start)
			if res.Err == nil {
				t.Fatal("accepted")
			}
			if c.wants == "" {
				c.wants = "ValidationException"
			}
			if res.Err.Message != c.want || res.Err.Type != c.wants || res.Status < 400 {
				t.Errorf("%d %v\nwant %s: %s", res.Status, res.Err, c.wants, c.want)
			}
			if rec := s.Requests()[0]; rec.Error != res.Err.Error() || rec.Usage != (Usage{}) {
				t.Errorf("log: %+v", rec)
			}
		})
	}
}

// TestTooLarge: Bedrock takes 25 MB, compressed or not.
func TestTooLarge(t *testing.T) {
	s, body := New(Options{}), bytes.Repeat([]byte(" "), maxBody+1)
	const want = "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have length less than or equal to 25000000"
	for coding, b := range map[string][]byte{"": body, "gzip": zipped(t, body)} {
		if res := s.Call(at(sonnet, "converse"), b, http.Header{"Content-Encoding": {coding}}, start); res.Err == nil || res.Err.Message != want {
			t.Errorf("%q: %v", coding, res.Err)
		}
	}
	must(t, s, at(sonnet, "converse"), zipped(t, conv("", hi)), http.Header{"Content-Encoding": {"gzip"}}, start)
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestScriptedErrors: x-sim-status is answered in Bedrock's words and touches no cache.
func TestScriptedErrors(t *testing.T) {
	s := New(Options{})
	for status, want := range map[string]string{
		"400": "ValidationException", "403": "AccessDeniedException", "404": "ResourceNotFoundException", "424": "ModelErrorException",
		"429": "ThrottlingException", "500": "InternalServerException", "503": "ServiceUnavailableException",
	} {
		res := s.Call(at(sonnet, "converse"), conv("", hi), map[string][]string{simkit.HeaderStatus: {status}}, start)
		if res.Err == nil || res.Err.Type != want {
			t.Errorf("%s: %v", status, res.Err)
		}
	}
}

// TestSignatures: reasoning comes back as it was, or is refused; where thinking is bound, so is what stood before it.
func TestSignatures(t *testing.T) {
	path, script := at(modern, "converse"), answer(`[{"reasoningContent":{"reasoningText":{"text":"hm"}}},{"text":"yes"}]`)
	s := New(Options{})
	res := must(t, s, path, conv("", hi), script, start)
	back := says("assistant", content(res)...)
	must(t, s, path, conv("", hi, back, hi), nil, start)
	redacted := must(t, s, path, conv("", hi), answer(`[{"reasoningContent":{"redactedContent":""}},{"text":"yes"}]`), start)
	must(t, s, path, conv("", hi, says("assistant", content(redacted)...), hi), nil, start)
	for name, c := range map[string]struct{ first, said, want string }{
		"another text":      {hi, strings.Replace(back, "hm", "hmm", 1), "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."},
		"another signature": {hi, strings.Replace(back, "tidemark-sim.", "tidemark-sim.9", 1), "messages.1.content.0: Invalid `signature` in `thinking` block"},
		"another prefix":    {says("user", words("ho")), back, "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."},
	} {
		if res := s.Call(path, conv("", c.first, c.said, hi), nil, start); res.Err == nil || res.Err.Message != said+c.want {
			t.Errorf("%s: %v", name, res.Err)
		}
	}
}
