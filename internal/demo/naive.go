package demo

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// naive removes every stale read the turn it becomes stale: the same rule as tidemark's readlifecycle, asked anew on every
// turn and without a thought for the cache.
func naive(body []byte) ([]byte, error) {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	defer ix.Release()
	f, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		return nil, fmt.Errorf("make filter: %w", err)
	}
	v := &filters.View{Index: ix, Turn: ix.LastTurn()}
	for i := range ix.Results {
		v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Zone: filters.Uncovered, Open: true})
	}
	var edits []pipeline.Edit
	for _, p := range f.Propose(v) {
		if p.Action != filters.Replace {
			continue
		}
		r := &ix.Results[p.Result]
		text := filters.Marker(ix, &p, ix.ResultTokens(p.Result), filters.Back{})
		edits = append(edits, pipeline.Edit{Span: r.Content, Text: ix.Replacement(r, text)})
	}
	return pipeline.Splice(body, edits), nil
}
