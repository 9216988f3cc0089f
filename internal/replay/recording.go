package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// ErrFormat says that no reader exists for the recording's wire format.
var ErrFormat = errors.New("wire format is not supported")

// Request is one recorded request.
type Request struct {
	At      time.Time
	Path    string
	Method  string
	Header  http.Header
	Body    []byte
	Lineage string // conversation that it belongs to
}

// Recording is one session.
type Recording struct {
	Name     string
	Requests []Request
}

// gap is the time between requests where a recording has none.
const gap = 20 * time.Second

// epoch is the time of the first request where a recording has none.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Open reads a session file or a folder of captured requests.
func Open(path string) (*Recording, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if info.IsDir() {
		return openCaptures(path)
	}
	return openSession(path)
}

// openCaptures reads NNN.body.json with NNN.head.json beside each.
func openCaptures(dir string) (*Recording, error) {
	bodies, err := filepath.Glob(filepath.Join(dir, "*.body.json"))
	if err != nil || len(bodies) == 0 {
		return nil, fmt.Errorf("no *.body.json in %s", dir)
	}
	slices.Sort(bodies)
	rec := &Recording{Name: "capture-" + filepath.Base(filepath.Clean(dir))}
	for i, name := range bodies {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		raw, err := os.ReadFile(strings.TrimSuffix(name, ".body.json") + ".head.json")
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		var head struct {
			Method, Path string
			Headers      map[string]string
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, fmt.Errorf("decode head of %s: %w", filepath.Base(name), err)
		}
		h := http.Header{}
		for k, v := range head.Headers {
			h.Set(k, v)
		}
		path, _, _ := strings.Cut(head.Path, "?")
		if !strings.HasSuffix(path, "/messages") && !strings.HasSuffix(path, "/messages/count_tokens") {
			return nil, fmt.Errorf("%s: %s: %w", rec.Name, path, ErrFormat)
		}
		rec.Requests = append(rec.Requests, Request{
			At: epoch.Add(time.Duration(i) * gap), Path: head.Path, Method: head.Method, Header: h, Body: body,
			Lineage: lineage(path, body),
		})
	}
	return rec, nil
}

// lineage tells conversations of one capture apart: path, model and first message.
func lineage(path string, body []byte) string {
	v := gjson.GetManyBytes(body, "model", "messages.0")
	s := sha256.Sum256([]byte(path + "\x00" + v[0].Raw + "\x00" + v[1].Raw))
	return hex.EncodeToString(s[:6])
}

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
}

func openSession(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("unzip %s: %w", filepath.Base(path), err)
		}
	}
	var s session
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return nil, fmt.Errorf("decode %s: %w", filepath.Base(path), err)
	}
	if s.API != "anthropic" {
		return nil, fmt.Errorf("%s: %s: %w", cmp.Or(s.ID, filepath.Base(path)), s.API, ErrFormat)
	}
	return s.recording()
}

// recording makes the requests that the session made: one for every answer of the model.
func (s *session) recording() (*Recording, error) {
	rec := &Recording{Name: s.ID}
	head, tail, control, err := s.frame()
	if err != nil {
		return nil, err
	}
	var last time.Time
	for n := 1; n < len(s.Messages); n++ {
		if gjson.GetBytes(s.Messages[n], "role").Str != "assistant" {
			continue
		}
		last = s.at(n, last)
		var b bytes.Buffer
		b.WriteString(head)
		for _, m := range s.Messages[:n-1] {
			b.Write(m)
			b.WriteByte(',')
		}
		b.Write(marked(s.Messages[n-1], control))
		b.WriteString(tail)
		h := http.Header{}
		h.Set("Content-Type", "application/json")
		h.Set("X-Session-Id", s.ID)
		rec.Requests = append(rec.Requests, Request{
			At: last, Path: "/v1/messages", Method: http.MethodPost, Header: h, Body: b.Bytes(), Lineage: "main",
		})
	}
	return rec, nil
}

// at is when the request with n messages was made: never before the one before it.
func (s *session) at(n int, last time.Time) time.Time {
	at := epoch
	if !last.IsZero() {
		at = last.Add(gap)
	}
	for _, i := range []int{n - 1, n} {
		if i < len(s.TS) && s.TS[i] != "" {
			if t, err := time.Parse(time.RFC3339Nano, s.TS[i]); err == nil {
				at = t
				break
			}
		}
	}
	if at.Before(last) {
		return last
	}
	return at
}

// frame is what stands around the messages of every body, and the marker that the session's client sent.
func (s *session) frame() (head, tail, control string, err error) {
	control = `{"type":"ephemeral"}`
	for _, u := range s.Usage {
		if gjson.GetBytes(u, "cache_creation.ephemeral_1h_input_tokens").Int() > 0 {
			control = `{"type":"ephemeral","ttl":"1h"}`
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
		return "", "", "", fmt.Errorf("encode system: %w", err)
	}
	model, err := plain(s.Model)
	if err != nil {
		return "", "", "", fmt.Errorf("encode model: %w", err)
	}
	head = `{"model":` + model + `,"messages":[`
	tail = `],"system":[{"type":"text","text":"You are a coding agent in a terminal.","cache_control":` + control +
		`},{"type":"text","text":` + text + `,"cache_control":` + control + `}],"tools":` + tools +
		`,"max_tokens":32000,"stream":true}`
	return head, tail, control, nil
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
