// Package bill adds up what requests cost and says how far results of many sessions lie apart.
//
// Money is the price of a request's input; output costs the same whatever was left out of the prompt. It comes in two
// units: of one uncached input token, by the simulated provider's own facts, and in USD, by the price table.
package bill

import (
	"cmp"
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Bill is what some requests cost.
type Bill struct {
	Requests int     `json:"requests"` // that were billed
	Refused  int     `json:"refused"`  // that the provider refused; they cost nothing, so that bills with them are not compared
	Prompt   int     `json:"prompt_tokens"`
	Input    int     `json:"input_tokens"` // neither read from the cache nor written to it
	Read     int     `json:"read_tokens"`
	Write5m  int     `json:"write_5m_tokens"`
	Write1h  int     `json:"write_1h_tokens"`
	Units    float64 `json:"units"`
	USD      float64 `json:"usd"`
}

// Add puts one request on the bill. Without usage it was refused.
func (b *Bill) Add(u *pipeline.Usage, units, usd float64) {
	if u == nil {
		b.Refused++
		return
	}
	b.Requests++
	b.Prompt += u.Prompt()
	b.Input += u.Input
	b.Read += u.Read
	b.Write5m += u.Write5m
	b.Write1h += u.Write1h
	b.Units += units
	b.USD += usd
}

// Join adds another bill.
func (b *Bill) Join(o *Bill) {
	b.Requests += o.Requests
	b.Refused += o.Refused
	b.Prompt += o.Prompt
	b.Input += o.Input
	b.Read += o.Read
	b.Write5m += o.Write5m
	b.Write1h += o.Write1h
	b.Units += o.Units
	b.USD += o.USD
}

// ReadShare is the part of all prompts that was read from the cache; 0 of nothing.
func (b *Bill) ReadShare() float64 {
	if b.Prompt == 0 {
		return 0
	}
	return float64(b.Read) / float64(b.Prompt)
}

// Over is the bill relative to another one, 1 where the other is nothing.
func (b *Bill) Over(o *Bill) float64 {
	if o.Units == 0 {
		return 1
	}
	return b.Units / o.Units
}

// Point is a value of one session.
type Point struct {
	Session string  `json:"session"`
	Value   float64 `json:"value"`
}

// Spread is how the values of many sessions lie, smallest first.
type Spread struct {
	Least  Point   `json:"least"`
	P10    float64 `json:"p10"`
	Median Point   `json:"median"` // of an even number of sessions the lower one
	P90    float64 `json:"p90"`
	Most   Point   `json:"most"`
	Points int     `json:"points"`
}

// SpreadOf orders the points; nil without any.
func SpreadOf(points []Point) *Spread {
	if len(points) == 0 {
		return nil
	}
	p := slices.SortedFunc(slices.Values(points), func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Session, b.Session))
	})
	at := func(share float64) Point { return p[int(share*float64(len(p)-1))] }
	return &Spread{Least: p[0], P10: at(0.1).Value, Median: at(0.5), P90: at(0.9).Value, Most: p[len(p)-1], Points: len(p)}
}
