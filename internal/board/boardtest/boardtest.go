// Package boardtest makes events of plausible sessions, for tests and benchmarks of what shows them.
//
// Sessions follow the rules of a provider's cache in outline: prefixes lapse after five minutes, pauses of a person are longer
// than that, and what is left out is left out when they have lapsed. The same seed gives the same events.
package boardtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Hostile is the name of a tool of hostile sessions, which a page must show as text.
const Hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// Spec says what a session is like.
type Spec struct {
	Name     string // its hash
	Route    string
	Model    string
	Mode     string // active or shadow
	Seed     uint64
	Requests int
	Start    time.Time
	Pauses   float64 // share of turns that a person's pause of more than five minutes precedes
	Lift     bool    // breakpoints ask for an hour
	Bad      bool    // what is left out is needed again, so that it costs money
	Hostile  bool    // a tool is named [Hostile]
	Edits    bool    // the client changes its tools once
}

// prices in USD per token.
const (
	input, read, write5m, write1h, output = 3e-6, 0.3e-6, 3.75e-6, 6e-6, 15e-6
)

// result is one tool result of the transcript.
type result struct {
	call, tool, what string
	tokens, message  int
	turn             int
	left             bool
}

// player makes the events of one session.
type player struct {
	Spec
	r *rand.Rand

	events   []event.Event
	now      time.Time
	n, turn  int
	messages int
	whole    int // tokens of the transcript as the client sends it
	left     int // tokens of it that are left out, net of markers
	cached   int // tokens of the previous outbound
	results  []*result
}

var tools = []struct {
	name, what string
	tokens     int
}{
	{"Read", "internal/%s/%s.go (1-%d)", 2600},
	{"Read", "cmd/%s/%s.go", 1900},
	{"Bash", "go test ./%s/%s -run Test%d", 1200},
	{"Grep", "func %s%s in %d files", 900},
	{"Edit", "internal/%s/%s.go", 120},
	{"Glob", "%s/**/%s*_test.go", 260},
}

var words = []string{"cache", "planner", "ledger", "splice", "session", "router", "breakpoint", "store", "queue", "token", "digest", "replay"}

// Play returns the events of a session in order.
func Play(s Spec) []event.Event {
	p := &player{Spec: s, r: rand.New(rand.NewPCG(s.Seed, 1)), now: s.Start, whole: 18200, messages: 1, turn: 1}
	for p.n = 0; p.n < s.Requests; p.n++ {
		p.request()
	}
	return p.events
}

func (p *player) head(name string, key int) event.Head {
	return event.Head{
		V: event.Version, Time: p.now, Event: name, Key: fmt.Sprintf("%s-%04d", p.Name, key), RequestID: fmt.Sprintf("req-%s-%d", p.Name, key),
		TraceID: fmt.Sprintf("%032x", p.Seed*1e6+uint64(key)), Tenant: "7d1f4c0a92e35b68", Session: p.Name, Lineage: "a" + p.Name[1:], Turn: p.turn, N: key, Route: p.Route, Format: "anthropic",
		Model: p.Model, Mode: p.Mode, Config: "c41d09",
	}
}

func (p *player) add(e event.Event) { p.events = append(p.events, e) }

// request plays one request and its answer.
func (p *player) request() {
	human := p.n == 0 || p.r.Float64() < 0.09
	pause := time.Duration(8+p.r.IntN(25)) * time.Second
	if human && p.n > 0 {
		p.turn++
		if p.r.Float64() < p.Pauses {
			pause = time.Duration(6+p.r.IntN(50)) * time.Minute
		}
	}
	p.now = p.now.Add(pause)
	grown := p.grow(human)
	lapsed := p.n > 0 && pause > 5*time.Minute && !p.Lift
	edited := p.Edits && p.n == p.Requests/2
	first := 0
	if (lapsed || edited) && p.n > 8 {
		first = p.move()
	}
	p.answer(grown, lapsed, edited, first)
}

