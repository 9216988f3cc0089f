package compress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Python's json writes a space after each comma and colon, and escapes what is not ASCII; numbers keep their form. All of it must
// come back as it was.
const liteLLM = `{"messages": [{"role": "system", "content": "You code. \u00e9"}, {"role": "user", "content": "fix it"}, ` +
	`{"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"/a.go\"}"}}]}, ` +
	`{"role": "tool", "tool_call_id": "call_1", "content": "package a // 1.0e5 <&>"}], "model": "claude-sonnet-4-6"}`

// What LiteLLM's guardrail sends and reads: a list of objects, and five figures for its log.
func TestLiteLLM(t *testing.T) {
	d := open(t, nil, full(t))
	d.who.Anonymous = true // the guardrail names no session
	got := d.compress(liteLLM, "Authorization", "Bearer sk-anything", "Accept-Encoding", "gzip, deflate", "User-Agent", "litellm/1.95.0")
	if want := gjson.Get(liteLLM, "messages").Raw; got.Get("messages").Raw != want {
		t.Errorf("messages are\n%s, not\n%s", got.Get("messages").Raw, want)
	}
	before := got.Get("tokens_before").Int()
	if before <= 0 || got.Get("tokens_after").Int() != before || got.Get("tokens_saved").Int() != 0 || got.Get("compression_ratio").Num != 1 || got.Get("transforms_applied").Raw != "[]" {
		t.Errorf("figures: %s", got.Raw)
	}
	if a := got.Get("tidemark"); a.Get("format").Str != "openai.chat" || a.Get("gate").Str != "" || a.Get("id").Str == "" || a.Get("session").Str == "" {
		t.Errorf("about: %s", a.Raw)
	}
	d.eventually("answered on the route compress", func() bool { return d.answered == 1 && d.route == "compress" })
}

// Others send what they got themselves: Portkey the messages of whichever API was called, with options of their own, 9Router items
// of Responses as messages.
func TestOtherGateways(t *testing.T) {
	const calls = `[{"role":"user","content":"fix it"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/a"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}]`
	const items = `[{"type":"message","role":"user","content":"fix it"},{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]`
	const plain = `[{"role":"user","content":"hi"}]`
	d := open(t, nil, full(t))
	for i, c := range []struct{ body, list, format, gate string }{
		{`{"model":"claude-sonnet-4-6","messages":` + calls + `,"config":{"mode":"audit","target_ratio":0.5,"compress_user_messages":true}}`, "messages", "anthropic.messages", ""},
		{`{"model":"gpt-5","input":` + items + `,"instructions":"code"}`, "input", "openai.responses", ""},
		{`{"messages":` + items + `,"model":"gpt-5"}`, "messages", "openai.responses", ""},
		{`{"messages":` + plain + `,"model":"gpt-5"}`, "messages", "openai.chat", "side_request"},
		{`{"messages":` + plain + `,"model":"m","system":"code"}`, "messages", "anthropic.messages", "side_request"},
		{`{"messages":` + plain + `,"model":"m","tools":[{"name":"t","input_schema":{}}]}`, "messages", "anthropic.messages", ""},
		{`{"messages":` + plain + `,"model":"m","format":"anthropic.messages"}`, "messages", "anthropic.messages", "side_request"},
		{`{"messages":[{"role":"developer","content":"code"},{"role":"user","content":"x"}],"model":"m","system":"x"}`, "messages", "openai.chat", "side_request"},
		{`{"messages":"all of it","input":` + strings.Replace(items, "fix it", "fix that", 1) + `,"model":"gpt-5"}`, "input", "openai.responses", ""},
	} {
		got := d.compress(c.body, "x-tidemark-session", fmt.Sprint("s", i))
		if got.Get(c.list).Raw != gjson.Get(c.body, c.list).Raw || got.Get("tidemark.format").Str != c.format || got.Get("tidemark.gate").Str != c.gate {
			t.Errorf("%s\n%s", c.body, got.Raw)
		}
	}
}

