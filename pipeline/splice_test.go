package pipeline_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// maxSplice bounds a body: larger ones take long and show nothing else.
const maxSplice = 1 << 14

var spliceHasher = transcript.NewHasher(bytes.Repeat([]byte("k"), 32))

// bytesSource takes choices from bytes; when they are used up every choice is 0.
type bytesSource []byte

func (s *bytesSource) IntN(n int) int {
	if len(*s) == 0 || n <= 1 {
		return 0
	}
	b := int((*s)[0])
	*s = (*s)[1:]
	return b % n
}

// FuzzSplice: whatever the body and the edits made from its index, Prove accepts the lawful ones, Splice writes what a
// naive join writes, and every change that makes them unlawful is refused.
func FuzzSplice(f *testing.F) {
	lines, err := os.ReadFile("transcript/testdata/bodies/accepted.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")), []byte("\x01\x02\x03\x01\x02\x01\x01\x02"))
	}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := gen.New(r, gen.Options{Strange: true, Wild: seed%2 == 0, ResultBytes: 30})
		choices := make([]byte, 200)
		for i := range choices {
			choices[i] = byte(r.IntN(256))
		}
		f.Add(m.Conversation(int(seed%4)).Body(), choices)
	}
	f.Fuzz(func(t *testing.T, body, choices []byte) {
		if len(body) > maxSplice {
			return
		}
		s := bytesSource(choices)
		_, _ = checkSplice(body, &s, t.Fatalf) // most bodies that a fuzzer makes cannot be read
	})
}

// TestSplice is the same on generated bodies, and shows that every kind of edit and of mutation is tried.
func TestSplice(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		m := gen.New(r, gen.Options{Strange: true, Wild: r.IntN(2) == 1, ResultBytes: 20})
		done, err := checkSplice(m.Conversation(r.IntN(6)).Body(), r, t.Fatalf)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range done {
			seen[d]++
		}
	})
	t.Logf("%v", seen)
	for _, what := range append(mutationNames(), "replaced", "taken off", "of another ttl", "added", "asked", "accepted") {
		if seen[what] == 0 {
			t.Errorf("%s: never tried", what)
		}
	}
}

// checkSplice tries one set of lawful edits and what makes it unlawful. It fails only on a body that is none.
func checkSplice(body []byte, s gen.Source, fatalf func(string, ...any)) (done []string, err error) {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		return nil, err
	}
	defer ix.Release()
	ix.Digest(spliceHasher)
	edits, done := lawfulEdits(ix, s)
	out := pipeline.Splice(body, edits)
	if want := naiveJoin(body, edits); !bytes.Equal(out, want) {
		fatalf("spliced %s\nwant    %s", out, want)
	}
	if err := pipeline.Prove(ix, edits, out); err != nil {
		fatalf("%v: %s", err, show(ix, edits))
	}
	if !json.Valid(out) {
		fatalf("no JSON: %s", out)
	}
	if err := pipeline.ProveDeep(ix, spliceHasher, edits, marksOf(ix, edits), out); err != nil {
		fatalf("%v: %s", err, show(ix, edits))
	}
	if pipeline.Prove(ix, edits, out[:len(out)-1]) == nil || pipeline.Prove(ix, edits, append(slices.Clip(out), ' ')) == nil {
		fatalf("an outbound of another length is accepted")
	}
	for _, m := range mutations {
		wrong := m.make(ix, slices.Clone(edits), s)
		if wrong == nil {
			continue
		}
		done = append(done, m.name)
		if pipeline.Prove(ix, wrong, make([]byte, max(0, sizeOf(ix, wrong)))) == nil {
			fatalf("%s is accepted: %s", m.name, show(ix, wrong))
		}
	}
	for range 8 {
		edits := anyEdits(ix, s)
		if pipeline.Prove(ix, edits, make([]byte, max(0, sizeOf(ix, edits)))) != nil {
			continue
		}
		done = append(done, "accepted")
		if err := pipeline.ProveDeep(ix, spliceHasher, edits, marksOf(ix, edits), pipeline.Splice(body, edits)); err != nil {
			fatalf("%v, but the quick proof accepts %s", err, show(ix, edits))
		}
	}
	return done, nil
}

