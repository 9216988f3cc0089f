package envoy_test

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
)

// work is a session of about fifty turns: reads that edits and later reads outdate, calls side by side, and two pauses in which
// the provider forgets what it holds. each is called for every request.
func work(a *agent, each func()) {
	turn := func(uses ...use) { a.step(uses...); each() }
	each()
	turn(runs(20))
	turn(reads("limit.go", 120))
	turn(reads("store.go", 110), reads("clock.go", 60))
	for i := range 4 {
		turn(reads("handler.go", 100+i), runs(15))
		turn(edits("limit.go"))
		turn(runs(30))
		turn(reads("limit.go", 121+i))
	}
	turn(edits("store.go"), edits("clock.go"))
	turn(reads("design.md", 160), reads("metrics.go", 90), reads("router.go", 90))
	a.pause(cold)
	a.human("Good. Now make the window configurable.")
	each()
	for i := range 5 {
		turn(reads("config.go", 100+i))
		turn(edits("config.go"), edits("router.go"))
		turn(runs(25))
	}
	turn(reads("config.go", 130), reads("store.go", 111))
	a.pause(cold)
	a.human("Write the docs and check the whole once more.")
	each()
	for range 4 {
		turn(reads("readme.md", 60))
		turn(edits("readme.md"))
		turn(runs(20))
	}
}

// play plays the session along a route.
func (p *product) play(t *testing.T, path, key string, http2 bool) (all []*exchange) {
	t.Helper()
	a := newAgent("worker")
	work(a, func() {
		r := a.request(path)
		r.key, r.http2 = key, http2
		all = append(all, p.send(t, r).ok(t))
	})
	return all
}

// TestSession plays one long session as it is, in both body modes and over both protocols, each on a state of its own that has
// the same secret. Whatever the way, the provider must see the same bytes, it must read no less than it would without
// tidemark, and the bill must be lower.
func TestSession(t *testing.T) {
	p := newProduct(t, "")
	p.tidemark.Stop(t) // now the state holds the secret and nothing else
	blank := t.TempDir()
	if err := os.CopyFS(blank, os.DirFS(p.tidemark.State)); err != nil {
		t.Fatal(err)
	}
	p.tidemark.Start(t)
	plain := p.play(t, "/off/v1/messages", "sk-plain", false)
	var first []*exchange
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		t.Run(name, func(t *testing.T) {
			p.renew(t, blank)
			all := p.play(t, ways[name].path, "sk-tidemark", ways[name].http2)
			p.check(t, all, plain, ways[name].proto)
			if first == nil {
				first = all
			}
			for i, x := range all {
				if !bytes.Equal(x.out, first[i].out) {
					t.Errorf("turn %d: other bytes than the first way, at %d of %d", i, differ(x.out, first[i].out), len(x.out))
				}
			}
		})
	}
}

