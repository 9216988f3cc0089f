package shed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// drawn is a talk with what each of its messages is said to weigh.
type drawn struct {
	gentest.Talk

	sizes []int
	turn  []int // of each message
}

func draw(t *rapid.T, exchanges int) *drawn {
	d := &drawn{Talk: gentest.Talks(exchanges).Draw(t, "talk")}
	turn, last := 0, ""
	for m := range d.Talk {
		size := rapid.IntRange(0, 9).Draw(t, "size")
		if len(d.Talk[m].Answers) > 0 {
			size *= 10
		}
		if d.Talk[m].Role == "assistant" && last != "assistant" {
			turn++
		}
		last = d.Talk[m].Role
		d.sizes, d.turn = append(d.sizes, size), append(d.turn, turn)
	}
	return d
}

func drawConfig(t *rapid.T) shed.Config {
	c := shed.Default()
	c.Budget, c.Quantum = rapid.IntRange(1, 300).Draw(t, "budget"), rapid.IntRange(1, 150).Draw(t, "quantum")
	c.KeepRecentTurns, c.KeepHuman = rapid.IntRange(1, 4).Draw(t, "keep_recent_turns"), rapid.Bool().Draw(t, "keep_human")
	return c
}

// view is the first n messages as the filter sees them, with a cut in force.
func (d *drawn) view(tb rapid.TB, n int, cut *filters.Cut) *filters.View {
	tb.Helper()
	ix, err := transcript.Parse(d.Talk[:n].Body(), transcript.Anthropic)
	if err != nil {
		tb.Fatal(err)
	}
	gone := make([]bool, n)
	if cut != nil {
		g, ok := ix.Gap(cut.Head, cut.Next, cut.KeepHuman)
		if !ok {
			tb.Fatalf("the cut %+v does not stand any more", cut)
		}
		gone = g.Dropped
	}
	v := &filters.View{Index: ix, Turn: ix.LastTurn(), Cut: cut, Size: func(msg int32) int {
		if gone[msg] {
			return 0
		}
		return d.sizes[msg]
	}}
	for i := range ix.Results {
		if !gone[ix.Results[i].Msg] {
			v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Open: true})
		}
	}
	return v
}

// naive is the rule: every boundary is tried for every number of quanta. It returns a gate, or the first message that stays and
// what the stub says of humans.
func (d *drawn) naive(c *shed.Config, v *filters.View) (gate filters.Gate, next int, extra string) {
	n, head := len(v.Index.Messages), d.Head()
	total := 0
	for m := range n {
		total += v.Size(int32(m))
	}
	from, keepHuman := head, c.KeepHuman
	if v.Cut != nil {
		from, keepHuman = int(v.Cut.Next), v.Cut.KeepHuman
	}
	switch {
	case d.turn[n-1]-d.turn[head] <= c.KeepRecentTurns:
		return filters.TooFewMessages, 0, ""
	case total <= c.Budget:
		return filters.UnderBudget, 0, ""
	}
	all, _ := v.Index.Gap(int32(head), int32(n), keepHuman)
	parted := false
	for quanta := (total - c.Budget + c.Quantum - 1) / c.Quantum; quanta > 0; quanta-- {
		for b := from + 1; b < n; b++ {
			left := 0
			for m := range b {
				if all.Dropped[m] {
					left += v.Size(int32(m))
				}
			}
			if !d.Opens(b) || d.turn[n-1]-d.turn[b]+1 < c.KeepRecentTurns || left < quanta*c.Quantum {
				continue
			}
			if d.parts(n, b, all.Dropped) {
				parted = true
				continue
			}
			if _, ok := v.Index.Gap(int32(head), int32(b), keepHuman); !ok {
				return filters.OpenPair, 0, ""
			}
			gate, extra = d.quote(c, v, all.Dropped[:b], keepHuman)
			return gate, b, extra
		}
	}
	if parted {
		return filters.OpenPair, 0, ""
	}
	return filters.NothingToDrop, 0, ""
}

// parts reports whether a boundary lies between a call and its answer, or behind a call that goes and has none yet.
func (d *drawn) parts(n, b int, gone []bool) bool {
	answered := map[string]bool{}
	for m := range n {
		for _, id := range d.Talk[m].Answers {
			answered[id] = true
		}
	}
	for m := range b {
		if gone[m] && slices.ContainsFunc(d.Talk[m].Calls, func(id string) bool { return !answered[id] }) {
			return true
		}
	}
	return slices.ContainsFunc(d.Talk[:n].Together(), func(p [2]int) bool { return p[0] < b && b <= p[1] })
}

// quote is what the stub says of the humans in what goes.
func (d *drawn) quote(c *shed.Config, v *filters.View, gone []bool, keepHuman bool) (filters.Gate, string) {
	if keepHuman {
		return "", ""
	}
	var pins []string
	first, tokens := "", 0
	for m := range gone {
		if !gone[m] || !d.Talk[m].Human() || v.Cut != nil && m > int(v.Cut.Head) && m < int(v.Cut.Next) {
			continue
		}
		for _, text := range d.Talk[m].Texts {
			if text == gentest.Reminder {
				continue
			}
			if first == "" {
				first = `first words of a human in it: "` + strings.ReplaceAll(text, "\n", " ") + `"`
			}
			if text == gentest.Goal || text == gentest.OldGoal {
				pins, tokens = append(pins, text), tokens+transcript.Est(text)
			}
		}
	}
	switch {
	case tokens*4 > c.Budget && tokens > c.Budget/4:
		return filters.PinRefused, ""
	case len(pins) > 0:
		return "", strings.Join(pins, "\n")
	}
	return "", first
}

