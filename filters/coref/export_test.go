package coref

import (
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Read goes on reading from what was kept, nil for the first time.
func Read(kept filters.Memo, ix *transcript.Index) filters.Memo {
	x, _ := kept.(*index)
	if x == nil {
		x = &index{numbers: map[uint64]int32{}}
	}
	x.read(ix)
	return x
}
