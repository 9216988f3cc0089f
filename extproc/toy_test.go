package extproc

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Modes of request bodies.
const (
	modeBuffered = filterv3.ProcessingMode_BUFFERED
	modeDuplex   = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	modeStreamed = filterv3.ProcessingMode_STREAMED
	modePartial  = filterv3.ProcessingMode_BUFFERED_PARTIAL
)

// engineFunc is an engine.
type engineFunc func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome

func (f engineFunc) Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
	return f(ctx, r)
}

// watched is an engine that keeps the responses that it is told of.
type watched struct {
	engineFunc
	rec *recorder
}

func (w watched) Observe(_ context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	w.rec.responses = append(w.rec.responses, *r)
	w.rec.observed = append(w.rec.observed, o.Class())
	return &pipeline.Observation{Usage: r.Usage, Model: r.Model}
}

// upper changes every byte, so that nothing that was changed can be taken for an original.
func upper(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
	return &pipeline.Outcome{Body: bytes.ToUpper(r.Body), Level: pipeline.Decided}
}

func unchanged(context.Context, *pipeline.Request) *pipeline.Outcome { return &pipeline.Outcome{} }

func faulty(context.Context, *pipeline.Request) *pipeline.Outcome {
	panic("the secret content of a body")
}

// recorder counts what the server tells.
type recorder struct {
	mu        sync.Mutex
	counts    map[string]int
	responses []pipeline.Response // that the engine was told of
	observed  []string            // classes of the outcomes that they belong to
}

func (r *recorder) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[what]++
}

func (r *recorder) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

func (r *recorder) Began()                              { r.add("began") }
func (r *recorder) Ended(_ time.Duration, c codes.Code) { r.add("ended " + c.String()) }
func (r *recorder) Passed(why string)                   { r.add("passed " + why) }
func (r *recorder) Decoded(c string)                    { r.add("decoded " + c) }
func (r *recorder) Answered(_ *pipeline.Request, o *pipeline.Outcome) {
	r.add("answered " + o.Level.String() + " " + string(o.Gate))
}

func (r *recorder) Observed(_ *pipeline.Request, _ *pipeline.Outcome, v *pipeline.Observation) {
	if v == nil {
		r.add("observed nothing")
		return
	}
	r.add("observed")
}

// newTestServer admits JSON, and gives the engine more time than a slow machine needs.
func newTestServer(e engineFunc, o Options) (*Server, *recorder) {
	rec := &recorder{}
	o.Observer = rec
	if o.Engine == nil {
		o.Engine = watched{e, rec}
	}
	if o.Deadline == 0 {
		o.Deadline = time.Minute
	}
	if o.Admit == nil {
		o.Admit = admitJSON
	}
	if o.Result == nil {
		o.Result = levelOf
	}
	if o.Account == nil {
		o.Account = outputOf
	}
	return New(o), rec
}

func admitJSON(h *Head) (*pipeline.Request, string) {
	if h.Headers.Get("content-type") != "application/json" {
		return nil, "content_type"
	}
	return &pipeline.Request{Format: transcript.Anthropic}, ""
}

func levelOf(o *pipeline.Outcome, _ *pipeline.Request) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"level": structpb.NewStringValue(o.Level.String())}}
}

func outputOf(v *pipeline.Observation) *structpb.Struct {
	out := &structpb.Struct{Fields: map[string]*structpb.Value{"model": structpb.NewStringValue(v.Model)}}
	if v.Usage != nil {
		out.Fields["output"] = structpb.NewNumberValue(float64(v.Usage.Output))
	}
	return out
}

// resultIn is the result that an answer carries.
func resultIn(a *extprocv3.ProcessingResponse) map[string]any {
	return a.GetDynamicMetadata().GetFields()[ResultNamespace].GetStructValue().AsMap()
}

// headersMessage is the first message of a request; header has names and values in turn, none is JSON.
func headersMessage(mode filterv3.ProcessingMode_BodySendMode, end bool, header ...string) message {
	h := &corev3.HeaderMap{}
	if len(header) == 0 {
		header = []string{"content-type", "application/json"}
	}
	for i := 0; i < len(header); i += 2 {
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: header[i], RawValue: []byte(header[i+1])})
	}
	return &extprocv3.ProcessingRequest{
		Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: h, EndOfStream: end}},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: mode},
	}
}

func bodyMessage(body string, end bool) message {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: end},
	}}
}

func trailersMessage() message {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{
		RequestTrailers: &extprocv3.HttpTrailers{},
	}}
}
