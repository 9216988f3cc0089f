package bedrock

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
	sonnet = "us.anthropic.claude-sonnet-4-6-v1:0"       // 1,024 tokens
	opus   = "global.anthropic.claude-opus-4-7"          // 4,096 on Bedrock
	old    = "anthropic.claude-3-7-sonnet-20250219-v1:0" // no lifetimes
	oldest = "anthropic.claude-3-5-sonnet-20240620-v1:0" // no caching
	modern = "us.anthropic.claude-sonnet-5-5"            // thinking is bound to its prefix
	bought = "arn:aws:bedrock:us-east-1:1:inference-profile/" + sonnet
)

func at(model, operation string) string { return "/model/" + model + "/" + operation }

// conv is a body of Converse: more members, each with its comma, and messages.
func conv(members string, messages ...string) []byte {
	return fmt.Appendf(nil, `{%s"messages":[%s]}`, members, strings.Join(messages, ","))
}

// inv is a body of InvokeModel.
func inv(members string, messages ...string) []byte {
	return fmt.Appendf(nil, `{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,%s"messages":[%s]}`, members, strings.Join(messages, ","))
}

// says is a message of either API.
func says(role string, blocks ...string) string {
	return fmt.Sprintf(`{"role":%q,"content":[%s]}`, role, strings.Join(blocks, ","))
}

// words is a text block of Converse.
func words(text string) string { return fmt.Sprintf(`{"text":%q}`, text) }

// sized is a text of exactly n tokens whose text begins with name.
func sized(name string, n int) string {
	return name + strings.Repeat(".", n*36/10-len("typetexttext")-len(name))
}

func use(id string) string {
	return fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":"read","input":{"path":"a.go"}}}`, id)
}

func result(id, text string) string {
	return fmt.Sprintf(`{"toolResult":{"toolUseId":%q,"content":[{"text":%q}]}}`, id, text)
}

const (
	point     = `{"cachePoint":{"type":"default"}}`
	pointLong = `{"cachePoint":{"type":"default","ttl":"1h"}}`
	tools     = `"toolConfig":{"tools":[{"toolSpec":{"name":"read","inputSchema":{"json":{"type":"object"}}}}]},`
	hi        = `{"role":"user","content":[{"text":"hi"}]}`
	hiThere   = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
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

// input is what a request is billed for its prompt.
func input(t failer, s *Sim, path string, body []byte, when time.Time) Usage {
	t.Helper()
	u := must(t, s, path, body, nil, when).Usage
	u.Output = 0
	return u
}

// content are the blocks of an answer as a client sends them back.
func content(res Result) []string {
	out := make([]string, len(res.Content))
	for i, b := range res.Content {
		out[i] = string(b)
	}
	return out
}

func answer(content string) http.Header { return http.Header{simkit.HeaderReply: {content}} }
