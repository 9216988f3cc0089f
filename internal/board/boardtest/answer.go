package boardtest

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// answer plays what was forwarded, and what the provider bills for it.
func (p *player) answer(grown int, lapsed, edited bool, first int) {
	prompt := p.whole - p.left
	billed := event.Billed{Read: p.cached, Output: 90 + p.r.IntN(700)}
	forgot := p.n > 4 && !lapsed && p.r.Float64() < 0.004
	if lapsed || edited || forgot || p.n == 0 {
		billed.Read = 0
	}
	billed.Input = 3 + p.r.IntN(40)
	written := prompt - billed.Read - billed.Input
	saved := 0.0
	if p.Lift {
		billed.Write1h = written
	} else {
		billed.Write5m = written
	}
	billed.Cost = float64(billed.Input)*input + float64(billed.Read)*read + float64(billed.Write5m)*write5m + float64(billed.Write1h)*write1h + float64(billed.Output)*output
	again, cold := p.left-first, billed.Read == 0
	rate, basis := read, "CACHE_READ_MARGINAL"
	if cold {
		rate, basis = write5m, "CACHE_WRITE_MARGINAL"
	}
	account := &event.Account{
		First: priced(first, cold, rate, basis), Again: priced(again, cold, rate, basis), Provider: float64(billed.Read) * (input - read),
	}
	account.Removal = account.First.USD + account.Again.USD
	if p.Lift && p.turn > 1 && p.n%9 == 0 {
		saved = float64(p.cached) * (write5m - read)
	}
	if p.Lift {
		account.Levers = saved - float64(written)*(write1h-write5m)
	}
	p.requested(prompt, grown, first, again, cold)
	asked := p.now
	p.now = p.now.Add(time.Duration(2+p.r.IntN(6)) * time.Second)
	p.needed(account)
	account.Baseline = billed.Cost + account.Removal + account.Levers
	account.Net = account.Removal + account.Levers - account.Reuse
	p.add(&event.Usage{Head: p.head(event.NameUsage, p.n), Observed: billed, Modelled: account, Expected: p.expected(lapsed || edited)})
	p.lose(lapsed, edited, forgot)
	p.cached, p.now = prompt-billed.Input, asked.Add(time.Second)
}

func (p *player) expected(gone bool) int {
	if gone {
		return 0
	}
	return p.cached
}

func priced(n int, cold bool, rate float64, basis string) event.Priced {
	if n == 0 {
		return event.Priced{}
	}
	v := event.Priced{Basis: basis, USD: float64(n) * rate}
	if cold {
		v.Written = n
	} else {
		v.Read = n
	}
	return v
}

func (p *player) requested(prompt, grown, first, again int, cold bool) {
	e := &event.Request{
		Head: p.head(event.NameRequest, p.n), Kind: "continue", Outcome: "identity", Cache: "warm", Messages: p.messages, BytesIn: p.whole * 4,
		BytesOut: prompt * 4, Pipeline: "default", Replays: 0, Duration: int64(700 + p.r.IntN(2500)),
		Sizes:  event.Sizes{Basis: "calibrated", Cached: p.cached, Fresh: grown, Removed: first, Replayed: again, Expected: p.cached},
		Stages: map[string]int64{"parse": 400, "load": 80, "plan": 120},
		Gates:  []event.Gate{{Filter: "tiered", Gate: "working_set", N: 8}, {Filter: "coref", Gate: "open", N: 3}, {Filter: "readlifecycle", Gate: "cached_prefix", N: len(p.results) / 3}},
	}
	for _, r := range p.results {
		if r.left {
			e.Replays++
		}
	}
	switch {
	case p.n == 0:
		e.Kind, e.Cache = "new", "first"
	case cold:
		e.Cache, e.Sizes.Cached, e.Sizes.Sent = "cold", 0, p.cached
	}
	switch {
	case p.Mode == "shadow":
		e.Gate, e.Shadow = "shadow", &event.Shadow{Outcome: "identity", Gates: []event.Gate{{Filter: "tiered", Gate: "working_set", N: 8}}}
		if cold && p.n > 8 {
			e.Shadow.Outcome, e.Shadow.Removed = "moved", p.whole/6
		}
	case first > 0:
		e.Outcome, e.Filters = "moved", []string{"readlifecycle", "tiered"}
	case again > 0:
		e.Outcome, e.Filters = "replayed", []string{"readlifecycle", "tiered"}
	}
	if p.Lift {
		e.Breakpoint = map[string]int{"ttl_raised": 1}
	}
	p.add(e)
}

// needed has the model read again what was left out, if the session is a bad one.
func (p *player) needed(a *event.Account) {
	if !p.Bad || p.left == 0 || p.r.Float64() > 0.7 {
		return
	}
	tokens := 800 + p.r.IntN(2000)
	a.Reuse = 3*float64(p.whole)*read + float64(tokens)*write5m + 0.004
	p.add(&event.Reuse{Head: p.head(event.NameReuse, p.n), Call: fmt.Sprintf("toolu_again%d", p.n), Filter: "tiered", Kind: "reread", Tokens: tokens, Later: 9})
}

// lose names the cause of a loss.
func (p *player) lose(lapsed, edited, forgot bool) {
	if p.cached == 0 {
		return
	}
	e := &event.Loss{Head: p.head(event.NameLoss, p.n), Source: "ledger", Tokens: p.cached, USD: float64(p.cached) * (write5m - read)}
	switch {
	case edited:
		e.Cause, e.Source = "client_tools", "diagnostics"
	case lapsed:
		e.Cause = "ttl"
	case forgot:
		e.Cause = "provider"
	default:
		return
	}
	p.add(e)
}

// Day returns events of n sessions that end about at now: mostly good ones, some that cost money, one that is hostile.
func Day(n int, now time.Time) []event.Event {
	models := []string{"claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5"}
	all := make([]event.Event, 0, 300*n)
	for i := range n {
		s := Spec{
			Name: fmt.Sprintf("%08x%08x", uint32(i+1)*2654435761, uint32(i+7)*40503), Route: []string{"coding", "support", "batch"}[i%7%3], Model: models[i%5%3],
			Mode: "active", Seed: uint64(i + 1), Requests: 24 + i*37%90, Start: now.Add(-time.Duration(n-i) * 3 * time.Minute), Pauses: 0.5,
			Lift: i%4 == 3, Bad: i%9 == 4, Hostile: i == 2, Edits: i%6 == 1,
		}
		if i%11 == 6 {
			s.Mode, s.Lift, s.Bad = "shadow", false, false
		}
		all = append(all, Play(s)...)
	}
	return all
}
