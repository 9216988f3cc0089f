package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// session is the recording's file.
type session struct {
	ID       string            `json:"id"`
	API      string            `json:"api"`
	Model    string            `json:"model"`
	System   *string           `json:"system"`
	Tools    json.RawMessage   `json:"tools"`
	Messages []json.RawMessage `json:"messages"`
	TS       []string          `json:"ts"`
	Usage    []json.RawMessage `json:"usage"`

	format     transcript.Format
	around     func(filler string) (head, tail string) // what stands around the messages of a body, with a filler in it
	head, tail string                                  // with the filler that there is
	control    string                                  // the marker of the session's client, empty if it sends none
}

// formats are the wire formats by the name that recordings have for them.
var formats = map[string]transcript.Format{
	"anthropic": transcript.Anthropic, "openai-chat": transcript.Chat, "openai-responses": transcript.Responses,
}

// paths are those of the formats.
var paths = map[transcript.Format]string{
	transcript.Anthropic: "/v1/messages", transcript.Chat: pathChat, transcript.Responses: pathResponses,
}

// recording lists the requests that the session made: one for every answer of the model.
func (s *session) recording() (*Recording, error) {
	if err := s.frame(); err != nil {
		return nil, err
	}
	rec := &Recording{Name: s.ID, session: s}
	header := http.Header{"Content-Type": {"application/json"}, "X-Session-Id": {s.ID}}
	records := s.records()
	var last time.Time
	for _, n := range s.answers(records) {
		last = s.at(n, last)
		r := Request{
			At: last, Path: paths[s.format], Method: http.MethodPost, Header: header, Lineage: "main", from: s, n: n,
			answered: s.time(n),
		}
		r.classify()
		rec.Requests = append(rec.Requests, r)
	}
	recorded(records, rec.Requests)
	return rec, nil
}

// answers lists the first message of every answer of the model. In Responses an answer is a run of items, and two answers stand
// next to each other where usage was billed in between.
func (s *session) answers(records []usageRecord) (starts []int) {
	ends := map[int]bool{}
	for i := range records {
		if m := records[i].Msg; m != nil {
			ends[*m] = true
		}
	}
	before := false
	for n, raw := range s.Messages {
		spoken := speaker(gjson.ParseBytes(raw), s.format) == "assistant"
		runs := s.format == transcript.Responses && before && !ends[n-1]
		if spoken && n > 0 && !runs {
			starts = append(starts, n)
		}
		before = spoken
	}
	return starts
}

// body is the request that was answered by message n.
func (s *session) body(n int) []byte {
	size := len(s.head) + len(s.tail) + len(s.control)
	for _, m := range s.Messages[:n] {
		size += len(m) + 1
	}
	b := append(make([]byte, 0, size+128), s.head...)
	for _, m := range s.Messages[:n-1] {
		b = append(append(b, m...), ',')
	}
	last := []byte(s.Messages[n-1])
	if s.control != "" {
		last = marked(last, s.control)
	}
	return append(append(b, last...), s.tail...)
}

// pad makes the head longer by n characters: recordings lack the system prompt and the tools of their client, and what stands
// before the messages decides what a pause costs. It reports whether the head has a place for them.
func (s *session) pad(n int) bool {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, " Line %d stands in for a part of the prompt that was not recorded.", i)
	}
	bare := len(s.head) + len(s.tail)
	s.head, s.tail = s.around(b.String()[:max(n, 0)])
	return n <= 0 || len(s.head)+len(s.tail) > bare
}

// at is when the request with n messages was made: never before the one before it.
func (s *session) at(n int, last time.Time) time.Time {
	at := epoch
	if !last.IsZero() {
		at = last.Add(gap)
	}
	for _, i := range []int{n - 1, n} {
		if t := s.time(i); !t.IsZero() {
			at = t
			break
		}
	}
	if at.Before(last) {
		return last
	}
	return at
}

