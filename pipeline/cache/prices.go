package cache

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2"
)

// Other is the Name of a model that the table does not list: metrics have one label for all of them.
const Other = "_other"

// Unbounded is the TTL of what a provider may hold for any time: it never counts as lapsed.
const Unbounded = time.Duration(math.MaxInt64)

// Rates are prices in USD per million tokens.
type Rates struct {
	Input   float64 `yaml:"input"`
	Output  float64 `yaml:"output"`
	Read    float64 `yaml:"read"`     // from the cache
	Write5m float64 `yaml:"write_5m"` // to the cache for five minutes
	Write1h float64 `yaml:"write_1h"` // to the cache for one hour
}

// Rho is the price of reading one token from the cache, in uncached input tokens.
func (r Rates) Rho() float64 { return r.Read / r.Input }

// Write is the price of writing one token to the cache for the TTL, in uncached input tokens. It is 1 where writes are free,
// since what is written is input.
func (r Rates) Write(ttl time.Duration) float64 {
	if ttl >= Long {
		return r.Write1h / r.Input
	}
	return r.Write5m / r.Input
}

// Tier is the prices of requests whose prompt is larger than Above tokens.
type Tier struct {
	Above int
	Rates Rates
}

// Price is what is known of a model. It is shared and must not be changed.
type Price struct {
	Name    string        // as the table writes it, Other for a model that is not in it
	Known   bool          // false: the prices are those of a relative, or no more than proportions
	Bound   bool          // thinking blocks are bound to the exact prefix that produced them
	Minimum int           // tokens that a prefix needs to be cached
	Window  int           // tokens that a prompt may have, 0 if unknown
	Step    int           // tokens of which a read from what the provider caches by itself is a multiple, 0 if it is exact
	AutoTTL time.Duration // upper bound for what the provider caches by itself; Unbounded if none is documented
	Tiers   []Tier        // at least one; the first is above 0, the last the largest
}

// Rates returns the prices of a request whose whole prompt, read and written parts included, has so many tokens. All of the
// request is billed at the prices of its tier.
func (p *Price) Rates(prompt int) Rates {
	rates := p.Tiers[0].Rates
	for _, t := range p.Tiers[1:] {
		if prompt > t.Above {
			rates = t.Rates
		}
	}
	return rates
}

// Table maps model names, as they stand in requests, to prices. It is immutable, and safe for concurrent use.
type Table struct {
	date      string
	models    []*entry
	families  map[string]*family
	names     *naming
	other     Price
	overrides []Override
	platforms map[string]*platform
	seen      *lru.Cache[string, *Price] // by name as asked for
}

// entry is a listed model.
type entry struct {
	Price
	model // what its name says

	derived []string // keys of the file whose number is not published for this model
}

// family is what the versions of a model have in common.
type family struct {
	name      string
	boundFrom int      // first version that binds, 0 for none
	models    []*entry // newest first
}

// Names of models are the client's to choose, so few are remembered and long ones never.
const (
	maxSeen = 256
	maxName = 256
)

// Date is the day, as YYYY-MM-DD, on which the table was last compared with the providers' pages.
func (t *Table) Date() string { return t.date }

// Names lists the models of the table, and after them those that overrides added. No other Name than these and Other is
// ever in a Price.
func (t *Table) Names() []string {
	names := make([]string, 0, len(t.models))
	for _, e := range t.models {
		names = append(names, e.Name)
	}
	for i := range t.overrides {
		if o := &t.overrides[i]; o.names() && !slices.Contains(names, t.Lookup(o.Model).Name) {
			names = append(names, t.Lookup(o.Model).Name)
		}
	}
	return names
}

// Lookup returns what is known of a model, never nil. A version that is not listed is priced like the newest listed one of
// its family that is not newer than it, and counts as bound from the family's first bound version on. A Claude model of an
// unknown family counts as bound unless its version says that it is older than binding.
func (t *Table) Lookup(model string) *Price {
	if len(model) > maxName { // its end names the model, if anything does; else nothing is known of it, and nothing is risked
		p := *t.find(model[len(model)-maxName:])
		if !p.Known {
			p.Bound, p.AutoTTL = true, Unbounded
		}
		return &p
	}
	if p, ok := t.seen.Get(model); ok {
		return p
	}
	p := t.find(model)
	t.seen.Add(strings.Clone(model), p) // the name may be a part of a whole body
	return p
}

// find is Lookup without a memory.
func (t *Table) find(name string) *Price {
	plain := normal(name)
	p := t.listed(plain)
	return t.override(plain, p)
}

// listed returns the price without overrides.
func (t *Table) listed(plain string) *Price {
	m := t.names.parse(plain)
	f := t.families[m.family]
	if f == nil {
		p := t.other
		if m.anthropic {
			p.Bound, p.AutoTTL = m.version < 0 || m.version >= firstBinding, Long
		}
		return &p
	}
	for _, e := range f.models {
		if e.version == m.version && !m.variant {
			return &e.Price
		}
	}
	list := f.models
	if m.gpt && (f.name == gptFamily || m.variant) { // the name says no more than the version
		list = t.gpt()
	}
	p := standIn(list, m.version).Price
	p.Name, p.Known = Other, false
	p.Bound = f.boundFrom > 0 && (m.version < 0 || m.version >= f.boundFrom)
	if m.gpt { // lives have grown from one version to the next
		p.AutoTTL = Unbounded
	}
	return &p
}

// gpt lists all GPT models, in the order of the file.
func (t *Table) gpt() []*entry {
	var list []*entry
	for _, e := range t.models {
		if e.gpt {
			list = append(list, e)
		}
	}
	return list
}

// standIn returns the newest model that is not newer than the version, or else the oldest; for an unknown version the newest.
// Where several are of the same version it is the first.
func standIn(list []*entry, version int) *entry {
	newer := func(a, b *entry) int { return cmp.Compare(b.version, a.version) }
	list = slices.SortedStableFunc(slices.Values(list), newer)
	for _, e := range list {
		if version < 0 || e.version <= version {
			return e
		}
	}
	oldest := list[len(list)-1].version
	return list[slices.IndexFunc(list, func(e *entry) bool { return e.version == oldest })]
}
