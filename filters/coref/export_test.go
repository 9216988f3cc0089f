package coref

import (
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Identifiers are those of a text, in order.
func Identifiers(text string) (ids []string) {
	identifiers(text, func(id string) { ids = append(ids, id) })
	return ids
}

// Read goes on reading from what was kept, nil for the first time.
func Read(kept filters.Memo, ix *transcript.Index) filters.Memo {
	x, _ := kept.(*index)
	if x == nil {
		x = &index{}
	}
	x.read(ix)
	return x
}
