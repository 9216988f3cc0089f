package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

var cutHasher = transcript.NewHasher(bytes.Repeat([]byte("k"), 32))

// choices takes choices from bytes; when they are used up every choice is 0.
type choices []byte

func (s *choices) IntN(n int) int {
	if len(*s) == 0 || n <= 1 {
		return 0
	}
	b := int((*s)[0])
	*s = (*s)[1:]
	return b % n
}

// FuzzCut: whatever the body and the ends of a cut, the edits that leave it out are proven, what is forwarded is valid JSON that
// parts no pair, and every change that makes them something else is refused.
func FuzzCut(f *testing.F) {
	lines, err := os.ReadFile("transcript/testdata/bodies/accepted.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")), []byte("\x00\x01\x01\x02\x03\x01\x02\x01\x01\x02"))
	}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := gen.New(r, gen.Options{Strange: seed%3 > 0, Wild: seed%2 == 0, ResultBytes: 30})
		bytes := make([]byte, 200)
		for i := range bytes {
			bytes[i] = byte(r.IntN(256))
		}
		f.Add(m.Conversation(int(seed%6)).Body(), bytes)
	}
	f.Fuzz(func(t *testing.T, body, bytes []byte) {
		if len(body) > 1<<14 {
			return
		}
		s := choices(bytes)
		checkCut(body, &s, t.Fatalf)
	})
}

// lateHead has a head that is a string, and something before it.
const lateHead = `{"messages":[{"role":"system","content":"s"},{"role":"assistant","content":"Hello."},{"role":"user","content":"go"},` +
	`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Read","input":{}},{"type":"tool_use","id":"b","name":"Read","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b","content":"2"}]},` +
	`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Read","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"3"}]},{"role":"assistant","content":"so"}]}`

// lateString has a head that is a list, and a string behind it.
const lateString = `{"messages":[{"role":"user","content":[{"type":"text","text":"go"}]},{"role":"assistant","content":"so"},` +
	`{"role":"assistant","content":"and"},{"role":"user","content":"on"}]}`

// TestCutEdits is the same on drawn bodies, and shows that every kind of mutation is tried.
func TestCutEdits(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		body := gentest.Talks(6).Draw(t, "talk").Body()
		if r.IntN(2) == 1 {
			body = gen.New(r, gen.Options{Strange: true, Wild: r.IntN(2) == 1, ResultBytes: 20}).Conversation(1 + r.IntN(6)).Body()
		}
		for range 4 {
			for _, what := range checkCut(body, r, t.Fatalf) {
				seen[what]++
			}
		}
	})
	const empty = `{"messages":[{"role":"user","content":[]},{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]}`
	r := rand.New(rand.NewPCG(1, 5))
	for range 40 {
		for _, body := range []string{empty, lateHead, lateString} { // no provider takes an empty list
			for _, what := range checkCut([]byte(body), r, t.Fatalf) {
				seen[what]++
			}
		}
	}
	t.Logf("%v", seen)
	for _, m := range cutMutations {
		if seen[m.name] == 0 {
			t.Errorf("%s: never tried", m.name)
		}
	}
	for _, what := range []string{"proven", "nowhere for a stub", "accepted"} {
		if seen[what] == 0 {
			t.Errorf("%s: never seen", what)
		}
	}
}

