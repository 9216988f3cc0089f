package board_test

import (
	"runtime"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/board/boardtest"
)

// TestBytesAreCounted: what is counted is near what the heap grows by, so that the bound on bytes is one on memory.
func TestBytesAreCounted(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	b := board.New(board.Options{Content: original})
	func() {
		for _, e := range boardtest.Day(300, noon) {
			b.Take(e)
		}
	}()
	grown := float64(heap() - before)
	counted := float64(b.Bytes())
	t.Logf("%.1f MB counted, %.1f MB of heap", counted/1e6, grown/1e6)
	if grown > 1.5*counted || grown < counted/2 {
		t.Errorf("%.0f bytes are counted, the heap grew by %.0f", counted, grown)
	}
	runtime.KeepAlive(b)
}
