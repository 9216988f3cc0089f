package extproc

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline"
)

const (
	jsonType = "application/json"
	sseType  = "text/event-stream; charset=utf-8"
)

// bodies of responses that say the same, by media type.
var responseBodies = map[string]string{
	jsonType: `{"id":"msg_1","model":"m","content":[],"usage":{"input_tokens":1,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"cache_read_input_tokens":4,"output_tokens":6}}`,
	sseType: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"cache_read_input_tokens":4,"output_tokens":1}}}

event: message_delta
data: {"type":"message_delta","usage":{"output_tokens":6}}

event: message_stop
data: {"type":"message_stop"}

`,
	"text/plain": "a text of another kind",
}

func bodyUsage() *pipeline.Usage {
	return &pipeline.Usage{Input: 1, Read: 4, Write5m: 2, Write1h: 3, Output: 6}
}

func responseHeaders(end bool, header ...string) message {
	h := headersMessage(modeBuffered, end, header...).GetRequestHeaders()
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: h}}
}

func responseBody(body []byte, end bool) message {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: body, EndOfStream: end},
	}}
}

func responseTrailers() message {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}}
}

// publish adds what Envoy's own extraction says: all of the input, and writes in one number.
func publish(t interface{ Fatal(...any) }, m message, status aiv3.TokenUsage_ExtractionStatus) message {
	a, err := anypb.New(&aiv3.TokenUsage{
		Model: "m", InputTokens: wrapperspb.UInt64(10), OutputTokens: wrapperspb.UInt64(6), ExtractionStatus: status,
		InputTokenDetails: &aiv3.InputTokenDetails{CachedTokens: wrapperspb.UInt64(4), CacheCreationTokens: wrapperspb.UInt64(5)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.MetadataContext = &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{UsageNamespace: a}}
	return m
}

func publishedUsage() *pipeline.Usage {
	return &pipeline.Usage{Input: 1, Read: 4, Write5m: 5, Output: 6, Merged: true}
}

// answered is a request with its answer behind it, in a mode of the response's body.
func answered(mode filterv3.ProcessingMode_BodySendMode) []message {
	first := headersMessage(modeBuffered, false)
	first.ProtocolConfig.ResponseBodyMode = mode
	return []message{first, bodyMessage("body", true)}
}

// Whatever comes of a response, in whatever mode: each message is answered once, by its own kind and without a change; bodies
// are asked for only where that helps; and the engine is told exactly once, what was said or nothing.
func TestResponsesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the last answer never comes too early
		rapid.Check(struct{ rapid.TB }{t}, followResponse) // rapid asks a testing.T for its deadline, which a bubble forbids
	})
}

func followResponse(t *rapid.T) {
	mode := rapid.SampledFrom([]filterv3.ProcessingMode_BodySendMode{filterv3.ProcessingMode_NONE, modeStreamed, modeBuffered, modeDuplex}).Draw(t, "mode")
	kind := rapid.SampledFrom([]string{jsonType, sseType, "text/plain"}).Draw(t, "kind")
	request := answered(mode)
	fullDuplex := rapid.Bool().Draw(t, "request in full duplex")
	if fullDuplex {
		request[0].ProtocolConfig.RequestBodyMode = modeDuplex
	}
	s, rec := newTestServer(upper, Options{})
	mc := s.choose(request[0])
	say := func(m message) *extprocv3.ProcessingResponse {
		a := s.answer(context.Background(), mc, m)
		s.contain(mc.sent)
		if len(a) != 1 {
			t.Fatalf("%T has %d answers", m.GetRequest(), len(a))
		}
		return a[0]
	}
	for _, m := range request {
		say(m)
	}
	time.Sleep(time.Second)
	a := say(responseHeaders(false, ":status", "200", "content-type", kind))
	asked := a.GetModeOverride().GetResponseBodyMode() == modeStreamed
	if want := mode == filterv3.ProcessingMode_NONE && !fullDuplex && kind != "text/plain"; asked != want || a.GetResponseHeaders().GetResponse() != nil {
		t.Fatalf("mode %s, %s: answered by %v", mode, kind, a)
	}
	body := []byte(responseBodies[kind])
	whole := rapid.Bool().Draw(t, "whole")
	if !whole {
		body = body[:len(body)/4]
	}
	trailers := whole && rapid.Bool().Draw(t, "trailers")
	known := false
	if asked && rapid.Bool().Draw(t, "the override is allowed") || mode != filterv3.ProcessingMode_NONE {
		known = whole && kind != "text/plain"
		n := rapid.IntRange(1, 5).Draw(t, "chunks")
		for i := range n {
			chunk := body[len(body)*i/n : len(body)*(i+1)/n]
			end := whole && !trailers && i == n-1
			r := say(responseBody(chunk, end)).GetResponseBody()
			if mode != modeDuplex && (r == nil || r.GetResponse() != nil) {
				t.Fatalf("a chunk is answered by %v", r)
			}
			if c := r.GetResponse().GetBodyMutation().GetStreamedResponse(); mode == modeDuplex && (!bytes.Equal(c.GetBody(), chunk) || c.GetEndOfStream() != end) {
				t.Fatalf("the chunk %q comes back as %v", chunk, c)
			}
		}
	}
	published := false
	if trailers {
		m := responseTrailers()
		if published = rapid.Bool().Draw(t, "published"); published {
			m = publish(t, m, aiv3.TokenUsage_COMPLETE)
		}
		if r := say(m); r.GetResponseTrailers() == nil || r.GetResponseTrailers().GetHeaderMutation() != nil || r.GetDynamicMetadata() == nil {
			t.Fatalf("trailers are answered by %v", r)
		}
	}
	mc.ended(context.Background())
	s.calls.Wait()
	want := pipeline.Response{Status: 200, After: time.Second}
	switch {
	case known:
		want.Usage, want.Message, want.Model = bodyUsage(), "msg_1", "m"
	case published:
		want.Usage, want.Model = publishedUsage(), "m"
	}
	if len(rec.responses) != 1 || rec.count("observed") != 1 || rec.count("answered decided ") != 1 {
		t.Fatalf("the engine was told of %d responses; counted %v", len(rec.responses), rec.counts)
	}
	got := rec.responses[0]
	if !whole { // what the beginning says may be known or not
		got.Message, got.Model = "", ""
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// One trailers message is all that comes where Envoy reads the usage by itself.
func TestPublishedUsage(t *testing.T) {
	code := &structpb.Struct{Fields: map[string]*structpb.Value{statusAttribute: structpb.NewNumberValue(207)}}
	for name, c := range map[string]struct {
		m    message
		want pipeline.Response
	}{
		"complete": {publish(t, responseTrailers(), aiv3.TokenUsage_COMPLETE), pipeline.Response{Status: 200, Model: "m", Usage: publishedUsage()}},
		"partial":  {publish(t, responseTrailers(), aiv3.TokenUsage_PARTIAL), pipeline.Response{}},
		"failed":   {publish(t, responseTrailers(), aiv3.TokenUsage_FAILED), pipeline.Response{}},
		"nothing":  {responseTrailers(), pipeline.Response{}},
		"noise":    {responseTrailers(), pipeline.Response{}},
		"zeros":    {responseTrailers(), pipeline.Response{}},
		"status":   {publish(t, responseTrailers(), aiv3.TokenUsage_COMPLETE), pipeline.Response{Status: 207, Model: "m", Usage: publishedUsage()}},
	} {
		switch name {
		case "noise":
			c.m.MetadataContext = &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{UsageNamespace: {TypeUrl: "type.googleapis.com/envoy.data.ai.v3.TokenUsage", Value: []byte("\xff")}}}
		case "zeros":
			a, err := anypb.New(&aiv3.TokenUsage{InputTokens: wrapperspb.UInt64(0), OutputTokens: wrapperspb.UInt64(6), ExtractionStatus: aiv3.TokenUsage_COMPLETE})
			if err != nil {
				t.Fatal(err)
			}
			c.m.MetadataContext = &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{UsageNamespace: a}}
		case "status":
			c.m.Attributes = map[string]*structpb.Struct{attributesKey: code}
		}
		synctest.Test(t, func(t *testing.T) {
			s, rec := newTestServer(upper, Options{})
			got, _ := exchange(s, append(answered(filterv3.ProcessingMode_NONE), c.m)...)
			if d := cmp.Diff([]pipeline.Response{c.want}, rec.responses); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			if r := resultIn(got[2][0]); c.want.Usage != nil && r["output"] != 6.0 || r["model"] != c.want.Model {
				t.Errorf("%s: result %v", name, r)
			}
		})
	}
}

// A stream that ends without a response tells the engine that nothing is known, and one that had no answer tells nothing.
func TestNothingIsKnown(t *testing.T) {
	s, rec := newTestServer(upper, Options{})
	exchange(s, answered(filterv3.ProcessingMode_NONE)...)
	if d := cmp.Diff([]pipeline.Response{{}}, rec.responses); d != "" {
		t.Error(d)
	}
	s, rec = newTestServer(upper, Options{})
	exchange(s, answered(filterv3.ProcessingMode_NONE)[0])
	exchange(s, headersMessage(modeStreamed, false), bodyMessage("body", true), responseHeaders(false, ":status", "200", "content-type", jsonType))
	exchange(s, headersMessage(modeBuffered, false, "content-type", "text/plain"))
	if len(rec.responses) != 0 {
		t.Errorf("told of %v", rec.responses)
	}
}

// What comes after the end of a response is answered and not listened to: nothing waits for a body that never ends, and the engine
// is told what was known.
func TestMessagesAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(say func(message), mc machine){
		"trailers": func(say func(message), _ machine) { say(responseTrailers()) },
		"body":     func(say func(message), _ machine) { say(responseBody(nil, true)) },
		"stream":   func(_ func(message), mc machine) { mc.ended(t.Context()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, rec := newTestServer(upper, Options{})
			mc := s.choose(answered(modeStreamed)[0])
			say := func(m message) {
				if a := s.answer(t.Context(), mc, m); len(a) != 1 {
					t.Errorf("%s: %T has %d answers", name, m.GetRequest(), len(a))
				}
				s.contain(mc.sent)
			}
			for _, m := range answered(modeStreamed) {
				say(m)
			}
			end(say, mc)
			say(responseHeaders(false, ":status", "200", "content-type", jsonType))
			say(responseBody([]byte(responseBodies[jsonType]), true))
			say(publish(t, responseTrailers(), aiv3.TokenUsage_COMPLETE))
			mc.ended(t.Context())
			s.calls.Wait() // for ever, if something reads a body that nobody ends
			if d := cmp.Diff([]pipeline.Response{{}}, rec.responses); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		})
	}
}

// Whether the numbers are those of one prompt reaches the engine with them.
func TestUnclearUsage(t *testing.T) {
	s, rec := newTestServer(upper, Options{})
	exchange(s, append(answered(modeStreamed), responseHeaders(false, ":status", "200", "content-type", jsonType),
		responseBody([]byte(`{"usage":{"input_tokens":9,"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}`), true))...)
	if r := rec.responses[0]; !r.Unclear || r.Usage == nil {
		t.Errorf("response %+v", r)
	}
}

// An error's body says nothing, its status does; and a count of tokens is not looked at.
func TestErrorsAndCounts(t *testing.T) {
	s, rec := newTestServer(upper, Options{})
	exchange(s, append(answered(filterv3.ProcessingMode_NONE), responseHeaders(false, ":status", "529", "content-type", jsonType),
		responseBody([]byte(`{"type":"error","error":{"type":"overloaded_error"}}`), true))...)
	if r := rec.responses[0]; r.Status != 529 || r.Usage != nil {
		t.Errorf("response %+v", r)
	}
	s, rec = newTestServer(upper, Options{Admit: func(h *Head) (*pipeline.Request, string) {
		r, why := admitJSON(h)
		r.CountTokens = true
		return r, why
	}})
	got, _ := exchange(s, append(answered(filterv3.ProcessingMode_NONE), responseHeaders(false, ":status", "200", "content-type", jsonType))...)
	if got[2][0].GetModeOverride() != nil || len(rec.responses) != 1 {
		t.Errorf("answered by %v, told of %v", got[2], rec.responses)
	}
}

func TestCompressedResponse(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(responseBodies[sseType])); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	s, rec := newTestServer(upper, Options{})
	exchange(s, append(answered(filterv3.ProcessingMode_NONE), responseHeaders(false, ":status", "200", "content-type", sseType, "content-encoding", "gzip"),
		responseBody(b.Bytes()[:20], false), responseBody(b.Bytes()[20:], true))...)
	if d := cmp.Diff(bodyUsage(), rec.responses[0].Usage); d != "" {
		t.Error(d)
	}
}