// checkCut tries one cut of a body and what is no cut of it, and says what was tried.
func checkCut(body []byte, s gen.Source, fatalf func(string, ...any)) (done []string) {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		return nil
	}
	defer ix.Release()
	ix.Digest(cutHasher)
	head := ix.FirstHuman()
	if head < 0 || int(head) >= len(ix.Messages)-2 {
		return nil
	}
	next := head + 2 + int32(s.IntN(len(ix.Messages)-int(head)-2))
	l := newLayout(ix, cutHasher)
	stub := []string{"[tidemark cut: 1 exchange]", "é\"\\\n</x>\u2028", "x"}[s.IntN(3)]
	span, ok := l.between(&state.Cut{Stub: stub, KeepHuman: s.IntN(2) == 1}, head, next)
	if !ok {
		return nil
	}
	edits := span.edits(ix)
	if err := Prove(ix, edits, make([]byte, sizeAfter(ix, edits))); err != nil {
		if m := &ix.Messages[head]; m.First < m.Last || isString(ix, m) {
			fatalf("%v: %s", err, shown(ix, edits))
		}
		return []string{"nowhere for a stub"}
	}
	out := Splice(body, edits)
	checkSpliced(ix, span, out, fatalf)
	o := &outbound{layout: l.without(span)}
	marks := breakpoint.Forwarded(ix, span.Dropped)
	if err := o.proveDeep(out, &breakpoint.Plan{Marks: marks}); err != nil {
		fatalf("%v: %s", err, shown(ix, edits))
	}
	checkDeep(ix, span, edits, marks, o, fatalf)
	done = append(done, "proven")
	for _, m := range cutMutations {
		wrong := m.make(ix, span, slices.Clone(edits), s)
		if wrong == nil {
			continue
		}
		done = append(done, m.name)
		if Prove(ix, wrong, make([]byte, max(0, sizeAfter(ix, wrong)))) == nil {
			fatalf("%s is accepted: %s", m.name, shown(ix, wrong))
		}
	}
	for range 8 {
		if tried := anyCut(ix, s); Prove(ix, tried, make([]byte, max(0, sizeAfter(ix, tried)))) == nil {
			checkAccepted(ix, tried, fatalf)
			done = append(done, "accepted")
		}
	}
	return done
}

// checkDeep wants the outbound of another cut, or of none, to be refused.
func checkDeep(ix *transcript.Index, span *span, edits []Edit, marks []breakpoint.Mark, o *outbound, fatalf func(string, ...any)) {
	plan := &breakpoint.Plan{Marks: marks}
	if o.proveDeep(ix.Body, plan) == nil {
		fatalf("the body passes for its outbound: %s", shown(ix, edits))
	}
	other := *span
	other.text = transcript.AppendQuoted(nil, "another stub")
	if o.proveDeep(Splice(ix.Body, other.edits(ix)), plan) == nil {
		fatalf("another stub passes: %s", shown(ix, edits))
	}
	for m := span.Head + 1; m < span.Next; m++ {
		if !span.Dropped[m] || ix.Messages[m].First == ix.Messages[m].Last {
			continue
		}
		other := *span
		other.Dropped = slices.Clone(span.Dropped)
		other.Dropped[m] = false
		if o.proveDeep(Splice(ix.Body, other.edits(ix)), plan) == nil {
			fatalf("message %d stays, and that passes: %s", m, shown(ix, edits))
		}
	}
}

type rawMessage struct{ Role, Content json.RawMessage }

func messagesIn(body []byte, fatalf func(string, ...any)) (list []rawMessage) {
	var b struct{ Messages []rawMessage }
	if err := json.Unmarshal(body, &b); err != nil {
		fatalf("%v: %s", err, body)
	}
	return b.Messages
}

// checkSpliced reads what is forwarded without an index: the messages of the body but for those left out, and the stub on the head.
func checkSpliced(ix *transcript.Index, span *span, out []byte, fatalf func(string, ...any)) {
	if !json.Valid(out) {
		fatalf("no JSON: %s", out)
	}
	left := messagesIn(out, fatalf)
	for m, was := range messagesIn(ix.Body, fatalf) {
		if span.Dropped[m] {
			continue
		}
		if len(left) == 0 {
			fatalf("message %d is missing: %s", m, out)
		}
		now := left[0]
		left = left[1:]
		if int32(m) != span.Head {
			if !bytes.Equal(now.Role, was.Role) || !bytes.Equal(now.Content, was.Content) {
				fatalf("message %d became %s", m, now.Content)
			}
			continue
		}
		var blocks, before []json.RawMessage
		if json.Unmarshal(was.Content, &before) != nil {
			before = []json.RawMessage{[]byte(`{"type":"text","text":` + string(was.Content) + `}`)}
		}
		if err := json.Unmarshal(now.Content, &blocks); err != nil || len(blocks) != len(before)+1 {
			fatalf("the head became %s", now.Content)
		}
		for i := range before {
			if !bytes.Equal(blocks[i], before[i]) {
				fatalf("block %d of the head became %s", i, blocks[i])
			}
		}
		var stub struct{ Type, Text string }
		if err := json.Unmarshal(blocks[len(before)], &stub); err != nil || stub.Type != "text" || stub.Text != span.cut.Stub {
			fatalf("the stub became %s", blocks[len(before)])
		}
	}
	if len(left) > 0 {
		fatalf("%d messages more: %s", len(left), out)
	}
	checkPairs(ix, span.Dropped, out, fatalf)
}

