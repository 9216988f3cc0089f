package envoy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		envoytest.RemoveProgram()
		os.Exit(code)
	}))
}

// way is a body mode and a protocol.
type way struct {
	path  string
	proto string
	http2 bool
}

const (
	bufferedPath = "/v1/messages"
	duplexPath   = "/duplex/v1/messages"
)

// ways are all of them, by name.
var ways = map[string]way{
	"buffered/1.1": {bufferedPath, "HTTP/1.1", false}, "buffered/2": {bufferedPath, "HTTP/2.0", true},
	"duplex/1.1": {duplexPath, "HTTP/1.1", false}, "duplex/2": {duplexPath, "HTTP/2.0", true},
}

// Routes that the shipped config has no use for: request body modes that pass, and responses that are sent to tidemark.
const extraRoutes = `
              - {name: request-streamed, match: {prefix: /request-streamed/}, route: *upstream, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {processing_mode: {request_body_mode: STREAMED, response_header_mode: SKIP}}}}}
              - {name: partial, match: {prefix: /partial/}, route: *upstream, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {processing_mode: {request_body_mode: BUFFERED_PARTIAL, response_header_mode: SKIP}}}}}
              - {name: response, match: {prefix: /response/}, route: *upstream, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {processing_mode: {request_body_mode: BUFFERED, request_trailer_mode: SEND,
                    response_header_mode: SEND, response_body_mode: STREAMED, response_trailer_mode: SEND}}}}}
              - {name: response-duplex, match: {prefix: /response-duplex/}, route: *upstream, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND,
                    response_header_mode: SEND, response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND}}}}}
              - {name: duplex-usage, match: {prefix: /duplex-usage/}, route: *upstream, typed_per_filter_config: {
                  envoy.filters.http.ai_protocol_manager: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManagerPerRoute,
                    response: {llm_protocol: ANTHROPIC_MESSAGES}},
                  envoy.filters.http.ext_proc: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                    overrides: {processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND,
                      response_header_mode: SKIP, response_trailer_mode: SEND}}}}}
              - {name: local, match: {prefix: /local/}, direct_response: {status: 418, body: {inline_string: a local reply}}, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {processing_mode: {request_header_mode: SKIP, response_header_mode: SEND, response_body_mode: BUFFERED}}}}}
`

func withExtraRoutes(config string) string {
	const last = "              - name: default\n"
	return strings.Replace(config, last, strings.TrimPrefix(extraRoutes, "\n")+last, 1)
}

func TestBodies(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, proto, c := way.path, way.proto, envoytest.Client(t, way.http2)
			if got := do(t, c, w.request(t, path, http.NoBody, toyHeader, toyMark)); got.Length != 0 || got.Proto != proto {
				t.Errorf("no body: the upstream saw %s, %d bytes", got.Proto, got.Length)
			}
			for _, size := range []int{1, 61_000, 1 << 20, 30 << 20} {
				for toy, change := range map[string]func([]byte) []byte{
					toyMark:  mark,
					toyHalf:  func(b []byte) []byte { return b[:len(b)/2] },
					toyTwice: func(b []byte) []byte { return append(b, b...) },
					"":       func(b []byte) []byte { return b },
				} {
					if size > 1<<20 && toy != toyMark {
						continue // the size is what counts there, not every change of it
					}
					body := bytes.Repeat([]byte("a"), size)
					got := do(t, c, w.request(t, path, bytes.NewReader(body), toyHeader, toy))
					want := change(body)
					if got.Proto != proto || got.Length != len(want) || got.Sum != sum(want) {
						t.Errorf("%d bytes, %q: the upstream saw %s, %d bytes", size, toy, got.Proto, got.Length)
					}
					if path == bufferedPath && got.ContentLength != int64(len(want)) {
						t.Errorf("%d bytes, %q: content-length %d", size, toy, got.ContentLength)
					}
				}
			}
		})
	}
}

// A client that does not say how long its body is.
func TestUnknownLength(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			for body, changed := range map[string]string{"some body": "SOME BODY", "": ""} {
				for toy, want := range map[string]string{toyUpper: changed, "": body} {
					got := do(t, c, w.request(t, path, io.MultiReader(strings.NewReader(body)), toyHeader, toy))
					if got.Body != want {
						t.Errorf("%q, %q: the upstream saw %q", body, toy, got.Body)
					}
				}
			}
		})
	}
}