func build(tb rapid.TB, c shed.Config) filters.Filter {
	tb.Helper()
	f, err := shed.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// asked is what the filter says: of the transcript, nil if it proposes no cut, and of the results.
func asked(f filters.Filter, v *filters.View) (cut *filters.Proposal, gates map[filters.Gate]int) {
	gates = map[filters.Gate]int{}
	for _, p := range f.Propose(v) {
		if p.Result == filters.Transcript {
			cut = &p
		} else {
			gates[p.Gate]++
		}
	}
	return cut, gates
}

func TestCutEqualsTheNaiveRule(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, 16)
		for range 6 {
			c := drawConfig(t)
			cut := d.checkNaive(t, &c, nil, seen)
			if c = drawConfig(t); cut != nil { // and another config sees the cut of this one
				d.checkNaive(t, &c, cut, seen)
			}
		}
	})
	t.Logf("%v", seen)
	for _, what := range []string{"cut true", "cut false", "recut true", "recut false", "under_budget", "too_few_messages", "nothing_to_drop", "open_pair", "pin_refused"} {
		if seen[what] == 0 {
			t.Errorf("%s was never tried", what)
		}
	}
}

// checkNaive compares what the filter says of a talk with the rule.
func (d *drawn) checkNaive(t *rapid.T, c *shed.Config, cut *filters.Cut, seen map[string]int) *filters.Cut {
	v := d.view(t, len(d.Talk), cut)
	defer v.Index.Release()
	gate, next, extra := d.naive(c, v)
	p, gates := asked(build(t, *c), v)
	if gate != "" {
		if p != nil || gates[gate] != len(v.Candidates) {
			t.Fatalf("%+v, gates %v, want %s", p, gates, gate)
		}
		seen[string(gate)]++
		return nil
	}
	want := filters.Cut{Head: int32(d.Head()), Next: int32(next), KeepHuman: c.KeepHuman}
	verdict := shed.First
	if cut != nil {
		want.KeepHuman, verdict = cut.KeepHuman, shed.Again
	}
	if p == nil || *p.Cut != want || p.Extra != extra || p.Verdict != verdict {
		t.Fatalf("%+v, want %+v with %q as %s", p, want, extra, verdict)
	}
	if gates[filters.InCut]+gates[filters.BeyondCut] != len(v.Candidates) {
		t.Fatalf("gates %v of %d results", gates, len(v.Candidates))
	}
	seen[fmt.Sprint(verdict, " ", want.KeepHuman)]++
	return p.Cut
}

// TestCutStandsStill: asked again and again while a transcript grows, the filter moves the end of its cut only forward, only
// when what is sent has outgrown the budget, and each time by as many quanta as there are, up to those that are asked for.
func TestCutStandsStill(t *testing.T) {
	moved, stood := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d, c := draw(t, 25), drawConfig(t)
		f := build(t, c)
		var cut *filters.Cut
		for n := d.Head() + 1; n <= len(d.Talk); n++ {
			if d.Talk[n-1].Role != "user" {
				continue
			}
			v := d.view(t, n, cut)
			p, gates := asked(f, v)
			total := 0
			for m := range n {
				total += v.Size(int32(m))
			}
			switch {
			case p == nil:
				stood += b2i(cut != nil && gates[filters.UnderBudget] > 0)
			case total <= c.Budget:
				t.Fatalf("%d tokens are within the budget, and %+v", total, p.Cut)
			case cut != nil && (p.Cut.Next <= cut.Next || p.Cut.KeepHuman != cut.KeepHuman || p.Cut.Head != cut.Head):
				t.Fatalf("%+v after %+v", p.Cut, cut)
			case p.Cut.Head != int32(d.Head()) || d.turn[n-1]-d.turn[p.Cut.Next]+1 < c.KeepRecentTurns:
				t.Fatalf("%+v of %d messages", p.Cut, n)
			default:
				d.checkGone(t, &c, v, p.Cut, total)
				cut = p.Cut
				moved++
			}
			v.Index.Release()
		}
	})
	t.Logf("moved %d times, stood still %d times", moved, stood)
	if moved == 0 || stood == 0 {
		t.Error("not everything was tried")
	}
}

// checkGone wants whole quanta to go: the last exchange of a cut is the one with which they are reached.
func (d *drawn) checkGone(t *rapid.T, c *shed.Config, v *filters.View, cut *filters.Cut, total int) {
	g, ok := v.Index.Gap(cut.Head, cut.Next, cut.KeepHuman)
	if !ok {
		t.Fatalf("%+v parts a pair", cut)
	}
	gone := 0
	for m := range g.Dropped {
		if g.Dropped[m] {
			gone += v.Size(int32(m))
		}
	}
	if gone < c.Quantum {
		t.Fatalf("%d tokens go, a quantum is %d", gone, c.Quantum)
	}
	if over := total - gone - c.Budget; over > 0 { // then no later boundary may leave out a quantum more
		for b := int(cut.Next) + 1; b < len(g.Dropped); b++ {
			more, ok := v.Index.Gap(cut.Head, int32(b), cut.KeepHuman)
			left := 0
			for m := range more.Dropped {
				if more.Dropped[m] {
					left += v.Size(int32(m))
				}
			}
			all, _ := v.Index.Gap(cut.Head, int32(len(g.Dropped)), cut.KeepHuman)
			recent := d.turn[len(g.Dropped)-1]-d.turn[b]+1 < c.KeepRecentTurns
			if ok && d.Opens(b) && !recent && !d.parts(len(g.Dropped), b, all.Dropped) && left/c.Quantum > gone/c.Quantum {
				t.Fatalf("%+v leaves out %d, and up to %d it would be %d", cut, gone, b, left)
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
