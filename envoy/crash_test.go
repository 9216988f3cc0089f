package envoy_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/state/badgerdb"
)

// worker is an agent whose program is killed while it works.
type worker struct {
	*agent

	way  way
	all  []*exchange
	up   []bool            // the program ran all the while
	seen map[string]string // contents that ever stood for others, by call id
}

// turn plays one turn. up says that the program runs all the while.
func (w *worker) turn(t *testing.T, p *product, up bool, uses ...use) {
	t.Helper()
	w.step(uses...)
	r := w.request(w.way.path)
	r.http2 = w.way.http2
	var x *exchange
	if up || w.way.path == bufferedPath {
		x = p.send(t, r).ok(t)
	} else if x = p.attempt(t, r); x == nil {
		return
	}
	w.all, w.up = append(w.all, x), append(w.up, up)
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

// TestKill kills the program while requests of several sessions are on their way, in both body modes and over both protocols, each
// of which would decide something, at another moment in every round. Nothing that was ever forwarded shortened may come back in
// another form.
func TestKill(t *testing.T) {
	p := newProduct(t, "")
	var all workers
	for name, w := range ways {
		for i := range 2 {
			all = append(all, &worker{agent: newAgent(fmt.Sprintf("%s%d", strings.ReplaceAll(name, "/", "-"), i)), way: w, seen: map[string]string{}})
		}
	}
	for round := range len(all) + 1 {
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
	for _, http2 := range []bool{false, true} {
		d := p.outage(t, way{path: bufferedPath, http2: http2})
		for _, end := range []func(testing.TB){p.tidemark.Kill, p.tidemark.Stop} {
			end(t)
			d.down(t)
			p.tidemark.Start(t)
			d.back(t)
		}
	}
}

// healthChecks let Envoy know that tidemark is down before a request finds out.
const healthChecks = `
    health_checks: [{timeout: 1s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {}}]
    common_lb_config: {healthy_panic_threshold: {value: 0}, update_merge_window: 0s}
`

// TestDownDuplex: in full duplex Envoy gives the body away before it knows whether tidemark is there, so it fails open only while
// health checks have told it. Until then a request fails or arrives as it was sent, nothing between.
func TestDownDuplex(t *testing.T) {
	p := newProduct(t, "")
	p.through(t, func(config string) string {
		const next = "    # One stream per request in flight"
		return strings.Replace(config, next, healthChecks[1:]+next, 1)
	})
	healthy := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); p.Stat(t, "cluster.tidemark.membership_healthy") != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("Envoy does not see that %d tidemarks are healthy", want)
			}
		}
		p.post(t, &request{path: "/off/v1/messages"}, "") // behind it the worker knows what the main thread has seen
	}
	for _, http2 := range []bool{false, true} {
		healthy(1)
		d := p.outage(t, way{path: duplexPath, http2: http2})
		p.tidemark.Kill(t)
		d.unnoticed(t)
		healthy(0)
		d.down(t)
		p.tidemark.Start(t)
		healthy(1)
		d.back(t)
	}
}

// outage is a session with a shortened read, in which tidemark goes away.
type outage struct {
	*product

	agent  *agent
	way    way
	before map[string]string
}

func (p *product) outage(t *testing.T, w way) *outage {
	t.Helper()
	d := &outage{product: p, agent: newAgent("outage-" + strings.NewReplacer("/", "-", ".", "-").Replace(fmt.Sprint(w.path, w.http2))), way: w}
	d.agent.step(reads("a.go", 100))
	d.agent.step(edits("a.go"))
	d.turn(t)
	d.agent.pause(cold)
	if d.before = d.turn(t).shortened; len(d.before) != 1 {
		t.Fatalf("%d reads are shortened", len(d.before))
	}
	return d
}

func (d *outage) request() *request {
	d.agent.step(runs(5))
	r := d.agent.request(d.way.path)
	r.http2 = d.way.http2
	return r
}

func (d *outage) turn(t *testing.T) *exchange {
	t.Helper()
	return d.send(t, d.request()).ok(t)
}

func (d *outage) down(t *testing.T) {
	t.Helper()
	for range 3 {
		d.expect(t, d.turn(t).untouched(t), "outcome", nil)
	}
}

func (d *outage) back(t *testing.T) {
	t.Helper()
	d.expect(t, d.turn(t).keeps(t, d.before), "outcome", "replayed")
}

// unnoticed sends a request that Envoy may not be able to let pass any more.
func (d *outage) unnoticed(t *testing.T) {
	t.Helper()
	if x := d.attempt(t, d.request()); x != nil {
		x.untouched(t)
	}
}