// checkPairs reads what is forwarded again: every result that is left answers the call that it answered before.
func checkPairs(ix *transcript.Index, dropped []bool, out []byte, fatalf func(string, ...any)) {
	again, err := transcript.Parse(out, transcript.Anthropic)
	if err != nil {
		fatalf("%v: %s", err, out)
	}
	defer again.Release()
	calls, n := make([]int32, len(ix.Calls)), int32(0)
	for c := range ix.Calls {
		calls[c] = n
		if !dropped[ix.Calls[c].Msg] {
			n++
		}
	}
	if int(n) != len(again.Calls) {
		fatalf("%d calls, not %d: %s", len(again.Calls), n, out)
	}
	n = 0
	for i := range ix.Results {
		r := &ix.Results[i]
		if dropped[r.Msg] {
			continue
		}
		want := r.Call
		if want >= 0 {
			want = calls[want]
		}
		if int(n) >= len(again.Results) || again.Results[n].Call != want {
			fatalf("result %d answers another call: %s", i, out)
		}
		n++
	}
	if int(n) != len(again.Results) {
		fatalf("%d results, not %d: %s", len(again.Results), n, out)
	}
}

// checkAccepted reads what edits make that are accepted, whoever made them: one stub, on the first message of a human, the last
// message as it was, and no pair parted.
func checkAccepted(ix *transcript.Index, edits []Edit, fatalf func(string, ...any)) {
	out := Splice(ix.Body, edits)
	if !json.Valid(out) {
		fatalf("no JSON: %s", shown(ix, edits))
	}
	was, is := messagesIn(ix.Body, fatalf), messagesIn(out, fatalf)
	dropped, at := make([]bool, len(was)), 0
	head := int(ix.FirstHuman())
	for m := range was {
		same := at < len(is) && bytes.Equal(was[m].Role, is[at].Role) && bytes.Equal(was[m].Content, is[at].Content)
		if m == head || same && !droppedBy(ix, edits, m) {
			at++
			continue
		}
		dropped[m] = true
	}
	if at != len(is) || dropped[len(was)-1] || len(is) == len(was) {
		fatalf("%d messages became %d: %s", len(was), len(is), shown(ix, edits))
	}
	if n := strings.Count(string(is[min(head, len(is)-1)].Content), "a stub of the test"); n != 1 {
		fatalf("%d stubs on the head: %s", n, shown(ix, edits))
	}
	checkPairs(ix, dropped, out, fatalf)
}

func droppedBy(ix *transcript.Index, edits []Edit, m int) bool {
	raw := ix.Messages[m].Raw
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Span.Lo < raw.Lo && raw.Hi <= e.Span.Hi })
}

// anyCut are edits of which most are no cut: runs of messages that begin and end anywhere, stubs anywhere.
func anyCut(ix *transcript.Index, s gen.Source) (edits []Edit) {
	quoted := []byte(`"a stub of the test"`)
	n := len(ix.Messages)
	stubOn := func(m *transcript.Message) {
		switch {
		case m.Content.Len() == 0:
		case isString(ix, m):
			edits = append(edits, Edit{point(m.Content.Lo), []byte(stringOpen)}, Edit{point(m.Content.Hi), wrap(stringMid, quoted, stringEnd)})
		default:
			edits = append(edits, Edit{point(m.Content.Hi - 1), wrap(stubOpen, quoted, stubClose)})
		}
	}
	stubOn(&ix.Messages[ix.FirstHuman()])
	if s.IntN(4) == 0 {
		stubOn(&ix.Messages[s.IntN(n)])
	}
	for range 1 + s.IntN(2) {
		from := 1 + s.IntN(n-1)
		to := from + s.IntN(n-from)
		edits = append(edits, Edit{Span: transcript.Span{Lo: ix.Messages[from-1].Raw.Hi, Hi: ix.Messages[to].Raw.Hi}})
	}
	if s.IntN(6) == 0 {
		edits = slices.Delete(edits, 0, 1)
	}
	return ordered(edits)
}

func ordered(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Span.Lo, b.Span.Lo), cmp.Compare(a.Span.Hi, b.Span.Hi))
	})
	return edits
}

func sizeAfter(ix *transcript.Index, edits []Edit) int {
	size := len(ix.Body)
	for _, e := range edits {
		size += len(e.Text) - int(e.Span.Hi) + int(e.Span.Lo)
	}
	return size
}

