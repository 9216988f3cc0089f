package coding

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of zstd as a content coding (RFC 9659). Brotli's are at most 16 MiB by themselves.
const maxWindow = 8 << 20

// errMore says that something follows what was read.
var errMore = errors.New("more follows")

func gunzip(ctx context.Context, body []byte) ([]byte, error) {
	src := bytes.NewReader(body) // read byte by byte, so that what is left is what follows
	r, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r.Multistream(false)
	out, err := readAll(ctx, r, len(body))
	if err == nil && src.Len() > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, errMore)
	}
	return out, err
}

// unbrotli relies on the reader to refuse what follows a stream.
func unbrotli(ctx context.Context, body []byte) ([]byte, error) {
	return readAll(ctx, brotli.NewReader(bytes.NewReader(body)), len(body))
}

func unzstd(ctx context.Context, body []byte) ([]byte, error) {
	if err := oneFrame(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer d.Close()
	out, err := readAll(ctx, d, len(body))
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return out, err
}

// oneFrame walks the blocks of the first zstd frame, whose end must be the body's. Decoders read on behind it, or do not, as
// they like: frames that are to be skipped, and others. A dictionary is nothing that a request can bring along.
func oneFrame(body []byte) error {
	var h zstd.Header
	if err := h.Decode(body); err != nil {
		return err
	}
	if h.Skippable || h.DictionaryID != 0 {
		return errors.New("no plain frame")
	}
	at, last := h.HeaderSize, false
	for !last {
		if len(body)-at < 3 {
			return io.ErrUnexpectedEOF
		}
		head := int(body[at]) | int(body[at+1])<<8 | int(body[at+2])<<16 // RFC 8878 (3.1.1.2)
		size := head >> 3
		if head>>1&3 == 1 { // one byte stands for the whole block
			size = 1
		}
		last, at = head&1 == 1, at+3+size
	}
	if h.HasCheckSum {
		at += 4
	}
	switch {
	case at > len(body):
		return io.ErrUnexpectedEOF
	case at < len(body):
		return errMore
	}
	return nil
}

func gzipOf(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return written(&out, w, body)
}

func brotliOf(body []byte) ([]byte, error) {
	var out bytes.Buffer
	return written(&out, brotli.NewWriterLevel(&out, brotli.BestSpeed), body)
}

// written is what a compressor has written to out once it has all of the body.
func written(out *bytes.Buffer, w io.WriteCloser, body []byte) ([]byte, error) {
	out.Grow(len(body)/4 + bytes.MinRead)
	_, err := w.Write(body)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return out.Bytes(), nil
}

// zstdEncoder encodes whole bodies in the goroutines of its callers.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
})

func zstdOf(body []byte) ([]byte, error) {
	e, err := zstdEncoder()
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return e.EncodeAll(body, make([]byte, 0, len(body)/4+bytes.MinRead)), nil
}