// hooked is an engine with a hook in Observe.
type hooked struct {
	watched
	hook func()
}

func (h hooked) Observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	h.hook()
	return h.watched.Observe(ctx, o, r)
}

// The last answer waits for the engine, but not for long.
func TestLastAnswerHasADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		last message
		part time.Duration
	}{
		"trailers": {responseTrailers(), waitWithout}, "the end": {responseBody(nil, true), waitWithout}, "bytes": {responseBody([]byte("b"), true), waitWithBytes},
	} {
		synctest.Test(t, func(t *testing.T) {
			rec := &recorder{}
			s, _ := newTestServer(upper, Options{Engine: hooked{watched{upper, rec}, func() { time.Sleep(time.Minute) }}})
			began := time.Now()
			mc := s.choose(answered(modeStreamed)[0])
			for _, m := range append(answered(modeStreamed), responseHeaders(false, ":status", "200", "content-type", jsonType), c.last) {
				a := s.answer(t.Context(), mc, m)
				s.contain(mc.sent)
				if len(a) != 1 || m == c.last && a[0].GetDynamicMetadata() != nil {
					t.Errorf("%s: answers %v", name, a)
				}
			}
			if took := time.Since(began); took != s.o.Deadline/c.part {
				t.Errorf("%s: answered after %v", name, took)
			}
			mc.ended(t.Context())
			s.calls.Wait()
			if len(rec.responses) != 1 {
				t.Errorf("%s: told of %d responses", name, len(rec.responses))
			}
		})
	}
}

