package simprovider

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// expand undoes a content coding as it reads.
func expand(t *testing.T, coding string, r io.Reader) io.Reader {
	t.Helper()
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "br":
		r = brotli.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCompressed: an answer says the same in every coding, whole and in pieces, as JSON, as a stream and as a refusal.
func TestCompressed(t *testing.T) {
	script := `[{"type":"text","text":"` + strings.Repeat("ünderstood ", 40) + `"}]`
	for _, body := range [][]byte{
		conv(modern, "", user(sized("a", 1100, mark5m))), conv(modern, `"stream":true,`, user(sized("a", 1100, mark5m))), []byte(`{}`),
	} {
		plain := ""
		for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
			for _, piece := range []string{"", "1", "7"} {
				s := serve(t, Options{}) // ids start anew
				header := map[string]string{"Accept-Encoding": coding, "x-sim-reply": script}
				if piece != "" {
					header["x-sim-pieces"] = piece
				}
				res := s.do("POST", "/v1/messages", body, header)
				if got := res.Header.Get("Content-Encoding"); got != strings.TrimPrefix(coding, "identity") {
					t.Errorf("asked for %s, got %q", coding, got)
				}
				got, err := io.ReadAll(expand(t, coding, bytes.NewReader(res.Body)))
				if err != nil {
					t.Errorf("%s in pieces of %s: %v", coding, piece, err)
				}
				if plain == "" {
					plain = string(got)
				}
				if string(got) != plain || plain == "" {
					t.Errorf("%s in pieces of %s: %s, want %s", coding, piece, got, plain)
				}
			}
		}
	}
}

// TestFlushedByEvent: whenever a compressed stream is flushed, all events so far can be read and nothing else.
func TestFlushedByEvent(t *testing.T) {
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, pathMessages, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", coding)
		sent := &watched{ResponseRecorder: httptest.NewRecorder()}
		sent.flushed = func(n int) {
			got, _ := io.ReadAll(expand(t, coding, bytes.NewReader(sent.Body.Bytes()))) // it ends before its time
			if events := strings.Count(string(got), "\n\n"); events != n || !strings.HasSuffix(string(got), "\n\n") {
				t.Errorf("%s: %d events after %d flushes: %s", coding, events, n, got)
			}
		}
		out, f := simkit.NewOutlet(sent, req)
		if f != nil {
			t.Fatal(f)
		}
		res := must(t, New(Options{}), conv(modern, "", user(hi)), nil, start)
		if stream(out, &res); sent.flushes < 6 {
			t.Errorf("%s: %d flushes", coding, sent.flushes)
		}
	}
}

// watched tells of every flush.
type watched struct {
	*httptest.ResponseRecorder
	flushes int
	flushed func(n int)
}

func (w *watched) Flush() {
	w.flushes++
	w.flushed(w.flushes)
}

// TestPieces: a number of bytes is wanted.
func TestPieces(t *testing.T) {
	s := serve(t, Options{})
	for _, pieces := range []string{"0", "-1", "x"} {
		res := s.do("POST", "/v1/messages", conv(modern, "", user(hi)), map[string]string{"x-sim-pieces": pieces})
		if res.Status != http.StatusBadRequest || !bytes.Contains(res.Body, []byte("want a number of bytes")) {
			t.Errorf("pieces of %s: %d %s", pieces, res.Status, res.Body)
		}
	}
}

// TestCompressedRequest: a body is read in every coding, and refused if it is not in the one that it names.
func TestCompressedRequest(t *testing.T) {
	body := conv(modern, "", user(sized("a", 1100, mark5m)))
	var gz, br, zs bytes.Buffer
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gz), brotli.NewWriter(&br), z} {
		if _, err := w.Write(body); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	for coding, sent := range map[string][]byte{"": body, "identity": body, "gzip": gz.Bytes(), "br": br.Bytes(), "zstd": zs.Bytes()} {
		s := serve(t, Options{})
		if res := s.do("POST", "/v1/messages", sent, map[string]string{"Content-Encoding": coding}); res.Status != http.StatusOK {
			t.Errorf("%q: status %d: %s", coding, res.Status, res.Body)
		}
		if got := s.sim.Requests()[0].Body; !bytes.Equal(got, body) {
			t.Errorf("%q: read as %q", coding, got)
		}
		for _, wrong := range []string{"gzip", "br", "zstd", "deflate", "gzip, br"} {
			if wrong == coding {
				continue
			}
			if res := s.do("POST", "/v1/messages", sent, map[string]string{"Content-Encoding": wrong}); res.Status != http.StatusBadRequest {
				t.Errorf("%q named %q: status %d", coding, wrong, res.Status)
			}
		}
	}
}
