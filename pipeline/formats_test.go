package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// wires are the formats other than Anthropic's, which the rest of the tests is about.
var wires = map[transcript.Format]gen.Format{
	transcript.Chat: gen.Chat, transcript.Responses: gen.Responses, transcript.Converse: gen.Converse, transcript.Gemini: gen.Gemini,
}

// deepConfig has the filters that need no hold; with a budget also shed.
func deepConfig(tb testing.TB, budget int) *pipeline.Config {
	tb.Helper()
	return deepConfigOf(tb, budget, filters.Full)
}

func deepConfigOf(tb testing.TB, budget int, mode filters.MarkerMode) *pipeline.Config {
	tb.Helper()
	var fs []filters.Filter
	add := func(f filters.Filter, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		fs = append(fs, f)
	}
	rl, co, ti := readlifecycle.Default(), coref.Default(), tiered.Default()
	co.MinLaterTurns, co.MinTokens = 2, 30
	ti.Window, ti.StubDistance = 2, 4
	rl.MarkerMode, co.MarkerMode, ti.MarkerMode = mode, mode, mode
	add(readlifecycle.New(rl))
	add(coref.New(co))
	add(tiered.New(ti))
	if budget > 0 {
		sh := shed.Default()
		sh.Budget, sh.Quantum, sh.KeepRecentTurns, sh.MarkerMode = budget, budget/2, 2, mode
		add(shed.New(sh))
	}
	return &pipeline.Config{Name: "deep", Filters: fs}
}

// ride is a walk in one format.
type ride struct {
	*walker
	f transcript.Format
}

func newRide(t *rapid.T, c *pipeline.Config, f transcript.Format) *ride {
	o := gen.Options{Model: plainModel, Dialects: true, Strange: rapid.Bool().Draw(t, "strange"), Wild: rapid.Bool().Draw(t, "wild"), Files: 3, ResultBytes: 8000}
	w := &walker{t: t, m: gen.New(gentest.Source(t), o), c: c, store: keyed{memory.New()}, at: epoch}
	w.restart()
	conv := w.m.Conversation(rapid.IntRange(0, 9).Draw(t, "turns"))
	if rapid.IntRange(0, 3).Draw(t, "small") > 0 { // of a small prompt nothing may go
		conv.System = append(conv.System, gen.Text(strings.Repeat("Work with care. ", 1700)))
	}
	w.lines = []*gen.Conversation{conv}
	return &ride{w, f}
}

func (w *ride) send() step {
	r := ask(w.lines[w.cur].As(wires[w.f]), w.c, w.at)
	r.Format, r.Model = w.f, plainModel
	o := w.e.Request(context.Background(), r)
	s := step{in: r.Body, out: r.Body, o: o, at: w.at, line: w.cur}
	if o.Body != nil {
		s.out = o.Body
	}
	w.steps = append(w.steps, s)
	return s
}