// What cannot be read comes back as it came, and says why.
func TestUntouched(t *testing.T) {
	d := open(t, nil, full(t))
	for _, c := range []struct{ body, gate string }{
		{`{"messages":[]}`, "no_model"},
		{`{"messages":[{}],"model":7}`, "no_model"},
		{`{"messages":[],"model":"m"}`, "unparsed"},
		{`{"messages":[1,"x",null,{"role":"user"}],"model":"m"}`, "unparsed"},
		{`{"messages":[{"role":"user","content":"a"}],"model":"m","tools":{"a":1}}`, "unparsed"},
		{`{"messages":[{"role":"user","content":"a"}],"model":"m","format":"bedrock.converse"}`, "format"},
		{`{"messages":[{"role":"user","content":"a"}],"model":"m","format":{}}`, "format"},
		{`{"messages":[{"role":"user","content":"a"}],"model":"m","tools":[1],"tools":[]}`, "repeated_member"},
		{`{"messages":[{"role":"user","content":"a"}],"model":"m"}`, "no_session"},
		{`{"input":[{"role":"user","content":"a"}],"model":"m","previous_response_id":"resp_1","session_id":"s"}`, "delta_body"},
		{`{"messages":[` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `],"model":"m"}`, "unparsed"},
	} {
		got := d.compress(c.body)
		list := "messages"
		if !gjson.Get(c.body, list).Exists() {
			list = "input"
		}
		if got.Get("tidemark.gate").Str != c.gate || got.Get(list).Raw != gjson.Get(c.body, list).Raw || got.Get("tokens_saved").Int() != 0 {
			t.Errorf("%.200s\n%.400s", c.body, got.Raw)
		}
	}
	if words := d.words(); !slices.Equal(words, []string{"no_model", "no_model", "format", "format", "repeated_member"}) {
		t.Errorf("passed: %v", words)
	}
}

func TestErrors(t *testing.T) {
	d := open(t, nil, full(t))
	const secret = "TOP-SECRET"
	for _, c := range []struct {
		name, path, body string
		headers          []string
		status           int
		kind             string
	}{
		{"no JSON", "/v1/compress", `{"messages":[` + secret, nil, 400, "invalid_request"},
		{"no object", "/v1/compress", `["` + secret + `"]`, nil, 400, "invalid_request"},
		{"empty", "/v1/compress", ``, nil, 400, "invalid_request"},
		{"no list", "/v1/compress", `{"messages":"` + secret + `","input":"x"}`, nil, 400, "invalid_request"},
		{"too deep", "/v1/compress", strings.Repeat("[", 2_000_000), nil, 400, "invalid_request"},
		{"too large", "/v1/compress", `{"messages":["` + strings.Repeat(secret, 32<<20/len(secret)) + `"]}`, nil, 413, "too_large"},
		{"no page's", "/v1/compress", `{"messages":[]}`, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		{"coding", "/v1/compress", `{"messages":[]}`, []string{"Content-Encoding", "deflate"}, 415, "unsupported_media_type"},
		{"not in its coding", "/v1/compress", secret, []string{"Content-Encoding", "gzip"}, 400, "invalid_request"},
		{"path", "/v1/" + secret, `{}`, nil, 404, "not_found"},
		{"usage of nothing", "/v1/usage", `{"id":"` + secret + `","usage":{}}`, nil, 404, "not_found"},
		{"no usage", "/v1/usage", `{`, nil, 400, "invalid_request"},
	} {
		status, got, h := d.post(c.path, []byte(c.body), c.headers...)
		if status != c.status || got.Get("error.type").Str != c.kind || got.Get("error.message").Str == "" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", c.name, status, got.Raw)
		}
		if strings.Contains(got.Raw, secret) {
			t.Errorf("%s quotes: %s", c.name, got.Raw)
		}
	}
	res, err := http.Get(d.url + "/v1/compress")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d, %v", res.StatusCode, err)
	}
}

// Bodies come in codings, sessions from headers and members, and a bypass decides nothing.
func TestWaysIn(t *testing.T) {
	var named string
	d := open(t, nil, full(t), func(o *compress.Options) {
		o.Route = func(name string) (*pipeline.Config, *identity.Settings) {
			named = name
			return full(t), &identity.Settings{}
		}
	})
	body := func(extra string) string { return strings.TrimSuffix(liteLLM, "}") + extra + "}" }
	sessions := map[string]bool{}
	for _, got := range []gjson.Result{
		d.compress(body(""), "x-litellm-session-id", "s"),
		d.compress(body(`,"session_id":"s"`)),
		d.compress(body(`,"config":{"session_id":"s"}`)),
		d.compress(body(`,"session_id":"other","config":{"session_id":"x"}`), "x-tidemark-session", "s"),
		d.compress(body(`,"prompt_cache_key":"s"`)),
	} {
		sessions[got.Get("tidemark.session").Str] = true
	}
	if len(sessions) != 1 || sessions[""] {
		t.Errorf("sessions %v", sessions)
	}
	for _, c := range []coding.Coding{coding.Gzip, coding.Brotli, coding.Zstd} {
		b, err := c.Encode([]byte(liteLLM))
		if err != nil {
			t.Fatal(err)
		}
		got := d.compress(string(b), "Content-Encoding", c.String(), "x-tidemark-session", "s")
		if got.Get("messages").Raw != gjson.Get(liteLLM, "messages").Raw {
			t.Errorf("%v: %s", c, got.Raw)
		}
	}
	d.eventually("three were decoded", func() bool { return d.decoded == 3 })
	if got := d.compress(liteLLM, "x-tidemark-bypass", "true", "x-tidemark-session", "s", compress.PipelineHeader, "lossless"); got.Get("tidemark.gate").Str != "bypass" || named != "lossless" {
		t.Errorf("%s; pipeline %q", got.Raw, named)
	}
}

