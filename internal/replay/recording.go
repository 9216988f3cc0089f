package replay

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// ErrFormat says that no reader exists for the recording's wire format.
var ErrFormat = errors.New("wire format is not supported")

// Request is one recorded request.
type Request struct {
	At       time.Time
	Path     string
	Method   string
	Header   http.Header
	Lineage  string          // conversation that it belongs to
	Recorded *pipeline.Usage // what the provider billed, nil where the recording does not say

	wire     identity.Wire // what path and headers say of it
	raw      []byte        // body of a capture
	from     *session
	n        int       // messages of the body, of a session
	answered time.Time // when the answer was complete, zero where the recording does not say
}

// Body is the request's body. Bodies of a session are made when they are asked for, because a long session's do not fit in
// memory together; the caller owns the slice.
func (r *Request) Body() []byte {
	if r.from == nil {
		return slices.Clone(r.raw)
	}
	return r.from.body(r.n)
}

// Recording is one session.
type Recording struct {
	Name     string
	Requests []Request
	session  *session // nil for captures
}

// gap is the time between requests where a recording has none.
const gap = 20 * time.Second

// epoch is the time of the first request where a recording has none.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Open reads a session file or a folder of captured requests.
func Open(path string) (*Recording, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if info.IsDir() {
		return openCaptures(path)
	}
	return openSession(path)
}

// openCaptures reads NNN.body.json with NNN.head.json beside each.
func openCaptures(dir string) (*Recording, error) {
	bodies, err := filepath.Glob(filepath.Join(dir, "*.body.json"))
	if err != nil || len(bodies) == 0 {
		return nil, fmt.Errorf("no *.body.json in %s", dir)
	}
	slices.Sort(bodies)
	rec := &Recording{Name: "capture-" + filepath.Base(filepath.Clean(dir))}
	for i, name := range bodies {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		raw, err := os.ReadFile(strings.TrimSuffix(name, ".body.json") + ".head.json")
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		var head struct {
			Method, Path string
			Headers      map[string]string
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, fmt.Errorf("decode head of %s: %w", filepath.Base(name), err)
		}
		h := http.Header{}
		for k, v := range head.Headers {
			h.Set(k, v)
		}
		path, _, _ := strings.Cut(head.Path, "?")
		r := Request{At: epoch.Add(time.Duration(i) * gap), Path: head.Path, Method: head.Method, Header: h, raw: body}
		r.classify()
		if !plays(&r, path) {
			return nil, fmt.Errorf("%s: %s: %w", rec.Name, path, ErrFormat)
		}
		r.Lineage = r.lineage(path)
		rec.Requests = append(rec.Requests, r)
	}
	return rec, nil
}

// classify takes in what path and headers say of the request.
func (r *Request) classify() {
	r.wire = identity.Format(r.Path, r.Method, r.Header.Get("content-type"), r.Header.Get("content-encoding"))
}

// plays reports whether there is a simulated provider for a captured request. A proxy may have left out the version of
// Anthropic's path.
func plays(r *Request, path string) bool {
	return r.wire.Format == transcript.Anthropic || openAI(r.wire.Format) ||
		strings.HasSuffix(path, "/messages") || strings.HasSuffix(path, "/messages/count_tokens")
}

// lineage tells conversations of one capture apart: path, model and first message. Where instructions are messages too it is
// everything up to the model's first word, and the key that the client gives a conversation.
func (r *Request) lineage(path string) string {
	v := gjson.GetManyBytes(r.raw, "model", "messages.0", "prompt_cache_key")
	begin := v[1].Raw
	if openAI(r.wire.Format) {
		begin = v[2].Raw + "\x00" + opening(r.raw, r.wire.Format)
	}
	s := sha256.Sum256([]byte(path + "\x00" + v[0].Raw + "\x00" + begin))
	return hex.EncodeToString(s[:6])
}

// opening is what a body's conversation begins with, up to the model's first word.
func opening(body []byte, f transcript.Format) string {
	list := gjson.GetBytes(body, listOf(f))
	if !list.IsArray() {
		return list.Raw
	}
	var b strings.Builder
	list.ForEach(func(_, item gjson.Result) bool {
		if speaker(item, f) == "assistant" {
			return false
		}
		b.WriteString(item.Raw)
		return true
	})
	return b.String()
}

func openSession(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("unzip %s: %w", filepath.Base(path), err)
		}
	}
	var s session
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return nil, fmt.Errorf("decode %s: %w", filepath.Base(path), err)
	}
	if s.format = formats[s.API]; s.format == transcript.UnknownFormat {
		return nil, fmt.Errorf("%s: %s: %w", cmp.Or(s.ID, filepath.Base(path)), s.API, ErrFormat)
	}
	return s.recording()
}
