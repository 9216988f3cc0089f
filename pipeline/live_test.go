package pipeline_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// live is a scene whose requests the simulated provider answers.
type live struct {
	*scene
	sim     *simprovider.Sim
	route   string
	header  http.Header
	in, out []byte
	res     simprovider.Result
	ob      *pipeline.Observation
	saw     func(*pipeline.Response) // changes what is observed
}

func newLive(t *testing.T, c *pipeline.Config, policy simprovider.Policy) *live {
	t.Helper()
	l := &live{scene: newScene(t, c), sim: simprovider.New(simprovider.Options{Policy: policy}), header: http.Header{"X-Api-Key": {"k"}}}
	l.store = &noticing{Store: memory.New()}
	l.restart()
	return l
}

// branches is what is known of the session, as it would be stored.
func (l *live) branches() []*state.Branch {
	l.Helper()
	l.e.Flush(context.Background())
	s, err := l.store.Load(context.Background(), l.store.(*noticing).key)
	if err != nil {
		l.Fatal(err)
	}
	return s.Branches
}

// branch is what is known of the branch of the last request.
func (l *live) branch() *state.Branch {
	l.Helper()
	for _, b := range l.branches() {
		if b.ID == l.o.Branch {
			return b
		}
	}
	l.Fatalf("branch %x is not stored", l.o.Branch)
	return nil
}

// certain counts the branch's entries of which the provider said that it holds them now.
func (l *live) certain() (n int) {
	l.Helper()
	for _, e := range l.branch().Entries {
		n += b2i(e.SureAlive(l.at))
	}
	return n
}

// lifting is a config of levers alone.
func lifting(ttl pipeline.TTL) *pipeline.Config {
	return &pipeline.Config{Name: "levers", Levers: pipeline.Levers{TTL: ttl, Regret: 0.01}}
}

// staleAtDepth replaces stale reads, also where the provider holds them.
func staleAtDepth(t *testing.T, moves pipeline.Moves) *pipeline.Config {
	t.Helper()
	keys := readlifecycle.Default()
	keys.StaleAtDepth = true
	f, err := readlifecycle.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Config{Name: "warm", Filters: []filters.Filter{f}, Moves: moves}
}

// priced puts another table under the engine.
func (l *live) priced(overrides ...cache.Override) {
	l.Helper()
	table, err := cache.Prices().With(overrides)
	if err != nil {
		l.Fatal(err)
	}
	l.store = &noticing{Store: memory.New()}
	if l.e, err = pipeline.New(context.Background(), l.store, pipeline.Options{Flush: -1, DeepProof: true, Prices: table}); err != nil {
		l.Fatal(err)
	}
}

// ask forwards a body with the markers that it has, a second after the last one.
func (l *live) ask(k *gen.Conversation, change ...func(*pipeline.Request)) {
	l.Helper()
	l.askAny(k, change...)
	if bareBones(l.T, l.in) != bareBones(l.T, l.out) {
		l.Error("bytes outside of results and breakpoints changed")
	}
}

// askAny is ask where messages may be left out.
func (l *live) askAny(k *gen.Conversation, change ...func(*pipeline.Request)) {
	l.Helper()
	l.at = l.at.Add(time.Second)
	l.in = k.Body()
	r := ask(l.in, l.c, l.at)
	r.Tenant, r.Session, r.Agent, r.Route = l.tenant, l.session, l.agent, l.route
	for _, f := range change {
		f(r)
	}
	l.o = l.e.Request(context.Background(), r)
	if l.out = l.in; l.o.Body != nil {
		l.out = l.o.Body
	}
	if !gjson.ValidBytes(l.out) {
		l.Fatalf("no JSON: %s", l.out)
	}
	if l.o.Undeclared || l.o.Desync {
		l.Errorf("undeclared %v, desync %v", l.o.Undeclared, l.o.Desync)
	}
}

// answer lets the provider answer what was forwarded last, and returns what is to be observed.
func (l *live) answer() *pipeline.Response {
	l.Helper()
	l.res = l.sim.Call(l.out, l.header, l.at)
	if l.res.Status != http.StatusOK {
		l.Fatalf("refused: %v", l.res.Err)
	}
	u := l.res.Usage
	return &pipeline.Response{
		Status: l.res.Status, Message: l.res.ID, Model: l.res.Model,
		Usage: &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output},
	}
}

// observe lets the engine see a response to the last request.
func (l *live) observe(r *pipeline.Response) *pipeline.Observation {
	return l.e.Observe(context.Background(), l.o, r)
}

// turn plays one request as a client sends it that marks the system prompt and its last message for five minutes.
func (l *live) turn(k *talk, change ...func(*pipeline.Request)) {
	l.Helper()
	k.Mark(gen.Short)
	l.marked(k, change...)
}

// marked is turn with the markers that the body has.
func (l *live) marked(k *talk, change ...func(*pipeline.Request)) {
	l.Helper()
	l.ask(k.Conversation, change...)
	r := l.answer()
	if l.saw != nil {
		l.saw(r)
	}
	l.ob = l.observe(r)
}

// small plays so many turns without a call.
func (l *live) small(k *talk, n int) {
	l.Helper()
	for range n {
		l.turn(k.say("Go on."))
	}
}

// want checks the TTLs that the last outbound asks for, in the provider's order.
func (l *live) want(what, ttls string) {
	l.Helper()
	if got := ttlsOf(l.out); got != ttls {
		l.Errorf("%s: asked for %q, want %q (gate %q, %+v)", what, got, ttls, l.o.Gate, l.o.Breakpoints)
	}
}

func ttlsOf(body []byte) string {
	var all []string
	for _, m := range vectors.Markers(body) {
		_, ttl, _ := strings.Cut(m, " ")
		all = append(all, ttl)
	}
	return strings.Join(all, " ")
}

// shortened checks which results left as markers.
func (l *live) shortened(calls string) {
	l.Helper()
	if got := l.changed(l.in, l.out); got != calls {
		l.Errorf("shortened %q, want %q (gate %q, %v)", got, calls, l.o.Gate, l.o.Gates)
	}
}

// through counts tokens through the last breakpoint of a response.
func through(u *pipeline.Usage) int { return u.Read + u.Write5m + u.Write1h }

// rereads lets the provider say that it read n tokens of the prompt and wrote the rest for five minutes.
func rereads(n int) func(*pipeline.Response) {
	return func(r *pipeline.Response) {
		u := r.Usage
		*u = pipeline.Usage{Read: n, Write5m: u.Prompt() - n, Output: u.Output}
	}
}

func bypass(r *pipeline.Request)    { r.Bypass = true }
func auxiliary(r *pipeline.Request) { r.Auxiliary = true }
