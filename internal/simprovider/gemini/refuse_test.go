package gemini

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// refusal is a body and how it is refused.
type refusal struct {
	name   string
	path   string
	body   []byte
	want   string
	status int // 0 is 400
}

const (
	callTurn     = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
	responseTurn = "Please ensure that function response turn comes immediately after a function call turn."
	numberOf     = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
	endTurn      = "Please ensure that multiturn requests ends with a user role or a function response."
	noData       = ": required oneof field 'data' must have one initialized field\n"
	validRole    = "Please use a valid role: user, model."
	learnMore    = " Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
	notSigned    = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing " +
		"thought_signature may lead to degraded model performance. Additional data, function call `default_api:read` , position 2. " +
		"Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)

func shapeRefusals() []refusal {
	path := at(plain, methodGenerate)
	badSchema := `{"tools":[{"functionDeclarations":[{"name":"a b"}]}],"contents":[` + hi + `]}`
	return []refusal{
		{"no JSON", path, []byte(`{"contents":`), "Invalid JSON payload received. Unexpected token.", 0},
		{"an unknown member", path, conv(`"stream":true,`, hi), `Invalid JSON payload received. Unknown name "stream": Cannot find field.`, 0},
		{"an unknown member of a content", path, conv("", `{"role":"user","content":"x"}`), `Invalid JSON payload received. Unknown name "content" at 'contents[0]': Cannot find field.`, 0},
		{"an unknown member of a part", path, conv("", says("user", `{"type":"text","text":"x"}`)), `Invalid JSON payload received. Unknown name "type" at 'contents[0].parts[0]': Cannot find field.`, 0},
		{"an unknown member of a response", path, conv("", hi, says("model", call("a", "")), says("user", `{"functionResponse":{"name":"a","content":"x"}}`)), `Invalid JSON payload received. Unknown name "content" at 'contents[2].parts[0].function_response': Cannot find field.`, 0},
		{"a response that is a text", path, conv("", hi, says("model", call("a", "")), says("user", `{"functionResponse":{"name":"a","response":"x"}}`)), `Invalid value at 'contents[2].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct), "x"`, 0},
		{"arguments that are a text", path, conv("", hi, says("model", `{"functionCall":{"name":"a","args":"x"}}`)), `Invalid value at 'contents[1].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct), "x"`, 0},
		{"a text that is none", path, conv("", says("user", `{"text":1}`)), `Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 1`, 0},
		{"a signature that is no base64", path, conv("", hi, says("model", call("a", "!"))), `Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding failed for "!"`, 0},
		{"two in one", path, conv("", says("user", `{"text":"x","inlineData":{"mimeType":"image/png","data":"eA=="}}`)), "Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. Cannot set 'inlineData'", 0},
		{"contents that are a text", path, []byte(`{"contents":"x"}`), `Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), "x"`, 0},
		{"a name with a blank", path, []byte(badSchema), "* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n", 0},
		{"a tool twice", path, conv(`"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"}]}],`, hi), "Duplicate function declaration found: a", 0},
		{"no contents", path, conv(""), "* GenerateContentRequest.contents: contents is not specified\n", 0},
		{"no contents on Vertex", vertex(plain, methodGenerate), conv(""), "Unable to submit request because at least one contents field is required." + learnMore, 0},
		{"no parts", path, conv("", hi, says("model")), "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n", 0},
		{"no parts on Vertex", vertex(plain, methodGenerate), conv("", says("user")), "Unable to submit request because it must include at least one parts field, which describes the prompt input." + learnMore, 0},
		{"an empty part", path, conv("", says("user", `{}`, words("x"), words(""))), "* GenerateContentRequest.contents[0].parts[0].data" + noData + "* GenerateContentRequest.contents[0].parts[2].data" + noData, 0},
		{"an empty part of the system", path, conv(`"systemInstruction":{"parts":[{"text":""}]},`, hi), "* GenerateContentRequest.system_instruction.parts[0].data" + noData, 0},
		{"an empty part on Vertex", vertex(plain, methodGenerate), conv("", says("user", words(""))), "Unable to submit request because it must have a text parameter." + learnMore, 0},
		{"no name", path, conv("", hi, says("model", call("a", "")), says("user", `{"functionResponse":{"response":{}}}`)), "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n", 0},
		{"another role", path, conv("", says("assistant", words("x"))), validRole, 0},
		{"a role of Chat", path, conv("", says("system", words("x"))), validRole, 0},
		{"no role on Vertex", vertex(plain, methodGenerate), conv("", `{"parts":[{"text":"x"}]}`, says("model", words("y")), hi), validRole, 0},
		{"an explicit cache", path, conv(`"cachedContent":"cachedContents/x",`, hi), "CachedContent not found (or permission denied)", 403},
		{"an unknown model", at("gemini-x", methodGenerate), conv("", hi), "models/gemini-x is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", 404},
		{"an unknown model of Vertex", vertex("gemini-x", methodGenerate), conv("", hi), "Publisher Model `projects/p/locations/us-central1/publishers/google/models/gemini-x` was not found or your project does not have access to it. Please ensure you are using a valid model version. For more information, see: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions", 404},
		{"no such method", at(plain, "talk"), conv("", hi), "Requested entity was not found.", 404},
	}
}

func turnRefusals() []refusal {
	path := at(plain, methodGenerate)
	two := says("model", call("read", ""), call("list", ""))
	return []refusal{
		{"a call at the start", path, conv("", two, says("user", response("read"), response("list"))), callTurn, 0},
		{"a call behind the model", path, conv("", hi, says("model", words("x")), two, says("user", response("read"), response("list"))), callTurn, 0},
		{"a call of the user", path, conv("", hi, says("user", call("read", "")), says("user", response("read"))), callTurn, 0},
		{"a response too few", path, conv("", hi, two, says("user", response("read"))), numberOf, 0},
		{"no response", path, conv("", hi, two, hi), numberOf, 0},
		{"a response too many", path, conv("", hi, two, says("user", response("read"), response("list"), response("list"))), numberOf, 0},
		{"responses apart", path, conv("", hi, two, says("user", response("read")), says("user", response("list"))), numberOf, 0},
		{"a response of nothing", path, conv("", hi, says("model", words("x")), says("user", response("read"))), responseTurn, 0},
		{"a response at the start", path, conv("", says("user", response("read"))), responseTurn, 0},
		{"a call at the end", path, conv("", hi, two), endTurn, 0},
		{"no signature", at(modern, methodGenerate), conv("", hi, says("model", call("read", ""), call("list", other)), says("user", response("read"), response("list"))), notSigned, 0},
		{"no signature of the second step", at(modern, methodGenerate), conv("", hi, says("model", call("list", other)), says("user", response("list")), says("model", call("read", "")), says("user", response("read"))), strings.Replace(notSigned, "position 2", "position 4", 1), 0},
		{"no signature on Vertex", vertex(modern, methodGenerate), conv("", hi, says("model", call("read", "")), says("user", response("read"))), "Unable to submit request because function call `read` in the 2. content block is missing a `thought_signature`. Learn more: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures", 0},
		{"a signature that nobody made", at(modern, methodGenerate), conv("", hi, says("model", call("read", signaturePrefix+"eA==")), says("user", response("read"))), "Corrupted thought signature.", 0},
		{"a signature that nobody made, on Vertex", vertex(modern, methodGenerate), conv("", hi, says("model", call("read", signaturePrefix+"eA==")), says("user", response("read"))), "Unable to submit request because Thought signature is not valid.." + learnMore, 0},
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range append(shapeRefusals(), turnRefusals()...) {
		t.Run(c.name, func(t *testing.T) {
			s := New(Options{})
			res := s.Call(c.path, c.body, nil, start)
			if c.status == 0 {
				c.status = http.StatusBadRequest
			}
			if res.Err == nil || res.Err.Message != c.want || res.Status != c.status {
				t.Fatalf("%d %v\nwant %d %s", res.Status, res.Err, c.status, c.want)
			}
			if rec := s.Requests()[0]; rec.Error != res.Err.Error() || rec.Usage != (Usage{}) || len(rec.Live) > 0 {
				t.Errorf("log: %+v", rec)
			}
		})
	}
	long := conv("", says("user", sized("a", 1_048_580)))
	if res := New(Options{}).Call(at(plain, methodGenerate), long, nil, start); res.Err == nil || res.Err.Message != "The input token count (1048580) exceeds the maximum number of tokens allowed (1048576)." {
		t.Error(res.Err)
	}
}

// TestAccepted: what looks odd and is lawful.
func TestAccepted(t *testing.T) {
	unsigned := says("model", call("read", ""))
	for name, c := range map[string]struct{ path, body string }{
		"one of each instead of lists": {at(plain, methodGenerate), `{"system_instruction":{"parts":{"text":"x"}},"contents":{"parts":{"text":"x"}}}`},
		"snake case": {at(modern, methodGenerate), `{"contents":[` + hi + `,{"role":"model","parts":[{"function_call":{"name":"a","args":{}},"thought_signature":"c29tZWJvZHk"}]},` +
			`{"role":"function","parts":[{"function_response":{"name":"a","response":{"content":"x"},"parts":[{"inline_data":{"mime_type":"image/png","data":"eA=="}}]}}]}],` +
			`"tools":[{"function_declarations":[{"name":"a","parameters_json_schema":{}}]},{"google_search":{}}],"generation_config":{"max_output_tokens":5},"cached_content":null}`},
		"no signature in an earlier turn":  {at(modern, methodGenerate), string(conv("", hi, unsigned, says("user", response("read")), says("model", words("x")), hi))},
		"a word beside the response":       {at(modern, methodGenerate), string(conv("", hi, unsigned, says("user", response("read"), words("go on"))))},
		"a signature that skips the check": {at(modern, methodGenerate), string(conv("", hi, says("model", call("read", "skip_thought_signature_validator")), says("user", response("read"))))},
		"a signature alone":                {at(modern, methodGenerate), string(conv("", hi, says("model", words("x"), `{"text":"","thoughtSignature":"`+other+`"}`), hi))},
		"no signature for 2.5":             {at(plain, methodGenerate), string(conv("", hi, unsigned, says("user", response("read"))))},
		"the model at the end":             {at(plain, methodGenerate), string(conv("", hi, says("model", words("x"))))},
		"no role":                          {vertex(plain, methodGenerate), `{"contents":[{"parts":[{"text":"x"}]}]}`},
		"express mode":                     {"/v1/publishers/google/models/" + plain + ":generateContent", string(conv("", hi))},
	} {
		t.Run(name, func(t *testing.T) { must(t, New(Options{}), c.path, []byte(c.body), nil, start) })
	}
}

// TestSignatures: what the simulator signed comes back as it was, whole or in the pieces of a stream, or is refused.
func TestSignatures(t *testing.T) {
	s, path := New(Options{}), at(modern, methodGenerate)
	calls := parts(must(t, s, path, conv("", hi), answerWith(`[{"text":"I think","thought":true},{"functionCall":{"name":"read","args":{"a":1}}},{"functionCall":{"name":"list","args":{}}}]`), start))
	if !strings.Contains(calls[1], signaturePrefix) || strings.Contains(calls[2], "thoughtSignature") {
		t.Fatalf("signed: %v", calls)
	}
	said := parts(must(t, s, path, conv("", hi), answerWith(`[{"text":"so it is"}]`), start))[0]
	signature := said[strings.Index(said, signaturePrefix) : len(said)-2]
	both := says("user", response("read"), response("list"))
	for name, c := range map[string]struct {
		contents []string
		refused  bool
	}{
		"as it was":           {[]string{hi, says("model", calls...), both}, false},
		"without the thought": {[]string{hi, says("model", calls[1:]...), both}, false},
		"the thought in two":  {[]string{hi, says("model", `{"text":"I th","thought":true}`, `{"text":"ink","thought":true}`, calls[1], calls[2]), both}, false},
		"another thought":     {[]string{hi, says("model", `{"text":"I thought","thought":true}`, calls[1], calls[2]), both}, true},
		"other arguments":     {[]string{hi, says("model", strings.Replace(calls[1], `"a":1`, `"a":2`, 1), calls[2]), both}, true},
		"another name":        {[]string{hi, says("model", strings.Replace(calls[1], "read", "rea", 1), calls[2]), both}, true},
		"on another call":     {[]string{hi, says("model", calls[2], calls[1]), both}, true}, // the first call has none
		"another second call": {[]string{hi, says("model", calls[1], call("list", "")), both}, false},
		"a text":              {[]string{hi, says("model", said), hi}, false},
		"a text in pieces":    {[]string{hi, says("model", words("so "), strings.Replace(said, "so it is", "it is", 1)), hi}, false},
		"a signature alone":   {[]string{hi, says("model", words("so it is"), `{"text":"","thoughtSignature":"`+signature+`"}`), hi}, false},
		"another text":        {[]string{hi, says("model", strings.Replace(said, "so it is", "so it was", 1)), hi}, true},
		"earlier turns too":   {[]string{hi, says("model", strings.Replace(said, "so it is", "no", 1)), hi, says("model", words("x")), hi}, true},
	} {
		res := s.Call(path, conv("", c.contents...), nil, start)
		if (res.Err != nil) != c.refused {
			t.Errorf("%s: %v", name, res.Err)
		}
		if want := "Invalid thought signature."; c.refused && name != "on another call" && res.Err.Message != want {
			t.Errorf("%s: %v", name, res.Err)
		}
	}
	if got := parts(must(t, s, at(plain, methodGenerate), conv("", hi), answerWith(`[{"functionCall":{"name":"read"}}]`), start)); strings.Contains(got[0], "thoughtSignature") {
		t.Errorf("2.5 signs: %v", got)
	}
}

// TestTooLarge: 32 MiB are taken, compressed or not.
func TestTooLarge(t *testing.T) {
	s, body := New(Options{}), bytes.Repeat([]byte(" "), maxBody+1)
	for coding, b := range map[string][]byte{"": body, "gzip": zipped(t, body)} {
		res := s.Call(at(plain, methodGenerate), b, http.Header{"Content-Encoding": {coding}}, start)
		if res.Err == nil || res.Err.Message != "Request payload size exceeds the limit: 33554432 bytes." {
			t.Errorf("%q: %v", coding, res.Err)
		}
	}
	must(t, s, at(plain, methodGenerate), zipped(t, conv("", hi)), http.Header{"Content-Encoding": {"gzip"}}, start)
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

// TestScriptedErrors: x-sim-status is answered in Google's words and touches no cache.
func TestScriptedErrors(t *testing.T) {
	s := New(Options{})
	for status, want := range map[string]string{"400": "INVALID_ARGUMENT", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "429": "RESOURCE_EXHAUSTED", "500": "INTERNAL", "503": "UNAVAILABLE"} {
		res := s.Call(at(plain, methodGenerate), conv("", hi), http.Header{simkit.HeaderStatus: {status}}, start)
		if res.Err == nil || res.Err.code() != want || res.Err.Message == "" {
			t.Errorf("%s: %v", status, res.Err)
		}
	}
}
