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

	seen    map[string]string // contents that ever stood for others, by call id
	decided int               // requests that shortened more than those before
	passed  int               // requests that tidemark did not answer
}

// outdate adds a read and the edit that outdates it.
func (w *worker) outdate(round int) {
	path := fmt.Sprintf("file%d.go", round)
	w.step(reads(path, 40))
	w.step(edits(path))
}

// send sends the conversation as it is. What tidemark answers must keep everything that ever stood shortened; what it does not
// answer must arrive as it was sent.
func (w *worker) send(t *testing.T, p *product) *exchange {
	t.Helper()
	x := p.send(t, w.request("/v1/messages")).ok(t)
	if p.Access(t, x.id)["outcome"] == nil {
		w.passed++
		return x.untouched(t)
	}
	x.keeps(t, w.seen)
	if len(x.shortened) > len(w.seen) {
		w.decided++
	}
	maps.Copy(w.seen, x.shortened)
	return x
}

// TestKill kills the program while requests of several sessions are on their way, each of which would decide something, at
// another moment in every round. Nothing that was ever forwarded shortened may come back in another form.
func TestKill(t *testing.T) {
	p := newProduct(t, "")
	var all []*worker
	for i := range 6 {
		all = append(all, &worker{agent: newAgent(fmt.Sprintf("worker%d", i)), seen: map[string]string{}})
	}
	together := func() {
		var group sync.WaitGroup
		for _, w := range all {
			group.Go(func() { w.send(t, p) })
		}
		group.Wait()
	}
	together()
	for round := range 2 * len(all) {
		for _, w := range all {
			w.outdate(round)
			w.pause(cold)
		}
		arrived := p.after(round % (len(all) + 1))
		p.tidemark.SetClock(t, all[0].at)
		killed := make(chan struct{})
		go func() { defer close(killed); <-arrived; p.tidemark.Kill(t) }()
		together()
		<-killed
		if round%4 == 0 { // an outage of some turns
			for _, w := range all {
				w.step(runs(5))
				p.send(t, w.request("/v1/messages")).ok(t).untouched(t)
			}
		}
		p.tidemark.Start(t)
		for _, w := range all {
			w.step(runs(5))
		}
		passed := total(all, func(w *worker) int { return w.passed })
		together()
		if n := total(all, func(w *worker) int { return w.passed }) - passed; n != 0 {
			t.Errorf("round %d: tidemark is back and %d requests passed it", round, n)
		}
	}
	decided, passed := total(all, func(w *worker) int { return w.decided }), total(all, func(w *worker) int { return w.passed })
	t.Logf("%d requests decided something, %d passed a dead tidemark", decided, passed)
	if decided == 0 || passed == 0 {
		t.Error("the kills prove nothing")
	}
	p.recoverable(t, all)
}

func total(all []*worker, of func(*worker) int) (n int) {
	for _, w := range all {
		n += of(w)
	}
	return n
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
func (p *product) recoverable(t *testing.T, all []*worker) {
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
