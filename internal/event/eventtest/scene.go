package eventtest

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Prices of the scene's model, in USD per token.
const (
	input = 5e-6
	read  = 0.5e-6
	write = 6.25e-6
)

// Names in the scene.
const (
	Worker = "a11ce0de00000001" // session: five requests, a pause, a cold move
	Clumsy = "b0b0de0000000002" // session: changes its tools, and needs again what was left out
	Fork   = "f00d000000000003" // lineage that is forked from Worker's after the move
	main   = "1111000000000001"
)

// scene collects events.
type scene struct {
	at     time.Time
	events []event.Event
}

func (s *scene) head(name, session, lineage string, n int) event.Head {
	return event.Head{
		V: event.Version, Time: s.at, Event: name, Key: fmt.Sprintf("%s-%s-%d", session[:4], lineage[:4], n), RequestID: fmt.Sprintf("req-%s-%s-%d", session[:4], lineage[:4], n),
		Tenant: "7e4a47", Session: session, Lineage: lineage, Turn: 1 + n/3, N: n, Route: "anthropic", Format: "anthropic.messages",
		Model: "claude-opus-4-5", Mode: "active", Config: "c0ffee",
	}
}

// turn is a request and what it was billed. The figures of its account follow from tokens and prices.
type turn struct {
	session, lineage     string
	n                    int
	outcome, kind, cache string
	parent               string
	fresh, written, read int          // tokens of the bill
	removed, replayed    int          // estimated tokens
	first, again         event.Priced // as the provider counts
	rewrote, levers      float64      // USD
	reuse                float64      // USD
	gates                []event.Gate // of the request
	side                 bool
}

func (s *scene) add(e ...event.Event) { s.events = append(s.events, e...) }

// play adds the events of a request; between are those that are told of it after the first, and before its bill.
func (s *scene) play(t *turn, between ...event.Event) {
	s.add(&event.Request{
		Head: s.head(event.NameRequest, t.session, t.lineage, t.n), Kind: t.kind, Parent: t.parent, Outcome: t.outcome, Gates: t.gates, Pipeline: "default",
		Cache: t.cache, Messages: 1 + 2*t.n, BytesIn: 4 * (t.fresh + t.written + t.read + t.removed + t.replayed), BytesOut: 4 * (t.fresh + t.written + t.read),
		Compacted: t.removed+t.replayed > 0, Side: t.side,
		Sizes:    event.Sizes{Basis: "estimated", Cached: t.read, Fresh: t.fresh + t.written, Removed: t.removed, Replayed: t.replayed, Expected: t.read},
		Duration: 900, Stages: map[string]int64{"parse": 300},
	})
	s.add(between...)
	s.at = s.at.Add(4 * time.Second)
	u := &event.Usage{
		Head:     s.head(event.NameUsage, t.session, t.lineage, t.n),
		Observed: event.Billed{Input: t.fresh, Read: t.read, Write5m: t.written, Output: 100, Cost: float64(t.fresh)*input + float64(t.written)*write + float64(t.read)*read + 100*5*input},
		Expected: t.read,
	}
	if !t.side {
		a := &event.Account{Levers: t.levers, Reuse: t.reuse, Provider: float64(t.read) * (input - read), First: priced(t.first), Again: priced(t.again)}
		a.Removal = a.First.USD + a.Again.USD - t.rewrote
		a.Baseline = u.Observed.Cost + a.Removal + a.Levers
		a.Net = a.Baseline - u.Observed.Cost - a.Reuse
		u.Modelled = a
	}
	s.add(u)
}

func priced(p event.Priced) event.Priced {
	p.USD = float64(p.Read)*read + float64(p.Written)*write + float64(p.Input)*input
	switch {
	case p.Read+p.Written+p.Input == 0:
	case p.Written+p.Input == 0:
		p.Basis = "CACHE_READ_MARGINAL"
	case p.Read+p.Input == 0:
		p.Basis = "CACHE_WRITE_MARGINAL"
	case p.Read+p.Written == 0:
		p.Basis = "FULL_INPUT"
	default:
		p.Basis = "BLENDED_MARGINAL"
	}
	return p
}

// decision is an event on one file that was read in the worker's conversation.
func (s *scene) decision(n int, call string, tokens int, how event.Decision) event.Event {
	how.Head, how.Call, how.Tool, how.Tokens = s.head(event.NameDecision, Worker, main, n), call, "Read", tokens
	return &how
}

