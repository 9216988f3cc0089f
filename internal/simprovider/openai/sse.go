package openai

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// chunk is the number of bytes in one delta of a stream, at least.
const chunk = 24

// streamer writes server-sent events.
type streamer struct {
	w     http.ResponseWriter
	flush func() error
	next  int // sequence_number of Responses
}

func newStreamer(w http.ResponseWriter) *streamer {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &streamer{w: w, flush: http.NewResponseController(w).Flush}
}

// write sends one event; without a name it is data alone.
func (s *streamer) write(name string, data []byte) {
	if name != "" {
		_, _ = fmt.Fprintf(s.w, "event: %s\n", name) // a client that went away is its own affair
	}
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", data)
	_ = s.flush()
}

// fields are the members of an event.
type fields map[string]any

// event sends an event of Responses.
func (s *streamer) event(name string, data fields) {
	data["type"], data["sequence_number"] = name, s.next
	s.next++
	b, err := json.Marshal(data)
	if err != nil {
		return // nothing but strings, numbers and valid JSON goes in
	}
	s.write(name, b)
}

// pieces cuts a text into deltas; a character is not cut.
func pieces(text string) []string {
	var out []string
	for len(text) > 0 {
		end := min(chunk, len(text))
		for end < len(text) && text[end]&0xC0 == 0x80 {
			end++
		}
		out, text = append(out, text[:end]), text[end:]
	}
	return out
}

// streamResponse writes an answer of Responses as a stream.
func streamResponse(w http.ResponseWriter, res *Result) {
	s := newStreamer(w)
	s.event("response.created", fields{"response": res.response(statusGoing)})
	s.event("response.in_progress", fields{"response": res.response(statusGoing)})
	for i, raw := range res.Output {
		s.item(i, raw)
	}
	s.event("response.completed", fields{"response": res.response(statusDone)})
}

// streamFailure tells a client that streams that its prompt is too long, which the provider does in the stream.
func streamFailure(w http.ResponseWriter, res *Result) {
	s := newStreamer(w)
	s.event("response.created", fields{"response": res.response(statusGoing)})
	failed := res.response(statusFailed)
	failed.Error = &failure{res.Err.Code, res.Err.Message}
	s.event("response.failed", fields{"response": failed})
}

// item sends an output item.
func (s *streamer) item(i int, raw json.RawMessage) {
	n, err := simkit.Decode(raw)
	if err != nil {
		return // it was decoded before
	}
	id, _ := n.Str("id")
	kind, _ := n.Str("type")
	at := func(more fields) fields {
		more["item_id"], more["output_index"] = id, i
		return more
	}
	begun := object()
	for j, name := range n.Names {
		begun.Put(name, n.Kids[j])
	}
	if begun.Get("status") != nil {
		begun.Put("status", text(statusGoing))
	}
	name, whole := "", ""
	switch kind {
	case "message":
		begun.Put("content", &simkit.Node{Kind: '['})
	case "reasoning":
		begun.Put("summary", &simkit.Node{Kind: '['})
	case "function_call":
		name, whole = "arguments", "response.function_call_arguments"
	case "custom_tool_call":
		name, whole = "input", "response.custom_tool_call_input"
	}
	if name != "" {
		begun.Put(name, text(""))
	}
	s.event("response.output_item.added", fields{"output_index": i, "item": json.RawMessage(begun.JSON(nil))})
	switch {
	case kind == "message":
		s.parts(n.Get("content"), at)
	case kind == "reasoning":
		s.summary(n.Get("summary"), at)
	case name != "":
		said, _ := n.Str(name)
		for _, piece := range pieces(said) {
			s.event(whole+".delta", at(fields{"delta": piece}))
		}
		s.event(whole+".done", at(fields{name: said}))
	}
	s.event("response.output_item.done", fields{"output_index": i, "item": raw})
}