// broken is an engine that does what it must not.
type broken func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome

func (b broken) Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome { return b(ctx, r) }

func (b broken) Observe(context.Context, *pipeline.Outcome, *pipeline.Response) *pipeline.Observation {
	panic("observe")
}

// The engine takes all that is returned for cached, has no levers, and finds tools where there are calls. The route keeps its own.
func TestWhatTheEngineGets(t *testing.T) {
	var got *pipeline.Request
	config := full(t)
	d := open(t, nil, config, func(o *compress.Options) {
		o.Engine = broken(func(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
			got = r
			return &pipeline.Outcome{Format: r.Format}
		})
	})
	const anthropic = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]}],"model":"claude-sonnet-4-6","system":"code","max_tokens":1,"stream":true}`
	for body, want := range map[string]string{
		anthropic: `{"model":"claude-sonnet-4-6","cache_control":{"type":"ephemeral","ttl":"1h"},"tools":[{"name":"tool","input_schema":{"type":"object"}}],"system":"code","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]}]}`,
		`{"messages": [ {"role":"user","content":"a"} ],"model":"gpt-5","tools":[],"prompt_cache_retention":"24h"}`: `{"model":"gpt-5","prompt_cache_retention":"24h","messages":[ {"role":"user","content":"a"} ]}`,
		`{"input":[{"type":"function_call_output","call_id":"c","output":"x"}],"model":"gpt-5","system":"code"}`:    `{"model":"gpt-5","tools":[{"type":"function","name":"tool"}],"instructions":"code","input":[{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		`{"messages":[{"role":"tool","tool_call_id":"c","content":"x"}],"model":"gpt-5","tools":null}`:              `{"model":"gpt-5","tools":[{"type":"function","function":{"name":"tool"}}],"messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`,
	} {
		d.compress(body, "x-api-key", "sk-1", "x-claude-code-session-id", "s", "x-claude-code-agent-id", "a")
		if string(got.Body) != want {
			t.Errorf("the engine gets\n%s, not\n%s", got.Body, want)
		}
		if got.Config.Levers != (pipeline.Levers{}) || got.Config.Diagnostics != 0 || got.Config.Inline || !got.Unbridged || len(got.Config.Filters) != 3 {
			t.Errorf("config %+v", got.Config)
		}
		if got.Tenant != "key:sk-1" || got.Session != "s" || got.Agent != "a" || got.Route != "compress" || !got.Now.Equal(epoch) {
			t.Errorf("request %+v", got)
		}
	}
	if config.Levers.TTL != pipeline.HourTTL || config.Diagnostics != 1 || !config.Inline {
		t.Error("the route's config was changed")
	}
}

func TestWhateverTheEngineDoes(t *testing.T) {
	for gate, engine := range map[string]broken{
		"panic": func(context.Context, *pipeline.Request) *pipeline.Outcome { panic("no") },
		"deadline": func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond)
			return &pipeline.Outcome{Format: r.Format}
		},
		"proof_failed": func(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
			return &pipeline.Outcome{Format: r.Format, Body: fmt.Appendf(nil, `%s,"diagnostics":null}`, r.Body[:len(r.Body)-1])}
		},
		"proof_failed ": func(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
			return &pipeline.Outcome{Format: r.Format, Body: []byte(fmt.Sprintf(`{"model":"other","messages":%s}`, gjson.GetBytes(r.Body, "messages").Raw))}
		},
	} {
		d := open(t, nil, full(t), func(o *compress.Options) { o.Engine, o.Deadline = engine, 20*time.Millisecond })
		got := d.compress(liteLLM, "x-tidemark-session", "s")
		if got.Get("tidemark.gate").Str != strings.TrimSpace(gate) || got.Get("messages").Raw != gjson.Get(liteLLM, "messages").Raw || got.Get("tidemark.outcome").Str != "error" {
			t.Errorf("%s: %s", gate, got.Raw)
		}
		if status, e, _ := d.post("/v1/usage", []byte(fmt.Sprintf(`{"id":%q,"usage":{"prompt_tokens":9,"completion_tokens":1}}`, got.Get("tidemark.id").Str))); status != http.StatusNoContent {
			t.Errorf("%s: usage %d %s", gate, status, e.Raw)
		}
		d.eventually("observed", func() bool { return d.observed == 1 })
	}
}
