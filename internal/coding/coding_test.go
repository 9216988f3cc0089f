package coding

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

var codings = []Coding{Gzip, Brotli, Zstd}

func TestOf(t *testing.T) {
	for header, want := range map[string]Coding{
		"": Identity, " identity ": Identity, "gzip": Gzip, "X-GZIP": Gzip, "br": Brotli, "Zstd": Zstd,
	} {
		if got, ok := Of(header); !ok || got != want {
			t.Errorf("%q: %v %v", header, got, ok)
		}
	}
	for _, header := range []string{"deflate", "gzip, zstd", "gzip,gzip", "identity, gzip", "gzip;q=1", "aws-chunked", "compress", "dcz", ","} {
		if got, ok := Of(header); ok {
			t.Errorf("%q is read as %v", header, got)
		}
	}
	for _, c := range append(codings, Identity) {
		if got, ok := Of(c.String()); !ok || got != c {
			t.Errorf("%v is read as %v", c, got)
		}
	}
}

// sample is a body as agents send it: the files of this repository, read one after the other.
func sample(tb testing.TB) []byte {
	tb.Helper()
	paths, err := filepath.Glob("../../*/*.*")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no files: %v", err)
	}
	type result struct {
		Type    string `json:"type"`
		ID      string `json:"tool_use_id"`
		Content string `json:"content"`
	}
	var all []result
	size := 0
	for i, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // a folder
		}
		all = append(all, result{"tool_result", fmt.Sprintf("toolu_%d", i), string(b)})
		if size += len(b); size > 1<<20 {
			break
		}
	}
	body, err := json.Marshal(map[string]any{"model": "claude-sonnet-4-6", "messages": all})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// encoded is the body as some client would encode it, at one of four levels.
func encoded(tb rapid.TB, c Coding, level int, body []byte) []byte {
	var out bytes.Buffer
	var err error
	switch c {
	case Gzip:
		w, _ := gzip.NewWriterLevel(&out, 1+level*2)
		_, err = w.Write(body)
		err = errors.Join(err, w.Close())
	case Brotli:
		w := brotli.NewWriterLevel(&out, level*2)
		_, err = w.Write(body)
		err = errors.Join(err, w.Close())
	default:
		w, _ := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.EncoderLevel(1+level%4)), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(level%2 == 0))
		_, err = w.Write(body)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return out.Bytes()
}

// What any encoder of a coding made is read as it was, what Encode makes too, and equal bodies are encoded equally.
func TestRoundTrip(t *testing.T) {
	text := sample(t)
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(0, len(text)-1).Draw(t, "lo")
		body := text[lo:min(len(text), lo+rapid.SampledFrom([]int{0, 1, 100, 70_000, 300_000}).Draw(t, "size"))]
		c := rapid.SampledFrom(codings).Draw(t, "coding")
		got, err := c.Decode(context.Background(), encoded(t, c, rapid.IntRange(0, 3).Draw(t, "level"), body))
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%v: %d bytes are read as %d: %v", c, len(body), len(got), err)
		}
		once, err := c.Encode(body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Decode(context.Background(), once); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%v: what Encode makes of %d bytes is read as %d: %v", c, len(body), len(got), err)
		}
		if twice, err := c.Encode(body); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v: two encodings of one body differ: %v", c, err)
		}
	})
}

// A body that is cut off, or that something follows or precedes, is not read; nor is one in another coding.
func TestOnlyWholeBodies(t *testing.T) {
	text := sample(t)[:100_000]
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(codings).Draw(t, "coding")
		// Brotli buffers 32 KiB, so that the end may lie at the edge of a read.
		body := encoded(t, c, rapid.IntRange(0, 3).Draw(t, "level"), text[:rapid.IntRange(0, len(text)).Draw(t, "size")])
		n := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		other := encoded(t, codings[(int(c)+rapid.IntRange(0, 1).Draw(t, "other"))%len(codings)], 1, text)
		for name, wrong := range map[string][]byte{
			"truncated":    body[:n],
			"one byte":     append(bytes.Clone(body), 0),
			"newline":      append(bytes.Clone(body), '\n'),
			"twice":        append(bytes.Clone(body), body...),
			"before":       append([]byte{' '}, body...),
			"other coding": other,
			"empty":        {},
			"plain":        []byte(`{"model":"m","messages":[]}`),
		} {
			if got, err := c.Decode(context.Background(), wrong); !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v, %s: %d bytes are read, %v", c, name, len(got), err)
			}
		}
	})
}

// The reader of brotli takes 32 KiB at a time: a stream that ends just there still has nothing after it.
func TestBrotliEndsAtTheEdgeOfARead(t *testing.T) {
	random := make([]byte, 33<<10)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for n := 32<<10 - 64; n < 32<<10+64; n++ {
		body := encoded(t, Brotli, 0, random[:n])
		if got, err := Brotli.Decode(t.Context(), body); err != nil || !bytes.Equal(got, random[:n]) {
			t.Fatalf("%d bytes: %v", len(body), err)
		}
		if _, err := Brotli.Decode(t.Context(), append(body, 'x')); !errors.Is(err, ErrInvalid) {
			t.Fatalf("%d bytes and one more: %v", len(body), err)
		}
	}
}

