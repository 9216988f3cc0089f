package usage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// vector is a response and what it says. Its file has a header of these keys, a blank line, and the body.
type vector struct {
	comment     string
	format      transcript.Format
	contentType string
	model       string            // that the request's path names
	wrapped     bool              // frames carry events in base64
	last        string            // before this stands in what was read, no usage is known; without it the whole body must be there
	want        pipeline.Response // of the whole body

	body []byte
	from int // where the event begins that has last, or the body's end
}

func (v *vector) parser(tb testing.TB, coding string) *Parser {
	tb.Helper()
	p := For(v.format, v.model, v.contentType, coding)
	if p == nil {
		tb.Fatalf("no parser of %s in %q, %q", v.format, v.contentType, coding)
	}
	return p
}

// vectors reads testdata.
func vectors(tb testing.TB) map[string]*vector {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no vectors: %v", err)
	}
	all := map[string]*vector{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		v, err := parseVector(string(text))
		if err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = v
	}
	return all
}

func parseVector(text string) (*vector, error) {
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	v := &vector{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if err := v.set(key, value); err != nil {
			return nil, err
		}
	}
	if v.contentType == frames {
		v.body, v.from = v.frames(body)
		return v, nil
	}
	v.body, v.from = []byte(body), len(strings.TrimRight(body, " \n"))-1
	if v.last != "" {
		v.from = strings.LastIndex(body, v.last)
	}
	return v, nil
}

func (v *vector) set(key, value string) error {
	switch key {
	case "comment":
		v.comment = value
	case "format":
		for f := transcript.Anthropic; f <= transcript.Gemini; f++ {
			if f.String() == value {
				v.format = f
			}
		}
	case "content-type":
		v.contentType = value
	case "model":
		v.model = value
	case "wrapped":
		v.wrapped = value == "true"
	case "last":
		v.last = value
	case "want":
		d := json.NewDecoder(strings.NewReader(value))
		d.DisallowUnknownFields()
		return d.Decode(&v.want)
	default:
		return fmt.Errorf("unknown header %q", key)
	}
	return nil
}

// frames writes each line, a type and a payload, as a frame. It also returns the last byte of the frame that has last.
func (v *vector) frames(lines string) (body []byte, from int) {
	var b bytes.Buffer
	for line := range strings.Lines(lines) {
		kind, payload, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if v.wrapped && kind == "chunk" {
			payload = `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(payload)) + `","p":"abcdefghijklmnop"}`
		}
		b.Write(frame(kind, payload))
		if v.last != "" && strings.Contains(line, v.last) {
			from = b.Len() - 1
		}
	}
	return b.Bytes(), from
}

// frame writes an event, or an exception.
func frame(kind, payload string) []byte {
	m := eventstream.Message{Payload: []byte(payload)}
	if exception, ok := strings.CutPrefix(kind, "exception:"); ok {
		m.Headers.Set(":exception-type", eventstream.StringValue(exception))
		m.Headers.Set(":message-type", eventstream.StringValue("exception"))
	} else {
		m.Headers.Set(":event-type", eventstream.StringValue(kind))
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
	}
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	_ = eventstream.NewEncoder().Encode(&b, m) // to a buffer
	return b.Bytes()
}

// Every vector says what it says, however it is encoded, byte by byte and in one piece.
func TestVectors(t *testing.T) {
	read := map[transcript.Format]map[string]bool{}
	for name, v := range vectors(t) {
		if read[v.format] == nil {
			read[v.format] = map[string]bool{}
		}
		media, _, _ := strings.Cut(v.contentType, ";")
		read[v.format][media] = true
		for coding := range encoders {
			body := encode(t, coding, string(v.body), 3)
			for how, r := range map[string]io.Reader{"whole": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body))} {
				if d := cmp.Diff(v.want, v.parser(t, coding).Read(r)); d != "" {
					t.Errorf("%s in %q, %s: %s", name, coding, how, d)
				}
			}
		}
	}
	read[transcript.Anthropic][events] = true // see samples
	for f, l := range languages {
		for media := range l.readers {
			if !read[f][media] {
				t.Errorf("no vector of %s in %s", f, media)
			}
		}
	}
}

// A vector that breaks off has no usage before the provider's last word, and nothing but that from there on. Where it is cut in
// two makes no difference.
func TestVectorsCut(t *testing.T) {
	for name, v := range vectors(t) {
		if v.from <= 0 && v.want.Usage != nil {
			t.Errorf("%s: its last word is not in it", name)
		}
		p := v.parser(t, "")
		for end := range v.body {
			broken := io.MultiReader(bytes.NewReader(v.body[:end]), iotest.ErrReader(io.ErrUnexpectedEOF))
			got := p.Read(broken).Usage
			if got != nil && (end <= v.from || !cmp.Equal(got, v.want.Usage)) {
				t.Fatalf("%s, broken off at %d of %d: %+v", name, end, len(v.body), got)
			}
			cut := io.MultiReader(bytes.NewReader(v.body[:end]), bytes.NewReader(v.body[end:]))
			if d := cmp.Diff(v.want, p.Read(cut)); d != "" {
				t.Fatalf("%s, cut at %d: %s", name, end, d)
			}
		}
	}
}