// renew starts the program on a copy of a state directory, and empties the provider's cache.
func (p *product) renew(t *testing.T, from string) {
	t.Helper()
	p.tidemark.Kill(t)
	if err := os.RemoveAll(p.tidemark.State); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(p.tidemark.State, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	p.tidemark.SetClock(t, start)
	p.tidemark.Start(t)
	p.provider.sim.Reset()
}

// check holds a session to what is promised of it, against the same session without tidemark.
func (p *product) check(t *testing.T, all, plain []*exchange, proto string) {
	t.Helper()
	var bill, plainBill float64
	largest, moves, before := 0, 0, map[string]string(nil)
	for i, x := range all {
		x.keeps(t, before)
		moved := p.line(t, x)["move"] != ""
		if grown := len(x.shortened) > len(before); grown != moved {
			t.Errorf("turn %d: %d results stand shortened, %d did before, moved: %v", i, len(x.shortened), len(before), moved)
		}
		if x.uncached() > plain[i].uncached() {
			t.Errorf("turn %d: %d tokens were not read from the cache, without tidemark %d", i, x.uncached(), plain[i].uncached())
		}
		if len(before) == 0 && !moved && x.usage != plain[i].usage {
			t.Errorf("turn %d: nothing was ever removed, the bill is %+v, without tidemark %+v", i, x.usage, plain[i].usage)
		}
		if x.proto != proto {
			t.Errorf("turn %d: the provider saw %s", i, x.proto)
		}
		bill, plainBill = bill+x.cost, plainBill+plain[i].cost
		largest, before = max(largest, len(x.sent)), x.shortened
		if moved {
			moves++
		}
	}
	if bill >= plainBill {
		t.Errorf("the bill is %.0f, without tidemark %.0f", bill, plainBill)
	}
	if moves != 2 || largest < 60_000 {
		t.Errorf("%d moves after two pauses, the largest body has %d bytes", moves, largest)
	}
	t.Logf("%d turns, largest body %d bytes, %d results shortened, bill %.0f of %.0f", len(all), largest, len(before), bill, plainBill)
}

// TestHold plays a session on a route that holds every fresh read. While a read is held its text must not be in the
// provider's cache; once matured its marker must be written there once, and the text never. The same goes for a held read that
// an edit outdates.
func TestHold(t *testing.T) {
	p := newProduct(t, "")
	for name, path := range map[string]string{"buffered": "/b/v1/messages", "duplex": "/duplex/b/v1/messages"} {
		t.Run(name, func(t *testing.T) {
			a := newAgent("holder-" + name)
			h := &holding{product: p, t: t, path: path, agent: a}
			h.turn()
			h.turn(runs(40))
			h.turn(reads("quiet.go", 80)) // nobody touches it again: it matures
			h.turn(runs(10))
			h.turn(reads("busy.go", 80), runs(5)) // it is edited two turns later: stale at once
			h.turn(runs(10))
			h.turn(edits("busy.go"))
			for range 12 {
				h.turn(runs(12))
			}
			h.end()
		})
	}
}

// holding is a session on a route with hold: always.
type holding struct {
	*product

	t       *testing.T
	agent   *agent
	path    string
	all     []*exchange
	verbose int // how often a read went out verbatim after it had been seen first
}

// turn plays one turn, and looks for verbatim reads in the cache.
func (h *holding) turn(uses ...use) {
	h.t.Helper()
	if len(uses) > 0 {
		h.agent.step(uses...)
	}
	r := h.agent.request(h.path)
	x := h.send(h.t, r).ok(h.t)
	if n := len(h.all); n > 0 {
		x.keeps(h.t, h.all[n-1].shortened)
		if last := h.all[n-1]; x.usage.Read < last.cached() {
			h.t.Errorf("turn %d: read %d of the %d tokens that the provider holds", n, x.usage.Read, last.cached())
		}
	}
	h.all = append(h.all, x)
	for _, id := range h.agent.reads {
		if h.provider.sim.Holds(h.agent.texts[id], h.agent.at) {
			h.t.Errorf("turn %d: the text of read %s is in the provider's cache", len(h.all), id)
		}
		if x.shortened[id] == "" && x.marked {
			h.verbose++
		}
	}
}

// end demands that both reads matured, and that every token that the provider holds was written once.
func (h *holding) end() {
	h.t.Helper()
	last, written, uncached := h.all[len(h.all)-1], 0, 0
	for _, x := range h.all {
		written += x.usage.Write5m + x.usage.Write1h
		uncached += x.usage.Input
	}
	if len(last.shortened) != 2 || h.verbose < 5 {
		h.t.Errorf("%d reads stand shortened, verbatim reads went out %d times", len(last.shortened), h.verbose)
	}
	if written != last.cached() {
		h.t.Errorf("%d tokens were written to the cache, it holds %d", written, last.cached())
	}
	for id, marker := range last.shortened {
		text := h.agent.texts[id]
		if !h.provider.sim.Holds(unquote(h.t, marker), h.agent.at) || h.provider.sim.Holds(text, h.agent.at) {
			h.t.Errorf("the marker of read %s is not in the cache, or its text is", id)
		}
	}
	h.expect(h.t, last, "outcome", "replayed")
}

// TestShadowThenActive: a route in shadow mode changes no byte, and says what it would have done; made active it still changes
// nothing until a pause has emptied the provider's cache.
func TestShadowThenActive(t *testing.T) {
	p := newProduct(t, "")
	a := newAgent("shadow")
	before := p.early(t, a, "/shadow/v1/messages")
	if line := p.line(t, before); line["gate"] != "shadow" || line["outcome"] != "identity" {
		t.Errorf("in shadow mode: %v", line)
	}
	a.pause(cold)
	a.step(runs(5))
	x := p.send(t, a.request("/shadow/v1/messages")).ok(t).untouched(t)
	p.expect(t, x, "outcome", "identity", "gate", "shadow", "shadow_outcome", "moved", "shadow_filters", "readlifecycle")
	if n := p.tidemark.MetricWhen(t, "tidemark_shadow_removed_tokens_total", envoytest.AtLeast(1000)); n < 1000 {
		t.Errorf("shadow mode would have removed %.0f tokens", n)
	}
	p.late(t, a, "/v1/messages")
}

// TestSwitchedOnInMidSession: the first requests went past tidemark, so that it must expect the provider to hold them.
func TestSwitchedOnInMidSession(t *testing.T) {
	p := newProduct(t, "")
	for _, way := range ways {
		a := newAgent("late" + way.proto + way.path[1:3])
		p.early(t, a, "/off/v1/messages")
		p.late(t, a, way.path)
	}
}

// early plays turns that outdate a read, none of which may be changed.
func (p *product) early(t *testing.T, a *agent, path string) *exchange {
	t.Helper()
	var x *exchange
	for _, uses := range [][]use{{runs(10)}, {reads("a.go", 100)}, {edits("a.go")}, {reads("a.go", 101)}, {reads("b.go", 90)}} {
		a.step(uses...)
		x = p.send(t, a.request(path)).ok(t).untouched(t)
	}
	return x
}

// late goes on with the session on an active route: nothing may change before a pause, and the outdated reads must after it.
func (p *product) late(t *testing.T, a *agent, path string) {
	t.Helper()
	var last *exchange
	for range 3 {
		a.step(runs(8))
		x := p.send(t, a.request(path)).ok(t).untouched(t)
		p.expect(t, x, "outcome", "identity", "cache", "warm")
		if last != nil && x.usage.Read < last.cached() {
			t.Errorf("read %d of %d tokens", x.usage.Read, last.cached())
		}
		last = x
	}
	a.pause(4 * time.Minute) // less than the provider keeps a prefix
	a.step(edits("b.go"))
	p.send(t, a.request(path)).ok(t).untouched(t)
	a.pause(cold)
	a.human("Go on.")
	x := p.send(t, a.request(path)).ok(t)
	if len(x.shortened) != 2 {
		t.Errorf("after the pause %d results stand shortened, want 2", len(x.shortened))
	}
	p.expect(t, x, "outcome", "moved", "move", "cold")
	a.step(runs(8))
	y := p.send(t, a.request(path)).ok(t).keeps(t, x.shortened)
	if y.usage.Read < x.cached() {
		t.Errorf("after the move: read %d of %d tokens", y.usage.Read, x.cached())
	}
}
