package usage

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decoder undoes a content encoding. What it returns reads no further ahead than it must, and holds what it could decode of a
// body that is cut off.
type decoder func(io.Reader) (io.ReadCloser, error)

// decoders are the content codings of RFC 9110 (8.4.1), RFC 7932 and RFC 8878 that are in use, by their names in lower case.
var decoders = map[string]decoder{
	"":         plain,
	"identity": plain,
	"gzip":     unzip,
	"x-gzip":   unzip,
	"deflate":  inflate,
	"br":       unbrotli,
	"zstd":     unzstd,
}

// zstdWindow is the largest window that RFC 8878 (3.1.1.1.2) asks a decoder to have.
const zstdWindow = 8 << 20

func plain(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }

func unzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

func unbrotli(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(brotli.NewReader(r)), nil }

// inflate reads zlib's format, which the coding's name stands for, and bare deflate, which some send under that name.
func inflate(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && binary.BigEndian.Uint16(head)%31 == 0 { // RFC 1950 (2.2)
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

func unzstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}
