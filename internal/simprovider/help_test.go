package simprovider

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

// conv is a body: more members, each with its comma, and messages.
func conv(model, members string, messages ...string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"max_tokens":100,%s"messages":[%s]}`, model, members, strings.Join(messages, ","))
}

func user(blocks ...string) string { return says("user", blocks) }

func assistant(blocks ...string) string { return says("assistant", blocks) }

func says(role string, blocks []string) string {
	return fmt.Sprintf(`{"role":%q,"content":[%s]}`, role, strings.Join(blocks, ","))
}

// sized is a text block of exactly n tokens (at least 8) whose text begins with name.
func sized(name string, n int, more ...string) string {
	text := name + strings.Repeat(".", n*36/10-len("typetexttext")-len(name))
	return fmt.Sprintf(`{"type":"text","text":%q%s}`, text, strings.Join(more, ""))
}

func use(id string, more ...string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Read","input":{"path":"a.go"}%s}`, id, strings.Join(more, ""))
}

func result(id string, more ...string) string {
	return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"package a"%s}`, id, strings.Join(more, ""))
}

func thinking(text, signature string) string {
	return fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":%q}`, text, signature)
}

const (
	hi      = `{"type":"text","text":"hi"}`
	mark5m  = `,"cache_control":{"type":"ephemeral"}`
	mark1h  = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	oldest  = "claude-sonnet-4-5" // takes a prefill; minimum 1024
	modern  = "claude-opus-4-8"   // minimum 1024
	binding = "claude-opus-5-5"   // bound signatures; minimum 512
)

// failer is what testing and rapid have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must answers a request that has to be accepted.
func must(t failer, s *Sim, body []byte, h http.Header, at time.Time) Result {
	t.Helper()
	res := s.Call(body, h, at)
	if res.Err != nil {
		t.Fatalf("refused: %v\n%.2000s", res.Err, body)
	}
	return res
}

// blocks are the blocks of an answer as a client sends them back.
func blocks(res Result) []string {
	out := make([]string, len(res.Content))
	for i, b := range res.Content {
		out[i] = string(b)
	}
	return out
}

func answer(blocks ...string) http.Header {
	return http.Header{simkit.HeaderReply: {"[" + strings.Join(blocks, ",") + "]"}}
}

func signature(tb testing.TB, block string) string {
	tb.Helper()
	var b struct{ Signature, Data string }
	if err := json.Unmarshal([]byte(block), &b); err != nil {
		tb.Fatal(err)
	}
	return b.Signature + b.Data
}
