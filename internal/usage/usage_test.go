package usage

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sse  = "text/event-stream; charset=utf-8"
	text = "application/json"
)

// message is a response as the provider writes it, with an answer that quotes what is looked for.
const message = `{"id":"msg_01","type":"message","role":"assistant","model":"claude-opus-5-5",
 "content":[{"type":"text","text":"\"usage\": {\"input_tokens\": 1} \"message_delta\" — ü"}],"stop_reason":"end_turn",
 "diagnostics":{"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":77}},
 "usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,
  "cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":50,"service_tier":"standard"}}`

// stream is the same response as a stream. The first word on output is not the last.
const stream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","content":[],"model":"claude-opus-5-5","diagnostics":{"cache_miss_reason":{"type":"tools_changed"}},"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":1}}}

event: ping
data: {"type":"ping"}

: a comment

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}}

event: message_delta
data: {"type":"message_delta",
data: "delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":12,"output_tokens":50}}

event: message_stop
data: {"type":"message_stop"}

`

func whole() pipeline.Response {
	return pipeline.Response{
		Message: "msg_01", Model: "claude-opus-5-5", Miss: "tools_changed",
		Usage: &pipeline.Usage{Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 50},
	}
}

// samples are responses by media type, all of which say the same.
var samples = map[string][]string{
	text: {message, "\n" + message + "\n"},
	sse:  {stream, strings.ReplaceAll(stream, "\n", "\r\n"), strings.ReplaceAll(stream, "\n", "\r"), strings.TrimRight(stream, "\n"), strings.ReplaceAll(stream, "data: ", "data:")},
}

// encoders are content encodings.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"":         func(w io.Writer) io.WriteCloser { return nopCloser{w} },
	"identity": func(w io.Writer) io.WriteCloser { return nopCloser{w} },
	"gzip":     func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"GZIP ":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate":  func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":       func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		return z
	},
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// encode compresses a body, with a flush after every part, as servers do that send events.
func encode(tb testing.TB, coding, body string, parts int) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := encoders[coding](&b)
	for i := range parts {
		if _, err := io.WriteString(w, body[len(body)*i/parts:len(body)*(i+1)/parts]); err != nil {
			tb.Fatal(err)
		}
		if f, ok := w.(interface{ Flush() error }); ok {
			if err := f.Flush(); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func read(tb testing.TB, contentType, coding string, body io.Reader) pipeline.Response {
	tb.Helper()
	p := For(transcript.Anthropic, "", contentType, coding)
	if p == nil {
		tb.Fatalf("no parser for %q, %q", contentType, coding)
	}
	return p.Read(body)
}

// Every sample, however encoded, says the same wherever it is cut in two.
func TestCutAtEveryByte(t *testing.T) {
	for contentType, bodies := range samples {
		for coding := range encoders {
			for i, body := range bodies {
				b := encode(t, coding, body, 3)
				if d := cmp.Diff(whole(), read(t, contentType, coding, iotest.OneByteReader(bytes.NewReader(b)))); d != "" {
					t.Errorf("%s %d in %q, byte by byte: %s", contentType, i, coding, d)
				}
				if i > 0 && coding != "" || coding == "identity" || coding == "GZIP " {
					continue // other line ends, and other names of the same encodings
				}
				for cut := range b {
					got := read(t, contentType, coding, io.MultiReader(bytes.NewReader(b[:cut]), bytes.NewReader(b[cut:])))
					if d := cmp.Diff(whole(), got); d != "" {
						t.Fatalf("%s %d in %q, cut at %d: %s", contentType, i, coding, cut, d)
					}
				}
			}
		}
	}
}

// A response that breaks off says what it said, or nothing; never something else.
func TestBrokenOff(t *testing.T) {
	allowed := map[string][]*pipeline.Usage{text: {nil, whole().Usage}, sse: {nil, {Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 40}, whole().Usage}}
	for contentType, bodies := range samples {
		for _, coding := range []string{"", "gzip", "deflate", "br", "zstd"} {
			b := encode(t, coding, bodies[0], 3)
			known := 0
			for end := range b {
				got := read(t, contentType, coding, iotest.DataErrReader(io.MultiReader(bytes.NewReader(b[:end]), iotest.ErrReader(io.ErrUnexpectedEOF)))).Usage
				ok := false
				for _, want := range allowed[contentType] {
					ok = ok || cmp.Equal(want, got)
				}
				if !ok {
					t.Fatalf("%s in %q, broken off at %d: %+v", contentType, coding, end, got)
				}
				if got != nil {
					known++
				}
			}
			if known > len(b)/2 {
				t.Errorf("%s in %q: usage is known of %d of %d beginnings", contentType, coding, known, len(b))
			}
		}
	}
}

func TestWhatIsSaid(t *testing.T) {
	delta := func(usage string) string {
		return `data: {"type":"message_start","message":{"usage":{"input_tokens":5,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}}}` +
			"\n\ndata: {\"type\":\"message_delta\",\"usage\":" + usage + "}\n\n"
	}
	for name, c := range map[string]struct {
		contentType, body string
		want              pipeline.Response
	}{
		"no split":         {text, `{"usage":{"input_tokens":1,"cache_creation_input_tokens":7,"output_tokens":2}}`, pipeline.Response{Usage: &pipeline.Usage{Input: 1, Write5m: 7, Output: 2, Merged: true}}},
		"split alone":      {text, `{"usage":{"input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":7},"output_tokens":2}}`, pipeline.Response{Usage: &pipeline.Usage{Input: 1, Write1h: 7, Output: 2}}},
		"empty split":      {text, `{"usage":{"input_tokens":1,"cache_creation_input_tokens":7,"cache_creation":null,"output_tokens":2}}`, pipeline.Response{Usage: &pipeline.Usage{Input: 1, Write5m: 7, Output: 2, Merged: true}}},
		"a later total":    {sse, delta(`{"output_tokens":3,"cache_creation_input_tokens":50}`), pipeline.Response{Usage: &pipeline.Usage{Input: 5, Write5m: 30, Write1h: 20, Output: 3}, Unclear: true}},
		"a smaller total":  {sse, delta(`{"output_tokens":3,"cache_creation_input_tokens":15}`), pipeline.Response{Usage: &pipeline.Usage{Input: 5, Write1h: 15, Output: 3}, Unclear: true}},
		"later values":     {sse, delta(`{"output_tokens":3,"input_tokens":6,"cache_read_input_tokens":9}`), pipeline.Response{Usage: &pipeline.Usage{Input: 6, Read: 9, Write5m: 10, Write1h: 20, Output: 3}, Unclear: true}},
		"no last word":     {sse, delta(`{}`), pipeline.Response{}},
		"a null":           {sse, delta(`{"input_tokens":null,"output_tokens":3}`), pipeline.Response{Usage: &pipeline.Usage{Input: 5, Write5m: 10, Write1h: 20, Output: 3}}},
		"no tokens":        {text, `{"usage":{"input_tokens":-1,"output_tokens":2}}`, pipeline.Response{}},
		"no prompt":        {text, `{"id":"m","usage":{"input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":2,"server_tool_use":{"web_search_requests":1}}}`, pipeline.Response{Message: "m"}},
		"too many":         {text, `{"usage":{"input_tokens":1e99,"cache_read_input_tokens":2147483648,"output_tokens":1099511627777}}`, pipeline.Response{Usage: &pipeline.Usage{Input: 1<<31 - 1, Read: 1<<31 - 1, Output: 1<<31 - 1}}},
		"zeros follow":     {sse, delta(`{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":3}`), pipeline.Response{Usage: &pipeline.Usage{Input: 5, Write5m: 10, Write1h: 20, Output: 3}}},
		"other types":      {text, `{"id":7,"model":"a model\n","usage":{"input_tokens":"1","output_tokens":1.5}}`, pipeline.Response{}},
		"an error":         {text, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, pipeline.Response{}},
		"an error's event": {sse, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", pipeline.Response{}},
		"a count":          {text, `{"input_tokens":17}`, pipeline.Response{}},
		"no reason":        {text, `{"id":"m","diagnostics":{"cache_miss_reason":null}}`, pipeline.Response{Message: "m"}},
		"no document":      {text, `{"usage":{"input_tokens":1,"output_tokens":2}} {`, pipeline.Response{}},
		"a list":           {text, `[{"usage":{"input_tokens":1,"output_tokens":2}}]`, pipeline.Response{}},
		"nothing":          {sse, "", pipeline.Response{}},
	} {
		if d := cmp.Diff(c.want, read(t, c.contentType, "", strings.NewReader(c.body))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		format                transcript.Format
		contentType, encoding string
	}{
		{transcript.Anthropic, sse, "compress"},
		{transcript.Anthropic, sse, "gzip, br"},
		{transcript.Anthropic, "", ""},
		{transcript.Anthropic, "text/html", ""},
		{transcript.Chat, "application/vnd.amazon.eventstream", ""},
		{transcript.Converse, sse, ""},
		{transcript.Gemini, "text/plain", ""},
		{transcript.UnknownFormat, sse, ""},
	} {
		if For(c.format, "", c.contentType, c.encoding) != nil {
			t.Errorf("%+v can be read", c)
		}
	}
	for coding := range encoders {
		if got := read(t, "application/json; charset", coding, strings.NewReader("\xff\x00 this is neither")); got != (pipeline.Response{}) {
			t.Errorf("%q: noise says %+v", coding, got)
		}
	}
}

// Bare deflate goes by the name of zlib's format with some servers.
func TestBareDeflate(t *testing.T) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, stream); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole(), read(t, sse, "deflate", &b)); d != "" {
		t.Error(d)
	}
}

