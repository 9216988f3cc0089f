package cache

import (
	"fmt"
	"slices"
	"strings"
)

// Platforms that serve models under other terms than their makers do.
const (
	Bedrock = "bedrock"
	Vertex  = "vertex"
	Azure   = "azure"
)

// Place is where a model is served.
type Place struct {
	Platform string // a word of the list above; empty: its maker's own, or nobody knows
	Regional bool   // an endpoint that keeps requests in a region, where that costs more
}

// platform is what a platform does otherwise.
type platform struct {
	factor  float64        // of all prices at regional endpoints, 1 if they are the same,
	from    int            // from this version of a Claude model on
	minimum map[string]int // by model as the table writes it
}

func (t *Table) addPlatform(name string, file *platformFile) error {
	p := &platform{factor: 1, minimum: file.Minimum}
	if r := file.Regional; r.Factor != 0 {
		major, minor, _ := strings.Cut(r.From, ".")
		if p.factor, p.from = r.Factor, version(major, minor); p.factor < 1 || p.from < 0 {
			return fmt.Errorf("regional: factor %v from version %q", r.Factor, r.From)
		}
	}
	for model := range file.Minimum {
		if !t.listed(normal(model)).Known {
			return fmt.Errorf("minimum: %s is not in the table", model)
		}
	}
	t.platforms[name] = p
	return nil
}

// At is Lookup for a model that is served at a place. What an override says of the model holds everywhere.
func (t *Table) At(model string, at Place) *Price {
	p := t.Lookup(model)
	on := t.platforms[at.Platform]
	if on == nil || slices.ContainsFunc(t.overrides, func(o Override) bool { return o.matches(normal(model), p) }) {
		return p
	}
	minimum, special := on.minimum[p.Name]
	m := t.names.parse(normal(model))
	dearer := at.Regional && on.factor > 1 && m.anthropic && m.version >= on.from
	if !special && !dearer {
		return p
	}
	q := *p
	if special {
		q.Minimum = minimum
	}
	if dearer {
		q.Tiers = slices.Clone(p.Tiers)
		for i := range q.Tiers {
			q.Tiers[i].Rates = q.Tiers[i].Rates.times(on.factor)
		}
	}
	return &q
}