// heard is what a body says, by a reader of its own.
func heard(t *rapid.T, f transcript.Format, body []byte) []gentest.Piece {
	pieces, err := gentest.Read(wires[f], body)
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

// rewritten lists the pieces whose result is another one; anything else that differs fails the test.
func rewritten(t *rapid.T, in, out []gentest.Piece) (at []int) {
	if len(in) != len(out) {
		t.Fatalf("%d pieces became %d", len(in), len(out))
	}
	for i := range in {
		a, b := in[i], out[i]
		if a.Kind == "result" && a.Result != b.Result {
			at = append(at, i)
			a.Result, b.Result = "", ""
		}
		if a != b {
			t.Fatalf("piece %d is another one: %s", i, cmp.Diff(a, b))
		}
	}
	return at
}

// raws are the contents of the results of a body, as they are written, and everything else of it but breakpoints.
func raws(t *rapid.T, f transcript.Format, body []byte) (contents []string, rest string) {
	ix, err := transcript.Parse(body, f)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	defer ix.Release()
	var cuts []transcript.Span
	for i := range ix.Results {
		contents = append(contents, string(ix.Results[i].Content.Of(body)))
		if ix.Results[i].Content.Len() > 0 {
			cuts = append(cuts, ix.Results[i].Content)
		}
	}
	for i := range ix.Markers {
		if m := &ix.Markers[i]; f == transcript.Converse && !m.Nested { // the one format here in which they move
			cuts = append(cuts, m.Cut)
		}
	}
	slices.SortFunc(cuts, func(a, b transcript.Span) int { return int(a.Lo) - int(b.Lo) })
	at := uint32(0)
	var b strings.Builder
	for _, c := range cuts {
		b.Write(body[at:c.Lo])
		at = c.Hi
	}
	b.Write(body[at:])
	return contents, b.String()
}

// TestInvariantsInEveryFormat: what holds of Anthropic bodies holds of all: nothing but results changes, no byte around them, no
// failed one, never to something larger, what was forwarded stays except at a declared move, decisions stand, and every marker
// has its original.
func TestInvariantsInEveryFormat(t *testing.T) {
	for f := range wires {
		t.Run(f.String(), func(t *testing.T) {
			c, markers, moves := deepConfig(t, 0), 0, 0
			rapid.Check(t, func(t *rapid.T) {
				w := newRide(t, c, f)
				last := map[uint64]step{}
				for range rapid.IntRange(2, 14).Draw(t, "requests") {
					w.act()
					s := w.send()
					markers += w.judge(s, last)
					moves += b2i(s.o.Move != nil)
					last[s.o.Branch] = s
				}
			})
			if markers == 0 || moves == 0 {
				t.Errorf("%d markers in %d moves: the walks prove nothing", markers, moves)
			}
		})
	}
}

// judge looks at one request, and returns how many markers it carries.
func (w *ride) judge(s step, last map[uint64]step) int {
	t := w.t
	in, out := heard(t, w.f, s.in), heard(t, w.f, s.out)
	for _, i := range rewritten(t, in, out) {
		a, b := in[i], out[i]
		if a.Failed || transcript.Est(a.Result)-transcript.Est(b.Result) < filters.MinGain {
			t.Fatalf("a result of %d bytes, failed %t, became %d bytes", len(a.Result), a.Failed, len(b.Result))
		}
	}
	before, around := raws(t, w.f, s.in)
	after, left := raws(t, w.f, s.out)
	if around != left {
		t.Fatal("bytes around results changed")
	}
	n := 0
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		n++
		o, err := w.store.Original(context.Background(), idOf(after[i]))
		if err != nil || string(o.Content) != before[i] || sha256.Sum256(o.Content) != o.SHA256 {
			t.Fatalf("original of result %d: %v", i, err)
		}
	}
	for _, d := range s.o.New {
		if !d.Hold && !d.Drop && !bytes.Contains(s.out, []byte(d.ID)) {
			t.Fatalf("what was decided of call %s at message %d is not forwarded", d.Call, d.Msg)
		}
	}
	if s.o.Undeclared {
		t.Fatal("the engine saw an undeclared change")
	}
	prev, ok := last[s.o.Branch]
	if !ok {
		prev, ok = last[s.o.Parent]
	}
	if !ok || s.o.Move != nil || !w.f.Automatic() || !w.grew(prev.in, s.in) {
		return n
	}
	was, had := heard(t, w.f, prev.in), heard(t, w.f, prev.out)
	for i := range was {
		if was[i] == in[i] && had[i] != out[i] {
			t.Fatalf("%v: piece %d of %d was forwarded otherwise before, without a move: %s", s.o.Kind, i, len(in), cmp.Diff(had[i], out[i]))
		}
	}
	return n
}

// grew reports whether a body begins with all messages of another one, byte for byte: then the provider may hold all of that.
func (w *ride) grew(before, after []byte) bool {
	ix, err := transcript.Parse(before, w.f)
	if err != nil {
		w.t.Fatal(err)
	}
	defer ix.Release()
	end := ix.Messages[len(ix.Messages)-1].Raw.Hi
	return bytes.HasPrefix(after, before[:end])
}

// TestCutsInEveryFormat: what shed leaves out leaves a lawful body: pairs stay together, one stub is added, and nothing else is
// touched.
func TestCutsInEveryFormat(t *testing.T) {
	for f := range wires {
		t.Run(f.String(), func(t *testing.T) {
			c, cuts := deepConfig(t, 1200), 0
			rapid.Check(t, func(t *rapid.T) {
				w := newRide(t, c, f)
				for range rapid.IntRange(6, 12).Draw(t, "requests") {
					if rapid.Bool().Draw(t, "act") {
						w.act()
					} else {
						w.m.Turn(w.lines[w.cur])
						w.at = w.at.Add(2 * time.Hour)
					}
					s := w.send()
					if s.o.Cut == 0 {
						continue
					}
					cuts++
					w.judgeCut(s)
				}
			})
			if cuts == 0 {
				t.Error("nothing was ever cut")
			}
		})
	}
}

