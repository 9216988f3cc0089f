package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// cutTurn plays a request of which messages may be left out, and its answer.
func (l *live) cutTurn(k *talk) {
	l.Helper()
	k.Mark(gen.Short)
	l.askAny(k.Conversation)
	r := l.answer()
	if l.saw != nil {
		l.saw(r)
	}
	l.ob = l.observe(r)
}

// TestCutKeepsABreakpoint: a client that marks one early message and nothing behind it has a breakpoint after the cut too.
func TestCutKeepsABreakpoint(t *testing.T) {
	l := newLive(t, shedding(t), simprovider.Policy{})
	plain := simprovider.New(simprovider.Options{})
	k := newTalk()
	k.Messages[0].Blocks = []gen.Block{gen.Text("Fix the limiter. " + strings.Repeat("Here is the whole specification of it. ", 3000))}
	for i := range 9 {
		k.read(fmt.Sprintf("r%d", i), fmt.Sprintf("/w/f%d", i))
	}
	var cost, costPlain float64
	play := func() {
		t.Helper()
		k.Unmark()
		k.Messages[2].Blocks[0].Marker = gen.Short // the first result: all later ones are unmarked
		l.askAny(k.Conversation)
		l.ob = l.observe(l.answer())
		p := plain.Call(l.in, l.header, l.at)
		cost += l.sim.Cost(simprovider.Received{Model: l.res.Model, Usage: l.res.Usage})
		costPlain += plain.Cost(simprovider.Received{Model: p.Model, Usage: p.Usage})
	}
	play()
	l.wait(cold)
	for i := range 8 {
		k.read(fmt.Sprintf("x%d", i), "/w/x")
		play()
		l.wait(30 * time.Second)
	}
	if cost > costPlain {
		t.Errorf("bill %.0f, without tidemark %.0f", cost, costPlain)
	}
}

// TestRawGuardSeesACut: the body as it came outgrows the window while a cut hides that.
func TestRawGuardSeesACut(t *testing.T) {
	c := shedding(t, func(c *shed.Config) { c.Budget, c.Quantum = 60_000, 20_000 })
	c.Moves = pipeline.Moves{RawGuard: true}
	l := newLive(t, c, simprovider.Policy{})
	l.priced(cache.Override{Model: plainModel, Input: 3, Output: 15, Read: 0.3, Write5m: 3.75, Write1h: 6, Minimum: 1024, Window: 200_000})
	plain := simprovider.New(simprovider.Options{})
	k := newTalk()
	big := strings.Repeat("func limiter(x int) int { return x + 1 }\n", 1200)
	for i := range 30 {
		k.exchange(fmt.Sprintf("r%d", i), "Read", gen.Object{{Key: "file_path", Value: "/w/f"}}, big)
		l.cutTurn(k)
		raw := plain.Call(l.in, l.header, l.at).Prompt
		if raw > 190_000 && l.o.Gate != filters.RawGuard {
			t.Errorf("%d: the body has %d tokens of a window of 200000, %d are sent: gate %q, move %v", i, raw, l.res.Prompt, l.o.Gate, l.o.Move != nil)
		}
		if i%5 == 4 {
			l.wait(2 * time.Hour)
		}
	}
}

// TestHoldsBehindACut: what a call adds is the same before and after a cut, and so is what a hold costs.
func TestHoldsBehindACut(t *testing.T) {
	for _, cut := range []bool{false, true} {
		cost := map[bool]float64{}
		for _, economic := range []bool{false, true} {
			c := shedding(t)
			if !cut {
				c.Filters = nil
			}
			keys := readmaturation.Default()
			keys.Hold = readmaturation.Never
			if economic {
				keys.Hold = readmaturation.Economic
			}
			f, err := readmaturation.New(keys)
			if err != nil {
				t.Fatal(err)
			}
			c = &pipeline.Config{Name: "both", Filters: append([]filters.Filter{f}, c.Filters...)}
			l := newLive(t, c, simprovider.Policy{})
			k := newTalk()
			for i := range 40 {
				k.read(fmt.Sprintf("r%d", i), fmt.Sprintf("/w/f%d", i))
			}
			l.cutTurn(k)
			l.wait(2 * time.Hour)
			for i := range 14 {
				step := func() {
					l.cutTurn(k)
					cost[economic] += l.ob.Cost
				}
				k.exchange(fmt.Sprintf("b%d", i), "Bash", gen.Object{{Key: "command", Value: fmt.Sprint("make ", i)}}, strings.Repeat(fmt.Sprint("line ", i, " of a long log that is new\n"), 700))
				step()
				if i%3 == 0 {
					k.read(fmt.Sprintf("x%d", i), fmt.Sprintf("/w/x%d", i))
					step()
				}
			}
		}
		if cost[true] > 1.01*cost[false] {
			t.Errorf("cut %v: economic holds cost %.4f, none %.4f", cut, cost[true], cost[false])
		}
	}
}

// TestLossBehindALostCut: the client took the end of the cut away some requests ago. A loss that the provider causes later is the
// provider's.
func TestLossBehindALostCut(t *testing.T) {
	c := shedding(t)
	c.Moves.Brake = true
	l := newLive(t, c, simprovider.Policy{})
	k := newTalk()
	for i := range 9 {
		k.read(fmt.Sprintf("r%d", i), fmt.Sprintf("/w/f%d", i))
	}
	play := func() { l.cutTurn(k) }
	play()
	l.wait(cold)
	k.read("x", "/w/x")
	play()
	if l.o.Cut == 0 {
		t.Fatal("no cut")
	}
	k = k.cut(l.o.Cut - 3) // a rewind to before the end of the cut
	k.say("Another way.")
	play()
	for i := range 4 {
		k.read(fmt.Sprintf("y%d", i), "/w/y")
		play()
	}
	l.saw = rereads(0)
	for i := range 4 {
		k.read(fmt.Sprintf("z%d", i), "/w/y")
		play()
		if l.ob.Loss == nil || l.ob.Loss.Cause != pipeline.CauseProvider {
			t.Errorf("blamed %+v", l.ob.Loss)
		}
	}
	if !l.branch().Ledger.Braked {
		t.Error("four misses of the provider's brake nothing")
	}
}
