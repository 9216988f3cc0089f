package pipeline_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// In Converse a breakpoint stands behind its block, where a stub may stand too: the stub comes behind it, never before.
func TestStubBehindPoint(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"text":"a"}]},` +
		`{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"x"}]}}]},` +
		`{"role":"assistant","content":[{"text":"b"}]},{"role":"user","content":[{"text":"c"}]}]}`
	ix, err := transcript.Parse([]byte(body), transcript.Converse)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	at := transcript.Span{Lo: ix.Blocks[0].Raw.Hi, Hi: ix.Blocks[0].Raw.Hi}
	if at.Lo != ix.Messages[0].Content.Hi-1 {
		t.Fatal("the list ends somewhere else")
	}
	point := pipeline.Edit{Span: at, Text: []byte(breakpoint.Point(time.Hour))}
	stub := pipeline.Edit{Span: at, Text: []byte(`,{"text":"s"}`)}
	drop := pipeline.Edit{Span: transcript.Span{Lo: ix.Messages[0].Raw.Hi, Hi: ix.Messages[2].Raw.Hi}}
	for name, c := range map[string]struct {
		edits []pipeline.Edit
		good  bool
	}{
		"behind":            {[]pipeline.Edit{point, stub, drop}, true},
		"alone":             {[]pipeline.Edit{stub, drop}, true},
		"before":            {[]pipeline.Edit{stub, point, drop}, false},
		"two breakpoints":   {[]pipeline.Edit{point, point}, false},
		"two stubs":         {[]pipeline.Edit{point, stub, stub, drop}, false},
		"of another format": {[]pipeline.Edit{{Span: at, Text: []byte(`,{"type":"text","text":"s"}`)}, drop}, false},
		"without a cut":     {[]pipeline.Edit{point, stub}, false},
	} {
		out := pipeline.Splice([]byte(body), c.edits)
		if err := pipeline.Prove(ix, c.edits, out); (err == nil) != c.good {
			t.Errorf("%s: %v for %s", name, err, out)
		}
		if c.good && !json.Valid(out) {
			t.Errorf("%s: no JSON: %s", name, out)
		}
	}
}
