package envoy_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Ways of learning what was billed, by the route that is configured so.
const (
	metadataPath = "/v1/messages"          // Envoy reads the response and says so in metadata
	streamedPath = "/streamed/v1/messages" // the response is streamed through tidemark
	nothingPath  = "/b/v1/messages"        // nobody reads it

	duplexUsagePath = "/duplex-usage/v1/messages" // metadataPath with the request in full duplex
)

// What the provider of these tests answers, by the request's headers.
const (
	kindHeader   = "x-kind"
	codingHeader = "x-coding"
	holdHeader   = "x-hold" // after the first half of the answer "wait" until told to go on, or to "break" the connection
)

const (
	jsonAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn",` +
		`"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":50}}`
	errorAnswer = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
)

// sseAnswer is a stream of some hundred events.
var sseAnswer = func() string {
	var b strings.Builder
	event := func(kind, rest string) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
	}
	event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":1}}`)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for i := range 200 {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"word `+strconv.Itoa(i)+` "}`)
	}
	event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50}`)
	event("message_stop", "")
	return b.String()
}()

// biller is a provider that answers with usage.
type biller struct{ more chan struct{} }

func (p *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	kind, body, status := "application/json", jsonAnswer, http.StatusOK
	switch r.Header.Get(kindHeader) {
	case "sse":
		kind, body = "text/event-stream; charset=utf-8", sseAnswer
	case "error":
		body, status = errorAnswer, 529
	case "created":
		status = http.StatusCreated
	}
	w.Header().Set("content-type", kind)
	coding := r.Header.Get(codingHeader)
	if coding != "" {
		w.Header().Set("content-encoding", coding)
	}
	b := encoded(coding, body)
	if r.Header.Get(kindHeader) != "sse" {
		w.Header().Set("content-length", strconv.Itoa(len(b)))
	}
	w.WriteHeader(status)
	flush := http.NewResponseController(w).Flush
	const parts = 20
	for i := range parts {
		if i == parts/2 {
			hold := r.Header.Get(holdHeader)
			if hold != "" {
				select {
				case <-p.more:
				case <-r.Context().Done():
					return
				}
			}
			if hold == "break" {
				panic(http.ErrAbortHandler)
			}
		}
		_, _ = w.Write(b[len(b)*i/parts : len(b)*(i+1)/parts])
		_ = flush()
	}
}

func encoded(coding, body string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	default:
		return []byte(body)
	}
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return b.Bytes()
}

// listener is an engine that changes nothing and keeps what it is told of responses, by session.
type listener struct {
	mu   sync.Mutex
	told map[string][]pipeline.Response
}

func (l *listener) Request(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
	return &pipeline.Outcome{Format: r.Format, Session: r.Session, BytesIn: len(r.Body), BytesOut: len(r.Body)}
}

func (l *listener) Observe(_ context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = map[string][]pipeline.Response{}
	}
	l.told[o.Session] = append(l.told[o.Session], *r)
	return &pipeline.Observation{Usage: r.Usage, Model: r.Model}
}

// of waits for the response of a session.
func (l *listener) of(t *testing.T, session string) pipeline.Response {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		told := l.told[session]
		l.mu.Unlock()
		if len(told) > 0 {
			return told[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine was never told of %s", session)
		}
	}
}

// once demands that every session's response was told exactly once, after all streams have ended.
func (l *listener) once(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for session, told := range l.told {
		if len(told) != 1 {
			t.Errorf("%s: told %d times", session, len(told))
		}
	}
}

// billing is a world whose upstream bills.
type billing struct {
	*world

	engine   *listener
	provider *biller
}

// newBilling starts a world in which Envoy must find nothing wrong with tidemark. edit changes its config; nil leaves it.
func newBilling(t *testing.T, edit func(string) string) *billing {
	t.Helper()
	b := startBilling(t, 0, edit)
	t.Cleanup(func() {
		b.recorder.idle(t)
		b.engine.once(t)
		b.healthy(t)
	})
	return b
}

func startBilling(t *testing.T, drainTimeout time.Duration, edit func(string) string) *billing {
	t.Helper()
	b := &billing{world: &world{recorder: newRecorder()}, engine: &listener{}, provider: &biller{more: make(chan struct{})}}
	b.Env = envoytest.Start(t, envoytest.Options{
		Upstream: b.provider,
		Server: &extproc.Options{
			Engine: b.engine, Admit: admitToy, Result: observe.Result, Account: observe.Account, Observer: b.recorder,
			Deadline: shippedDeadline, DrainTimeout: drainTimeout,
		},
		Edit: func(config string) string {
			if edit != nil {
				config = edit(config)
			}
			return withExtraRoutes(config)
		},
	})
	return b
}

// answer is what a client got.
type answer struct {
	header   http.Header
	length   int64 // by its headers, -1 if they do not say
	body     []byte
	trailers int
}

// ask sends a request.
func (b *billing) ask(t *testing.T, c *http.Client, path, session string, header ...string) answer {
	t.Helper()
	res, err := c.Do(b.request(t, path, strings.NewReader("{}"), append(header, toyHeader, session, "x-request-id", session)...))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.Header, res.ContentLength, body, len(res.Trailer)}
}

// inBody is what the body says, and published what Envoy makes of it.
var (
	inBody    = &pipeline.Usage{Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 50}
	published = &pipeline.Usage{Input: 12, Read: 4000, Write5m: 300, Output: 50, Merged: true}
)

// The client gets every response byte for byte, and the engine what each way can know of it.
func TestUsage(t *testing.T) {
	b := newBilling(t, nil)
	for _, http2 := range []bool{false, true} {
		c := envoytest.Client(t, http2)
		for _, path := range []string{metadataPath, streamedPath, duplexUsagePath, duplexPath, nothingPath} {
			for kind, body := range map[string]string{"json": jsonAnswer, "sse": sseAnswer} {
				for _, coding := range []string{"", "gzip", "deflate", "br", "zstd"} {
					session := fmt.Sprintf("%s %s %q http2=%t", path, kind, coding, http2)
					got := b.ask(t, c, path, session, kindHeader, kind, codingHeader, coding)
					if want := encoded(coding, body); !bytes.Equal(got.body, want) || got.header.Get("content-encoding") != coding {
						t.Errorf("%s: the client got %d bytes, want %d", session, len(got.body), len(want))
					}
					if (got.length >= 0) != (kind == "json") || got.trailers > 0 {
						t.Errorf("%s: content-length %d, %d trailers", session, got.length, got.trailers)
					}
					want := pipeline.Response{}
					switch {
					case path == streamedPath:
						want = pipeline.Response{Status: 200, Usage: inBody, Message: "msg_1", Model: "claude-opus-5-5"}
					case path != nothingPath && path != duplexPath && coding == "": // Envoy reads no encoded response
						want = pipeline.Response{Status: 200, Usage: published, Model: "claude-opus-5-5"}
					}
					r := b.engine.of(t, session)
					if (r.After > 0) != (path == streamedPath) {
						t.Errorf("%s: the first byte came after %v", session, r.After)
					}
					r.After = 0
					if d := cmp.Diff(want, r); d != "" {
						t.Errorf("%s: %s", session, d)
					}
				}
			}
		}
	}
}

// Response bodies may come by other modes than tidemark asks for; and an Envoy that allows no override sends none.
func TestUsageInOtherModes(t *testing.T) {
	b := newBilling(t, nil)
	for _, path := range []string{"/response/v1/messages", "/response-duplex/v1/messages"} {
		for kind, body := range map[string]string{"json": jsonAnswer, "sse": sseAnswer} {
			for _, http2 := range []bool{false, true} {
				session := fmt.Sprintf("%s %s http2=%t", path, kind, http2)
				if got := b.ask(t, envoytest.Client(t, http2), path, session, kindHeader, kind); string(got.body) != body {
					t.Errorf("%s: the client got %q", session, got.body)
				}
				if r := b.engine.of(t, session); !cmp.Equal(r.Usage, inBody) || r.Status != 200 {
					t.Errorf("%s: %+v", session, r)
				}
			}
		}
	}
	strict := newBilling(t, func(config string) string {
		return strings.Replace(config, "allow_mode_override: true", "allow_mode_override: false", 1)
	})
	if got := strict.ask(t, envoytest.Client(t, false), streamedPath, "strict", kindHeader, "sse"); string(got.body) != sseAnswer {
		t.Errorf("the client got %d bytes", len(got.body))
	}
	if r := strict.engine.of(t, "strict"); r.Usage != nil || r.Status != 200 {
		t.Errorf("without an override: %+v", r)
	}
}

// A status comes with the headers, or as an attribute where usage is published; an error has no usage.
func TestStatus(t *testing.T) {
	b := newBilling(t, nil)
	for _, c := range []struct {
		path, kind string
		status     int
		usage      *pipeline.Usage
	}{
		{metadataPath, "created", 201, published},
		{streamedPath, "created", 201, inBody},
		{streamedPath, "error", 529, nil},
		{metadataPath, "error", 0, nil}, // nothing is published, so that nobody wakes tidemark
	} {
		session := c.path + " " + c.kind
		b.ask(t, envoytest.Client(t, false), c.path, session, kindHeader, c.kind)
		if r := b.engine.of(t, session); r.Status != c.status || !cmp.Equal(r.Usage, c.usage) {
			t.Errorf("%s: %+v", session, r)
		}
	}
}

// What was billed is in the access log where it is known in time: on a busy machine that may take more than one try.
func TestUsageInAccessLog(t *testing.T) {
	b := newBilling(t, nil)
	for _, path := range []string{metadataPath, streamedPath, duplexUsagePath, duplexPath, nothingPath} {
		for _, kind := range []string{"json", "sse"} {
			want := map[string]any{"input_tokens": 12.0, "cache_read_tokens": 4000.0, "cache_write_tokens": 300.0, "output_tokens": 50.0, "net_usd": 0.0}
			if path == nothingPath || path == duplexPath {
				want = map[string]any{"input_tokens": nil, "net_usd": nil}
			}
			d := ""
			for try := range 20 {
				session := fmt.Sprintf("log %s %s %d", path, kind, try)
				b.ask(t, envoytest.Client(t, false), path, session, kindHeader, kind)
				line := b.Access(t, session)
				got := map[string]any{}
				for k := range want {
					got[k] = line[k]
				}
				if d = cmp.Diff(want, got); d == "" && line["outcome"] == "identity" {
					break
				}
			}
			if d != "" {
				t.Errorf("%s %s: %s", path, kind, d)
			}
		}
	}
}

// Of a response that breaks off, at the client or at the provider, nothing is known of what was billed.
func TestResponseBreaksOff(t *testing.T) {
	b := newBilling(t, nil)
	for _, path := range []string{metadataPath, streamedPath, duplexUsagePath, duplexPath, nothingPath} {
		for _, http2 := range []bool{false, true} {
			for _, hold := range []string{"wait", "break"} {
				session := fmt.Sprintf("%s %s http2=%t", path, hold, http2)
				ctx, cancel := context.WithCancel(t.Context())
				r := b.request(t, path, strings.NewReader("{}"), toyHeader, session, kindHeader, "sse", holdHeader, hold)
				res, err := envoytest.Client(t, http2).Do(r.WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(res.Body, make([]byte, 2000)); err != nil {
					t.Errorf("%s: %v", session, err)
				}
				if hold == "wait" {
					cancel()
				} else {
					b.provider.more <- struct{}{}
				}
				if _, err := io.Copy(io.Discard, res.Body); err == nil {
					t.Errorf("%s: the client saw an end", session)
				}
				_ = res.Body.Close()
				cancel()
				if r := b.engine.of(t, session); r.Usage != nil {
					t.Errorf("%s: %+v", session, r)
				}
			}
		}
	}
}

// A response that is under way when tidemark is shut down reaches its client whole. What was billed is not known then.
func TestShutdownLeavesResponsesWhole(t *testing.T) {
	for _, path := range []string{metadataPath, streamedPath} {
		b := startBilling(t, 50*time.Millisecond, nil)
		res, err := envoytest.Client(t, true).Do(b.request(t, path, strings.NewReader("{}"), toyHeader, path, kindHeader, "sse", holdHeader, "wait"))
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 1000)
		if _, err := io.ReadFull(res.Body, begin); err != nil {
			t.Fatal(err)
		}
		if err := b.Drain(); err != nil {
			t.Error(err)
		}
		close(b.provider.more)
		rest, err := io.ReadAll(res.Body)
		if err != nil || string(begin)+string(rest) != sseAnswer {
			t.Errorf("%s: the client got %d bytes, %v", path, len(begin)+len(rest), err)
		}
		_ = res.Body.Close()
		if r := b.engine.of(t, path); r.Usage != nil {
			t.Errorf("%s: %+v", path, r)
		}
		b.engine.once(t)
	}
}