func TestPanicsOverResponses(t *testing.T) {
	rec := &recorder{}
	account := func(*pipeline.Observation) *structpb.Struct { panic("account") }
	for name, o := range map[string]Options{
		"observe": {Engine: hooked{watched{upper, rec}, func() { panic("the secret content of a body") }}},
		"account": {Account: account},
	} {
		s, told := newTestServer(upper, o)
		got, _ := exchange(s, append(answered(filterv3.ProcessingMode_NONE), publish(t, responseTrailers(), aiv3.TokenUsage_COMPLETE))...)
		if len(got[2]) != 1 || got[2][0].GetResponseTrailers() == nil || told.count("answered decided ") != 1 {
			t.Errorf("%s: answered by %v, counted %v", name, got[2], told.counts)
		}
		if want := map[string]string{"observe": "observed nothing", "account": "observed"}[name]; told.count(want) != 1 {
			t.Errorf("%s: counted %v", name, told.counts)
		}
	}
}

// What was dropped is not observed; what went in its place is.
func TestLateOutcomeIsNotObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rec := newTestServer(func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
			time.Sleep(time.Hour)
			return upper(ctx, r)
		}, Options{Deadline: DefaultDeadline})
		exchange(s, append(answered(filterv3.ProcessingMode_NONE), responseTrailers())...)
		if d := cmp.Diff([]string{"error"}, rec.observed); d != "" {
			t.Error(d)
		}
	})
}

