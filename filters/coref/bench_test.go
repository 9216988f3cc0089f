package coref_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
)

// source is a page of code in which most lines hold an identifier of their own.
func source(page int) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "\tif err := s.store.Commit%d(ctx, key_%d); err != nil { // as the plain words of a comment say\n", page%97, page*60+i)
	}
	return b.String()
}

// coding is a session of so many turns that reads, edits and speaks; 190 of them make a megabyte.
func coding(turns int) []exchange {
	s := make([]exchange, turns)
	for i := range s {
		s[i] = exchange{
			Says:    fmt.Sprintf("Now key_%d is set by store.Commit%d.", i*13, i%97),
			Calls:   []string{fmt.Sprintf("/w/src/file%d.go", i%40)},
			Answers: []string{source(i)},
		}
	}
	return s
}

// BenchmarkIndex measures the index of a megabyte: whole, and grown by the last turn, beside the unit of all benchmarks. Run
//
//	go test ./filters/coref -run '^$' -bench Index -benchmem -benchtime 100x
//
// and divide by unit.
func BenchmarkIndex(b *testing.B) {
	const turns = 190
	ix := parse(b, messages(coding(turns)))
	short := parse(b, messages(coding(turns-1)))
	size := int64(len(ix.Body))
	b.Run("unit", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if !gjson.ValidBytes(ix.Body) {
				b.Fatal("not JSON")
			}
			_ = sha256.Sum256(ix.Body)
		}
	})
	b.Run("first", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			if coref.Read(nil, ix).Messages() == 0 {
				b.Fatal("nothing was read")
			}
		}
	})
	b.Run("grown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			kept := coref.Read(nil, short)
			b.StartTimer()
			coref.Read(kept, ix)
		}
	})
	b.Run("verdicts", func(b *testing.B) {
		f, kept := build(b, coref.Default()), coref.Read(nil, ix)
		b.ReportAllocs()
		for b.Loop() {
			verdicts(b, f, ix, func(_ string, grow func(filters.Memo) filters.Memo) filters.Memo { return grow(kept) })
		}
	})
}
