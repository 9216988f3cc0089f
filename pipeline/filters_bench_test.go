package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// coding writes the body of a session in which every result brings identifiers of its own and the agent uses some of them
// later. 190 exchanges are a megabyte.
func coding(exchanges int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"claude-sonnet-4-6","max_tokens":32000,"system":[{"type":"text","text":` + quoted(strings.Repeat("You are an agent. ", 600)) +
		`,"cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","description":"reads","input_schema":{"type":"object"}}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"Fix the limiter."}]}`)
	for i := range exchanges {
		marker := ""
		if i == exchanges-1 {
			marker = `,"cache_control":{"type":"ephemeral"}`
		}
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"Now key_%d is set by store.Commit%d."},`, i*13, i%97)
		fmt.Fprintf(&b, `{"type":"tool_use","id":"toolu_%05d","name":"Read","input":{"file_path":"/w/src/file%d.go"}}]}`, i, i%40)
		var page strings.Builder
		for n := range 60 {
			fmt.Fprintf(&page, "\tif err := s.store.Commit%d(ctx, key_%d); err != nil { // as the plain words of a comment say\n", i%97, i*60+n)
		}
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%05d","content":%s%s}]}`, i, quoted(page.String()), marker)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// pipelineOf is a config of filters with their default keys.
func pipelineOf(tb testing.TB, names ...string) *pipeline.Config {
	tb.Helper()
	c := &pipeline.Config{Name: strings.Join(names, ",")}
	for _, name := range names {
		s, ok := all.Find(name)
		if !ok {
			tb.Fatal("no filter " + name)
		}
		f, err := s.Build(s.Default())
		if err != nil {
			tb.Fatal(err)
		}
		c.Filters = append(c.Filters, f)
	}
	return c
}

// sets are pipelines that are compared.
func sets(tb testing.TB) []*pipeline.Config {
	tb.Helper()
	return []*pipeline.Config{
		pipelineOf(tb, "readlifecycle"), pipelineOf(tb, "readlifecycle", "coref", "tiered"), pipelineOf(tb, all.Names()...),
	}
}

// BenchmarkTurn is a turn of a known session of a megabyte that adds one exchange: the second row beside the first is what coref
// and tiered cost.
func BenchmarkTurn(b *testing.B) {
	const first, turns = 180, 24
	bodies := make([][]byte, turns)
	for i := range bodies {
		bodies[i] = coding(first + i)
	}
	for _, c := range sets(b) {
		b.Run(c.Name, func(b *testing.B) {
			b.SetBytes(int64(len(bodies[turns/2])))
			b.ReportAllocs()
			var e *pipeline.Engine
			at := epoch
			for n := 0; b.Loop(); n++ {
				if n%(turns-2) == 0 { // the session begins anew: it is known, and a pause has made it cold once
					b.StopTimer()
					e, at = newEngine(b, false), at.Add(9*time.Hour)
					e.Request(context.Background(), ask(bodies[0], c, at))
					at = at.Add(3 * time.Hour)
					e.Request(context.Background(), ask(bodies[1], c, at))
					b.StartTimer()
				}
				at = at.Add(time.Second)
				if o := e.Request(context.Background(), ask(bodies[2+n%(turns-2)], c, at)); o.Kind != pipeline.KindContinue || o.Move != nil {
					b.Fatalf("kind %v, gate %q, move %+v", o.Kind, o.Gate, o.Move)
				}
			}
		})
	}
}

// BenchmarkFirstSightOf is a body of a megabyte of which nothing is known, and BenchmarkMoveOf a move in it after a pause.
func BenchmarkFirstSightOf(b *testing.B) {
	body := coding(190)
	for _, c := range sets(b) {
		b.Run(c.Name, func(b *testing.B) {
			e := newEngine(b, false)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				r := ask(body, c, epoch)
				r.Tenant = fmt.Sprint("t", n)
				e.Request(context.Background(), r)
			}
		})
	}
}

// BenchmarkMoveOf is what a pause brings: everything that may go goes at once.
func BenchmarkMoveOf(b *testing.B) {
	before, body := coding(189), coding(190)
	for _, c := range sets(b) {
		if c.Name == "readlifecycle" {
			continue // nothing of it is stale
		}
		b.Run(c.Name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e := newEngine(b, false)
				e.Request(context.Background(), ask(before, c, epoch))
				b.StartTimer()
				if o := e.Request(context.Background(), ask(body, c, epoch.Add(2*time.Hour))); o.Move == nil {
					b.Fatalf("no move: %v %v", o.Gate, o.Gates)
				}
			}
		})
	}
}