// The feed of a reader that is far behind is given up, and keeps nothing.
func TestFeedIsBounded(t *testing.T) {
	f := newFeed()
	for range 2 * maxPending >> 20 {
		f.put(make([]byte, 1<<20))
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errBehind) || len(f.chunks) != 0 {
		t.Errorf("read %d, %v; %d chunks are kept", n, err, len(f.chunks))
	}
	f = newFeed()
	for range maxPending / chunkCost {
		f.put([]byte("x"))
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errBehind) || len(f.chunks) != 0 {
		t.Errorf("of tiny chunks read %d, %v; %d chunks are kept", n, err, len(f.chunks))
	}
}

// What was read counts no more.
func TestFeedOfAReaderThatKeepsUp(t *testing.T) {
	f := newFeed()
	for i := range 2 * maxPending / chunkCost {
		f.put([]byte("xy"))
		if n, err := f.Read(make([]byte, 3)); n != 2 || err != nil {
			t.Fatalf("chunk %d: read %d, %v", i, n, err)
		}
	}
	if f.pending != 0 {
		t.Errorf("%d bytes are pending", f.pending)
	}
}

// A feed gives what was put into it, in order, whoever is faster.
func TestFeed(t *testing.T) {
	f := newFeed()
	go func() {
		for i := range 1000 {
			f.put(fmt.Append(nil, i, " "))
			f.put(nil)
		}
		f.close()
		f.put([]byte("too late"))
	}()
	var got bytes.Buffer
	if _, err := got.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(got.String()); len(fields) != 1000 || fields[999] != "999" {
		t.Errorf("%d fields, the last is %s", len(fields), fields[len(fields)-1])
	}
}
