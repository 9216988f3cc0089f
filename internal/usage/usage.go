// Package usage reads what a provider says it billed out of its response: a JSON message or a stream of server-sent events,
// plain or compressed.
//
// It promises to be harmless. A response is read as it comes and never changed; memory is bounded whatever comes; what cannot
// be read, is cut off, or is not said yields a response without usage, never a guess and never an error. The same bytes give
// the same result however they are cut into chunks.
package usage

import (
	"io"
	"mime"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Bounds in bytes of the decoded response. Those of an event and of a JSON body are what Envoy's own extraction of token usage
// allows by default.
const (
	maxEvent = 1 << 20   // of a server-sent event; a larger one is left out
	maxJSON  = 4 << 20   // of a JSON body; nothing is read of a larger one
	maxBody  = 256 << 20 // of a stream; what comes after is not read
)

// Parser reads responses of one format, media type and content encoding. It may be used by many goroutines.
type Parser struct {
	decode decoder
	read   func(body io.Reader, t *tally)
}

// For returns the parser of a response by the format of its request and its headers content-type and content-encoding, or nil
// if such a response cannot be read.
func For(f transcript.Format, contentType, contentEncoding string) *Parser {
	decode, ok := decoders[strings.ToLower(strings.TrimSpace(contentEncoding))]
	if !ok || f != transcript.Anthropic {
		return nil
	}
	media, _, _ := mime.ParseMediaType(contentType) // wrong parameters do not matter, and without a type it is empty
	switch media {
	case "text/event-stream":
		return &Parser{decode, readEvents}
	case "application/json":
		return &Parser{decode, readMessage}
	}
	return nil
}

// Read reads a body until it ends or nothing more can be known of it, and returns what it says: usage, message, model and the
// reason of a cache miss. Usage is there only if the provider gave its last word on it: a response that is cut off before that
// has none. Where the provider does not tell five-minute from one-hour writes, all of them are in Write5m.
func (p *Parser) Read(body io.Reader) pipeline.Response {
	var t tally
	decoded, err := p.decode(body)
	if err != nil {
		return pipeline.Response{}
	}
	defer decoded.Close()
	p.read(io.LimitReader(decoded, maxBody), &t)
	return t.response()
}