// HTTP/1.1 trailers never pass Envoy's connection manager, so that these are HTTP/2 only.
func TestTrailers(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for _, path := range []string{bufferedPath, duplexPath} {
		for _, toy := range []string{toyUpper, toyTwice, "", "text/plain"} {
			for _, body := range []string{"", "the body"} {
				r := w.request(t, path, io.MultiReader(strings.NewReader(body)), toyHeader, toy)
				if toy == "text/plain" {
					r.Header.Set("content-type", toy)
				}
				r.Trailer = http.Header{"X-Sum": {"a trailer"}}
				got := do(t, envoytest.Client(t, true), r)
				want := map[string]string{toyUpper: strings.ToUpper(body), toyTwice: body + body}[toy]
				if toy == "" || toy == "text/plain" {
					want = body
				}
				if got.Body != want || got.Trailer != "a trailer" {
					t.Errorf("%s, %q, %q: the upstream saw %q and trailer %q", path, toy, body, got.Body, got.Trailer)
				}
			}
		}
	}
}

func TestRouteConfigs(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for path, want := range map[string]string{
		"/v1/messages": `metadata {"pipeline":["readlifecycle"]}`,
		"/b/v1/messages": `metadata {"components":{"readlifecycle":{"min_tokens":200,"stale":true},` +
			`"readmaturation":{"hold":"always","quiesce_turns":5}},"pipeline":["readlifecycle","readmaturation"]}`,
		"/duplex/v1/messages":   `metadata {"pipeline":["readlifecycle"]}`,
		"/grpc/v1/messages":     `pipeline default`,
		"/metadata/v1/messages": `json {"components":{"readlifecycle":{"min_tokens":300}},"pipeline":["readlifecycle"]}`,
		"/other/v1/messages":    `json `,
		"/off/v1/messages":      `{}`,
	} {
		got := do(t, envoytest.Client(t, false), w.request(t, path, strings.NewReader("{}"), toyHeader, toyConfig))
		if got.Body != want {
			t.Errorf("%s: %s, want %s", path, got.Body, want)
		}
	}
}

func TestNotOurs(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(bytes.Repeat([]byte("zip"), 1000)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			for name, change := range map[string]func(*http.Request){
				"content_type":     func(r *http.Request) { r.Header.Set("content-type", "text/plain") },
				"content_encoding": func(r *http.Request) { r.Header.Set("content-encoding", "deflate") },
				"path":             func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "messages", "models", 1) },
				"method":           func(r *http.Request) { r.Method = http.MethodPut },
			} {
				before := w.recorder.count("passed " + name)
				for _, body := range [][]byte{zipped.Bytes(), bytes.Repeat([]byte("n"), 300_000)} {
					r := w.request(t, path, bytes.NewReader(body), toyHeader, toyUpper)
					change(r)
					if got := do(t, c, r); got.Sum != sum(body) || got.Method != r.Method {
						t.Errorf("%s: the upstream saw %s, %d bytes", name, got.Method, got.Length)
					}
				}
				w.recorder.wait(t, "passed "+name, before+2)
			}
			r := w.request(t, path, http.NoBody, toyHeader, toyUpper)
			r.Method, r.Body = http.MethodGet, nil
			if got := do(t, c, r); got.Method != http.MethodGet || got.Length != 0 {
				t.Errorf("GET: the upstream saw %+v", got)
			}
		})
	}
}

// The rest of the body is sent only when the upstream has the beginning.
func TestNotOursDoesNotWait(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			first := make(chan struct{})
			w.upstream.early.Store(t.Name(), first)
			body, feed := io.Pipe()
			half := bytes.Repeat([]byte("h"), 100_000)
			go func() {
				_, _ = feed.Write(half)
				select {
				case <-first:
					_, _ = feed.Write(half)
					_ = feed.Close()
				case <-time.After(10 * time.Second):
					_ = feed.CloseWithError(errors.New("the upstream waits for the whole body"))
				}
			}()
			got := do(t, c, w.request(t, path, body, earlyHeader, t.Name(), "content-type", "text/plain"))
			if got.Sum != sum(bytes.Repeat(half, 2)) {
				t.Errorf("the upstream saw %d bytes", got.Length)
			}
		})
	}
}

func TestBypass(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			for _, kind := range []string{"application/json", "text/plain"} {
				got := do(t, c, w.request(t, path, strings.NewReader("{}"), extproc.BypassHeader, "true", "content-type", kind))
				if got.Bypass != "" || got.Body != "{}" {
					t.Errorf("%s: the upstream saw %+v", kind, got)
				}
			}
		})
	}
}

