package transcript

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// benchBody is a body of about 1 MB and 500 messages, as a coding agent sends it.
func benchBody() []byte {
	m := gen.New(rand.New(rand.NewPCG(1, 2)), gen.Options{ResultBytes: 3700, Files: 40})
	return m.Conversation(250).Compact()
}

func BenchmarkUnit(b *testing.B) {
	body := benchBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if !gjson.ValidBytes(body) || sha256.Sum256(body) == [32]byte{} {
			b.Fatal("no unit")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body := benchBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		ix, err := Parse(body, Anthropic)
		if err != nil {
			b.Fatal(err)
		}
		ix.Release()
	}
}

func BenchmarkDigest(b *testing.B) {
	body := benchBody()
	ix, err := Parse(body, Anthropic)
	if err != nil {
		b.Fatal(err)
	}
	h := NewHasher(make([]byte, 32))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		ix.Digest(h)
	}
}
