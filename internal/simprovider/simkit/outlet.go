package simkit

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encoder compresses what is written to it; Flush sends on all of it.
type encoder interface {
	io.WriteCloser
	Flush() error
}

// errPieces is returned for a size of pieces that is none.
var errPieces = errors.New(HeaderPieces + ": want a number of bytes, at least 1")

// Outlet writes an answer in the coding and in the pieces that the request asks for.
type Outlet struct {
	http.ResponseWriter
	encoder encoder
}

// NewOutlet wraps the writer of a request; the answer is complete when the Outlet is closed.
func NewOutlet(w http.ResponseWriter, req *http.Request) (*Outlet, error) {
	out := pieces{w: w}
	if text := req.Header.Get(HeaderPieces); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, errPieces
		}
		out.size = n
	}
	coding := negotiate(req.Header.Values("Accept-Encoding"))
	o := &Outlet{ResponseWriter: w}
	switch coding {
	case "gzip":
		o.encoder = gzip.NewWriter(out)
	case "br":
		o.encoder = brotli.NewWriterLevel(out, brotli.BestSpeed)
	case "zstd":
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, fmt.Errorf("compress answer: %w", err)
		}
		o.encoder = z
	default:
		o.encoder = out
		return o, nil
	}
	w.Header().Set("Content-Encoding", coding)
	w.Header().Set("Vary", "Accept-Encoding")
	return o, nil
}

// Write compresses and sends.
func (o *Outlet) Write(b []byte) (int, error) { return o.encoder.Write(b) }

// FlushError sends all that was written so far.
func (o *Outlet) FlushError() error {
	if err := o.encoder.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Close ends the answer.
func (o *Outlet) Close() error { return o.encoder.Close() }

// pieces sends what is written in pieces of that many bytes, each on its own; 0 leaves it as it is.
type pieces struct {
	w    http.ResponseWriter
	size int
}

func (p pieces) Write(b []byte) (int, error) {
	if p.size == 0 {
		return p.w.Write(b)
	}
	done := 0
	for done < len(b) {
		n, err := p.w.Write(b[done:min(len(b), done+p.size)])
		done += n
		if err == nil {
			err = http.NewResponseController(p.w).Flush()
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Flush has nothing to hand on.
func (p pieces) Flush() error { return nil }

// Close has nothing to end.
func (p pieces) Close() error { return nil }

// negotiate returns the content coding that Accept-Encoding likes best, of several the first; empty for none.
func negotiate(accept []string) string {
	best, weight, identity := "", 0.0, 0.0
	for item := range strings.SplitSeq(strings.ToLower(strings.Join(accept, ",")), ",") {
		name, parameter, _ := strings.Cut(item, ";")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
			q, _ = strconv.ParseFloat(text, 64) // a weight that is no number counts as 0
		}
		switch name = strings.TrimSpace(name); name {
		case "*":
			name = "gzip"
		case "gzip", "br", "zstd":
		case "identity":
			identity = q
			continue
		default:
			continue
		}
		if q > weight {
			best, weight = name, q
		}
	}
	if identity > weight {
		return ""
	}
	return best
}

// ErrCoding is returned for a content coding that is not known.
var ErrCoding = errors.New("unsupported content-encoding")

// Expand returns a body without its content coding, which is gzip, br, zstd or none. What is larger than limit is cut there.
func Expand(body []byte, coding string, limit int64) ([]byte, error) {
	var r io.Reader
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("expand gzip: %w", err)
		}
		r = z
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			return nil, fmt.Errorf("expand zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("%w %q", ErrCoding, coding)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit))
	if err != nil {
		return nil, fmt.Errorf("expand %s: %w", coding, err)
	}
	return out, nil
}
