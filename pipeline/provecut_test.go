package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// TestProveCut: what leaves messages out is a whole cut, or it is refused and nothing new is forwarded.
func TestProveCut(t *testing.T) {
	const body = `{"model":"m","messages":[` +
		`{"role":"user","content":[{"type":"text","text":"go"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Read","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"one"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"Read","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"two"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"so"}]},` +
		`{"role":"user","content":[{"type":"text","text":"go on"}]}]}`
	ix, err := transcript.Parse([]byte(body), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	stub := func(msg int, text string) Edit {
		return Edit{point(ix.Messages[msg].Content.Hi - 1), wrap(stubOpen, []byte(text), stubClose)}
	}
	drop := func(from, to int) Edit {
		return Edit{Span: transcript.Span{Lo: ix.Messages[from-1].Raw.Hi, Hi: ix.Messages[to].Raw.Hi}}
	}
	half := drop(1, 2)
	half.Span.Hi--
	for _, c := range []struct {
		name  string
		edits []Edit
		good  bool
	}{
		{"one exchange", []Edit{stub(0, `"cut"`), drop(1, 2)}, true},
		{"two in one run", []Edit{stub(0, `"cut"`), drop(1, 4)}, true},
		{"two runs", []Edit{stub(0, `"cut"`), drop(1, 2), drop(5, 5)}, true},
		{"a call without its result", []Edit{stub(0, `"cut"`), drop(1, 1)}, false},
		{"a result without its call", []Edit{stub(0, `"cut"`), drop(2, 2)}, false},
		{"across two pairs", []Edit{stub(0, `"cut"`), drop(2, 3)}, false},
		{"the last message too", []Edit{stub(0, `"cut"`), drop(5, 6)}, false},
		{"a part of a message", []Edit{stub(0, `"cut"`), half}, false},
		{"no stub", []Edit{drop(1, 2)}, false},
		{"no span", []Edit{stub(0, `"cut"`)}, false},
		{"an empty stub", []Edit{stub(0, `""`), drop(1, 2)}, false},
		{"a stub that is no JSON", []Edit{stub(0, `"cut`), drop(1, 2)}, false},
		{"a stub on what the model said", []Edit{stub(1, `"cut"`), drop(2, 2)}, false},
		{"a stub on a later message", []Edit{stub(2, `"cut"`), drop(3, 4)}, false},
		{"a stub behind the span", []Edit{drop(1, 2), stub(6, `"cut"`)}, false},
		{"two stubs", []Edit{stub(0, `"cut"`), drop(1, 2), stub(6, `"cut"`)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Prove(ix, c.edits, Splice(ix.Body, c.edits))
			if (err == nil) != c.good || err != nil && !errors.Is(err, errProof) {
				t.Fatalf("proof: %v", err)
			}
			if gate := (&pass{newCut: &state.Cut{}}).unproven(err); err != nil && gate != filters.MalformedBody {
				t.Errorf("gate %q", gate)
			}
		})
	}
	prefix := fmt.Errorf("at block 3: %w", errPrefix)
	if gate := (&pass{newCut: &state.Cut{}}).unproven(prefix); gate != filters.PrefixMismatch {
		t.Errorf("gate %q of a cut that changed the prefix", gate)
	}
	if gate := (&pass{}).unproven(prefix); gate != filters.ProofFailed {
		t.Errorf("gate %q without a cut", gate)
	}
}

// How a stub is written in an Anthropic body.
var (
	anthropicFrames                  = framesOf(transcript.Anthropic)
	stubOpen, stubClose              = anthropicFrames.open, anthropicFrames.close
	stringOpen, stringMid, stringEnd = anthropicFrames.stringOpen, anthropicFrames.stringMid, anthropicFrames.stringEnd
)
