package board

import (
	"cmp"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// causes of cache losses, in the order in which they are told; the last one stands for all that are not listed.
var causes = [...]string{
	"tidemark", "provider", "ttl", "client_history", "client_tools", "client_system", "client_model", "first", "unknown",
}

// tally is what some requests came to. It is of one size, so that a reader can copy it.
type tally struct {
	requests, answered, side int
	moves, undeclared        int
	billed                   event.Billed
	expected, expectedRead   int // of the requests of which something was expected
	modelled                 int // requests that account is of
	account                  event.Account
	removed, replayed        int
	restores, restored       int
	reuses, reused           int
	shadowed, shadowRemoved  int
	shadowActing             int
	losses                   [len(causes)]Loss
}

// Figures are what some requests came to, by origin.
type Figures struct {
	Requests   int       `json:"requests"`
	Side       int       `json:"side_requests"` // of them: titles, probes, token counts
	Moves      int       `json:"moves"`
	Undeclared int       `json:"undeclared_prefix_changes"` // must be 0
	Observed   Observed  `json:"observed"`
	Modelled   Modelled  `json:"modelled"`
	Estimated  Estimated `json:"estimated"`
	Shadow     Shadow    `json:"shadow"`
	Losses     []Loss    `json:"losses"` // by cause, those that cost most first
}

// Observed is what the provider said. Tokens are counted once: input are those that were neither read nor written. Ratios are
// absent where there is nothing to divide by.
type Observed struct {
	Answers        int      `json:"answers"` // requests whose usage is known
	Input          int      `json:"input"`
	Read           int      `json:"cache_read"`
	Write5m        int      `json:"cache_write_5m"`
	Write1h        int      `json:"cache_write_1h"`
	Output         int      `json:"output"`
	Cost           float64  `json:"cost_usd"` // by the price table
	ReadOfPrompt   *float64 `json:"read_of_prompt,omitempty"`
	ReadOfExpected *float64 `json:"read_of_expected,omitempty"` // of the answers of which something was expected
}

// Modelled is what tidemark came to against the same requests without it. NetOfBaseline is negative where it cost money.
type Modelled struct {
	Answers       int      `json:"answers"` // that it is of
	Baseline      float64  `json:"baseline_usd"`
	Removal       float64  `json:"removal_usd"`
	Levers        float64  `json:"levers_usd"`
	Reuse         float64  `json:"reuse_usd"`
	Net           float64  `json:"net_usd"`
	Provider      float64  `json:"provider_usd"` // what the provider's cache saves, which is not tidemark's
	NetOfBaseline *float64 `json:"net_of_baseline,omitempty"`
}

// Estimated are tokens as far as bytes tell them.
type Estimated struct {
	Removed  int `json:"removed"`  // left out, each when it went for the first time
	Replayed int `json:"replayed"` // left out again in later requests, once for each
	Restores int `json:"restores"`
	Restored int `json:"restored"` // given back
	Reuses   int `json:"reuses"`
	Reused   int `json:"reused"` // left out and needed again
}

// Shadow is what mode active would have done in requests of mode shadow.
type Shadow struct {
	Requests int `json:"requests"`
	Acting   int `json:"acting"`  // of them: something would have been left out
	Removed  int `json:"removed"` // estimated tokens, for the first time
}

// Loss are cache losses of one cause.
type Loss struct {
	Cause  string  `json:"cause"`
	N      int     `json:"n"`
	Tokens int     `json:"tokens"` // paid for again
	USD    float64 `json:"usd"`    // above the price of reading them
}

// add counts an event.
func (t *tally) add(e event.Event) {
	switch e := e.(type) {
	case *event.Request:
		t.request(e)
	case *event.Usage:
		t.usage(e)
	case *event.Loss:
		t.loss(e)
	case *event.Move:
		t.moves++
	case *event.Restore:
		if e.Result == "ok" {
			t.restores++
			t.restored += e.Tokens
		}
	case *event.Reuse:
		t.reuses++
		t.reused += e.Tokens
	}
}

func (t *tally) request(e *event.Request) {
	t.requests++
	if e.Side {
		t.side++
	}
	if e.Undeclared {
		t.undeclared++
	}
	t.removed += e.Sizes.Removed
	t.replayed += e.Sizes.Replayed
	if e.Shadow != nil {
		t.shadowed++
		t.shadowRemoved += e.Shadow.Removed
		if e.Shadow.Removed > 0 {
			t.shadowActing++
		}
	}
}

func (t *tally) usage(e *event.Usage) {
	t.answered++
	o := &e.Observed
	t.billed.Input += o.Input
	t.billed.Read += o.Read
	t.billed.Write5m += o.Write5m
	t.billed.Write1h += o.Write1h
	t.billed.Output += o.Output
	t.billed.Cost += o.Cost
	if e.Expected > 0 {
		t.expected += e.Expected
		t.expectedRead += o.Read
	}
	if m := e.Modelled; m != nil {
		t.modelled++
		t.account.Baseline += m.Baseline
		t.account.Removal += m.Removal
		t.account.Levers += m.Levers
		t.account.Reuse += m.Reuse
		t.account.Net += m.Net
		t.account.Provider += m.Provider
	}
}

func (t *tally) loss(e *event.Loss) {
	i := slices.Index(causes[:], e.Cause)
	if i < 0 {
		i = len(causes) - 1
	}
	l := &t.losses[i]
	l.N++
	l.Tokens += e.Tokens
	l.USD += e.USD
}

// lossN and lossUSD are the losses of all causes.
func (t *tally) lossN() (n int) {
	for i := range t.losses {
		n += t.losses[i].N
	}
	return n
}

func (t *tally) lossUSD() (usd float64) {
	for i := range t.losses {
		usd += t.losses[i].USD
	}
	return usd
}

// ratio is a/b, nil if there is nothing to divide by.
func ratio(a, b float64) *float64 {
	if b <= 0 {
		return nil
	}
	v := a / b
	return &v
}

// figures are the tally as it is shown.
func (t *tally) figures() Figures {
	f := Figures{
		Requests: t.requests, Side: t.side, Moves: t.moves, Undeclared: t.undeclared,
		Observed: Observed{
			Answers: t.answered, Input: t.billed.Input, Read: t.billed.Read, Write5m: t.billed.Write5m, Write1h: t.billed.Write1h,
			Output: t.billed.Output, Cost: t.billed.Cost,
			ReadOfPrompt:   ratio(float64(t.billed.Read), float64(t.billed.Prompt())),
			ReadOfExpected: ratio(float64(t.expectedRead), float64(t.expected)),
		},
		Modelled: Modelled{
			Answers: t.modelled, Baseline: t.account.Baseline, Removal: t.account.Removal, Levers: t.account.Levers,
			Reuse: t.account.Reuse, Net: t.account.Net, Provider: t.account.Provider,
			NetOfBaseline: ratio(t.account.Net, t.account.Baseline),
		},
		Estimated: Estimated{
			Removed: t.removed, Replayed: t.replayed, Restores: t.restores, Restored: t.restored, Reuses: t.reuses, Reused: t.reused,
		},
		Shadow: Shadow{Requests: t.shadowed, Acting: t.shadowActing, Removed: t.shadowRemoved},
		Losses: []Loss{},
	}
	for i, l := range t.losses {
		if l.N > 0 {
			l.Cause = causes[i]
			f.Losses = append(f.Losses, l)
		}
	}
	slices.SortStableFunc(f.Losses, func(a, b Loss) int { return cmp.Compare(b.USD, a.USD) })
	return f
}
