package gemini

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// start is when tests begin.
var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// Models of the tests.
const (
	plain  = "gemini-2.5-flash"       // 2,048 tokens, no signatures wanted
	modern = "gemini-3.1-pro-preview" // 4,096 tokens, signatures
)

func at(model, method string) string { return "/v1beta/models/" + model + ":" + method }

func vertex(model, method string) string {
	return "/v1/projects/p/locations/us-central1/publishers/google/models/" + model + ":" + method
}

// conv is a body: more members, each with its comma, and contents.
func conv(members string, contents ...string) []byte {
	return fmt.Appendf(nil, `{%s"contents":[%s]}`, members, strings.Join(contents, ","))
}

func says(role string, parts ...string) string {
	return fmt.Sprintf(`{"role":%q,"parts":[%s]}`, role, strings.Join(parts, ","))
}

func words(text string) string { return fmt.Sprintf(`{"text":%q}`, text) }

// sized is a text part of exactly n tokens whose text begins with name.
func sized(name string, n int) string {
	return words(name + strings.Repeat(".", n*36/10-len("text")-len(name)))
}

// call is a function call, signed by somebody else unless the signature is empty.
func call(name, signature string) string {
	if signature != "" {
		signature = fmt.Sprintf(`,"thoughtSignature":%q`, signature)
	}
	return fmt.Sprintf(`{"functionCall":{"name":%q,"args":{"path":"a.go"}}%s}`, name, signature)
}

func response(name string) string {
	return fmt.Sprintf(`{"functionResponse":{"name":%q,"response":{"output":"x"}}}`, name)
}

const (
	hi    = `{"role":"user","parts":[{"text":"hi"}]}`
	other = "c29tZWJvZHk=" // a signature of somebody else
)

// failer is what testing and rapid have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must answers a request that has to be accepted.
func must(t failer, s *Sim, path string, body []byte, h http.Header, when time.Time) Result {
	t.Helper()
	res := s.Call(path, body, h, when)
	if res.Err != nil {
		t.Fatalf("refused: %v\n%.2000s", res.Err, body)
	}
	return res
}

// parts are those of an answer as a client sends them back.
func parts(res Result) []string {
	out := make([]string, len(res.Parts))
	for i, b := range res.Parts {
		out[i] = string(b)
	}
	return out
}

func answerWith(content string) http.Header { return http.Header{simkit.HeaderReply: {content}} }
