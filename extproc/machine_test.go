package extproc

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// exchange runs messages through the machine that the first of them asks for, as Process does.
func exchange(s *Server, messages ...message) (perMessage []answers, left bool) {
	mc := s.choose(messages[0])
	for _, m := range messages {
		perMessage = append(perMessage, s.answer(context.Background(), mc, m))
		s.contain(mc.sent)
	}
	s.contain(func() { mc.ended(context.Background()) })
	s.calls.Wait()
	return perMessage, mc.left()
}

// forwarded is what Envoy would send upstream, held to Envoy's own rules: the kind and order of answers, and who may carry
// what.
type forwarded struct {
	body     []byte
	trailers bool
}

// envoy plays Envoy's part for one request: it checks every answer as Envoy does, and says what goes upstream.
func envoy(t interface{ Fatalf(string, ...any) }, mode filterv3.ProcessingMode_BodySendMode, messages []message, got []answers, left bool) forwarded {
	var f forwarded
	ended := false
	for i, m := range messages {
		if mode != modeDuplex && len(got[i]) != 1 {
			t.Fatalf("message %d has %d answers", i, len(got[i]))
		}
		for _, a := range got[i] {
			switch r := a.GetResponse().(type) {
			case *extprocv3.ProcessingResponse_RequestHeaders:
				if m.GetRequestHeaders() == nil || len(got[i]) != 1 {
					t.Fatalf("headers are answered out of turn")
				}
			case *extprocv3.ProcessingResponse_RequestBody:
				if got[0] == nil || ended || f.trailers {
					t.Fatalf("a body chunk comes after the end or before the headers' answer")
				}
				f.body, ended = forwardedBody(t, mode, m, r.RequestBody.GetResponse(), f.body)
			case *extprocv3.ProcessingResponse_RequestTrailers:
				if m.GetRequestTrailers() == nil || ended {
					t.Fatalf("trailers are answered without trailers, or after end_of_stream")
				}
				f.trailers = true
			default:
				t.Fatalf("answer of kind %T", r)
			}
		}
		if left { // Envoy goes on by itself: whatever follows is forwarded as it is
			break
		}
	}
	if mode == modeDuplex && ended == f.trailers && len(messages) > 1 {
		t.Fatalf("the body has no end, or two")
	}
	return f
}

// forwardedBody applies one body answer.
func forwardedBody(
	t interface{ Fatalf(string, ...any) }, mode filterv3.ProcessingMode_BodySendMode, m message, r *extprocv3.CommonResponse, so []byte,
) ([]byte, bool) {
	switch mutation := r.GetBodyMutation().GetMutation().(type) {
	case nil:
		if mode == modeDuplex {
			t.Fatalf("a chunk is answered without a chunk: it is lost")
		}
		return append(so, m.GetRequestBody().GetBody()...), false
	case *extprocv3.BodyMutation_Body:
		length := r.GetHeaderMutation().GetSetHeaders()
		if mode != modeBuffered || len(length) != 1 || length[0].GetHeader().GetKey() != "content-length" ||
			string(length[0].GetHeader().GetRawValue()) != strconv.Itoa(len(mutation.Body)) || length[0].GetHeader().GetValue() != "" {
			t.Fatalf("a changed body is Envoy's to refuse: %v", length)
		}
		return append(so, mutation.Body...), false
	case *extprocv3.BodyMutation_StreamedResponse:
		c := mutation.StreamedResponse
		if mode != modeDuplex || len(c.GetBody()) > maxChunk {
			t.Fatalf("a chunk of %d bytes in mode %s", len(c.GetBody()), mode)
		}
		return append(so, c.GetBody()...), c.GetEndOfStream()
	default:
		t.Fatalf("mutation of kind %T", mutation)
	}
	return nil, false
}