// Scene is a morning's work: every kind of event at least once. Worker reads, pauses and goes on after a cold move; its
// conversation is forked; Clumsy changes its tools and reads again what was left out, so that its net is negative. Each call
// returns new events with the same figures.
func Scene() []event.Event {
	s := &scene{at: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	s.add(&event.Config{Head: event.Head{V: event.Version, Time: s.at, Event: event.NameConfig, Config: "c0ffee"}, Result: "ok"})
	s.worker()
	s.fork()
	s.clumsy()
	s.add(&event.Spend{Head: event.Head{V: event.Version, Time: s.at, Event: event.NameSpend, Model: "claude-haiku-4-5"}, Purpose: "summary", Input: 3000, Output: 200, USD: 0.004})
	return s.events
}

func (s *scene) worker() {
	fresh := func(filter string) event.Decision {
		return event.Decision{Message: 2, ResultTurn: 1, Zone: "fresh", Gates: []event.Gate{{Filter: filter, Gate: "fresh_read"}}}
	}
	s.play(&turn{session: Worker, lineage: main, n: 0, outcome: "identity", kind: "new", cache: "first", fresh: 20, written: 10000})
	s.at = s.at.Add(20 * time.Second)
	one, two := fresh("readlifecycle"), fresh("readlifecycle")
	one.PathHash, one.Path, two.PathHash, two.Path = "0123456789abcdef", "/src/one.go", "fedcba9876543210", "/src/two.go"
	s.play(&turn{session: Worker, lineage: main, n: 1, outcome: "identity", kind: "continue", cache: "warm", fresh: 10, written: 14000, read: 10000, gates: []event.Gate{{Filter: "readlifecycle", Gate: "fresh_read", N: 2}}},
		s.decision(1, "toolu_1", 6000, one), s.decision(1, "toolu_2", 5000, two))
	s.at = s.at.Add(20 * time.Second)
	warm := event.Decision{Message: 2, ResultTurn: 1, Zone: "covered", PathHash: one.PathHash, Path: one.Path, Gates: []event.Gate{{Filter: "readlifecycle", Gate: "cached_prefix"}}, Sum: "loses 14000 tokens for 5900"}
	s.play(&turn{session: Worker, lineage: main, n: 2, outcome: "identity", kind: "continue", cache: "warm", fresh: 10, written: 800, read: 24000, gates: []event.Gate{{Filter: "readlifecycle", Gate: "cached_prefix", N: 1}}},
		s.decision(2, "toolu_1", 6000, warm))
	s.at = s.at.Add(30 * time.Minute)
	stale := event.Decision{
		Message: 2, ResultTurn: 1, Zone: "covered", PathHash: one.PathHash, Path: one.Path, Filter: "readlifecycle", Verb: "stale", First: true, MarkerTokens: 100,
		ID: "000102030405060708090a0b", SHA256: "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92",
	}
	s.play(&turn{session: Worker, lineage: main, n: 3, outcome: "moved", kind: "continue", cache: "cold", fresh: 10, written: 19500, removed: 5900, first: event.Priced{Written: 6000}},
		&event.Move{Head: s.head(event.NameMove, Worker, main, 3), Kind: "cold", Filter: "readlifecycle", Message: 2, Removed: 5900, Decisions: 1, Sum: "nothing is lost", Predicted: 0.04},
		s.decision(3, "toolu_1", 6000, stale))
	s.add(&event.Loss{Head: s.head(event.NameLoss, Worker, main, 3), Cause: "ttl", Source: "ledger", Tokens: 24800, USD: 24800 * (write - read)})
	s.at = s.at.Add(20 * time.Second)
	s.play(&turn{session: Worker, lineage: main, n: 4, outcome: "replayed", kind: "continue", cache: "warm", fresh: 10, written: 500, read: 19500, replayed: 5900, again: event.Priced{Read: 6000}, levers: 0.001})
}

func (s *scene) fork() {
	s.at = s.at.Add(time.Minute)
	s.play(&turn{session: Worker, lineage: Fork, n: 5, outcome: "replayed", kind: "fork", parent: main, cache: "warm", fresh: 30, written: 200, read: 19500, replayed: 5900, again: event.Priced{Read: 6000}})
	s.play(&turn{session: Worker, lineage: main, n: 5, outcome: "bypassed", kind: "none", cache: "first", fresh: 400, side: true})
}

func (s *scene) clumsy() {
	s.at = s.at.Add(time.Minute)
	s.play(&turn{session: Clumsy, lineage: main, n: 0, outcome: "identity", kind: "new", cache: "first", written: 12000})
	cut := &event.Decision{Head: s.head(event.NameDecision, Clumsy, main, 1), Calls: []string{"toolu_8", "toolu_9"}, Message: 1, ResultTurn: 1, Filter: "shed", Verb: "cut", First: true, Tokens: 3000, MarkerTokens: 200, ID: "0c0d0e0f1011121314151617"}
	s.play(&turn{session: Clumsy, lineage: main, n: 1, outcome: "moved", kind: "continue", cache: "warm", written: 9000, removed: 2800, first: event.Priced{Read: 3000}, rewrote: 0.03},
		&event.Move{Head: s.head(event.NameMove, Clumsy, main, 1), Kind: "warm", Filter: "shed", Message: 1, Removed: 2800, Decisions: 1, Sum: "gains 0.02 over 9 calls", Predicted: 0.02}, cut)
	s.add(&event.Loss{Head: s.head(event.NameLoss, Clumsy, main, 1), Cause: "client_tools", Source: "diagnostics", Tokens: 9000, USD: 9000 * (write - read)})
	s.play(&turn{session: Clumsy, lineage: main, n: 2, outcome: "replayed", kind: "continue", cache: "warm", fresh: 50, written: 400, read: 9000, replayed: 2800, again: event.Priced{Read: 3000}, reuse: 0.02},
		&event.Reuse{Head: s.head(event.NameReuse, Clumsy, main, 2), Call: "toolu_12", Filter: "shed", Kind: "reread", Tokens: 1500, Later: 1},
		&event.Restore{Head: s.head(event.NameRestore, Clumsy, main, 2), Path: "inline", Result: "ok", Filter: "shed", Tokens: 1500})
}
