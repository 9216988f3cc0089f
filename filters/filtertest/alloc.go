package filtertest

import (
	"fmt"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Ceilings of a filter's allocations, role tables and paths of the calls it looks at included. A turn with nothing new may
// not depend on how long the session is.
const (
	allocsPerCall  = 16 // for each result that is open
	allocsPerCheck = 16 // for the request
)

// long is a session of as many turns, each of which reads a file, edits the one before and runs a command.
func long(turns int) Session {
	s := make(Session, turns)
	for i := range s {
		id := func(what string) string { return fmt.Sprintf("%s-%d", what, i) }
		path := func(n int) string { return fmt.Sprintf("/repo/pkg/file%d.go", n) }
		s[i] = Turn{Calls: []Call{
			{ID: id("read"), Tool: "Read", Input: Input{"file_path": path(i)}, Answer: &Answer{Text: Source(60)}},
			{ID: id("edit"), Tool: "Edit", Input: Input{"file_path": path(i - 1), "new_string": "y"}, Answer: &Answer{Text: "ok"}},
			{ID: id("bash"), Tool: "Bash", Input: Input{"command": "go test ./..."}, Answer: &Answer{Text: "ok"}},
		}}
	}
	return s
}

// AllOpen is the view of a body of which nothing is cached or decided: every result is open.
func AllOpen(ix *transcript.Index) *filters.View {
	v := &filters.View{Index: ix, Turn: ix.LastTurn()}
	for i := range ix.Results {
		v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Zone: filters.Uncovered, Open: true})
	}
	return v
}

// viewOf is the view of a body in which the results of the last turns are open: all of them, or those of one turn. Of the
// last turn they are fresh.
func viewOf(ix *transcript.Index, turns int32) *filters.View {
	v := &filters.View{Index: ix, Turn: ix.LastTurn()}
	for i := range ix.Results {
		c := filters.Candidate{Result: int32(i), Zone: filters.Covered, Open: ix.Results[i].Turn > v.Turn-turns}
		if ix.Results[i].Turn == v.Turn {
			c.Zone = filters.Fresh
		}
		v.Candidates = append(v.Candidates, c)
	}
	return v
}

// checkAllocations returns which ceiling a filter breaks, nil if it keeps both: a warm turn late in a session, and a turn on
// which everything is open.
func checkAllocations(f filters.Filter) error {
	const turns = 300
	body := long(turns).Body()
	for _, open := range []int32{1, turns} {
		with, err := allocs(body, func(ix *transcript.Index) { f.Propose(viewOf(ix, open)) })
		if err != nil {
			return err
		}
		without, err := allocs(body, func(ix *transcript.Index) { viewOf(ix, open) })
		if err != nil {
			return err
		}
		results := int(open) * 3
		if ceiling := allocsPerCheck + allocsPerCall*results; with-without > float64(ceiling) {
			return fmt.Errorf("%d open results of %d: %v allocations, the ceiling is %d", results, turns*3, with-without, ceiling)
		}
	}
	return nil
}

func allocs(body []byte, do func(*transcript.Index)) (n float64, err error) {
	n = testing.AllocsPerRun(5, func() {
		var ix *transcript.Index
		if ix, err = transcript.Parse(body, transcript.Anthropic); err == nil {
			do(ix)
			ix.Release()
		}
	})
	return n, err
}

// Benchmark measures a filter on a session of 300 turns with its default config: warm (only the newest turn is open) and
// cold (everything is). The index is made anew each time and not measured apart.
func Benchmark(b *testing.B, name string) {
	spec, ok := all.Find(name)
	if !ok {
		b.Fatalf("filter %q is not in filters/all", name)
	}
	f, err := spec.Build(spec.Default())
	if err != nil {
		b.Fatal(err)
	}
	body := long(300).Body()
	for _, zone := range []struct {
		name string
		open int32
	}{{"warm", 1}, {"cold", 300}} {
		b.Run("format-anthropic/turns-300/zone-"+zone.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				b.StopTimer()
				ix, err := transcript.Parse(body, transcript.Anthropic)
				if err != nil {
					b.Fatal(err)
				}
				v := viewOf(ix, zone.open)
				b.StartTimer()
				f.Propose(v)
				ix.Release()
			}
		})
	}
}
