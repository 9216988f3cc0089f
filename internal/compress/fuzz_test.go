package compress_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Whatever comes, there is an answer in JSON that quotes nothing of what is no request, and otherwise holds the list as it came:
// without filters nothing changes.
func FuzzCompress(f *testing.F) {
	f.Add(liteLLM)
	f.Add(`{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":[]}],"instructions":[{}],"tools":[],"session_id":"s"}`)
	f.Add(`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}],"model":"claude-sonnet-4-6","system":[{"type":"text","text":"a"}],"thinking":{},"metadata":{"user_id":"s"},"config":{"session_id":"s"}}`)
	f.Add(`{"messages":[],"messages":[1],"mod\u0065l":"m"}`)
	f.Add(`[[[["`)
	door := handler(f, &pipeline.Config{Name: "none"})
	f.Fuzz(func(t *testing.T, body string) {
		w := ask(door, "/v1/compress", body)
		got := gjson.Parse(w.Body.String())
		if !gjson.Valid(w.Body.String()) {
			t.Fatalf("no JSON: %s", got.Raw)
		}
		if w.Code == http.StatusBadRequest {
			return
		}
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, got.Raw)
		}
		if gate := got.Get("tidemark.gate").Str; gate == "panic" || gate == "proof_failed" {
			t.Fatalf("gate %s", gate)
		}
		name := "messages"
		if !got.Get(name).Exists() {
			name = "input"
		}
		if list := got.Get(name); !list.IsArray() || !strings.Contains(body, list.Raw) {
			t.Fatalf("the list is %s", list.Raw)
		}
	})
}

// Whatever a gateway says of an answer, nothing breaks.
func FuzzUsage(f *testing.F) {
	f.Add(`"usage":{"prompt_tokens":10,"completion_tokens":1}`)
	f.Add(`"response":{"model":"m","usage":{"input_tokens":1e300,"output_tokens":-1}},"format":"anthropic.messages","status":"x"`)
	f.Add(`"status":529`)
	door := handler(f, full(f))
	f.Fuzz(func(t *testing.T, rest string) {
		id := gjson.Get(ask(door, "/v1/compress", liteLLM).Body.String(), "tidemark.id").Str
		switch w := ask(door, "/v1/usage", `{"id":"`+id+`",`+rest+`}`); w.Code {
		case http.StatusNoContent, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotFound: // the last if id stands twice
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}

// handler is a door without a listener.
func handler(t fataler, c *pipeline.Config) (door http.Handler) {
	t.Helper()
	open(t, nil, c, func(o *compress.Options) {
		o.Route = func(string) (*pipeline.Config, *identity.Settings) { return c, &identity.Settings{Anonymous: true} }
		door = compress.New(*o)
	})
	return door
}

func ask(door http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	door.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}