// parts sends the content of a message.
func (s *streamer) parts(content *simkit.Node, at func(fields) fields) {
	for i, part := range content.Kids {
		of := func(more fields) fields {
			more["content_index"] = i
			return at(more)
		}
		name, event := "text", "response.output_text"
		if kind, _ := part.Str("type"); kind == "refusal" {
			name, event = "refusal", "response.refusal"
		}
		begun := object()
		for j, member := range part.Names {
			begun.Put(member, part.Kids[j])
		}
		begun.Put(name, text(""))
		said, _ := part.Str(name)
		s.event("response.content_part.added", of(fields{"part": json.RawMessage(begun.JSON(nil))}))
		for _, piece := range pieces(said) {
			s.event(event+".delta", of(fields{"delta": piece, "logprobs": []string{}}))
		}
		s.event(event+".done", of(fields{name: said, "logprobs": []string{}}))
		s.event("response.content_part.done", of(fields{"part": json.RawMessage(part.JSON(nil))}))
	}
}

// summary sends the summary of reasoning.
func (s *streamer) summary(list *simkit.Node, at func(fields) fields) {
	for i, part := range list.Kids {
		of := func(more fields) fields {
			more["summary_index"] = i
			return at(more)
		}
		said, _ := part.Str("text")
		begun := simkit.TextNode("summary_text", "")
		s.event("response.reasoning_summary_part.added", of(fields{"part": json.RawMessage(begun.JSON(nil))}))
		for _, piece := range pieces(said) {
			s.event("response.reasoning_summary_text.delta", of(fields{"delta": piece}))
		}
		s.event("response.reasoning_summary_text.done", of(fields{"text": said}))
		s.event("response.reasoning_summary_part.done", of(fields{"part": json.RawMessage(part.JSON(nil))}))
	}
}

// streamCompletion writes an answer of Chat as a stream.
func streamCompletion(w http.ResponseWriter, res *Result) {
	s := newStreamer(w)
	send := func(choices []fields, usage any) {
		data := fields{
			"id": res.ID, "object": "chat.completion.chunk", "created": res.Created, "model": res.Model, "service_tier": "default",
			"system_fingerprint": nil, "choices": choices,
		}
		if res.tally {
			data["usage"] = usage
		}
		b, err := json.Marshal(data)
		if err != nil {
			return // nothing but strings, numbers and valid JSON goes in
		}
		s.write("", b)
	}
	delta := func(d fields, finish any) {
		send([]fields{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	n, err := simkit.Decode(res.Output[0])
	if err != nil {
		return // it was decoded before
	}
	streamMessage(n, func(d fields) { delta(d, nil) })
	delta(fields{}, res.Stop)
	if res.tally {
		send([]fields{}, res.Usage.chat())
	}
	s.write("", []byte("[DONE]"))
}

// streamMessage sends what a message says in deltas.
func streamMessage(n *simkit.Node, delta func(fields)) {
	content, speaks := n.Str("content")
	opening := fields{"role": "assistant", "content": nil, "refusal": nil}
	if speaks {
		opening["content"] = ""
	}
	delta(opening)
	for _, piece := range pieces(content) {
		delta(fields{"content": piece})
	}
	refusal, _ := n.Str("refusal")
	for _, piece := range pieces(refusal) {
		delta(fields{"refusal": piece})
	}
	calls := n.Get("tool_calls")
	if calls == nil {
		return
	}
	for i, call := range calls.Kids {
		kind, _ := call.Str("type")
		member := map[string]string{"function": "arguments", "custom": "input"}[kind]
		id, _ := call.Str("id")
		name, _ := call.Get(kind).Str("name")
		said, _ := call.Get(kind).Str(member)
		delta(fields{"tool_calls": []fields{{"index": i, "id": id, "type": kind, kind: fields{"name": name, member: ""}}}})
		for _, piece := range pieces(said) {
			delta(fields{"tool_calls": []fields{{"index": i, kind: fields{member: piece}}}})
		}
	}
}
