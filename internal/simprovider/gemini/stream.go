package gemini

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// pieceBytes is how many bytes of text a chunk holds, but for the rest of its last character.
const pieceBytes = 24

// pieces cuts a part into those of the chunks of a stream. A signature comes with the last.
func pieces(raw json.RawMessage) []json.RawMessage {
	n, err := simkit.Decode(raw)
	if err != nil {
		return []json.RawMessage{raw} // it was decoded before
	}
	text, ok := n.Str("text")
	if !ok {
		return []json.RawMessage{raw}
	}
	var out []json.RawMessage
	for len(text) > pieceBytes {
		end := pieceBytes
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		piece := n.Without("thoughtSignature", "text")
		piece = &node{Kind: '{', Names: append([]string{"text"}, piece.Names...), Kids: append([]*node{{Kind: 's', Text: text[:end]}}, piece.Kids...)}
		out, text = append(out, piece.JSON(nil)), text[end:]
	}
	n.Put("text", &node{Kind: 's', Text: text})
	return append(out, n.JSON(nil))
}

// chunks calls visit with every chunk of the answer as a stream. All have usage, of which only the last is whole.
func (r *Result) chunks(visit func(answer)) {
	list := make([]json.RawMessage, 0, len(r.Parts))
	for _, raw := range r.Parts {
		list = append(list, pieces(raw)...)
	}
	for i, piece := range list[:max(0, len(list)-1)] {
		visit(r.chunk([]json.RawMessage{piece}, "", r.usage(min(i+1, r.Usage.Output), 0)))
	}
	visit(r.chunk(list[max(0, len(list)-1):], finished, r.usage(r.Usage.Output, r.Usage.Thoughts)))
}

// stream writes an answer as server-sent events, or as a JSON array, and flushes each chunk.
func (r *Result) stream(w io.Writer, flush func() error) {
	before := "["
	r.chunks(func(a answer) {
		b, err := json.Marshal(a)
		if err != nil {
			return // nothing but strings, numbers and valid JSON goes in
		}
		if r.SSE {
			_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", b) // a client that went away is its own affair
		} else {
			_, _ = fmt.Fprintf(w, "%s%s", before, b)
			before = "\n,\r\n"
		}
		_ = flush()
	})
	if !r.SSE {
		_, _ = io.WriteString(w, "\n]\n")
	}
}
