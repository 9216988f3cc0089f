package breakpoint_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// maxBody bounds a fuzzed body: larger ones take long and show nothing else.
const maxBody = 1 << 14

// FuzzDecide: whatever the body and whatever is asked for, the outbound is the body with the markers of the plan; and
// whatever else IsEdit accepts changes markers and nothing but markers.
func FuzzDecide(f *testing.F) {
	lines, err := os.ReadFile("../transcript/testdata/bodies/accepted.txt")
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		f.Add(line, false, uint8(i), uint16(i), uint16(i/3))
	}
	for seed := range uint64(60) {
		m := gen.New(rand.New(rand.NewPCG(seed, 5)), gen.Options{Strange: true, Wild: seed%2 == 0, ResultBytes: 30})
		c := m.Conversation(int(seed % 4))
		f.Add(c.Body(), false, uint8(seed), uint16(3*seed), uint16(seed/2))
		f.Add(c.As(gen.Converse), true, uint8(seed), uint16(3*seed), uint16(seed/2))
	}
	f.Fuzz(func(t *testing.T, body []byte, converse bool, ask uint8, frontier, held uint16) {
		if len(body) > maxBody {
			return
		}
		format := transcript.Anthropic
		if converse {
			format = transcript.Converse
		}
		ix, err := transcript.Parse(body, format)
		if err != nil {
			return
		}
		if converse {
			ix.Model = []string{"anthropic.claude-opus-4-7", "amazon.nova-pro-v1:0"}[ask>>4%2]
		}
		d := &drawn{ix: ix, in: []breakpoint.Input{{}, hour, lower, five}[ask%4]}
		d.in.Index, d.in.Place, d.in.Frontier = ix, ask&4 > 0, int32(frontier)%int32(ix.Len()+1)-1
		if n := len(ix.Results); n > 0 && ask&8 > 0 {
			d.in.Held = []int32{ix.SeqOf(ix.Results[int(held)%n].Block)}
		}
		d.decide(t)
		d.check(t, map[string]int{})
		checkEdits(t, ix)
	})
}

// checkEdits tries texts of markers and of parts of them at every place of an index where some edit might be lawful.
func checkEdits(t fataler, ix *transcript.Index) {
	var spans []transcript.Span
	ends := func(s transcript.Span) {
		spans = append(spans, s, transcript.Span{Lo: s.Hi - 1, Hi: s.Hi - 1}, transcript.Span{Lo: s.Hi, Hi: s.Hi}, transcript.Span{Lo: s.Lo + 1, Hi: s.Lo + 1})
	}
	for n := range int32(min(ix.Len(), 12)) {
		ends(ix.Seq(n).Raw)
	}
	for _, m := range ix.Markers[:min(len(ix.Markers), 8)] {
		spans = append(spans, m.Cut, m.Member, m.TTLVal)
		ends(m.Value)
	}
	before := unmarked(t, ix.Body)
	for _, s := range spans {
		for _, text := range []string{
			"", breakpoint.Text(time.Hour), breakpoint.Text(5 * time.Minute), breakpoint.Point(time.Hour), breakpoint.Point(5 * time.Minute),
			`"1h"`, `"5m"`, `"ttl":"1h"`, `,"ttl":"1h"`, `,"ttl":"5m"`, "null", "{}",
		} {
			e := breakpoint.Edit{Span: s, Text: text}
			if !breakpoint.IsEdit(ix, e) {
				continue
			}
			out := apply(ix.Body, []breakpoint.Edit{e})
			was, is := breakpoint.Client(ix), breakpoint.Client(read(t, out, ix.Format))
			if n := len(is) - len(was); n < -1 || n > 1 || n == 0 && slices.Equal(was, is) {
				t.Fatalf("%+v makes %+v of %+v", e, is, was)
			}
			if after := unmarked(t, out); !reflect.DeepEqual(before, after) {
				t.Fatalf("%+v changes more than markers in %s", e, ix.Body)
			}
		}
	}
}
