package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// chunk is the number of characters in one delta of a stream.
const chunk = 24

// stream writes an answer as server-sent events, in the provider's order.
func stream(w http.ResponseWriter, res *Result) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	res.Events(func(event string, data []byte) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data) // a client that went away is its own affair
		_ = flush()
	})
}

// Events calls visit for every event of the answer as a stream, in the provider's order, with its JSON.
func (r *Result) Events(visit func(event string, data []byte)) {
	send := func(event string, data map[string]any) {
		data["type"] = event
		b, err := json.Marshal(data)
		if err != nil {
			return // nothing but strings, numbers and valid JSON goes in
		}
		visit(event, b)
	}
	start := r.wire()
	start.Content, start.StopReason = []json.RawMessage{}, nil
	start.Usage.Output = min(start.Usage.Output, 1)
	send("message_start", map[string]any{"message": start})
	send("ping", map[string]any{})
	for i, raw := range r.Content {
		streamBlock(send, i, raw)
	}
	send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": r.StopReason, "stop_sequence": nil},
		"usage": r.Usage,
	})
	send("message_stop", map[string]any{})
}

func streamBlock(send func(string, map[string]any), i int, raw json.RawMessage) {
	n, err := simkit.Decode(raw)
	if err != nil {
		return // the block was decoded before
	}
	delta := func(kind, name, text string) {
		send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, name: text}})
	}
	deltas := func(kind, name, text string) {
		for len(text) > 0 {
			end := min(chunk, len(text))
			for end < len(text) && text[end]&0xC0 == 0x80 { // a character is not cut
				end++
			}
			delta(kind, name, text[:end])
			text = text[end:]
		}
	}
	start := &node{Kind: '{', Names: n.Names, Kids: append([]*node(nil), n.Kids...)}
	begin := func() {
		send("content_block_start", map[string]any{"index": i, "content_block": json.RawMessage(start.JSON(nil))})
	}
	empty := &node{Kind: 's'}
	switch kind, _ := n.Str("type"); kind {
	case "text":
		text, _ := n.Str("text")
		start.Put("text", empty)
		begin()
		deltas("text_delta", "text", text)
	case "thinking":
		text, _ := n.Str("thinking")
		signature, _ := n.Str("signature")
		start.Put("thinking", empty)
		start.Put("signature", empty)
		begin()
		deltas("thinking_delta", "thinking", text)
		delta("signature_delta", "signature", signature)
	case "tool_use":
		input := string(n.Get("input").JSON(nil))
		start.Put("input", &node{Kind: '{'})
		begin()
		delta("input_json_delta", "partial_json", "")
		deltas("input_json_delta", "partial_json", strings.TrimSpace(input))
	default:
		begin()
	}
	send("content_block_stop", map[string]any{"index": i})
}
