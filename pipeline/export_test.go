package pipeline

import (
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Forget drops what is in memory, as a restart would; what was not flushed is lost.
func (e *Engine) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions.Purge()
	e.ForgetBodies()
	clear(e.dirty)
}

// ForgetBodies drops the memos alone.
func (e *Engine) ForgetBodies() {
	e.memos.lru.Purge()
	e.known.lru.Purge()
}

// Memos is the number of memos.
func (e *Engine) Memos() int { return e.memos.lru.Len() }

// Hasher makes the digests of what the engine stores.
func (e *Engine) Hasher() *transcript.Hasher { return e.hasher }

// ProveDeep reads an outbound again as a move does: against the decisions and the markers that its edits stand for.
func ProveDeep(ix *transcript.Index, h *transcript.Hasher, edits []Edit, marks []breakpoint.Mark, out []byte) error {
	o := &outbound{layout: newLayout(ix, h)}
	for _, e := range edits {
		if e.Span == askSpan(ix) {
			o.ask = string(e.Text)
		}
		i := slices.IndexFunc(ix.Results, func(r transcript.Result) bool { return r.Content.Len() > 0 && r.Content == e.Span })
		if i >= 0 {
			o.set(int32(i), &state.Decision{Content: e.Text, Out: ix.Replaced(h, &ix.Results[i], e.Text)})
		}
	}
	return o.proveDeep(out, &breakpoint.Plan{Marks: marks})
}