func shown(ix *transcript.Index, edits []Edit) string {
	var b strings.Builder
	for _, e := range edits {
		fmt.Fprintf(&b, "\n%v -> %s", e.Span, e.Text)
	}
	return b.String() + "\nin " + string(ix.Body)
}

// cutMutation makes the edits of a cut something else; nil says that this cut does not allow it.
type cutMutation struct {
	name string
	make func(ix *transcript.Index, span *span, edits []Edit, s gen.Source) []Edit
}

func drops(e *Edit) bool { return e.Span.Len() > 0 }

// onRun changes one of the runs of messages.
func onRun(change func(ix *transcript.Index, span *span, e *Edit, s gen.Source) bool) func(*transcript.Index, *span, []Edit, gen.Source) []Edit {
	return func(ix *transcript.Index, span *span, edits []Edit, s gen.Source) []Edit {
		first := slices.IndexFunc(edits, func(e Edit) bool { return drops(&e) })
		if !change(ix, span, &edits[first+s.IntN(len(edits)-first)], s) {
			return nil
		}
		return edits
	}
}

// onStub changes the text of the stub.
func onStub(change func(text string, s gen.Source) string) func(*transcript.Index, *span, []Edit, gen.Source) []Edit {
	return func(_ *transcript.Index, _ *span, edits []Edit, s gen.Source) []Edit {
		i := slices.IndexFunc(edits, func(e Edit) bool { return drops(&e) }) - 1
		edits[i].Text = []byte(change(string(edits[i].Text), s))
		return edits
	}
}