func TestZstdFrames(t *testing.T) {
	body := []byte(`{"model":"m"}`)
	frame, err := Zstd.Encode(body)
	if err != nil {
		t.Fatal(err)
	}
	skip := append([]byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0}, "xx"...)
	empty := encoded(t, Zstd, 0, nil)
	for name, wrong := range map[string][]byte{
		"a skippable frame before": append(bytes.Clone(skip), frame...),
		"a skippable frame after":  append(bytes.Clone(frame), skip...),
		"a skippable frame alone":  skip,
		"an empty frame after":     append(bytes.Clone(frame), empty...),
		"a dictionary":             {0x28, 0xb5, 0x2f, 0xfd, 0x21, 0x07, 0x01, 0x01, 0x00, 0x00, 'a'},
		"a wrong checksum":         append(bytes.Clone(frame[:len(frame)-1]), frame[len(frame)-1]^1),
	} {
		if got, err := Zstd.Decode(t.Context(), wrong); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: read as %q, %v", name, got, err)
		}
	}
}

// zstdBomb is one frame with a window of 8 MiB whose blocks repeat one byte, 128 KiB for each four bytes.
func zstdBomb(blocks int, window byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, window}
	for i := range blocks {
		head := uint32(128<<10)<<3 | 1<<1
		if i == blocks-1 {
			head |= 1
		}
		b = append(binary.LittleEndian.AppendUint32(b, head)[:len(b)+3], 'a')
	}
	return b
}

func TestBombs(t *testing.T) {
	zeros := make([]byte, 80<<20)
	random := make([]byte, 80<<20/MaxRatio+1<<20) // enough of it that the ratio is not what stops it
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		coding Coding
		body   []byte
	}{
		"gzip, ratio":  {Gzip, encoded(t, Gzip, 3, zeros[:8<<20])},
		"br, ratio":    {Brotli, encoded(t, Brotli, 2, zeros[:8<<20])},
		"zstd, ratio":  {Zstd, encoded(t, Zstd, 1, zeros[:8<<20])},
		"gzip, size":   {Gzip, encoded(t, Gzip, 0, slices.Concat(random, zeros))},
		"br, size":     {Brotli, encoded(t, Brotli, 0, slices.Concat(random, zeros))},
		"zstd, size":   {Zstd, encoded(t, Zstd, 0, slices.Concat(random, zeros))},
		"zstd, blocks": {Zstd, zstdBomb(100_000, 0x68)}, // 12 GiB
		"zstd, window": {Zstd, zstdBomb(1, 0x69)},       // 9 MiB
		"zstd, huge":   {Zstd, zstdBomb(1, 0xf8)},       // 2 TiB
	} {
		if got, err := c.coding.Decode(t.Context(), c.body); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %d bytes become %d: %v", name, len(c.body), len(got), err)
		}
	}
	if got, err := Zstd.Decode(t.Context(), zstdBomb(8, 0x68)); err != nil || len(got) != 1<<20 {
		t.Errorf("a small body with a window of 8 MiB: %d bytes, %v", len(got), err)
	}
}

// A bomb inside a bomb is decoded once: what comes out is one coding's content, whatever that is.
func TestNestedCodingsAreOpenedOnce(t *testing.T) {
	inner := encoded(t, Gzip, 3, make([]byte, 8<<20))
	for _, c := range codings {
		got, err := c.Decode(t.Context(), encoded(t, c, 1, inner))
		if err != nil || !bytes.Equal(got, inner) {
			t.Errorf("%v: %d bytes, %v", c, len(got), err)
		}
	}
}

func TestDecodeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range codings {
		if _, err := c.Decode(ctx, encoded(t, c, 1, []byte("{}"))); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// FuzzDecode: whatever is read is within the limits, and is read the same once it was encoded again.
func FuzzDecode(f *testing.F) {
	for _, c := range codings {
		f.Add(uint8(c), encoded(f, c, 1, []byte(strings.Repeat(`{"role":"user"}`, 50))))
	}
	f.Add(uint8(Zstd), zstdBomb(20, 0x68))
	f.Fuzz(func(t *testing.T, n uint8, body []byte) {
		c := codings[int(n)%len(codings)]
		got, err := c.Decode(t.Context(), body)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrLimit) {
				t.Fatal(err)
			}
			return
		}
		if len(got) > MaxDecoded || len(got) > max(smallBody, MaxRatio*len(body)) {
			t.Fatalf("%d bytes become %d", len(body), len(got))
		}
		again, err := c.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := c.Decode(t.Context(), again); err != nil || !bytes.Equal(back, got) {
			t.Fatalf("encoded again: %v", err)
		}
	})
}

func BenchmarkCodings(b *testing.B) {
	text := sample(b)
	for _, c := range codings {
		body := encoded(b, c, 1, text)
		b.Run(fmt.Sprintf("decode/%v", c), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := c.Decode(b.Context(), body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("encode/%v", c), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := c.Encode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
