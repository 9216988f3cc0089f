package extproc

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/pipeline"
)

var codings = []coding.Coding{coding.Gzip, coding.Brotli, coding.Zstd}

// encodedRequest is a request with a body in a coding, as Envoy tells it in a mode: in full duplex in two chunks.
func encodedRequest(mode filterv3.ProcessingMode_BodySendMode, name string, body []byte, trailers bool) []message {
	list := []message{headersMessage(mode, false, "content-type", "application/json", "content-encoding", name)}
	if half := len(body) / 2; mode == modeDuplex {
		list = append(list, bodyMessage(string(body[:half]), false))
		body = body[half:]
	}
	list = append(list, bodyMessage(string(body), !trailers))
	if trailers {
		list = append(list, trailersMessage())
	}
	return list
}

// The engine sees what the body says. What it changes goes on in the same coding, with its own length; where it changes
// nothing, the bytes that came go on.
func TestEncodedBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]filterv3.ProcessingMode_BodySendMode{modeBuffered, modeDuplex}).Draw(t, "mode")
		c := rapid.SampledFrom(codings).Draw(t, "coding")
		changes := rapid.Bool().Draw(t, "changes")
		text := []byte(strings.Repeat(rapid.StringMatching(`[a-z{}":]{1,20}`).Draw(t, "text"), rapid.IntRange(1, 2000).Draw(t, "times")))
		sent, err := c.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		var saw []byte
		s, rec := newTestServer(func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
			saw = bytes.Clone(r.Body)
			if changes {
				return upper(ctx, r)
			}
			return unchanged(ctx, r)
		}, Options{})
		messages := encodedRequest(mode, c.String(), sent, rapid.Bool().Draw(t, "trailers"))
		got, left := exchange(s, messages...)
		f := envoy(t, mode, messages, got, left)
		if !bytes.Equal(saw, text) || rec.count("decoded "+c.String()) != 1 {
			t.Fatalf("%v: the engine saw %q, told %v", c, saw, rec.counts)
		}
		if !changes {
			if !bytes.Equal(f.body, sent) {
				t.Fatalf("%v: nothing changed, and yet other bytes go on", c)
			}
			return
		}
		if plain, err := c.Decode(context.Background(), f.body); err != nil || !bytes.Equal(plain, bytes.ToUpper(text)) {
			t.Fatalf("%v: %q goes on, %v", c, plain, err)
		}
	})
}

// Whatever is in doubt goes on as it came, and its reason is told.
func TestEncodedBodiesInDoubt(t *testing.T) {
	zip, err := coding.Gzip.Encode([]byte(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := coding.Zstd.Encode(make([]byte, 8<<20))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		why      string
	}{
		"two codings":       {"gzip, zstd", zip, Encoded},
		"deflate":           {"deflate", zip, Encoded},
		"unknown":           {"rot13", zip, Encoded},
		"wrong header":      {"zstd", zip, EncodedInvalid},
		"not encoded":       {"br", []byte(`{"model":"m"}`), EncodedInvalid},
		"empty":             {"gzip", nil, EncodedInvalid},
		"truncated":         {"gzip", zip[:len(zip)-1], EncodedInvalid},
		"something follows": {"gzip", append(slices.Clone(zip), 0), EncodedInvalid},
		"two members":       {"gzip", append(slices.Clone(zip), zip...), EncodedInvalid},
		"bomb":              {"zstd", bomb, EncodedLimit},
	} {
		for _, mode := range []filterv3.ProcessingMode_BodySendMode{modeBuffered, modeDuplex} {
			s, rec := newTestServer(upper, Options{})
			messages := encodedRequest(mode, c.encoding, c.body, false)
			got, left := exchange(s, messages...)
			if !left && !bytes.Equal(envoy(t, mode, messages, got, left).body, c.body) {
				t.Errorf("%s, %s: other bytes go on", name, mode)
			}
			if rec.count("passed "+c.why) != 1 || rec.count("answered decided ") != 0 {
				t.Errorf("%s, %s: told %v, want %s", name, mode, rec.counts, c.why)
			}
			if c.why == Encoded {
				continue // said with the headers
			}
			said := false
			for _, list := range got {
				for _, a := range list {
					said = said || resultIn(a)["gate"] == c.why && resultIn(a)["outcome"] == Untouched
				}
			}
			if !said {
				t.Errorf("%s, %s: access logs are not told", name, mode)
			}
		}
	}
}

// Decoding and encoding are part of what the deadline is for.
func TestEncodedBodiesWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, err := coding.Brotli.Encode([]byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		s, _ := newTestServer(func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
			time.Sleep(time.Hour)
			return upper(ctx, r)
		}, Options{Deadline: DefaultDeadline})
		w := s.decide(t.Context(), &pipeline.Request{}, sent, coding.Brotli)
		if w.body != nil || w.outcome.Gate != gateDeadline || !w.outcome.Desync || w.outcome.BytesIn != len(sent) {
			t.Errorf("outcome %+v", w.outcome)
		}
		s.calls.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if w := s.ask(gone, &pipeline.Request{}, sent, coding.Brotli); w.outcome == nil || w.outcome.Gate != gateDeadline {
			t.Errorf("a body that there was no time to decode: %+v", w)
		}
	})
}

// The result says in which coding the body came.
func TestResultNamesTheCoding(t *testing.T) {
	sent, err := coding.Zstd.Encode([]byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newTestServer(unchanged, Options{})
	got, _ := exchange(s, encodedRequest(modeBuffered, "zstd", sent, false)...)
	if result := resultIn(got[1][0]); result["encoding"] != "zstd" || result["level"] != "original" {
		t.Errorf("result %v", result)
	}
}