// drawRequest is a request as Envoy would tell it in a mode.
func drawRequest(t *rapid.T, mode filterv3.ProcessingMode_BodySendMode, header ...string) ([]message, string, bool) {
	n := rapid.IntRange(0, 4).Draw(t, "chunks")
	chunks := make([]string, 0, n)
	for i := range n {
		size := rapid.SampledFrom([]int{0, 1, 10, maxChunk - 1, maxChunk, maxChunk + 1, 3 * maxChunk}).Draw(t, "size")
		chunks = append(chunks, strings.Repeat(string(rune('a'+i)), size))
	}
	body := strings.Join(chunks, "")
	trailers := rapid.Bool().Draw(t, "trailers")
	messages := []message{headersMessage(mode, false, header...)}
	if mode == modeBuffered {
		chunks = []string{body}
	}
	for i, c := range chunks {
		messages = append(messages, bodyMessage(c, !trailers && i == len(chunks)-1))
	}
	if !trailers && len(chunks) == 0 {
		messages = append(messages, bodyMessage("", true))
	}
	if trailers {
		messages = append(messages, trailersMessage())
	}
	return messages, body, trailers
}

var allModes = []filterv3.ProcessingMode_BodySendMode{modeBuffered, modeDuplex, modeStreamed, modePartial}

func TestEveryMessageIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(allModes).Draw(t, "mode")
		messages, body, trailers := drawRequest(t, mode)
		changes := rapid.Bool().Draw(t, "changes")
		e := engineFunc(unchanged)
		if changes {
			e = upper
		}
		s, rec := newTestServer(e, Options{})
		got, left := exchange(s, messages...)
		f := envoy(t, mode, messages, got, left)
		want := body
		if changes && (mode == modeBuffered || mode == modeDuplex) {
			want = strings.ToUpper(body)
		}
		if string(f.body) != want || f.trailers != trailers {
			t.Fatalf("forwarded %d bytes, trailers %t; want %d, %t", len(f.body), f.trailers, len(want), trailers)
		}
		if n := rec.count("answered decided ") + rec.count("answered original ") + rec.count("passed unsupported_mode"); n != 1 {
			t.Fatalf("the request was reported %d times: %v", n, rec.counts)
		}
	})
}

// A panic anywhere, a body that is too large and a request that is not ours all go on as they came.
func TestInvariant01_AdapterForwardsTheOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(allModes).Draw(t, "mode")
		cause := rapid.SampledFrom([]string{"engine", "nothing", "admit", "large", "not ours"}).Draw(t, "cause")
		e, o, header := engineFunc(upper), Options{}, []string(nil)
		switch cause {
		case "engine":
			e = faulty
		case "nothing":
			e = func(context.Context, *pipeline.Request) *pipeline.Outcome { return nil }
		case "admit":
			o.Admit = func(*Head) (*pipeline.Request, string) { panic("the secret content of a header") }
		case "large":
			o.MaxBody = 1
		case "not ours":
			header = []string{"content-type", "text/plain"}
		}
		messages, body, trailers := drawRequest(t, mode, header...)
		s, _ := newTestServer(e, o)
		got, left := exchange(s, messages...)
		f := envoy(t, mode, messages, got, left)
		if left {
			return // Envoy forwards what it has
		}
		if cause == "large" && len(body) <= 1 && (mode == modeBuffered || mode == modeDuplex) {
			body = strings.ToUpper(body)
		}
		if string(f.body) != body || f.trailers != trailers {
			t.Fatalf("forwarded %d bytes, trailers %t; want %d, %t", len(f.body), f.trailers, len(body), trailers)
		}
	})
}

// What is only told to others changes no answer.
func TestFaultyReportsChangeNothing(t *testing.T) {
	for _, mode := range []filterv3.ProcessingMode_BodySendMode{modeBuffered, modeDuplex} {
		s, _ := newTestServer(upper, Options{Result: func(*pipeline.Outcome, *pipeline.Request) *structpb.Struct { panic("result") }})
		s.o.Observer = nil
		messages := []message{headersMessage(mode, false), bodyMessage("body", true)}
		got, left := exchange(s, messages...)
		if f := envoy(t, mode, messages, got, left); string(f.body) != "BODY" {
			t.Errorf("%s: forwarded %q", mode, f.body)
		}
	}
}

