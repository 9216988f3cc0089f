package cache

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2"
)

// Override changes what the table says of a model, or adds one: prices that were negotiated, a gateway's own name for a
// model. Keys at their zero value change nothing. Prices are USD per million tokens. Where a model has tiers, those above the
// first are scaled by as much as the first one changes. Of a model that the table does not list, the prices that are not set
// keep their proportion to the input price.
type Override struct {
	Model   string        `config:"model" doc:"name of a model, or a glob of names; later entries count before earlier ones"`
	Input   float64       `config:"input" doc:"USD per million tokens of uncached input"`
	Output  float64       `config:"output" doc:"USD per million tokens of output"`
	Read    float64       `config:"read" doc:"USD per million tokens read from the cache"`
	Write5m float64       `config:"write_5m" doc:"USD per million tokens written to the cache for five minutes"`
	Write1h float64       `config:"write_1h" doc:"USD per million tokens written to the cache for one hour"`
	Minimum int           `config:"minimum" doc:"tokens that a prefix needs to be cached"`
	Window  int           `config:"window" doc:"tokens that a prompt may have"`
	AutoTTL time.Duration `config:"auto_ttl" doc:"longest life of what the provider caches by itself; without a bound nothing that was sent ever counts as gone"`
	Bound   *bool         `config:"bound" doc:"whether thinking blocks are bound to the exact prefix that produced them"`
}

// Validate checks the values. The error names the key, the value and what is accepted.
func (o *Override) Validate() error {
	if o.Model == "" {
		return errors.New("model: must be the name of a model, or a glob")
	}
	if _, err := path.Match(o.Model, ""); err != nil {
		return fmt.Errorf("model: %q: %w", o.Model, err)
	}
	for _, n := range []struct {
		key   string
		value float64
	}{
		{"input", o.Input},
		{"output", o.Output},
		{"read", o.Read},
		{"write_5m", o.Write5m},
		{"write_1h", o.Write1h},
		{"minimum", float64(o.Minimum)},
		{"window", float64(o.Window)},
		{"auto_ttl", float64(o.AutoTTL)},
	} {
		if !(n.value >= 0) || math.IsInf(n.value, 1) {
			return fmt.Errorf("%s: %v is not a positive number", n.key, n.value)
		}
	}
	return nil
}

// names reports whether the override is for one model by its name and prices it.
func (o *Override) names() bool { return !strings.ContainsAny(o.Model, `*?[\`) && o.Input > 0 }

// matches reports whether the override is for the model of that normal name, which p says something of.
func (o *Override) matches(plain string, p *Price) bool {
	pattern := normal(o.Model)
	if ok, err := path.Match(pattern, plain); ok && err == nil {
		return true
	}
	ok, err := path.Match(pattern, normal(p.Name))
	return ok && err == nil && p.Known
}

// apply returns p as the override has it.
func (o *Override) apply(p *Price) *Price {
	q := *p
	q.Tiers = slices.Clone(p.Tiers)
	if !p.Known && o.Input > 0 {
		factor := o.Input / q.Tiers[0].Rates.Input
		for i := range q.Tiers {
			q.Tiers[i].Rates = q.Tiers[i].Rates.times(factor)
		}
	}
	for _, c := range []struct {
		value float64
		at    func(*Rates) *float64
	}{
		{o.Input, func(r *Rates) *float64 { return &r.Input }},
		{o.Output, func(r *Rates) *float64 { return &r.Output }},
		{o.Read, func(r *Rates) *float64 { return &r.Read }},
		{o.Write5m, func(r *Rates) *float64 { return &r.Write5m }},
		{o.Write1h, func(r *Rates) *float64 { return &r.Write1h }},
	} {
		if c.value == 0 {
			continue
		}
		factor := c.value / *c.at(&q.Tiers[0].Rates)
		for i := range q.Tiers {
			*c.at(&q.Tiers[i].Rates) *= factor
		}
		*c.at(&q.Tiers[0].Rates) = c.value // to the last digit
	}
	if o.Minimum > 0 {
		q.Minimum = o.Minimum
	}
	if o.Window > 0 {
		q.Window = o.Window
	}
	if o.AutoTTL > 0 {
		q.AutoTTL = o.AutoTTL
	}
	if o.Bound != nil {
		q.Bound = *o.Bound
	}
	if !q.Known && o.names() {
		q.Name, q.Known = o.Model, true
	}
	return &q
}

// finite is an error if a rate is no finite number: prices of tiers are scaled, and a quotient of extreme ones has no bounds.
func (p *Price) finite() error {
	for _, t := range p.Tiers {
		for _, v := range []float64{t.Rates.Input, t.Rates.Output, t.Rates.Read, t.Rates.Write5m, t.Rates.Write1h} {
			if math.IsInf(v, 0) || math.IsNaN(v) {
				return errors.New("a price is out of range")
			}
		}
	}
	return nil
}

// times returns the rates times a factor.
func (r Rates) times(f float64) Rates {
	return Rates{Input: r.Input * f, Output: r.Output * f, Read: r.Read * f, Write5m: r.Write5m * f, Write1h: r.Write1h * f}
}

// override applies what the config says of the model of that normal name.
func (t *Table) override(plain string, p *Price) *Price {
	for i := range t.overrides {
		if t.overrides[i].matches(plain, p) {
			p = t.overrides[i].apply(p)
		}
	}
	return p
}

// With returns the table with overrides, those of t first. The error names the override by its place, and its key. An
// override that puts a model's prices out of order (reads above input, writes below it) is an error, and so is one that makes a price infinite.
func (t *Table) With(overrides []Override) (*Table, error) {
	u := *t
	u.overrides = slices.Concat(t.overrides, overrides)
	var err error
	if u.seen, err = lru.New[string, *Price](maxSeen); err != nil {
		return nil, fmt.Errorf("make memory of model names: %w", err)
	}
	for i := range overrides {
		if err := overrides[i].Validate(); err != nil {
			return nil, fmt.Errorf("prices[%d].%w", i, err)
		}
	}
	for i := range slices.Backward(overrides) { // the last one that matches has the last word
		names := []string{overrides[i].Model}
		for _, e := range t.models {
			names = append(names, e.Name)
		}
		for _, name := range names {
			p := u.find(name)
			err := p.check()
			if err == nil {
				err = p.finite()
			}
			if err != nil && overrides[i].matches(normal(name), p) {
				return nil, fmt.Errorf("prices[%d]: of %s, %w", i, name, err)
			}
		}
	}
	return &u, nil
}
