package gemini

import (
	"regexp"
	"strconv"
)

// model holds what the simulator knows about a model: facts of the provider's documentation as of 2026-11-29.
type model struct {
	version int // 100 times the major number plus the minor one
	price   rate
	above   rate // of prompts of more than tier tokens; zero: the same
	rho     float64
	minimum int // tokens that a prefix needs to be cached
	window  int
}

// signs reports whether a model signs its function calls and wants them signed.
func (m model) signs() bool { return m.version >= 300 }

// named is the name of a model: version, variant, and what marks a snapshot or a preview.
var named = regexp.MustCompile(`^gemini-(\d)(?:\.(\d))?-(pro|flash|flash-lite|argon|neon|hydrogen)(?:-(?:latest|preview|customtools|\d{2,3}|\d{2}-\d{2}|\d{2}-\d{4}))*$`)

// window is how many tokens a prompt may have.
const window = 1_048_576

// lookup returns the facts about a model id, or false if no such model is served. A version of a variant whose price is not
// known costs what the variant of Gemini 3 costs.
func lookup(id string) (model, bool) {
	m := named.FindStringSubmatch(id)
	if m == nil {
		return model{}, false
	}
	major, _ := strconv.Atoi(m[1]) // the expression admits digits only, and no minor number means x.0
	minor, _ := strconv.Atoi(m[2])
	out := model{version: 100*major + minor, rho: 0.1, minimum: 4096, window: window}
	if out.version < 205 {
		return model{}, false // without implicit caching, and no longer served
	}
	if out.version < 300 {
		out.minimum = 2048
	}
	prices, ok := variants[m[3]]
	if !ok || out.version < prices.from {
		return model{}, false
	}
	out.price, out.above = prices.price, prices.above
	if out.version < 300 {
		out.price, out.above = prices.old, prices.oldAbove
	}
	if out.version >= 400 {
		out.rho = 0.05
	}
	return out, true
}

// variants are prices by variant, and the first version there is; old ones are those of Gemini 2.5.
var variants = map[string]struct {
	from                        int
	price, above, old, oldAbove rate
}{
	"pro":        {from: 205, price: rate{2, 12}, above: rate{4, 18}, old: rate{1.25, 10}, oldAbove: rate{2.5, 15}},
	"flash":      {from: 205, price: rate{0.5, 3}, old: rate{0.3, 2.5}},
	"flash-lite": {from: 205, price: rate{0.1, 0.4}, old: rate{0.1, 0.4}},
	"argon":      {from: 400, price: rate{2, 10}},
	"neon":       {from: 400, price: rate{3, 15}},
	"hydrogen":   {from: 400, price: rate{1.5, 7.5}},
}

// rate is what tokens cost outside the cache, in USD per million.
type rate struct{ input, output float64 }

// tier is the size above which a prompt is a long one: on some models all of it costs more.
const tier = 200_000

// Units returns what a request costs, in uncached input tokens of the model's lowest price: reads at the model's rate, writes
// free, thoughts like output. It is 0 for a model that is not served.
func Units(id string, u Usage) float64 {
	m, known := lookup(id)
	if !known {
		return 0
	}
	price := m.price
	if m.above.input > 0 && u.Input+u.Read > tier {
		price = m.above
	}
	input := float64(u.Input) + m.rho*float64(u.Read)
	return price.input/m.price.input*input + price.output/m.price.input*float64(u.Output+u.Thoughts)
}

// Bill returns what a request costs in USD, output included. It is 0 for a model that is not served.
func Bill(id string, u Usage) float64 {
	m, _ := lookup(id) // a model that is not served has no price
	return Units(id, u) * m.price.input / 1e6
}

// Cost returns the price of a request's input in the units of [Units]; output is not part of it.
func (s *Sim) Cost(rec Received) float64 {
	u := rec.Usage
	u.Output, u.Thoughts = 0, 0
	return Units(rec.Model, u)
}