// time is when message n was recorded, zero where nobody knows.
func (s *session) time(n int) (t time.Time) {
	if n < len(s.TS) {
		t, _ = time.Parse(time.RFC3339Nano, s.TS[n]) // zero with an error
	}
	return t
}

// frame makes what stands around the messages of every body, and the marker that the session's client sent.
func (s *session) frame() (err error) {
	switch s.format {
	case transcript.Chat:
		s.around, err = s.chatFrame()
	case transcript.Responses:
		s.around, err = s.responsesFrame()
	default:
		s.around, err = s.anthropicFrame()
	}
	if err == nil {
		s.head, s.tail = s.around("")
	}
	return err
}

func (s *session) anthropicFrame() (func(string) (head, tail string), error) {
	s.control = `{"type":"ephemeral"}`
	for _, u := range s.Usage {
		if gjson.GetBytes(u, "cache_creation.ephemeral_1h_input_tokens").Int() > 0 {
			s.control = `{"type":"ephemeral","ttl":"1h"}`
			break
		}
	}
	system := "Follow the user. Use the tools that you have."
	if s.System != nil && *s.System != "" {
		system = *s.System
	}
	tools := string(s.Tools)
	if tools == "" || tools == "null" || tools == "[]" {
		tools = s.usedTools()
	}
	text, err := plain(system)
	if err != nil {
		return nil, fmt.Errorf("encode system: %w", err)
	}
	model, err := plain(modelName(s.Model))
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	return func(filler string) (head, tail string) {
		return `{"model":` + model + `,"messages":[`,
			`],"system":[{"type":"text","text":"You are a coding agent in a terminal.","cache_control":` + s.control +
				`},{"type":"text","text":` + strings.TrimSuffix(text, `"`) + filler + `","cache_control":` + s.control +
				`}],"tools":` + tools + `,"max_tokens":32000,"stream":true}`
	}, nil
}

// modelName is the provider's own name of a model that a router's name stands for, as in anthropic/claude-sonnet-4.5.
func modelName(name string) string {
	if own, ok := strings.CutPrefix(name, "anthropic/"); ok {
		return strings.ReplaceAll(own, ".", "-")
	}
	return strings.TrimPrefix(name, "openai/")
}

// usedTools declares every tool that the session calls, for recordings that hold no declarations.
func (s *session) usedTools() string {
	seen := map[string]bool{}
	var out []string
	for _, m := range s.Messages {
		for _, b := range gjson.GetBytes(m, "content").Array() {
			name := b.Get("name").Raw
			if b.Get("type").Str == "tool_use" && !seen[name] {
				seen[name] = true
				out = append(out, `{"name":`+name+`,"description":"A tool.","input_schema":{"type":"object"}}`)
			}
		}
	}
	if len(out) == 0 {
		out = []string{`{"name":"Bash","description":"A tool.","input_schema":{"type":"object"}}`}
	}
	return "[" + strings.Join(out, ",") + "]"
}

// plain is a JSON string as a JavaScript client writes it.
func plain(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSpace(b.String()), err
}

// marked is a message with a marker on its last block that may carry one; string content becomes a text block for it.
func marked(msg json.RawMessage, control string) []byte {
	content := gjson.GetBytes(msg, "content")
	member := `,"cache_control":` + control + `}`
	at := content.Index
	if content.Type == gjson.String {
		if strings.TrimSpace(content.Str) == "" {
			return msg
		}
		return slices.Concat(msg[:at], []byte(`[{"type":"text","text":`+content.Raw+member+`]`), msg[at+len(content.Raw):])
	}
	blocks := content.Array()
	for _, b := range slices.Backward(blocks) {
		kind := b.Get("type").Str
		if strings.HasSuffix(kind, "thinking") || kind == "text" && strings.TrimSpace(b.Get("text").Str) == "" {
			continue
		}
		end := b.Index + len(b.Raw) // of the block in the message
		return slices.Concat(msg[:end-1], []byte(member), msg[end:])
	}
	return msg
}