// The result goes with the first answer that carries the body, and with the trailers' where no chunk does.
func TestResultGoesWithTheBody(t *testing.T) {
	for name, messages := range map[string][]message{
		"buffered": {headersMessage(modeBuffered, false), bodyMessage("b", true)},
		"duplex":   {headersMessage(modeDuplex, false), bodyMessage("b", true)},
		"trailers": {headersMessage(modeDuplex, false), trailersMessage()},
	} {
		s, _ := newTestServer(unchanged, Options{})
		got, _ := exchange(s, messages...)
		if result := resultIn(got[1][0]); result["level"] != "original" || got[0][0].GetDynamicMetadata() != nil {
			t.Errorf("%s: result %v", name, result)
		}
	}
}

// What is not ours goes back chunk by chunk: nothing is held.
func TestDuplexEchoesAtOnce(t *testing.T) {
	s, rec := newTestServer(upper, Options{})
	got, left := exchange(s, headersMessage(modeDuplex, false, "content-type", "text/plain"), bodyMessage("one", false), bodyMessage("two", true))
	if left || rec.count("passed content_type") != 1 {
		t.Errorf("left %t, reported %v", left, rec.counts)
	}
	for i, want := range []string{"one", "two"} {
		c := got[i+1][0].GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if string(c.GetBody()) != want || c.GetEndOfStream() != (want == "two") {
			t.Errorf("chunk %q is answered by %v", want, c)
		}
	}
}

// Collected chunks go back as soon as the body is known to be too large.
func TestDuplexGivesUpOnLargeBodies(t *testing.T) {
	s, rec := newTestServer(upper, Options{MaxBody: 5})
	got, _ := exchange(s, headersMessage(modeDuplex, false), bodyMessage("abc", false), bodyMessage("def", false), bodyMessage("g", true))
	for i, want := range []int{1, 0, 1, 1} {
		if len(got[i]) != want {
			t.Errorf("message %d has %d answers, want %d", i, len(got[i]), want)
		}
	}
	if rec.count("passed too_large") != 1 || len(rec.counts) != 1 {
		t.Errorf("reported %v", rec.counts)
	}
}

func TestBufferedLeavesWhatIsNotOurs(t *testing.T) {
	for reason, m := range map[string]message{
		"content_type": headersMessage(modeBuffered, false, "content-type", "text/plain"), NoBody: headersMessage(modeBuffered, true),
	} {
		s, rec := newTestServer(upper, Options{})
		got, left := exchange(s, m)
		result := resultIn(got[0][0])
		if !left || rec.count("passed "+reason) != 1 || result["outcome"] != Untouched || result["gate"] != reason {
			t.Errorf("%s: left %t, reported %v, result %v", reason, left, rec.counts, result)
		}
	}
}

func TestBypassHeaderIsStripped(t *testing.T) {
	for _, mode := range allModes {
		for _, kind := range []string{"application/json", "text/plain"} {
			m := headersMessage(mode, true, "content-type", kind, BypassHeader, "true")
			s, _ := newTestServer(upper, Options{})
			got, _ := exchange(s, m)
			if r := got[0][0].GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(); len(r) != 1 || r[0] != BypassHeader {
				t.Errorf("%s, %s: removed %v", mode, kind, r)
			}
		}
	}
}

// A stream may begin with the response, where Envoy answered by itself.
func TestResponsePhase(t *testing.T) {
	headers := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{}}}
	body := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: bytes.Repeat([]byte("r"), maxChunk+1), EndOfStream: true},
	}}
	trailers := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}}

	s, rec := newTestServer(upper, Options{})
	got, left := exchange(s, headers, body, trailers)
	if left || rec.count("passed no_headers") != 1 {
		t.Errorf("left %t, reported %v", left, rec.counts)
	}
	if got[0][0].GetResponseHeaders() == nil || got[1][0].GetResponseBody() == nil || got[2][0].GetResponseTrailers() == nil {
		t.Errorf("answers %v", got)
	}
	if got[1][0].GetResponseBody().GetResponse() != nil {
		t.Errorf("the body is changed: %v", got[1])
	}

	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{ResponseBodyMode: modeDuplex}
	got, _ = exchange(s, headers, body)
	if len(got[1]) != 2 || !got[1][1].GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
		t.Errorf("in full duplex the body must come back: %v", got[1])
	}
}
