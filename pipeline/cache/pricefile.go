package cache

import (
	_ "embed" // the table is part of the binary
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"go.yaml.in/yaml/v4"
)

//go:embed prices.yaml
var pricesFile []byte

// The embedded file comes with the binary, and the tests of the table read it: it has no error that a user could meet.
var embedded = sync.OnceValue(func() *Table {
	t, _ := parsePrices(pricesFile)
	return t
})

// Prices returns the embedded table, without overrides.
func Prices() *Table { return embedded() }

// priceFile is prices.yaml.
type priceFile struct {
	Date     string       `yaml:"date"`
	Default  modelFile    `yaml:"default"`
	Families []familyFile `yaml:"families"`

	Platforms map[string]platformFile `yaml:"platforms"`
}

type platformFile struct {
	Regional struct {
		Factor float64 `yaml:"factor"`
		From   string  `yaml:"from"`
	} `yaml:"regional"`
	Minimum map[string]int `yaml:"minimum"`
}

type familyFile struct {
	Name      string      `yaml:"name"`
	AutoTTL   string      `yaml:"auto_ttl"`
	Step      int         `yaml:"step"`
	BoundFrom string      `yaml:"bound_from"`
	Models    []modelFile `yaml:"models"`
}

type modelFile struct {
	Model   string     `yaml:"model"`
	Rates   Rates      `yaml:",inline"`
	Minimum int        `yaml:"minimum"`
	Window  int        `yaml:"window"`
	Step    int        `yaml:"step"`     // instead of the family's
	AutoTTL string     `yaml:"auto_ttl"` // of the default alone; a model has that of its family
	Derived []string   `yaml:"derived"`
	Tiers   []tierFile `yaml:"tiers"`
}

type tierFile struct {
	Above int   `yaml:"above"`
	Rates Rates `yaml:",inline"`
}

// parsePrices reads a price file strictly: what it does not understand, and prices out of order, are errors.
func parsePrices(data []byte) (*Table, error) {
	var file priceFile
	if err := yaml.Load(data, &file, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	if _, err := time.Parse(time.DateOnly, file.Date); err != nil {
		return nil, fmt.Errorf("read date of prices: %w", err)
	}
	t := &Table{date: file.Date, families: map[string]*family{}, platforms: map[string]*platform{}, names: newNaming(file.Families)}
	var err error
	if t.seen, err = lru.New[string, *Price](maxSeen); err != nil {
		return nil, fmt.Errorf("make memory of model names: %w", err)
	}
	for i := range file.Families {
		if err := t.addFamily(&file.Families[i]); err != nil {
			return nil, fmt.Errorf("family %s: %w", file.Families[i].Name, err)
		}
	}
	if t.other, err = file.Default.price(file.Default.AutoTTL); err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	t.other.Name, t.other.Known = Other, false
	for name, p := range file.Platforms {
		if err := t.addPlatform(name, &p); err != nil {
			return nil, fmt.Errorf("platform %s: %w", name, err)
		}
	}
	return t, nil
}

func (t *Table) addFamily(file *familyFile) error {
	f := &family{name: file.Name}
	if file.BoundFrom != "" {
		major, minor, _ := strings.Cut(file.BoundFrom, ".")
		if f.boundFrom = version(major, minor); f.boundFrom <= 0 {
			return fmt.Errorf("bound_from: %q is no version", file.BoundFrom)
		}
	}
	for i := range file.Models {
		p, err := file.Models[i].price(file.AutoTTL)
		if err != nil {
			return fmt.Errorf("model %s: %w", file.Models[i].Model, err)
		}
		if p.Step = file.Step; file.Models[i].Step > 0 {
			p.Step = file.Models[i].Step
		}
		e := &entry{Price: p, model: t.names.parse(normal(p.Name)), derived: file.Models[i].Derived}
		if e.family != f.name || e.version < 0 {
			return fmt.Errorf("model %s: the name says family %q", p.Name, e.family)
		}
		e.Bound = f.boundFrom > 0 && e.version >= f.boundFrom
		f.models, t.models = append(f.models, e), append(t.models, e)
	}
	if len(f.models) == 0 {
		return errors.New("no models")
	}
	t.families[f.name] = f
	return nil
}

// price makes a Price of a row.
func (m *modelFile) price(autoTTL string) (Price, error) {
	p := Price{Name: m.Model, Known: true, Minimum: m.Minimum, Window: m.Window, AutoTTL: Unbounded, Tiers: []Tier{{Rates: m.Rates}}}
	for _, t := range m.Tiers {
		p.Tiers = append(p.Tiers, Tier(t))
	}
	if autoTTL != "none" {
		ttl, err := time.ParseDuration(autoTTL)
		if err != nil {
			return p, fmt.Errorf("auto_ttl: %w", err)
		}
		p.AutoTTL = ttl
	}
	err := p.check()
	return p, err
}

// check looks for what no bill can be: the planner's sums rely on reads being cheaper than input and writes not.
func (p *Price) check() error {
	for _, t := range p.Tiers {
		r := t.Rates
		for _, c := range []struct {
			ok   bool
			text string
		}{
			{r.Read > 0, "read must be above 0"},
			{r.Read <= r.Input, "read is above input"},
			{r.Input <= r.Write5m, "write_5m is below input"},
			{r.Write5m <= r.Write1h, "write_1h is below write_5m"},
			{r.Output > 0, "output must be above 0"},
		} {
			if !c.ok {
				return errors.New(c.text)
			}
		}
	}
	return nil
}