var cutMutations = []cutMutation{
	{"a run that is moved", onRun(func(_ *transcript.Index, _ *span, e *Edit, s gen.Source) bool {
		by := uint32(1 + s.IntN(3))
		switch s.IntN(6) {
		case 0:
			e.Span.Lo -= by
		case 1:
			e.Span.Lo += by
		case 2:
			e.Span.Hi -= by
		case 3:
			e.Span.Hi += by
		case 4:
			e.Span.Lo, e.Span.Hi = e.Span.Lo-by, e.Span.Hi-by
		case 5:
			e.Span.Lo, e.Span.Hi = e.Span.Lo+by, e.Span.Hi+by
		}
		return true
	})},
	{"something in the place of messages", onRun(func(_ *transcript.Index, _ *span, e *Edit, s gen.Source) bool {
		e.Text = []byte([]string{" ", ",", `,{"role":"user","content":"x"}`, `"x"`, "null"}[s.IntN(5)])
		return true
	})},
	{"the head too", onRun(func(ix *transcript.Index, span *span, e *Edit, _ gen.Source) bool {
		if e.Span.Lo != ix.Messages[span.Head].Raw.Hi || span.Head == 0 {
			return false
		}
		e.Span.Lo = ix.Messages[span.Head-1].Raw.Hi
		return true
	})},
	{"what stands before the head too", func(ix *transcript.Index, span *span, edits []Edit, _ gen.Source) []Edit {
		if span.Head < 2 {
			return nil
		}
		return ordered(append(edits, Edit{Span: transcript.Span{Lo: ix.Messages[0].Raw.Hi, Hi: ix.Messages[1].Raw.Hi}}))
	}},
	{"the last message too", onRun(func(ix *transcript.Index, _ *span, e *Edit, _ gen.Source) bool {
		e.Span.Hi = ix.Messages[len(ix.Messages)-1].Raw.Hi
		return true
	})},
	{"a run that parts a pair", func(ix *transcript.Index, span *span, _ []Edit, s gen.Source) []Edit {
		from := s.IntN(max(1, len(ix.Results)))
		for i := range ix.Results {
			r := &ix.Results[(from+i)%len(ix.Results)]
			if r.Call < 0 || !span.Dropped[r.Msg] || ix.Calls[r.Call].Msg == r.Msg {
				continue
			}
			back := r.Msg // comes back
			if s.IntN(2) == 1 {
				back = ix.Calls[r.Call].Msg
			}
			other := *span
			other.Dropped = slices.Clone(span.Dropped)
			if other.Dropped[back] = false; slices.Contains(other.Dropped, true) {
				return other.edits(ix)
			}
		}
		return nil
	}},
	{"the message behind too, which is one of a pair", func(ix *transcript.Index, span *span, _ []Edit, _ gen.Source) []Edit {
		if int(span.Next) >= len(ix.Messages)-1 || !slices.ContainsFunc(ix.Results, func(r transcript.Result) bool {
			return r.Call >= 0 && ix.Calls[r.Call].Msg == span.Next && r.Msg > span.Next
		}) {
			return nil
		}
		other := *span
		other.Dropped, other.Next = slices.Clone(span.Dropped), span.Next+1
		other.Dropped[span.Next] = true
		return other.edits(ix)
	}},
	{"no stub", func(_ *transcript.Index, _ *span, edits []Edit, _ gen.Source) []Edit {
		return slices.DeleteFunc(edits, func(e Edit) bool { return !drops(&e) })
	}},
	{"no run", func(_ *transcript.Index, _ *span, edits []Edit, _ gen.Source) []Edit {
		return slices.DeleteFunc(edits, func(e Edit) bool { return drops(&e) })
	}},
	{"half a stub", func(_ *transcript.Index, _ *span, edits []Edit, _ gen.Source) []Edit {
		if drops(&edits[1]) {
			return nil // the head is a list, and the stub a single edit
		}
		return slices.Delete(edits, 0, 1)
	}},
	{"another string that is opened", func(ix *transcript.Index, span *span, edits []Edit, _ gen.Source) []Edit {
		for m := span.Next; int(m) < len(ix.Messages); m++ {
			if msg := &ix.Messages[m]; msg.Role == transcript.User && isString(ix, msg) {
				return append(edits, Edit{point(msg.Content.Lo), []byte(stringOpen)})
			}
		}
		return nil
	}},
	{"a second stub", func(ix *transcript.Index, span *span, edits []Edit, s gen.Source) []Edit {
		for m := span.Next + int32(s.IntN(len(ix.Messages)-int(span.Next))); int(m) < len(ix.Messages); m++ {
			msg := &ix.Messages[m]
			switch {
			case msg.Content.Len() == 0:
			case isString(ix, msg):
				return append(edits, Edit{point(msg.Content.Lo), []byte(stringOpen)}, Edit{point(msg.Content.Hi), wrap(stringMid, span.text, stringEnd)})
			case msg.First < msg.Last:
				return append(edits, Edit{point(msg.Content.Hi - 1), wrap(stubOpen, span.text, stubClose)})
			}
		}
		return nil
	}},
	{"the stub twice", func(_ *transcript.Index, _ *span, edits []Edit, _ gen.Source) []Edit {
		i := slices.IndexFunc(edits, func(e Edit) bool { return drops(&e) })
		return slices.Insert(edits, i, edits[i-1])
	}},
	{"the stub elsewhere in the head", func(ix *transcript.Index, span *span, edits []Edit, s gen.Source) []Edit {
		i := slices.IndexFunc(edits, func(e Edit) bool { return drops(&e) }) - 1
		head := &ix.Messages[span.Head]
		at := []uint32{head.Raw.Lo, head.Content.Lo - 1, head.Content.Lo + 1, head.Content.Hi - 2, head.Raw.Hi - 1, head.Raw.Hi}[s.IntN(6)]
		if isString(ix, head) && at == head.Content.Hi || !isString(ix, head) && at == head.Content.Hi-1 {
			return nil
		}
		edits[i].Span = point(at)
		return ordered(edits)
	}},
	{"an edit of what is left out", func(ix *transcript.Index, span *span, edits []Edit, _ gen.Source) []Edit {
		for i := range ix.Results {
			if r := &ix.Results[i]; span.Dropped[r.Msg] && (r.Form == transcript.StringForm || r.Form == transcript.TextForm) {
				return ordered(append(edits, Edit{r.Content, ix.Replacement(r, "x")}))
			}
		}
		return nil
	}},
	{"more than a string in the stub", onStub(func(text string, s gen.Source) string {
		more := []string{`"x"},{"type":"text","text":"y"`, `"x","cache_control":{"type":"ephemeral"}`, `["x"]`, `""`, `"`, `1`, ``, `"x" `}[s.IntN(8)]
		before, after := stubOpen, stubClose
		if !strings.HasPrefix(text, stubOpen) {
			before, after = stringMid, stringEnd
		}
		return before + more + after
	})},
	{"a stub that is cut off", onStub(func(text string, s gen.Source) string {
		i := 1 + s.IntN(len(text)-1)
		return []string{text[:i], text[i:], text[:i] + "\x00" + text[i:]}[s.IntN(3)]
	})},
}
