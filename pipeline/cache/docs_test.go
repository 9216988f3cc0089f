package cache

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/prices.md is written from the table:
//
//	go test ./pipeline/cache -run TestPricesPage -update
var update = flag.Bool("update", false, "write docs/prices.md")

const pricesPage = "../../docs/prices.md"

func TestPricesPage(t *testing.T) {
	want := page(Prices())
	if *update {
		if err := os.WriteFile(pricesPage, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody.
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pricesPage)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what the table says (%v): run go test ./pipeline/cache -run TestPricesPage -update", pricesPage, err)
	}
}

func page(table *Table) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Prices\n")
	p("What tidemark knows of models, as of %s: USD per million tokens, and what else the planner needs. The list is embedded; compare it with the", table.Date())
	p("provider's own page before you rely on a sum in USD, and override what differs. This page is generated from pipeline/cache/prices.yaml")
	p("(`go test ./pipeline/cache -run TestPricesPage -update`).\n")
	p("A number with * is computed or concluded from another one; it is not published for that model. *minimum* is how many tokens a prefix needs to")
	p("be cached, *window* how many a prompt may have (– where that is not known). *bound*: thinking blocks are bound to the exact prefix that")
	p("produced them, so sent history is never edited. *automatic* is the longest life of what the provider caches without being asked; where none is")
	p("documented, nothing counts as lapsed. A row *above n* holds for the whole of a request whose prompt is larger than that.")
	for _, f := range sections(table) {
		heading := "GPT"
		switch {
		case strings.HasPrefix(f[0].family, geminiPrefix):
			heading = "Gemini"
		case !f[0].gpt:
			heading = "Claude " + strings.ToUpper(f[0].family[:1]) + f[0].family[1:]
		}
		p("\n## %s\n", heading)
		p("| model | input | output | read | write 5m | write 1h | ρ | minimum | window | bound | automatic |\n|---|---|---|---|---|---|---|---|---|---|---|")
		for _, e := range f {
			for i, tier := range e.Tiers {
				name, rest := "`"+e.Name+"`", fmt.Sprintf("%s | %s | %s | %s", e.say("minimum", float64(e.Minimum)), e.say("window", float64(e.Window)), yes(e.Bound), life(&e.Price))
				if i > 0 {
					name, rest = "… above "+number(float64(tier.Above)), " |  |  | "
				}
				r := tier.Rates
				p("| %s | %s | %s | %s | %s | %s | %s | %s |", name, e.say("input", r.Input), e.say("output", r.Output), e.say("read", r.Read),
					e.say("write_5m", r.Write5m), e.say("write_1h", r.Write1h), number(r.Rho()), rest)
			}
		}
	}
	o, r := table.other, table.other.Tiers[0].Rates
	p("\n## Names\n")
	p("Platform prefixes (`us.anthropic.`, `vertex/…`), dots for dashes, dates and version suffixes do not matter. A version that is not listed is priced")
	p("like the newest listed one of its family that is not newer than it, and counts as bound from the family's first bound version on; so does a")
	p("Claude model of a family that is not listed, unless its version is older than 5. Every other model counts with ρ %s, writes at %s and %s times", number(r.Rho()), number(r.Write(Short)), number(r.Write(Long)))
	p("the input price and a minimum of %s tokens, and its window as unknown; %s USD per million input tokens is then a stand-in. In metrics all of", number(float64(o.Minimum)), number(r.Input))
	p("them are `%s`.\n", Other)
	p("## Platforms\n")
	p("| platform | what differs |\n|---|---|")
	for _, name := range slices.Sorted(maps.Keys(table.platforms)) {
		on := table.platforms[name]
		says := []string{fmt.Sprintf("regional endpoints cost %s times as much for Claude from version %d.%d on", number(on.factor), on.from/100, on.from%100)}
		for _, model := range slices.Sorted(maps.Keys(on.minimum)) {
			says = append(says, fmt.Sprintf("the minimum of `%s` is %s tokens", model, number(float64(on.minimum[model]))))
		}
		p("| %s | %s |", name, strings.Join(says, "; "))
	}
	p("\nBedrock's inference profiles of a region and ids without one are regional, those that begin with `global.` are not; on Vertex every location but")
	p("`global` is. An override holds wherever the model is served.\n")
	p("## Overrides\n")
	p("Only keys that are set count. Higher tiers follow the first one in proportion. Of a model that is not listed, prices that are not set keep their")
	p("proportion to the input price.\n")
	p("| key | meaning |\n|---|---|")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Override]()) {
		p("| `%s` | %s |", f.Tag.Get("config"), f.Tag.Get("doc"))
	}
	return b.String()
}

// sections are the models by heading, in the order of the file: a Claude family each, and all of GPT together.
func sections(table *Table) [][]*entry {
	var out [][]*entry
	for _, e := range table.models {
		i := slices.IndexFunc(out, func(s []*entry) bool { return s[0].gpt && e.gpt || s[0].family == e.family })
		if i < 0 {
			out, i = append(out, nil), len(out)
		}
		out[i] = append(out[i], e)
	}
	return out
}

// say is the number of a key, with its mark.
func (e *entry) say(key string, n float64) string {
	switch {
	case n == 0:
		return "–"
	case slices.Contains(e.derived, key):
		return number(n) + "*"
	}
	return number(n)
}

// number has as many digits as it needs, and thin groups of three before the point.
func number(n float64) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(n, 'g', 12, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return ""
}

func life(p *Price) string {
	if p.AutoTTL == Unbounded {
		return "–"
	}
	return strconv.Itoa(int(p.AutoTTL.Hours())) + "h"
}
