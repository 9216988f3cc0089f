package eventlog

import (
	"cmp"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Figures are sums over requests, of a session or of all.
type Figures struct {
	Requests   int            `json:"requests"`
	Side       int            `json:"side"` // of them: side traffic
	Outcomes   map[string]int `json:"outcomes"`
	Gates      map[string]int `json:"gates"` // as filter.gate: results that it kept, and requests where it is of no filter
	BytesIn    int            `json:"bytes_in"`
	BytesOut   int            `json:"bytes_out"`
	Undeclared int            `json:"undeclared"` // requests that lost bytes of a live cache entry without a declared move
	Desync     int            `json:"desync"`
	Observed   Observed       `json:"observed"`
	Modelled   Modelled       `json:"modelled"`
	Estimated  Estimated      `json:"estimated"`
	Shadow     *Shadow        `json:"shadow,omitempty"`
	Losses     []*Loss        `json:"losses"` // dearest first
	Moves      []*Move        `json:"moves"`  // in order
}

// Observed is what the provider said.
type Observed struct {
	Responses int `json:"responses"` // that told their usage
	event.Billed
}

// Modelled is what tidemark came to. Baseline - Cost = Removal + Levers, and Net = Baseline - Cost - Reuse.
type Modelled struct {
	Responses int     `json:"responses"` // of which something can be said: no side traffic
	Cost      float64 `json:"cost_usd"`  // of them, as observed
	event.Account
}

// Estimated are tokens by bytes, some of them calibrated by what the provider counted. No two of them may be added.
type Estimated struct {
	Removed  int            `json:"removed"`  // for the first time, net of markers
	Replayed int            `json:"replayed"` // left out again, as earlier decisions stand
	ByFilter map[string]int `json:"removed_by_filter"`
	Restored int            `json:"restored"` // given back to models or people
	Restores map[string]int `json:"restores"` // attempts at that, by result
	Reused   int            `json:"reused"`   // needed again
	Reuses   map[string]int `json:"reuses"`   // how often, by kind
}

// Shadow is what mode active would have done.
type Shadow struct {
	Requests int            `json:"requests"` // in mode shadow
	Removed  int            `json:"removed"`  // tokens, for the first time
	Outcomes map[string]int `json:"outcomes"`
}

// Loss are the losses of one cause.
type Loss struct {
	Cause       string  `json:"cause"`
	Filter      string  `json:"filter,omitempty"`
	Times       int     `json:"times"`
	Diagnostics int     `json:"diagnostics"` // of them: that the provider named the cause of
	Tokens      int     `json:"lost_tokens"`
	USD         float64 `json:"lost_usd"`
}

func newFigures() Figures {
	return Figures{
		Outcomes: map[string]int{}, Gates: map[string]int{}, Losses: []*Loss{}, Moves: []*Move{},
		Estimated: Estimated{ByFilter: map[string]int{}, Restores: map[string]int{}, Reuses: map[string]int{}},
	}
}

// add books one event. Moves are booked by the session, which knows what comes of them.
func (f *Figures) add(e event.Event) {
	switch e := e.(type) {
	case *event.Request:
		f.request(e)
	case *event.Decision:
		if e.First && e.Filter != "" {
			f.Estimated.ByFilter[e.Filter] += e.Tokens - e.MarkerTokens
		}
	case *event.Usage:
		f.usage(e)
	case *event.Loss:
		f.loss(e)
	case *event.Restore:
		f.Estimated.Restored += e.Tokens
		f.Estimated.Restores[e.Result]++
	case *event.Reuse:
		f.Estimated.Reused += e.Tokens
		f.Estimated.Reuses[e.Kind]++
	}
}

func (f *Figures) request(e *event.Request) {
	f.Requests++
	f.Outcomes[e.Outcome]++
	f.BytesIn += e.BytesIn
	f.BytesOut += e.BytesOut
	if e.Side {
		f.Side++
	}
	if e.Undeclared {
		f.Undeclared++
	}
	if e.Desync {
		f.Desync++
	}
	if e.Gate != "" {
		f.Gates[e.Gate]++
	}
	for _, g := range e.Gates {
		f.Gates[gateName(g)] += max(1, g.N)
	}
	f.Estimated.Removed += e.Sizes.Removed
	f.Estimated.Replayed += e.Sizes.Replayed
	if s := e.Shadow; s != nil {
		if f.Shadow == nil {
			f.Shadow = &Shadow{Outcomes: map[string]int{}}
		}
		f.Shadow.Requests++
		f.Shadow.Removed += s.Removed
		f.Shadow.Outcomes[s.Outcome]++
	}
}

// gateName is a gate as figures name it.
func gateName(g event.Gate) string {
	if g.Filter == "" {
		return g.Gate
	}
	return g.Filter + "." + g.Gate
}

func (f *Figures) usage(e *event.Usage) {
	o := &f.Observed
	o.Responses++
	o.Input += e.Observed.Input
	o.Read += e.Observed.Read
	o.Write5m += e.Observed.Write5m
	o.Write1h += e.Observed.Write1h
	o.Output += e.Observed.Output
	o.Cost += e.Observed.Cost
	o.Merged = o.Merged || e.Observed.Merged
	a := e.Modelled
	if a == nil {
		return
	}
	m := &f.Modelled
	m.Responses++
	m.Cost += e.Observed.Cost
	m.Baseline += a.Baseline
	m.Removal += a.Removal
	m.Levers += a.Levers
	m.Reuse += a.Reuse
	m.Net += a.Net
	m.Provider += a.Provider
	m.First, m.Again = plus(m.First, a.First), plus(m.Again, a.Again)
}

// plus adds what was priced. Where both are not priced alike, the sum is blended.
func plus(a, b event.Priced) event.Priced {
	basis := cmp.Or(a.Basis, b.Basis)
	if a.Basis != "" && b.Basis != "" && a.Basis != b.Basis {
		basis = "BLENDED_MARGINAL"
	}
	return event.Priced{Basis: basis, Read: a.Read + b.Read, Written: a.Written + b.Written, Input: a.Input + b.Input, USD: a.USD + b.USD}
}

func (f *Figures) loss(e *event.Loss) {
	i := slices.IndexFunc(f.Losses, func(l *Loss) bool { return l.Cause == e.Cause && l.Filter == e.Filter })
	if i < 0 {
		i = len(f.Losses)
		f.Losses = append(f.Losses, &Loss{Cause: e.Cause, Filter: e.Filter})
	}
	l := f.Losses[i]
	l.Times++
	l.Tokens += e.Tokens
	l.USD += e.USD
	if e.Source == "diagnostics" {
		l.Diagnostics++
	}
}

// sort puts losses in order.
func (f *Figures) sort() {
	slices.SortFunc(f.Losses, func(a, b *Loss) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Filter, b.Filter))
	})
}
