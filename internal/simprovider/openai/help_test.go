package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// start is when tests begin.
var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

const (
	plain  = "gpt-5.1"   // steps of 128
	coarse = "gpt-5.5"   // steps of 2,048
	modern = "gpt-6-sol" // breakpoints
)

const (
	pathChat      = "/v1/chat/completions"
	pathResponses = "/v1/responses"
	pathCompact   = "/v1/responses/compact"
)

// conv is a body of Responses: more members, each with its comma, and items.
func conv(model, members string, items ...string) []byte {
	return fmt.Appendf(nil, `{"model":%q,%s"input":[%s]}`, model, members, strings.Join(items, ","))
}

// talk is a body of Chat.
func talk(model, members string, messages ...string) []byte {
	return fmt.Appendf(nil, `{"model":%q,%s"messages":[%s]}`, model, members, strings.Join(messages, ","))
}

// says is a message of either API.
func says(role string, parts ...string) string {
	return fmt.Sprintf(`{"role":%q,"content":[%s]}`, role, strings.Join(parts, ","))
}

// sized is a text part of exactly n tokens (at least 8) whose text begins with name.
func sized(kind, name string, n int, more ...string) string {
	text := name + strings.Repeat(".", n*36/10-len(":types:texts")-len(kind)-len(name))
	return fmt.Sprintf(`{"type":%q,"text":%q%s}`, kind, text, strings.Join(more, ""))
}

func input(name string, n int, more ...string) string { return sized("input_text", name, n, more...) }

func call(id string) string {
	return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"read","arguments":"{\"path\":\"a.go\"}"}`, id)
}

func output(id, text string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, text)
}

// calls is a message of Chat that calls a tool for each id.
func calls(ids ...string) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"read","arguments":"{}"}}`, id)
	}
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[%s]}`, strings.Join(list, ","))
}

func tool(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

const (
	hi     = `{"role":"user","content":"hi"}`
	marked = `,"prompt_cache_breakpoint":{"mode":"explicit"}`
	sealed = `"include":["reasoning.encrypted_content"],`
)

// failer is what testing and rapid have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must answers a request that has to be accepted.
func must(t failer, s *Sim, path string, body []byte, h http.Header, at time.Time) Result {
	t.Helper()
	res := s.Call(path, body, h, at)
	if res.Err != nil {
		t.Fatalf("refused: %v\n%.2000s", res.Err, body)
	}
	return res
}

// outputs are the items of an answer as a client sends them back.
func outputs(res Result) []string {
	out := make([]string, len(res.Output))
	for i, b := range res.Output {
		out[i] = string(b)
	}
	return out
}

func answer(content string) http.Header { return http.Header{simkit.HeaderReply: {content}} }

// member is a string member of an item.
func memberOf(tb testing.TB, raw, name string) string {
	tb.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		tb.Fatal(err)
	}
	text, _ := m[name].(string)
	return text
}
