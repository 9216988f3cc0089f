// Package usage reads what a provider says it billed out of its response: a JSON document, a stream of server-sent events or of
// AWS's binary frames, or a JSON array that grows, plain or compressed, in every wire format.
//
// It promises to be harmless. A response is read as it comes and never changed; memory is bounded whatever comes; what cannot
// be read, is cut off, or is not said yields a response without usage, never a guess and never an error. The same bytes give
// the same result however they are cut into chunks.
package usage

import (
	"io"
	"mime"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Bounds in bytes of the decoded response. Those of an event and of a JSON body are what Envoy's own extraction of token usage
// allows by default.
const (
	maxEvent = 1 << 20   // of one event of a stream, however framed; a larger one is left out
	maxJSON  = 4 << 20   // of a JSON body; nothing is read of a larger one
	maxBody  = 256 << 20 // of a stream; what comes after is not read
)

// account collects what the responses of one format say, the last word on each figure.
type account interface {
	// document takes the body of a JSON response, which is whole.
	document(v gjson.Result)
	// event takes an event of a stream: its data, and its type where that stands beside the data and not in it.
	event(kind string, data []byte)
	// response is what was said.
	response() pipeline.Response
}

// reader takes a body apart for an account.
type reader func(body io.Reader, a account)

// Media types of responses.
const (
	document = "application/json"
	events   = "text/event-stream"
	frames   = "application/vnd.amazon.eventstream"
)

// language is how a format answers: who keeps account of it, for a model, and how it comes in each media type.
type language struct {
	account func(model string) account
	readers map[string]reader
}

var languages = map[transcript.Format]language{
	transcript.Anthropic: {
		func(string) account { return new(messages) },
		map[string]reader{document: readDocument, events: readEvents, frames: readWrapped},
	},
	transcript.Chat: {
		func(string) account { return new(chat) },
		map[string]reader{document: readDocument, events: readEvents},
	},
	transcript.Responses: {
		func(string) account { return new(responses) },
		map[string]reader{document: readDocument, events: readEvents},
	},
	transcript.Converse: {
		func(model string) account { return &converse{model: model} },
		map[string]reader{document: readDocument, frames: readFrames},
	},
	transcript.Gemini: {
		func(string) account { return new(gemini) },
		map[string]reader{document: readElements, events: readEvents},
	},
}

// Parser reads responses of one format, media type and content encoding. It may be used by many goroutines.
type Parser struct {
	decode  decoder
	read    reader
	account func() account
}

// For returns the parser of a response by the format of its request, the model that the request's path names (empty if it
// names none) and the response's headers content-type and content-encoding, or nil if such a response cannot be read.
func For(f transcript.Format, model, contentType, contentEncoding string) *Parser {
	decode, ok := decoders[strings.ToLower(strings.TrimSpace(contentEncoding))]
	if !ok {
		return nil
	}
	media, _, _ := mime.ParseMediaType(contentType) // wrong parameters do not matter, and without a type it is empty
	l := languages[f]
	read, ok := l.readers[media]
	if !ok {
		return nil
	}
	return &Parser{decode, read, func() account { return l.account(model) }}
}

// Read reads a body until it ends or nothing more can be known of it, and returns what it says: usage, message, model and the
// reason of a cache miss. Usage is there only if the provider gave its last word on it: a response that is cut off before that
// has none. Where a format counts as prompt what was read from the cache or written to it, Input is the rest. Where the provider
// does not tell five-minute from one-hour writes, all of them are in Write5m, and the usage is merged.
func (p *Parser) Read(body io.Reader) pipeline.Response {
	decoded, err := p.decode(body)
	if err != nil {
		return pipeline.Response{}
	}
	defer decoded.Close()
	a := p.account()
	p.read(io.LimitReader(decoded, maxBody), a)
	return a.response()
}
