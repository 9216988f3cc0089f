package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// books adds up what a live session's observations say, and what the same bodies cost where nobody changes them.
type books struct {
	*live
	plain                         *simprovider.Sim
	baseline, cost, passed, reuse float64
	removal, levers               float64
	first, again                  pipeline.Priced
	bases                         map[pipeline.Basis]int
}

func newBooks(l *live) *books {
	return &books{live: l, plain: simprovider.New(simprovider.Options{}), bases: map[pipeline.Basis]int{}}
}

// fileOf is a file of its own that a read returns.
func fileOf(n int) string { return strings.Repeat(fmt.Sprintf("line %d of the file\n", n), 400) }

func readOf(path string) gen.Object { return gen.Object{{Key: "file_path", Value: path}} }

// next plays a turn in both worlds.
func (b *books) next(k *talk) {
	b.Helper()
	b.turn(k)
	r := b.plain.Call(b.in, b.header, b.at)
	if r.Status != http.StatusOK {
		b.Fatalf("the client's own body is refused: %v", r.Err)
	}
	rates := cache.Prices().Lookup(r.Model).Rates(r.Usage.Input + r.Usage.Read + r.Usage.Write5m + r.Usage.Write1h)
	u := r.Usage
	pass := (float64(u.Input)*rates.Input + float64(u.Read)*rates.Read + float64(u.Write5m)*rates.Write5m + float64(u.Write1h)*rates.Write1h + float64(b.ob.Usage.Output)*rates.Output) / 1e6
	b.passed += pass
	b.baseline += b.ob.Baseline
	b.cost += b.ob.Cost
	a := b.ob.Account
	if a == nil {
		b.Fatal("no account")
	}
	if d := a.Removal + a.Levers - (b.ob.Baseline - b.ob.Cost); math.Abs(d) > 1e-12 {
		b.Errorf("removal and levers miss the whole by %g", d)
	}
	if off := b.ob.Baseline/pass - 1; math.Abs(off) > 0.08 {
		b.Errorf("at %s: the baseline is %.1f %% off: $%.6f, the client's own body cost $%.6f (move %v, read %d of %d)", b.at.Format("15:04:05"), 100*off, b.ob.Baseline, pass, b.o.Move, b.ob.Usage.Read, b.ob.Usage.Prompt())
	}
	b.removal += a.Removal
	b.levers += a.Levers
	b.reuse += a.Reuse
	b.first.USD += a.First.USD
	b.again.USD += a.Again.USD
	if basis := a.First.Basis(); basis != "" {
		b.bases[basis]++
	}
}

// TestAccount plays a session with warm and cold moves beside the same session without tidemark: what the account calls the
// baseline is what the client's own bodies cost, request by request, and what was left out is priced by what it would have been
// billed as.
func TestAccount(t *testing.T) {
	l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{})
	b := newBooks(l)
	k := l.talk()
	b.next(k)
	for i := range 8 {
		b.next(k.exchange(fmt.Sprint("r", i), "Read", readOf(fmt.Sprint("/w/", i)), fileOf(i)))
	}
	if len(b.bases) != 0 {
		t.Errorf("something was left out before anything was stale: %v", b.bases)
	}
	b.next(k.edit("e1", "/w/1"))
	b.next(k.say("Go on."))
	if b.bases[pipeline.CacheReadMarginal] != 1 {
		t.Errorf("after a warm move the bases are %v", b.bases)
	}
	again := b.again.USD
	b.next(k.say("Go on."))
	if b.again.USD <= again {
		t.Error("what was left out is not counted on the next request")
	}
	b.next(k.edit("e2", "/w/2"))
	l.c.Moves.Warm = false
	l.wait(20 * time.Minute)
	b.next(k.say("Go on."))
	if b.bases[pipeline.CacheWriteMarginal] != 1 {
		t.Errorf("after a cold move the bases are %v", b.bases)
	}
	if b.levers > 0.01*b.cost || b.levers < -0.01*b.cost {
		t.Errorf("levers came to $%.6f of $%.6f without any", b.levers, b.cost)
	}
	if off := b.baseline/b.passed - 1; math.Abs(off) > 0.03 {
		t.Errorf("the baseline is %.2f %% off in all", 100*off)
	}
	if saved := b.passed - b.cost; math.Abs(b.removal-saved) > 0.03*b.passed || b.reuse != 0 {
		t.Errorf("removal $%g of $%g that were saved, reuse $%g", b.removal, saved, b.reuse)
	}

	// The model reads what was left out: it is charged a call and the file.
	read := b.ob.Usage.Prompt()
	b.next(k.exchange("again", "Read", readOf("/w/1"), fileOf(1)))
	if len(l.o.Again) != 1 || l.o.Again[0].Kind != pipeline.Reread || l.o.Again[0].Call != "again" || l.o.Again[0].Filter != "readlifecycle" {
		t.Fatalf("again %+v", l.o.Again)
	}
	if least := float64(read) * 0.3e-6; b.reuse < least {
		t.Errorf("reuse $%g, a call that reads the prompt alone is $%g", b.reuse, least)
	}
	if l.ob.Net() >= l.ob.Baseline-l.ob.Cost {
		t.Error("reuse does not come off the net")
	}
	b.next(k.say("Go on."))
	if len(l.o.Again) != 0 {
		t.Errorf("charged twice: %+v", l.o.Again)
	}
}

// TestAccountWithoutBreakpoints prices what is left out of prompts that nobody caches at the full price of input.
func TestAccountWithoutBreakpoints(t *testing.T) {
	l := newLive(t, staleAtDepth(t, pipeline.Moves{}), simprovider.Policy{})
	k := l.talk()
	for i := range 8 {
		k.read(fmt.Sprint("r", i), fmt.Sprint("/w/", i))
	}
	unmarked(k.edit("e1", "/w/1"))
	for range 2 {
		l.ask(unmarked(k.say("Go on.")))
		l.ob = l.e.Observe(context.Background(), l.o, l.answer())
		l.wait(2 * time.Hour)
	}
	l.ask(unmarked(k.say("Go on.")))
	l.ob = l.e.Observe(context.Background(), l.o, l.answer())
	a := l.ob.Account
	if a == nil || l.o.Replays == 0 && len(l.o.New) == 0 {
		t.Fatalf("account %+v, gates %v", a, l.o.Gates)
	}
	if got := a.Again.Basis(); got != pipeline.FullInput {
		t.Errorf("basis %q of %+v", got, a.Again)
	}
}
