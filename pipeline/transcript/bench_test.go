package transcript

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// benchBody is a body of 1 MB and 501 messages, as a coding agent sends it. Quotes and escapes are as dense in it as in
// recorded sessions (one of them every 20 bytes); what Parse costs depends on that more than on anything else.
func benchBody() []byte {
	m := gen.New(rand.New(rand.NewPCG(1, 2)), gen.Options{ResultBytes: 4000, Files: 40})
	return m.Conversation(250).Compact()
}

// BenchmarkUnit is the unit in which speed is measured: Parse and Digest together stay under half of it. Compare them in
// one run, as the machine's speed cancels out:
//
//	go test -run - -bench . -count 10 ./pipeline/transcript | benchstat -
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
	h := NewHasher(secret)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		ix.Digest(h)
	}
}

func BenchmarkEst(b *testing.B) {
	text := string(benchBody())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if Est(text) == 0 {
			b.Fatal("no tokens")
		}
	}
}

// An index that is used again allocates next to nothing, whatever the size of the body.
func TestAllocations(t *testing.T) {
	body, h, ix := benchBody(), NewHasher(secret), &Index{}
	allocations := testing.AllocsPerRun(10, func() {
		clear(ix.ids)
		ix.reset(body, Anthropic)
		if err := readBody(ix, nil); err != nil {
			t.Fatal(err)
		}
		ix.Digest(h)
	})
	if allocations > 2 {
		t.Errorf("%v allocations", allocations)
	}
}
