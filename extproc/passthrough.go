package extproc

import (
	"context"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/pipeline"
)

type (
	message = *extprocv3.ProcessingRequest
	answers = []*extprocv3.ProcessingResponse
)

// machine is the state machine of one stream. Its methods are called one after the other, each answers one message.
type machine interface {
	requestHeaders(ctx context.Context, m message) answers
	requestBody(ctx context.Context, m message) answers
	requestTrailers(ctx context.Context, m message) answers
	response(ctx context.Context, m message) answers

	// abandon answers a message whose handling panicked, with everything that is still owed, and passes what follows. It
	// calls nothing that could panic.
	abandon(m message) answers
	// sent reports what was answered.
	sent()
	// ended says that the stream is over, however it ended.
	ended(ctx context.Context)
	// left says that the rest of the request is none of tidemark's business: the stream may be ended with OK.
	left() bool
}

// passThrough answers every message so that the request goes on as it is. It is the machine of modes that cannot be
// served; the machines of those that can embed it and override what they handle.
type passThrough struct {
	server    *Server
	reqChunks bool // the request body is in full duplex: what is not echoed is lost
	resChunks bool // so is the response body
	mayAsk    bool // the response body does not come, but can be asked for

	request *pipeline.Request // asked about; nil: not asked
	coding  coding.Coding     // of the request's body
	outcome *pipeline.Outcome // to be reported once sent
	why     string            // to be reported once sent
	tap     *tap              // of the response, once the engine's word has been sent; nil: nobody wants to know
}

func (p *passThrough) requestHeaders(_ context.Context, m message) answers {
	return one(headersAnswer(m, p.why))
}

func (p *passThrough) requestBody(_ context.Context, m message) answers {
	b := m.GetRequestBody()
	if p.reqChunks {
		return requestChunks(b.GetBody(), b.GetEndOfStream())
	}
	return one(bodyAnswer(nil))
}

func (p *passThrough) requestTrailers(context.Context, message) answers { return one(trailersAnswer()) }

// response answers the messages of the response, in whatever mode they come, so that it goes on as it is. Where it is
// followed, the last answer carries what is known of it.
func (p *passThrough) response(ctx context.Context, m message) answers {
	out := p.answerResponse(m)
	if p.tap == nil || len(out) == 0 {
		return out
	}
	p.tap.described(m)
	last := out[len(out)-1]
	switch b := m.GetResponseBody(); {
	case m.GetResponseHeaders() != nil:
		if p.tap.headers(m) && p.mayAsk && !m.GetResponseHeaders().GetEndOfStream() {
			last.ModeOverride = streamed()
		}
	case m.GetResponseTrailers() != nil:
		last.DynamicMetadata = p.tap.result(ctx, waitWithout)
	case b != nil:
		p.tap.body(b.GetBody())
		if b.GetEndOfStream() && len(b.GetBody()) == 0 {
			last.DynamicMetadata = p.tap.result(ctx, waitWithout)
		} else if b.GetEndOfStream() {
			last.DynamicMetadata = p.tap.result(ctx, waitWithBytes)
		}
	}
	return out
}

// answerResponse is the answer to a message of the response that changes nothing.
func (p *passThrough) answerResponse(m message) answers {
	switch {
	case m.GetResponseHeaders() != nil:
		return one(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &extprocv3.HeadersResponse{},
		}})
	case m.GetResponseTrailers() != nil:
		return one(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
			ResponseTrailers: &extprocv3.TrailersResponse{},
		}})
	case m.GetResponseBody() != nil && p.resChunks:
		return responseChunks(m.GetResponseBody().GetBody(), m.GetResponseBody().GetEndOfStream())
	case m.GetResponseBody() != nil:
		return one(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
			ResponseBody: &extprocv3.BodyResponse{},
		}})
	}
	return nil // a message that this version of the protocol does not have: there is no answer to it
}

func (p *passThrough) abandon(m message) answers {
	p.fault()
	switch {
	case m.GetRequestHeaders() != nil:
		return one(headersAnswer(m, p.why))
	case m.GetRequestBody() != nil:
		return p.requestBody(context.Background(), m)
	case m.GetRequestTrailers() != nil:
		return one(trailersAnswer())
	}
	return p.answerResponse(m)
}

// fault notes a panic of the machine itself. Once the request has been answered it is only logged.
func (p *passThrough) fault() {
	switch {
	case p.tap != nil:
	case p.request == nil:
		p.why = Fault
	default:
		p.outcome = lost(p.request, p.request.Body)
	}
}

func (p *passThrough) sent() {
	outcome, why := p.outcome, p.why
	p.outcome, p.why = nil, ""
	switch {
	case outcome != nil:
		p.tap = &tap{server: p.server, request: p.request, outcome: outcome}
		p.server.o.Observer.Answered(p.request, outcome)
		if p.coding != coding.Identity {
			p.server.o.Observer.Decoded(p.coding.String())
		}
		p.tap.forgetBodies()
		p.request = p.tap.request
	case why != "":
		p.server.o.Observer.Passed(why)
	}
}

func (p *passThrough) ended(ctx context.Context) {
	if p.tap != nil {
		p.tap.end(ctx)
	}
}

func (p *passThrough) left() bool { return false }

// admitted asks whether the request is tidemark's and notes the reason if it is not.
func (p *passThrough) admitted(ctx context.Context, m message) bool {
	p.request, p.why = p.server.admit(ctx, m)
	if p.request == nil {
		return false
	}
	var legible bool
	if p.coding, legible = coding.Of(headersOf(m).Get("content-encoding")); !legible {
		p.request, p.why = nil, Encoded
	}
	return legible
}

// decide asks the engine about the whole body, as it was sent. A nil body stays as it is.
func (p *passThrough) decide(ctx context.Context, body []byte) (changed []byte, result *structpb.Struct) {
	w := p.server.decide(ctx, p.request, body, p.coding)
	p.request, p.outcome, p.why = w.request, w.outcome, w.why
	if w.outcome == nil {
		p.request = nil
		return nil, untouched(w.why)
	}
	p.server.contain(func() {
		r := p.server.o.Result(p.outcome, p.request)
		if p.coding != coding.Identity && r.GetFields() != nil {
			r.Fields["encoding"] = structpb.NewStringValue(p.coding.String())
		}
		result = inNamespace(r)
	})
	return w.body, result
}

// chunked reports whether bodies of a mode must be echoed.
func chunked(mode filterv3.ProcessingMode_BodySendMode) bool {
	return mode == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
}
