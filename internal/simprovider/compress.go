package simprovider

import (
	"compress/gzip"
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

// outlet writes an answer in the coding and in the pieces that the request asks for.
type outlet struct {
	http.ResponseWriter
	encoder encoder
}

// newOutlet wraps the writer of a request; the answer is complete when the outlet is closed.
func newOutlet(w http.ResponseWriter, req *http.Request) (*outlet, *Error) {
	out := pieces{w: w}
	if text := req.Header.Get(headerPieces); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, refuse("%s: want a number of bytes, at least 1", headerPieces)
		}
		out.size = n
	}
	coding := negotiate(req.Header.Values("Accept-Encoding"))
	o := &outlet{ResponseWriter: w}
	switch coding {
	case "gzip":
		o.encoder = gzip.NewWriter(out)
	case "br":
		o.encoder = brotli.NewWriterLevel(out, brotli.BestSpeed)
	case "zstd":
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, refuse("zstd: %v", err)
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

func (o *outlet) Write(b []byte) (int, error) { return o.encoder.Write(b) }

// FlushError sends all that was written so far.
func (o *outlet) FlushError() error {
	if err := o.encoder.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Close ends the answer.
func (o *outlet) Close() error { return o.encoder.Close() }

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