// anyEdits are edits of which most are unlawful: anything that is written here somewhere, in the place of anything.
func anyEdits(ix *transcript.Index, s gen.Source) (edits []pipeline.Edit) {
	var spans []transcript.Span
	for n := range int32(ix.Len()) {
		b := ix.Seq(n)
		end := b.Raw.Hi - 1
		spans = append(spans, b.Raw, transcript.Span{Lo: end, Hi: end})
		if b.Text.Len() > 0 {
			spans = append(spans, b.Text)
		}
	}
	for i := range ix.Results {
		spans = append(spans, ix.Results[i].Content, ix.Results[i].CallID)
	}
	for _, m := range ix.Markers {
		end := m.Value.Hi - 1
		spans = append(spans, m.Cut, m.Member, m.Value, m.TTLVal, transcript.Span{Lo: end, Hi: end})
	}
	spans = append(spans, question(ix, "").Span)
	texts := []string{
		"", breakpoint.Text(time.Hour), breakpoint.Text(5 * time.Minute), `"x"`, `[{"type":"text","text":"x"}]`, "null", "{}",
		`"1h"`, `"5m"`, `,"ttl":"1h"`, `"ttl":"1h"`, string(question(ix, "null").Text), string(question(ix, `"msg_1"`).Text),
	}
	for range 1 + s.IntN(3) {
		if len(spans) > 0 {
			edits = append(edits, pipeline.Edit{Span: spans[s.IntN(len(spans))], Text: []byte(texts[s.IntN(len(texts))])})
		}
	}
	slices.SortFunc(edits, func(a, b pipeline.Edit) int {
		return cmp.Or(cmp.Compare(a.Span.Lo, b.Span.Lo), cmp.Compare(a.Span.Hi, b.Span.Hi))
	})
	return edits
}

