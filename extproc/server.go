package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Server is the ext_proc service.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer

	o      Options
	health *health.Server
	ready  atomic.Bool
	calls  sync.WaitGroup // engine calls, also those that nobody waits for

	decoding *semaphore.Weighted // bytes that bodies may be decoded to at the same time
	warned   sync.Once           // of a mode that cannot be served
}

// New returns a server. Nothing runs before Serve.
func New(o Options) *Server {
	return &Server{o: o.withDefaults(), health: newHealth(), decoding: semaphore.NewWeighted(maxDecoding)}
}

// Process serves one HTTP request. It returns no error whatever happens: to Envoy, a stream that ends with OK means that the
// request goes on as it is.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	began, code := time.Now(), codes.OK
	s.o.Observer.Began()
	defer func() { s.o.Observer.Ended(time.Since(began), code) }()

	var mc machine
	defer func() {
		if mc != nil {
			s.contain(func() { mc.ended(stream.Context()) })
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			code = s.ended(err)
			return nil
		}
		if mc == nil {
			mc = s.choose(m)
		}
		if m.GetObservabilityMode() {
			s.contain(mc.sent)
			continue
		}
		for _, a := range s.answer(stream.Context(), mc, m) {
			if err := stream.Send(a); err != nil {
				code = status.Code(err)
				return nil
			}
		}
		s.contain(mc.sent)
		if mc.left() {
			return nil
		}
	}
}

// choose picks the machine by the first message, which alone tells the mode.
func (s *Server) choose(m message) machine {
	pc := m.GetProtocolConfig()
	p := passThrough{
		server:    s,
		reqChunks: chunked(pc.GetRequestBodyMode()),
		resChunks: chunked(pc.GetResponseBodyMode()),
	}
	// Envoy ignores overrides where a body is in full duplex, and needs none where the response comes anyway.
	p.mayAsk = !p.reqChunks && pc.GetResponseBodyMode() == filterv3.ProcessingMode_NONE
	switch {
	case m.GetObservabilityMode():
		p.why = Observability
		return &p
	case m.GetRequestHeaders() == nil:
		p.why = NoHeaders
		return &p
	}
	mode := pc.GetRequestBodyMode()
	switch mode { //nolint:exhaustive // the others cannot be served, nor can modes to come
	case filterv3.ProcessingMode_BUFFERED:
		return &buffered{passThrough: p}
	case filterv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return &duplex{passThrough: p}
	}
	s.warned.Do(func() {
		s.o.Log.Warn("request body mode cannot be served, requests pass untouched", "mode", mode.String())
	})
	p.why = UnsupportedMode
	return &p
}

// answer lets the machine answer one message.
func (s *Server) answer(ctx context.Context, mc machine, m message) (out answers) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("answer message", v)
			out = mc.abandon(m)
		}
	}()
	switch m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return mc.requestHeaders(ctx, m)
	case *extprocv3.ProcessingRequest_RequestBody:
		return mc.requestBody(ctx, m)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return mc.requestTrailers(ctx, m)
	default:
		return mc.response(ctx, m)
	}
}

// admit says what the engine needs to know of a request, or why it passes.
func (s *Server) admit(ctx context.Context, m message) (r *pipeline.Request, reason string) {
	if m.GetRequestHeaders().GetEndOfStream() {
		return nil, NoBody
	}
	now := s.o.Now()
	h := headOf(ctx, m)
	if r, reason = s.o.Admit(h); r != nil {
		r.ID, r.Now, r.Trace = h.Headers.Get("x-request-id"), now, traceOf(ctx, h)
	}
	return r, reason
}

// ended reads the end of a stream. Envoy resets a stream as readily as it closes it. A message above the receive limit ends
// it too, with an error that gRPC sends by itself: Envoy lets the request go on if it has failure_mode_allow.
func (s *Server) ended(err error) codes.Code {
	switch code := status.Code(err); {
	case errors.Is(err, io.EOF):
		return codes.OK
	case code == codes.ResourceExhausted:
		s.contain(func() { s.o.Observer.Passed(TooLarge) })
		return code
	default:
		return code
	}
}

// contain runs what only reports: its panics change no answer.
func (s *Server) contain(f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("report", v)
		}
	}()
	f()
}

// logPanic logs where a panic came from. What it says is logged only if the runtime said it: anything else may quote the
// body.
func (s *Server) logPanic(during string, v any) {
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(runtime.Error); ok {
		what = e.Error()
	}
	s.o.Log.Error("panic", "during", during, "panic", what, "stack", string(debug.Stack()))
}