// An event that is too large is left out, and so is a JSON body; neither is kept.
func TestMemoryIsBounded(t *testing.T) {
	huge := `data: {"type":"content_block_start","x":"` + strings.Repeat("x", maxEvent) + "\"}\n\n"
	if d := cmp.Diff(whole(), read(t, sse, "", strings.NewReader(strings.Replace(stream, "\n\n", "\n\n"+huge, 1)))); d != "" {
		t.Error(d)
	}
	lost := strings.Replace(stream, `"type":"message_start",`, `"type":"message_start","x":"`+strings.Repeat("x", maxEvent)+`",`, 1)
	if got := read(t, sse, "", strings.NewReader(lost)); got != (pipeline.Response{}) {
		t.Errorf("without its beginning the stream says %+v", got)
	}
	long := strings.Replace(message, `"id"`, `"x":"`+strings.Repeat("x", maxJSON)+`","id"`, 1)
	if got := read(t, text, "", strings.NewReader(long)); got != (pipeline.Response{}) {
		t.Errorf("a long message says %+v", got)
	}
	deep := `{"usage":{"input_tokens":1,"output_tokens":2},"x":` + strings.Repeat("[", maxJSON/2)
	if got := read(t, text, "", strings.NewReader(deep)); got != (pipeline.Response{}) {
		t.Errorf("a deep message says %+v", got)
	}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	endlessly := func(f transcript.Format, contentType string, bodies ...string) {
		for _, text := range bodies {
			For(f, "", contentType, "").Read(io.LimitReader(&endless{[]byte(strings.Repeat(text, 4096/len(text)+1)), 0}, 16<<20))
		}
	}
	endlessly(transcript.Anthropic, sse, "x", "\n", "data: x\n")
	endlessly(transcript.Anthropic, text, "x", "\n", "data: x\n")
	endlessly(transcript.Gemini, text, "[", `[{"`)
	endlessly(transcript.Converse, frames, string(frame("metadata", strings.Repeat("x", maxEvent-1000))))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 100<<20 {
		t.Errorf("endless bodies of 16 MiB took %d MiB", n>>20)
	}
}

// endless repeats a text.
type endless struct {
	text []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// silent is for encoders that cannot fail.
type silent struct{ testing.TB }

func (silent) Helper() {}

// pieces reads a body in pieces of given sizes, by turns.
type pieces struct {
	body  []byte
	sizes []int
	next  int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.body) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.sizes[p.next%len(p.sizes)])], p.body)
	p.body, p.next = p.body[n:], p.next+1
	return n, nil
}