// lawfulEdits makes edits from an index: results replaced, markers taken off, given another ttl, added.
func lawfulEdits(ix *transcript.Index, s gen.Source) (edits []pipeline.Edit, done []string) {
	replaced := func(m transcript.Span) bool {
		return slices.ContainsFunc(edits, func(e pipeline.Edit) bool { return e.Span.Lo <= m.Lo && m.Hi <= e.Span.Hi })
	}
	for i := range ix.Results {
		r := &ix.Results[i]
		if (r.Form == transcript.StringForm || r.Form == transcript.TextForm) && s.IntN(3) == 1 {
			edits = append(edits, pipeline.Edit{Span: r.Content, Text: ix.Replacement(r, strings.Repeat([]string{"x", `é"\`}[s.IntN(2)], 1+s.IntN(9)))})
			done = append(done, "replaced")
		}
	}
	for _, m := range ix.Markers {
		if replaced(m.Cut) {
			continue
		}
		switch s.IntN(3) {
		case 1:
			edits = append(edits, pipeline.Edit{Span: m.Cut})
			done = append(done, "taken off")
		case 2:
			if e, ok := otherTTL(ix, &m); ok {
				edits = append(edits, e)
				done = append(done, "of another ttl")
			}
		}
	}
	for n := int32(len(ix.Head)); n < int32(ix.Len()); n++ {
		if b := ix.Seq(n); b.Marker < 0 && breakpoint.Markable(ix, n) && s.IntN(6) == 1 {
			edits = append(edits, added(b, []time.Duration{time.Hour, 5 * time.Minute}[s.IntN(2)]))
			done = append(done, "added")
		}
	}
	if !ix.Diagnostics && s.IntN(2) == 1 {
		edits = append(edits, question(ix, []string{"null", `"msg_01-Az"`}[s.IntN(2)]))
		done = append(done, "asked")
	}
	slices.SortFunc(edits, func(a, b pipeline.Edit) int {
		return cmp.Or(cmp.Compare(a.Span.Lo, b.Span.Lo), cmp.Compare(a.Span.Hi, b.Span.Hi))
	})
	return edits, done
}

// otherTTL gives a marker that has members the other TTL, where that is allowed.
func otherTTL(ix *transcript.Index, m *transcript.Marker) (e pipeline.Edit, ok bool) {
	value := `"1h"`
	if m.TTL == time.Hour {
		value = `"5m"`
	}
	e = pipeline.Edit{Span: m.TTLVal, Text: []byte(value)}
	if end := m.Value.Hi - 1; m.TTLVal.Len() == 0 {
		e = pipeline.Edit{Span: transcript.Span{Lo: end, Hi: end}, Text: []byte(`,"ttl":` + value)}
	}
	return e, breakpoint.CanSetTTL(ix) == breakpoint.FreeTTL && len(bytes.TrimSpace(m.Value.Of(ix.Body)[1:m.Value.Len()-1])) > 0
}

// question asks for a diagnosis, with an id as it is written.
func question(ix *transcript.Index, id string) pipeline.Edit {
	end := uint32(bytes.LastIndexByte(ix.Body, '}'))
	return pipeline.Edit{Span: transcript.Span{Lo: end, Hi: end}, Text: []byte(`,"diagnostics":{"previous_message_id":` + id + `}`)}
}

func added(b *transcript.Block, ttl time.Duration) pipeline.Edit {
	at := b.Raw.Hi - 1
	return pipeline.Edit{Span: transcript.Span{Lo: at, Hi: at}, Text: []byte(breakpoint.Text(ttl))}
}

// naiveJoin makes the edits one by one, the last one first, so that no position moves.
func naiveJoin(body []byte, edits []pipeline.Edit) []byte {
	text := string(body)
	for _, e := range slices.Backward(edits) {
		text = text[:e.Span.Lo] + string(e.Text) + text[e.Span.Hi:]
	}
	return []byte(text)
}

// marksOf are the markers that a body has after the edits, in the provider's order: one inside a block stands before the
// block's own, automatic caching comes last.
func marksOf(ix *transcript.Index, edits []pipeline.Edit) (marks []breakpoint.Mark) {
	for n := range int32(ix.Len()) {
		for _, nested := range []bool{true, false} {
			for _, m := range ix.Markers {
				gone := slices.ContainsFunc(edits, func(e pipeline.Edit) bool { return e.Span.Lo <= m.Cut.Lo && m.Cut.Hi <= e.Span.Hi })
				if m.Seq == n && m.Nested == nested && !gone {
					marks = append(marks, breakpoint.Mark{Seq: n, TTL: ttlOf(&m, edits)})
				}
			}
		}
		for _, e := range edits {
			for _, ttl := range []time.Duration{time.Hour, 5 * time.Minute} {
				if e.Span.Len() == 0 && e.Span.Lo == ix.Seq(n).Raw.Hi-1 && string(e.Text) == breakpoint.Text(ttl) {
					marks = append(marks, breakpoint.Mark{Seq: n, TTL: ttl})
				}
			}
		}
		if ix.TopMarker && n == automaticSeq(ix) {
			marks = append(marks, breakpoint.Mark{Seq: n, TTL: ix.TopTTL})
		}
	}
	return marks
}

// ttlOf is what a marker asks for after the edits.
func ttlOf(m *transcript.Marker, edits []pipeline.Edit) time.Duration {
	for _, e := range edits {
		if m.Value.Lo <= e.Span.Lo && e.Span.Hi <= m.Value.Hi {
			return map[bool]time.Duration{true: time.Hour, false: 5 * time.Minute}[bytes.Contains(e.Text, []byte("1h"))]
		}
	}
	return m.TTL
}

// automaticSeq is the block on which automatic caching puts its marker.
func automaticSeq(ix *transcript.Index) int32 {
	n := int32(ix.Len()) - 1
	for n >= 0 && (ix.Seq(n).Kind == transcript.Thinking || ix.Seq(n).Empty) {
		n--
	}
	return n
}

func sizeOf(ix *transcript.Index, edits []pipeline.Edit) int {
	size := len(ix.Body)
	for _, e := range edits {
		size += len(e.Text) - int(e.Span.Hi) + int(e.Span.Lo)
	}
	return size
}

func show(ix *transcript.Index, edits []pipeline.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		b.WriteString("\n" + string(ix.Body[min(e.Span.Lo, e.Span.Hi):max(e.Span.Lo, e.Span.Hi)]) + " -> " + string(e.Text))
	}
	return b.String() + "\nin " + string(ix.Body)
}

// mutation makes lawful edits unlawful; nil says that these edits do not allow it.
type mutation struct {
	name string
	make func(ix *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit
}

func mutationNames() (names []string) {
	for _, m := range mutations {
		names = append(names, m.name)
	}
	return names
}

var mutations = []mutation{
	{"an edit twice", func(_ *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		if len(edits) == 0 {
			return nil
		}
		i := s.IntN(len(edits))
		return slices.Insert(edits, i, edits[i])
	}},
	{"another order", func(_ *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		if len(edits) < 2 {
			return nil
		}
		i := s.IntN(len(edits) - 1)
		edits[i], edits[i+1] = edits[i+1], edits[i]
		return edits
	}},
	{"a span that is moved", onOne(func(e *pipeline.Edit, s gen.Source) bool {
		switch s.IntN(6) {
		case 0:
			e.Span.Lo--
		case 1:
			e.Span.Hi++
		case 2:
			e.Span.Lo++
		case 3:
			e.Span.Hi--
		case 4:
			e.Span.Lo, e.Span.Hi = e.Span.Lo-1, e.Span.Hi-1
		case 5:
			e.Span.Lo, e.Span.Hi = e.Span.Lo+1, e.Span.Hi+1
		}
		return true
	})},
	{"a span beyond the body", func(ix *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		end := uint32(len(ix.Body)) + uint32(s.IntN(2))
		return append(edits, pipeline.Edit{Span: transcript.Span{Lo: end, Hi: end + 1}, Text: []byte(`""`)})
	}},
	{"a span that ends before it begins", onOne(func(e *pipeline.Edit, _ gen.Source) bool {
		e.Span.Lo, e.Span.Hi = e.Span.Hi, e.Span.Lo
		return e.Span.Lo != e.Span.Hi
	})},
	{"empty content", onOne(func(e *pipeline.Edit, s gen.Source) bool {
		empty := []string{"", `""`, "[]", `[{"type":"text","text":""}]`, "null", ` ""`}
		was := string(e.Text)
		e.Text = []byte(empty[s.IntN(len(empty))])
		return isContent(was)
	})},
	{"another form", onOne(func(e *pipeline.Edit, s gen.Source) bool {
		was := string(e.Text)
		if strings.HasPrefix(was, "[") {
			other := []string{
				`"x"`, `["x"]`, `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, `[{"type":"image","text":"x"}]`,
				`[{"type":"text","text":"x","y":1}]`, `{"type":"text","text":"x"}`, `[{"type":"text","text":1}]`, `"x"}]`, `[{"type":"text","text":"x"`,
			}
			e.Text = []byte(other[s.IntN(len(other))])
		} else {
			other := []string{`[{"type":"text","text":"x"}]`, "1", "{}", "true", `"x" `, ` "x"`}
			e.Text = []byte(other[s.IntN(len(other))])
		}
		return isContent(was)
	})},
	{"no JSON", onOne(func(e *pipeline.Edit, s gen.Source) bool {
		was := string(e.Text)
		if !isContent(was) {
			return false
		}
		i := s.IntN(len(was))
		e.Text = []byte([]string{was[:i], was[:i] + "\x00" + was[i:], was + `,"x"`}[s.IntN(3)])
		return true
	})},
	{"content that is left out", onResult(func(_ *transcript.Index, r *transcript.Result, _ gen.Source) *pipeline.Edit {
		return &pipeline.Edit{Span: r.Content}
	})},
	{"content of a form that is never replaced", onResult(func(_ *transcript.Index, r *transcript.Result, s gen.Source) *pipeline.Edit {
		if r.Form == transcript.StringForm || r.Form == transcript.TextForm {
			return nil
		}
		return &pipeline.Edit{Span: r.Content, Text: []byte([]string{`"x"`, `[{"type":"text","text":"x"}]`}[s.IntN(2)])}
	})},
	{"a call id", onResult(func(_ *transcript.Index, r *transcript.Result, _ gen.Source) *pipeline.Edit {
		return &pipeline.Edit{Span: r.CallID, Text: []byte(`"x"`)}
	})},
	{"a block", onBlock(func(_ *transcript.Index, b *transcript.Block, s gen.Source) *pipeline.Edit {
		return &pipeline.Edit{Span: b.Raw, Text: []byte([]string{"", `"x"`, `{"type":"text","text":"x"}`}[s.IntN(3)])}
	})},
	{"text", onBlock(func(_ *transcript.Index, b *transcript.Block, s gen.Source) *pipeline.Edit {
		if b.Kind != transcript.Text {
			return nil
		}
		return &pipeline.Edit{Span: b.Text, Text: []byte([]string{"", `"x"`}[s.IntN(2)])}
	})},
	{"a marker where none may be", onBlock(func(ix *transcript.Index, b *transcript.Block, _ gen.Source) *pipeline.Edit {
		if n := seqOf(ix, b); b.Marker < 0 && breakpoint.Markable(ix, n) && (b.Msg >= 0 || len(ix.Markers) == 0 && !ix.TopMarker) {
			return nil
		}
		e := added(b, 5*time.Minute)
		return &e
	})},
	{"a marker outside of blocks", onBlock(func(ix *transcript.Index, b *transcript.Block, s gen.Source) *pipeline.Edit {
		places := []uint32{0, b.Raw.Lo, b.Raw.Lo + 1, b.Raw.Hi, uint32(len(ix.Body)) - 1}
		if b.Msg >= 0 {
			places = append(places, ix.Messages[b.Msg].Raw.Hi-1, ix.Messages[b.Msg].Content.Hi)
		}
		at := places[s.IntN(len(places))]
		return &pipeline.Edit{Span: transcript.Span{Lo: at, Hi: at}, Text: []byte(breakpoint.Text(time.Hour))}
	})},
	{"something else in a marker's place", onBlock(func(_ *transcript.Index, b *transcript.Block, s gen.Source) *pipeline.Edit {
		other := []string{
			`,"x":1`, `,"cache_control":null`, `"cache_control":{"type":"ephemeral"}`, `,"cache_control":{"type":"ephemeral","ttl":"24h"}`,
			`,"cache_control":{"type":"ephemeral"},"x":1`, `,"cache_control":{}`, " ",
		}
		e := added(b, time.Hour)
		e.Text = []byte(other[s.IntN(len(other))])
		return &e
	})},
	{"a question of another kind", func(ix *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		ids := []string{
			"", `""`, "1", `"a b"`, `"\u0061"`, `"é"`, `"a","x":"b"`, `"a"},"x":{"y":"b"`, "null,", `"null`, `"` + strings.Repeat("a", 129) + `"`,
		}
		edits = slices.DeleteFunc(edits, func(e pipeline.Edit) bool { return e.Span == question(ix, "").Span })
		return append(edits, question(ix, ids[s.IntN(len(ids))]))
	}},
	{"a question elsewhere", onBlock(func(ix *transcript.Index, b *transcript.Block, s gen.Source) *pipeline.Edit {
		e := question(ix, "null")
		at := []uint32{0, b.Raw.Lo, b.Raw.Hi - 1, b.Raw.Hi, e.Span.Lo - 1, uint32(len(ix.Body))}[s.IntN(6)]
		e.Span = transcript.Span{Lo: at, Hi: at}
		return &e
	})},
}

func isContent(text string) bool { return strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "[") }

// onOne changes one of the edits.
func onOne(change func(e *pipeline.Edit, s gen.Source) bool) func(*transcript.Index, []pipeline.Edit, gen.Source) []pipeline.Edit {
	return func(_ *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		if len(edits) == 0 || !change(&edits[s.IntN(len(edits))], s) {
			return nil
		}
		return edits
	}
}

// onBlock puts an edit of some block among the others, in its place.
func onBlock(edit func(*transcript.Index, *transcript.Block, gen.Source) *pipeline.Edit) func(*transcript.Index, []pipeline.Edit, gen.Source) []pipeline.Edit {
	return func(ix *transcript.Index, edits []pipeline.Edit, s gen.Source) []pipeline.Edit {
		if ix.Len() == 0 {
			return nil
		}
		e := edit(ix, ix.Seq(int32(s.IntN(ix.Len()))), s)
		if e == nil {
			return nil
		}
		edits = slices.DeleteFunc(edits, func(o pipeline.Edit) bool { return o.Span.Lo <= e.Span.Hi && e.Span.Lo <= o.Span.Hi })
		edits = append(edits, *e)
		slices.SortFunc(edits, func(a, b pipeline.Edit) int { return cmp.Compare(a.Span.Lo, b.Span.Lo) })
		return edits
	}
}

// onResult is onBlock for the first result, from some result on, that allows the edit.
func onResult(edit func(*transcript.Index, *transcript.Result, gen.Source) *pipeline.Edit) func(*transcript.Index, []pipeline.Edit, gen.Source) []pipeline.Edit {
	return onBlock(func(ix *transcript.Index, _ *transcript.Block, s gen.Source) *pipeline.Edit {
		from := s.IntN(max(1, len(ix.Results)))
		for i := range ix.Results {
			r := &ix.Results[(from+i)%len(ix.Results)]
			if r.Content.Len() == 0 {
				continue
			}
			if e := edit(ix, r, s); e != nil {
				return e
			}
		}
		return nil
	})
}

func seqOf(ix *transcript.Index, b *transcript.Block) int32 {
	for n := range int32(ix.Len()) {
		if ix.Seq(n) == b {
			return n
		}
	}
	return -1
}
