package extproc

import (
	"context"
	"net/http"
	"strconv"
	"time"

	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/internal/usage"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// UsageNamespace is the typed dynamic metadata in which Envoy's ai_protocol_manager says what a response was billed.
const UsageNamespace = "envoy.ai.token_usage"

// statusAttribute is the response attribute that tells the status where response headers are not sent to tidemark.
const statusAttribute = "response.code"

const observeTimeout = time.Second // for the engine to take note of a response

// How long the last answer of a response waits for what is known of it, so that access logs have it: parts of the deadline of
// requests, since who lets those wait longer is in no hurry with these. It is there within a fraction of a millisecond unless the
// session or the machine is busy.
const (
	waitWithBytes = 75 // 2 of the default 150 ms; a body that came at once is one chunk, which is also the last
	waitWithout   = 30 // 5 ms
)

// tap follows the response to a request that the engine was asked about, and tells the engine what became of it, once. It
// never changes a byte of it, and delays none but those of the last chunk, for a moment: chunks are noted, and read by a
// goroutine of their own.
type tap struct {
	server  *Server
	request *pipeline.Request
	outcome *pipeline.Outcome // as it was forwarded

	response pipeline.Response // as far as it is known without its body
	chunks   *feed             // of the body, for the goroutine that reads it; nil: nothing reads it
	said     pipeline.Response // of the body, once read is closed
	read     chan struct{}
	ended    bool // the engine has been told, or is being told
}

// forgetBodies lets go of the request's body as it came and as it went: a response may take many minutes. An engine call that
// nobody waits for may still read the request, so that the tap gets one of its own.
func (t *tap) forgetBodies() {
	r := *t.request
	r.Body = nil
	t.request = &r
	if t.outcome.Body != nil {
		t.outcome.Body = []byte{} // there was one
	}
}

// headers takes note of the response's headers, and reports whether its body can be read.
func (t *tap) headers(m message) bool {
	if t.ended { // nobody would close the feed
		return false
	}
	h := Headers{m.GetResponseHeaders().GetHeaders()}
	t.response.After = t.server.o.Now().Sub(t.request.Now)
	t.response.Status, _ = strconv.Atoi(h.Get(":status"))
	if t.request.CountTokens || t.chunks != nil {
		return false
	}
	parser := usage.For(t.request.Format, t.request.Model, h.Get("content-type"), h.Get("content-encoding"))
	if parser == nil {
		return false
	}
	t.chunks, t.read = newFeed(), make(chan struct{})
	t.server.calls.Go(func() {
		defer close(t.read)
		defer t.chunks.abandon()
		t.server.contain(func() { t.said = parser.Read(t.chunks) })
	})
	return true
}

// body takes note of a chunk.
func (t *tap) body(chunk []byte) {
	if t.chunks != nil {
		t.chunks.put(chunk)
	}
}

// described takes note of what Envoy itself says of the response, in whatever message that comes. Usage that it could not
// read in full is none, and so is usage without a prompt.
func (t *tap) described(m message) {
	if t.ended {
		return
	}
	if code := m.GetAttributes()[attributesKey].GetFields()[statusAttribute].GetNumberValue(); code > 0 {
		t.response.Status = int(code)
	}
	published := m.GetMetadataContext().GetTypedFilterMetadata()[UsageNamespace]
	if published == nil {
		return
	}
	var u aiv3.TokenUsage
	if err := published.UnmarshalTo(&u); err != nil || u.GetExtractionStatus() != aiv3.TokenUsage_COMPLETE || u.GetInputTokens() == nil || u.GetOutputTokens() == nil {
		return
	}
	// Input is all of the prompt there, and writes of both lifetimes are one number.
	read, write := tokens(u.GetInputTokenDetails().GetCachedTokens().GetValue()), tokens(u.GetInputTokenDetails().GetCacheCreationTokens().GetValue())
	billed := &pipeline.Usage{
		Input: max(0, tokens(u.GetInputTokens().GetValue())-read-write), Read: read, Write5m: write, Merged: true,
		Output: tokens(u.GetOutputTokens().GetValue()),
	}
	if billed.Prompt() == 0 {
		return
	}
	if t.response.Status == 0 {
		t.response.Status = http.StatusOK // others are not looked at
	}
	t.response.Model, t.response.Usage = u.GetModel(), billed
}

// tokens keeps a figure within what an int can hold wherever tidemark runs, and far above what is ever billed.
func tokens(n uint64) int { return int(min(n, 1<<31-1)) }

// end says that no more of the response comes. What the engine makes of it is sent to the channel, which nobody has to read.
func (t *tap) end(ctx context.Context) <-chan *pipeline.Observation {
	told := make(chan *pipeline.Observation, 1)
	if t.ended {
		close(told)
		return told
	}
	t.ended = true
	ctx = context.WithoutCancel(ctx) // the stream may be over
	known := t.response
	t.server.calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		v := t.server.observe(ctx, t.outcome, t.whole(known))
		told <- v
		t.server.contain(func() { t.server.o.Observer.Observed(t.request, t.outcome, v) })
	})
	return told
}

// whole is all that is known of the response, once its body has been read: it is added to what is known without. The body says
// more of usage than Envoy does.
func (t *tap) whole(r pipeline.Response) *pipeline.Response {
	if t.chunks == nil {
		return &r
	}
	t.chunks.close()
	<-t.read
	if t.said.Usage != nil {
		r.Usage, r.Unclear = t.said.Usage, t.said.Unclear
	}
	if t.said.Model != "" {
		r.Model = t.said.Model
	}
	r.Message, r.Miss = t.said.Message, t.said.Miss
	return &r
}

// result ends the response, and describes what the engine makes of it for access logs, unless that takes too long.
func (t *tap) result(ctx context.Context, part time.Duration) *structpb.Struct {
	late := time.NewTimer(t.server.o.Deadline / part)
	defer late.Stop()
	select {
	case v := <-t.end(ctx):
		if v == nil {
			return nil
		}
		if a := t.server.o.Account(v); len(a.GetFields()) > 0 {
			return inNamespace(a)
		}
	case <-late.C:
	}
	return nil
}

// observe is the engine's call, with its panics contained: then it is nil.
func (s *Server) observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) (v *pipeline.Observation) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic("observe", p)
			v = nil
		}
	}()
	return s.o.Engine.Observe(ctx, o, r)
}

// streamed asks Envoy for the body of the response, chunk by chunk. What is not named stays as it is, but for bodies.
func streamed() *filterv3.ProcessingMode {
	return &filterv3.ProcessingMode{ResponseBodyMode: filterv3.ProcessingMode_STREAMED}
}