// grow adds to the transcript what the client sends anew: results of calls, or what a person says.
func (p *player) grow(human bool) int {
	if human {
		p.whole += 140 + p.r.IntN(400)
		p.messages += 2
		return 300
	}
	total := 0
	for range 1 + p.r.IntN(2) {
		t := tools[p.r.IntN(len(tools))]
		size := t.tokens/3 + p.r.IntN(t.tokens)
		w := func() string { return words[p.r.IntN(len(words))] }
		res := &result{call: fmt.Sprintf("toolu_%s%03d", p.Name[:4], len(p.results)), tool: t.name, tokens: size, message: p.messages, turn: p.turn}
		res.what = clean(fmt.Sprintf(t.what, w(), w(), 20+p.r.IntN(300)))
		if p.Hostile && len(p.results)%4 == 1 {
			res.tool, res.what = Hostile, `"><svg onload=window.hacked=1> `+res.what
		}
		p.results = append(p.results, res)
		p.tell(res)
		total += size
	}
	total += 180 + p.r.IntN(300)
	p.whole += total
	p.messages += 2
	return total
}

// tell says why a new result goes as it is.
func (p *player) tell(res *result) {
	gates := []event.Gate{
		{Filter: "readlifecycle", Gate: "not_a_read"}, {Filter: "coref", Gate: "not_indexed"}, {Filter: "tiered", Gate: "working_set"},
	}
	if res.tool == "Read" {
		gates[0].Gate = "fresh_read"
	}
	if res.tokens < 300 {
		gates[1].Gate = "below_min_tokens"
	}
	p.add(&event.Decision{
		Head: p.head(event.NameDecision, p.n), Call: res.call, Tool: res.tool, Message: res.message, ResultTurn: res.turn, Zone: "fresh",
		Gates: gates, Tokens: res.tokens, What: res.what,
	})
}

// move leaves old results out, and returns how many tokens that comes to.
func (p *player) move() int {
	removed, n, from := 0, 0, p.messages
	for i, res := range p.results {
		if res.left || i > len(p.results)-8 || res.tokens < 400 || p.Mode == "shadow" {
			continue
		}
		filter, verb := "tiered", "older output"
		switch {
		case res.tool == "Read" && i%2 == 0:
			filter, verb = "readlifecycle", "stale read"
		case res.tool == "Grep":
			filter, verb = "coref", "unreferenced"
		}
		res.left = true
		id := fmt.Sprintf("%024x", p.Seed*100000+uint64(i))
		marker := fmt.Sprintf("[tidemark %s: %s of %s · %d tokens left out of this transcript · id %s]", verb, res.tool, res.what, res.tokens, id)
		p.add(&event.Decision{
			Head: p.head(event.NameDecision, p.n), Call: res.call, Tool: res.tool, Message: res.message, ResultTurn: res.turn, Zone: "covered",
			Filter: filter, Verb: verb, First: true, Tokens: res.tokens, MarkerTokens: 44, ID: id, What: res.what, Marker: marker,
			Gates: []event.Gate{{Filter: "coref", Gate: "outranked"}},
		})
		removed, n, from = removed+res.tokens-44, n+1, min(from, res.message)
	}
	if n == 0 {
		return 0
	}
	p.add(&event.Move{
		Head: p.head(event.NameMove, p.n), Kind: "cold", Filter: "tiered", Message: from, Removed: removed, Decisions: n, Predicted: float64(removed) * write5m,
		Sum: fmt.Sprintf("cold: no entry behind message %d is alive; %d tokens less to write, and to read in each later request", from, removed),
	})
	p.left += removed
	return removed
}

// clean cuts what fmt says of arguments that a format does not use.
func clean(s string) string {
	for i := range s {
		if s[i] == '%' && i+1 < len(s) && s[i+1] == '!' {
			return s[:i]
		}
	}
	return s
}