func TestPanic(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			for toy, want := range map[string][2]string{toyPanic: {"error", "panic"}, toyAdmit: {"untouched", "fault"}} {
				id := t.Name() + toy
				got := do(t, c, w.request(t, path, strings.NewReader("body"), toyHeader, toy, "x-request-id", id))
				line := w.Access(t, id)
				if got.Body != "body" || line["outcome"] != want[0] || line["gate"] != want[1] {
					t.Errorf("%s: the upstream saw %q, the access log %v", toy, got.Body, line)
				}
			}
		})
	}
	if log := w.Log(); strings.Contains(log, "secret") || !strings.Contains(log, "stack=") {
		t.Error("a panic is logged without its stack, or with content")
	}
}

func TestAccessLog(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for _, path := range []string{bufferedPath, duplexPath} {
		for toy, want := range map[string]map[string]any{
			toyTwice: {"outcome": "fresh", "bytes_in": 4.0, "bytes_out": 8.0, "tokens_removed": 20.0, "filters": "toy", "session": "5e55"},
			"":       {"outcome": "identity", "bytes_in": 4.0, "bytes_out": 4.0, "tokens_removed": 0.0, "duration_us": 1000.0},
		} {
			id := "access " + path + toy
			do(t, envoytest.Client(t, false), w.request(t, path, strings.NewReader("body"), toyHeader, toy, "x-request-id", id))
			line := w.Access(t, id)
			for k, v := range want {
				if line[k] != v {
					t.Errorf("%s %q: %s is %v, want %v", path, toy, k, line[k], v)
				}
			}
		}
	}
	id := "access not ours"
	do(t, envoytest.Client(t, false), w.request(t, "/v1/models", strings.NewReader("body"), "x-request-id", id))
	if line := w.Access(t, id); line["outcome"] != extproc.Untouched || line["gate"] != "path" {
		t.Errorf("not ours: %v", line)
	}
}

// A client that goes away in the middle of a body. TestMain looks for what is left of it.
func TestCancel(t *testing.T) {
	w := newWorld(t, extproc.Options{}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			w.recorder.idle(t)
			before := w.recorder.count("began")
			asked := w.recorder.count("answered fresh ")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body, feed := io.Pipe()
			go func() { _, _ = feed.Write(bytes.Repeat([]byte("half"), 50_000)) }() // more than the client keeps for itself
			ended := make(chan error, 1)
			go func() {
				res, err := c.Do(w.request(t, path, body, toyHeader, toyUpper).WithContext(ctx))
				if err == nil {
					_ = res.Body.Close()
				}
				ended <- err
			}()
			w.recorder.wait(t, "began", before+1)
			cancel()
			_ = feed.CloseWithError(context.Canceled) // the client does not return while it reads
			if err := <-ended; err == nil {
				t.Error("the request has an answer")
			}
			w.recorder.idle(t)
			if n := w.recorder.count("answered fresh ") - asked; n != 0 {
				t.Errorf("the engine was asked about half a body")
			}
		})
	}
}

func TestUnsupportedModes(t *testing.T) {
	w := newWorld(t, extproc.Options{}, withExtraRoutes)
	for _, path := range []string{"/request-streamed/v1/messages", "/partial/v1/messages"} {
		before := w.recorder.count("passed " + extproc.UnsupportedMode)
		body := bytes.Repeat([]byte("u"), 300_000)
		if got := do(t, envoytest.Client(t, true), w.request(t, path, bytes.NewReader(body), toyHeader, toyUpper)); got.Sum != sum(body) {
			t.Errorf("%s: the upstream saw %d bytes", path, got.Length)
		}
		w.recorder.wait(t, "passed "+extproc.UnsupportedMode, before+1)
	}
}

// Messages of the response are answered so that it comes as it is.
func TestResponses(t *testing.T) {
	w := newWorld(t, extproc.Options{}, withExtraRoutes)
	for _, path := range []string{"/response/v1/messages", "/response-duplex/v1/messages"} {
		for _, http2 := range []bool{false, true} {
			r := w.request(t, path, io.MultiReader(strings.NewReader("body")), toyHeader, toyUpper)
			r.Trailer = http.Header{"X-Sum": {"a trailer"}}
			if got := do(t, envoytest.Client(t, http2), r); got.Body != "BODY" || (got.Trailer != "") != http2 {
				t.Errorf("%s: the upstream saw %+v", path, got)
			}
		}
	}
	before := w.recorder.count("passed " + extproc.NoHeaders)
	res, err := envoytest.Client(t, false).Do(w.request(t, "/local/v1/messages", strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusTeapot || string(b) != "a local reply" {
		t.Errorf("a local reply: %d %q %v", res.StatusCode, b, err)
	}
	w.recorder.wait(t, "passed "+extproc.NoHeaders, before+1)
}
