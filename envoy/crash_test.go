package envoy_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-dev/tidemark/state/badgerdb"
)

// worker is an agent whose program is killed while it works.
type worker struct {
	*agent

	all  []*exchange
	up   []bool            // the program ran all the while
	seen map[string]string // contents that ever stood for others, by call id
}

// turn plays one turn. up says that the program runs all the while.
func (w *worker) turn(t *testing.T, p *product, up bool, uses ...use) {
	t.Helper()
	w.step(uses...)
	w.all = append(w.all, p.send(t, w.request("/v1/messages")).ok(t))
	w.up = append(w.up, up)
}

// judge goes through all turns: what tidemark answered must keep everything that ever stood shortened, what it did not answer must
// have arrived as it was sent. It returns the number of requests that shortened more than before, and of those that passed.
func (w *worker) judge(t *testing.T, p *product) (decided, passed int) {
	t.Helper()
	for i, x := range w.all {
		if p.Access(t, x.id)["outcome"] == nil {
			x.untouched(t)
			passed++
			if w.up[i] {
				t.Errorf("request %s passed tidemark, which was there", x.id)
			}
			continue
		}
		x.keeps(t, w.seen)
		if len(x.shortened) > len(w.seen) {
			decided++
		}
		maps.Copy(w.seen, x.shortened)
	}
	return decided, passed
}

// workers play turns together.
type workers []*worker

func (all workers) turn(t *testing.T, p *product, up bool, uses ...use) {
	t.Helper()
	var group sync.WaitGroup
	for _, w := range all {
		group.Go(func() { w.turn(t, p, up, uses...) })
	}
	group.Wait()
}

// TestKill kills the program while requests of several sessions are on their way, each of which would decide something, at
// another moment in every round. Nothing that was ever forwarded shortened may come back in another form.
func TestKill(t *testing.T) {
	p := newProduct(t, "")
	var all workers
	for i := range 6 {
		all = append(all, &worker{agent: newAgent(fmt.Sprintf("worker%d", i)), seen: map[string]string{}})
	}
	for round := range 2 * len(all) {
		path := fmt.Sprintf("file%d.go", round)
		all.turn(t, p, true, reads(path, 40))
		all.turn(t, p, true, edits(path))
		for _, w := range all {
			w.pause(cold)
		}
		arrived, killed := p.after(round%(len(all)+1)), make(chan struct{})
		go func() { defer close(killed); <-arrived; p.tidemark.Kill(t) }()
		all.turn(t, p, false, runs(5))
		<-killed
		if round%4 == 0 { // an outage of some turns
			all.turn(t, p, false, runs(5))
			all.turn(t, p, false, runs(5))
		}
		p.tidemark.Start(t)
		all.turn(t, p, true, runs(5))
	}
	decided, passed := 0, 0
	for _, w := range all {
		d, n := w.judge(t, p)
		decided, passed = decided+d, passed+n
	}
	t.Logf("%d requests decided something, %d passed a dead tidemark", decided, passed)
	if decided == 0 || passed == 0 {
		t.Error("the kills prove nothing")
	}
	p.recoverable(t, all)
}

// after returns a channel that is closed when the provider has seen n more requests.
func (p *product) after(n int) <-chan struct{} {
	done := make(chan struct{})
	var seen atomic.Int64
	if n == 0 {
		close(done)
	}
	p.provider.arrived.Store(func() {
		if seen.Add(1) == int64(n) {
			close(done)
		}
	})
	return done
}

var originalID = regexp.MustCompile(` · id ([0-9a-f]{24})\]`)

// recoverable opens the state of the killed program and demands the original of every marker that ever left.
func (p *product) recoverable(t *testing.T, all workers) {
	t.Helper()
	p.tidemark.Kill(t)
	db, err := badgerdb.Open(p.tidemark.State, badgerdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, w := range all {
		originals := contents(w.body())
		for call, marker := range w.seen {
			id := originalID.FindStringSubmatch(marker)
			if id == nil {
				t.Errorf("%s names no original", marker)
				continue
			}
			if o, err := db.Original(context.Background(), id[1]); err != nil || string(o.Content) != originals[call] {
				t.Errorf("the original of %s: %v", marker, err)
			}
		}
	}
}

// TestDown: without tidemark traffic flows as it was sent, with it the replay goes on where it was.
func TestDown(t *testing.T) {
	p := newProduct(t, "")
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			a := newAgent("down-" + way.proto[5:6] + way.path[1:3])
			send := func() *exchange {
				r := a.request(way.path)
				r.http2 = way.http2
				return p.send(t, r).ok(t)
			}
			a.step(reads("a.go", 100))
			a.step(edits("a.go"))
			send()
			a.pause(cold)
			a.step(runs(5))
			before := send()
			if len(before.shortened) != 1 {
				t.Fatalf("%d reads are shortened", len(before.shortened))
			}
			for _, end := range []func(testing.TB){p.tidemark.Kill, p.tidemark.Stop} {
				end(t)
				for range 3 {
					a.step(runs(5))
					p.expect(t, send().untouched(t), "outcome", nil)
				}
				p.tidemark.Start(t)
				a.step(runs(5))
				p.expect(t, send().keeps(t, before.shortened), "outcome", "replayed")
			}
		})
	}
}