func (w *ride) judgeCut(s step) {
	t := w.t
	in, out := heard(t, w.f, s.in), heard(t, w.f, s.out)
	at, stubs := 0, 0
	calls := map[string]int{}
	for _, p := range out {
		switch p.Kind {
		case "call":
			calls[p.ID]++
		case "result":
			calls[p.ID]--
		}
		i := slices.IndexFunc(in[at:], func(q gentest.Piece) bool {
			if p.Kind == "result" {
				q.Result = p.Result
			}
			return p == q
		})
		if i < 0 {
			if !strings.Contains(p.Text, "[tidemark ") {
				t.Fatalf("%+v was never there", p)
			}
			stubs++
			continue
		}
		at += i + 1
	}
	if stubs != 1 || len(out)-stubs >= len(in) {
		t.Fatalf("%d stubs, %d pieces of %d", stubs, len(out), len(in))
	}
	for _, p := range in { // what was answered stays answered
		if p.Kind == "call" && calls[p.ID] > 0 && slices.ContainsFunc(in, func(q gentest.Piece) bool { return q.Kind == "result" && q.ID == p.ID }) {
			t.Fatalf("call %s lost its result", p.ID)
		}
	}
	for id, n := range calls {
		if n < 0 {
			t.Fatalf("result %s lost its call", id)
		}
	}
	if !json.Valid(s.out) {
		t.Fatal("no JSON")
	}
}

// TestFormatsDecideAlike: one conversation leads to the same decisions in every format, request by request.
func TestFormatsDecideAlike(t *testing.T) {
	c, made := deepConfigOf(t, 4000, filters.Summary), 0 // ids differ, and so do the tokens of markers that name them
	all := maps.Clone(wires)
	all[transcript.Anthropic] = gen.Anthropic
	rapid.Check(t, func(t *rapid.T) {
		m := gen.New(gentest.Source(t), gen.Options{
			Model: plainModel, Dialects: true, Comparable: true, Files: 3, ResultBytes: 12000, // not wild: what a marker quotes of arguments is what stands there
		})
		conv, at := m.Conversation(rapid.IntRange(1, 8).Draw(t, "turns")), epoch
		conv.System = append(conv.System, gen.Text(strings.Repeat("Work with care. ", 1700))) // no body comes near the smallest that is cached
		conv.Dialect.Custom, conv.Dialect.IDs = false, true                                   // a patch that is no JSON has other tokens; results without ids have none to name
		engines := map[transcript.Format]*pipeline.Engine{}
		for f := range all {
			e, err := pipeline.New(context.Background(), keyed{memory.New()}, pipeline.Options{Flush: -1, Start: epoch, DeepProof: true})
			if err != nil {
				t.Fatal(err)
			}
			engines[f] = e
		}
		for range rapid.IntRange(2, 12).Draw(t, "requests") {
			at = at.Add(rapid.SampledFrom([]time.Duration{10 * time.Second, 10 * time.Second, time.Minute, 3 * time.Hour}).Draw(t, "pause"))
			var want []string
			for f := transcript.Anthropic; int(f) <= len(wires)+1; f++ {
				r := ask(conv.As(all[f]), c, at)
				r.Format, r.Model, r.Explain = f, plainModel, pipeline.ExplainAll
				o := engines[f].Request(context.Background(), r)
				got := decisions(t, o)
				if f == transcript.Anthropic {
					want = got
					made += len(o.New)
				} else if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%s (+) decides otherwise than %s (-):\n%s", f, transcript.Anthropic, d)
				}
			}
			m.Turn(conv)
			conv.Unmark()
			conv.Mark(gen.Short)
		}
	})
	if made == 0 {
		t.Error("nothing was ever decided")
	}
}

// decisions is what an outcome decided and why it did not, without what depends on bytes.
func decisions(t *rapid.T, o *pipeline.Outcome) []string {
	out := []string{fmt.Sprintf("%v %v %q cut %d, %d replays", o.Kind, o.Level, o.Gate, o.Cut, o.Replays)}
	for _, d := range o.New {
		out = append(out, fmt.Sprintf("new: %s %s %s %s, %d tokens at %d, drop %t %v", d.Filter, d.Verdict, d.Tool, d.Call, d.Tokens, d.Msg, d.Drop, d.Calls))
	}
	for _, v := range o.Explain {
		out = append(out, fmt.Sprintf("%s %s %s: %v %s %s %v", v.Call, v.Tool, v.What, v.Zone, v.Filter, v.Verdict, v.Gates))
	}
	if !bytes.Contains([]byte(strings.Join(out, "\n")), []byte(" ")) {
		t.Fatal("an outcome that says nothing")
	}
	return out
}
