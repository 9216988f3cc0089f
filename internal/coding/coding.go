// Package coding undoes the content coding of a request body and does it again.
//
// The one rule: a body is decoded only if every reader of its coding must read the same from it. It is one gzip member, one
// brotli stream or one zstd frame, complete, with nothing before or after it; its checksum is right where it has one; it needs
// no more memory than the coding's own document lets a reader refuse. Whatever else comes is an error, and so is what grows
// beyond [MaxDecoded] or [MaxRatio]: a few kilobytes must not become gigabytes.
//
// Deflate is not read: half of the world means zlib's format by that name, the other half the bare one.
//
// Functions are safe for concurrent use.
package coding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of what is decoded.
const (
	MaxDecoded = 64 << 20 // bytes; above any body that a provider takes, and all that a transcript may have
	MaxRatio   = 200      // decoded to encoded bytes, for what decodes to more than smallBody; transcripts have 3 to 30
	smallBody  = 1 << 20  // bytes that nobody is refused for
)

// Allowance is the most that n encoded bytes may be decoded to, in bytes.
func Allowance(n int) int { return min(MaxDecoded, max(smallBody, n*MaxRatio)) }

// Errors of [Coding.Decode].
var (
	ErrInvalid = errors.New("not one whole body of its coding")
	ErrLimit   = errors.New("more than may be decoded")
)

// Coding is a content coding.
type Coding uint8

// Codings that are read.
const (
	Identity Coding = iota
	Gzip            // RFC 1952
	Brotli          // RFC 7932
	Zstd            // RFC 8878
)

var names = [...]string{"identity", "gzip", "br", "zstd"}

func (c Coding) String() string { return names[c] }

// Of reads the value of content-encoding. An empty one is Identity. It is false for a coding that is not read, and for more
// than one.
func Of(header string) (Coding, bool) {
	switch strings.ToLower(strings.TrimSpace(header)) {
	case "", "identity":
		return Identity, true
	case "gzip", "x-gzip": // the same by RFC 9110 (8.4.1.3)
		return Gzip, true
	case "br":
		return Brotli, true
	case "zstd":
		return Zstd, true
	}
	return Identity, false
}

// Decode returns the body without its coding; of Identity the body itself. The error is ErrInvalid, ErrLimit or that of a
// context that ended.
func (c Coding) Decode(ctx context.Context, body []byte) ([]byte, error) {
	switch c {
	case Gzip:
		return gunzip(ctx, body)
	case Brotli:
		return unbrotli(ctx, body)
	case Zstd:
		return unzstd(ctx, body)
	default:
		return body, nil
	}
}

// Encode returns the body in the coding, made fast rather than small; of Identity the body itself. Equal bodies have equal
// encodings.
func (c Coding) Encode(body []byte) ([]byte, error) {
	switch c {
	case Gzip:
		return gzipOf(body)
	case Brotli:
		return brotliOf(body)
	case Zstd:
		return zstdOf(body)
	default:
		return body, nil
	}
}

// step is how much is decoded between two looks at the limits and at the clock, in bytes.
const step = 256 << 10

// readAll reads r, which decodes encoded bytes, to its end.
func readAll(ctx context.Context, r io.Reader, encoded int) ([]byte, error) {
	limit := min(MaxDecoded, max(smallBody, encoded*MaxRatio))
	out := make([]byte, 0, min(limit, max(step, 4*encoded))+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):min(cap(out), len(out)+step)])
		out = out[:len(out)+n]
		switch {
		case len(out) > limit:
			return nil, ErrLimit
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
}
