package cache

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTable: the embedded file can be read, and says nothing that no bill can be.
func TestTable(t *testing.T) {
	table, err := parsePrices(pricesFile)
	if err != nil {
		t.Fatal(err)
	}
	if table.Date() != "2026-11-29" {
		t.Errorf("date %s", table.Date())
	}
	keys := []string{"input", "output", "read", "write_5m", "write_1h", "minimum", "window"}
	seen := map[model]string{}
	for _, e := range append(slices.Clone(table.models), &entry{Price: table.other}) {
		if e.Tiers[0].Above != 0 {
			t.Errorf("%s: first tier above %d", e.Name, e.Tiers[0].Above)
		}
		for i, tier := range e.Tiers {
			r := tier.Rates
			if !(0 < r.Read && r.Read < r.Input && r.Input <= r.Write5m && r.Write5m <= r.Write1h && r.Input < r.Output) {
				t.Errorf("%s: %+v is out of order", e.Name, r)
			}
			if w := r.Write(Short); w != 1 && math.Abs(w-1.25) > 1e-9 {
				t.Errorf("%s: a write costs %v inputs", e.Name, w)
			}
			if i > 0 && (tier.Above <= e.Tiers[i-1].Above || r.Input <= e.Tiers[i-1].Rates.Input) {
				t.Errorf("%s: tier %d is not above the one before", e.Name, i)
			}
		}
		if e.Minimum < 512 || e.Minimum > 4096 || e.Window != 0 && e.Window < 200_000 || e.AutoTTL < Long {
			t.Errorf("%s: minimum %d, window %d, auto ttl %v", e.Name, e.Minimum, e.Window, e.AutoTTL)
		}
		for _, k := range e.derived {
			if !slices.Contains(keys, k) {
				t.Errorf("%s: derived %s", e.Name, k)
			}
		}
		if other, ok := seen[e.model]; ok {
			t.Errorf("%s and %s have the same family and version", e.Name, other)
		}
		seen[e.model] = e.Name
	}
	if got := len(table.Names()); got != len(table.models) || got < 30 {
		t.Errorf("%d names of %d models", got, len(table.models))
	}
}

// Numbers that were looked up apart from the file.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		model            string
		input, rho       float64
		w5m, w1h, output float64
		minimum, window  int
		bound            bool
	}{
		{"claude-fable-5-2", 8, 0.025, 1.25, 2, 40, 512, 1_000_000, true},
		{"claude-fable-5-1", 10, 0.025, 1.25, 2, 50, 512, 1_000_000, true},
		{"claude-mythos-5-1", 10, 0.025, 1.25, 2, 50, 512, 1_000_000, true},
		{"claude-opus-5-5", 4, 0.05, 1.25, 2, 20, 512, 1_000_000, true},
		{"claude-opus-5", 5, 0.1, 1.25, 2, 25, 512, 1_000_000, false},
		{"claude-opus-4-8", 5, 0.1, 1.25, 2, 25, 1024, 1_000_000, false},
		{"claude-opus-4-7", 5, 0.1, 1.25, 2, 25, 2048, 1_000_000, false},
		{"claude-opus-4-5", 5, 0.1, 1.25, 2, 25, 4096, 200_000, false},
		{"claude-sonnet-5-5", 2, 0.05, 1.25, 2, 10, 512, 1_000_000, true},
		{"claude-sonnet-5", 2, 0.1, 1.25, 2, 10, 1024, 1_000_000, false},
		{"claude-sonnet-4-6", 3, 0.1, 1.25, 2, 15, 1024, 1_000_000, false},
		{"claude-haiku-5-5", 0.1, 0.1, 1.25, 2, 0.5, 512, 1_000_000, true},
		{"claude-haiku-4-5", 1, 0.1, 1.25, 2, 5, 4096, 200_000, false},
		{"claude-haiku-3-5", 0.8, 0.1, 1.25, 2, 4, 2048, 200_000, false},
		{"gpt-6.1-sol", 2, 0.05, 1.25, 1.25, 10, 1024, 922_000, false},
		{"gpt-6-sol", 2, 0.1, 1.25, 1.25, 10, 1024, 922_000, false},
		{"gpt-5.5", 5, 0.1, 1, 1, 30, 2048, 922_000, false},
	} {
		p := Prices().Lookup(c.model)
		r := p.Rates(0)
		got := []float64{r.Input, r.Rho(), r.Write(Short), r.Write(Long), r.Output, float64(p.Minimum), float64(p.Window)}
		want := []float64{c.input, c.rho, c.w5m, c.w1h, c.output, float64(c.minimum), float64(c.window)}
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if diff := cmp.Diff(want, got, near); diff != "" || !p.Known || p.Name != c.model || p.Bound != c.bound {
			t.Errorf("%s (known %v, bound %v): %s", p.Name, p.Known, p.Bound, diff)
		}
	}
}

// TestTiers: a tier begins above its size, and all of the request is billed at it.
func TestTiers(t *testing.T) {
	for _, c := range []struct {
		model  string
		prompt int
		input  float64
	}{
		{"claude-haiku-5-5", 0, 0.1},
		{"claude-haiku-5-5", 100_000, 0.1},
		{"claude-haiku-5-5", 100_001, 0.5},
		{"gpt-6-sol", 272_000, 2},
		{"gpt-6-sol", 272_001, 4},
		{"gpt-5.4-mini", 1_000_000, 0.75},
		{"claude-opus-5-5", 1_000_000, 4},
	} {
		if got := Prices().Lookup(c.model).Rates(c.prompt); got.Input != c.input {
			t.Errorf("%s at %d: %+v", c.model, c.prompt, got)
		}
	}
}

// Names as platforms and clients write them.
func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-5-5":                            "claude-opus-5-5",
		"Claude-Opus-5.5":                            "claude-opus-5-5",
		"claude-opus-5-5-20260922":                   "claude-opus-5-5",
		"claude-opus-5-5[1m]":                        "claude-opus-5-5",
		"claude-opus-5-5-latest":                     "claude-opus-5-5",
		"claude-opus-5-5-thinking":                   "claude-opus-5-5",
		"claude-opus-5[1m]":                          "claude-opus-5",
		"claude-opus-5-1m":                           "claude-opus-5",
		"anthropic.claude-opus-5-5-v1:0":             "claude-opus-5-5",
		"us.anthropic.claude-opus-5-5-20260922-v1:0": "claude-opus-5-5",
		"global.anthropic.claude-sonnet-4-6":         "claude-sonnet-4-6",
		"vertex/claude-sonnet-4-5@20250929":          "claude-sonnet-4-5",
		"claude-sonnet-4@20250514":                   "claude-sonnet-4",
		"claude-sonnet-4-20250514":                   "claude-sonnet-4",
		"claude-3-5-haiku-20241022":                  "claude-haiku-3-5",
		"anthropic/claude-3.5-haiku:beta":            "claude-haiku-3-5",
		"claude_haiku_4_5":                           "claude-haiku-4-5",
		"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-8-v1:0": "claude-opus-4-8",
		"gpt-6.1-sol":                   "gpt-6.1-sol",
		"openai/gpt-6.1-sol-2026-09-29": "gpt-6.1-sol",
		"azure/gpt-6-1-sol":             "gpt-6.1-sol",
		"gpt-6-sol":                     "gpt-6-sol",
		"gpt-5":                         "gpt-5",
		"gpt-5-2025-08-07":              "gpt-5",
		"gpt-5-codex":                   "gpt-5",
		"gpt-5.3-codex":                 "gpt-5.3-codex",
		"gpt-5-mini-2025-08-07":         "gpt-5-mini",
		"gpt-5.5-pro":                   Other,
		"gpt-4o-mini":                   Other,
		"gpt-oss-120b":                  Other,
		"claude-opus-6":                 Other,
		"qwen3-coder":                   Other,
		"":                              Other,
		strings.Repeat("x/", 4000) + "claude-opus-5-5": "claude-opus-5-5",
	} {
		for range 2 { // the second time from memory
			p := Prices().Lookup(name)
			if p.Name != want || p.Known != (want != Other) {
				t.Errorf("%.80s is %s, want %s", name, p.Name, want)
			}
		}
	}
}

// TestBound: binding is never lost, whatever the name.
func TestBound(t *testing.T) {
	for name, want := range map[string]bool{
		"claude-fable-5": false, "claude-fable-5-1": true, "claude-fable-5-2": true, "claude-fable-5-3": true, "claude-fable-6": true,
		"claude-mythos-5": false, "claude-mythos-5-1": true, "claude-mythos-5-20260609": false,
		"claude-opus-5": false, "claude-opus-5-20260724": false, "claude-opus-5-4": false, "claude-opus-5-5": true,
		"claude-opus-5-6": true, "claude-opus-5-50": true, "claude-opus-12": true, "claude-opus-4-8": false,
		"us.anthropic.claude-opus-5-5-v1:0": true, "vertex/claude-sonnet-5.5@20260928": true, "claude-sonnet-5": false,
		"claude-haiku-5-5": true, "claude-haiku-4-5": false, "claude-3-7-sonnet": false, "claude-3-opus-20240229": false,
		"claude-opus-latest": true, "sonnet": true, // which version is not said
		"claude-saga-6": true, "claude-saga": true, "claude": true, "anthropic/next": true, // families to come
		"claude-2.1": false, "claude-instant-v1": false, "anthropic.claude-v2:1": false, // and long gone
		"arn:aws:bedrock:eu-west-1:1:application-inference-profile/4xy": true, // whatever is behind it
		"gpt-6.1-sol": false, "gpt-7": false, "gpt-oss-20b": false, "m": false, "": false,
	} {
		if got := Bound(name); got != want {
			t.Errorf("%s: bound %v, want %v", name, got, want)
		}
	}
}

// TestStandIn: a version that is not listed is priced like its nearest older relative.
func TestStandIn(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-7":            "claude-opus-5-5",
		"claude-opus-latest":       "claude-opus-5-5",
		"claude-opus-5-2":          "claude-opus-5",
		"claude-3-opus-20240229":   "claude-opus-4",
		"claude-3-5-sonnet":        "claude-sonnet-4",
		"claude-haiku-6-1":         "claude-haiku-5-5",
		"gpt-7-sol":                "gpt-6.1-sol",
		"gpt-7":                    "gpt-6.1-sol",
		"gpt-6":                    "gpt-6-sol",
		"gpt-5.7":                  "gpt-5.6-sol",
		"gpt-5.6-pluto":            "gpt-5.6-sol",
		"gpt-5.5-pro":              "gpt-5.5",
		"gpt-5.1-mini":             "gpt-5-mini",
		"gpt-4o":                   "gpt-5",
		"gpt-4.1-mini":             "gpt-5-mini",
		"gpt-5.1-codex-max-250101": "gpt-5.1",
	} {
		p, like := Prices().Lookup(name), Prices().Lookup(want)
		if p.Known || p.Name != Other {
			t.Errorf("%s is known as %s", name, p.Name)
		}
		if diff := cmp.Diff(like.Tiers, p.Tiers); diff != "" || p.Minimum != like.Minimum || p.Window != like.Window {
			t.Errorf("%s is not priced like %s: %s", name, want, diff)
		}
		if strings.HasPrefix(name, "gpt") && p.AutoTTL != Unbounded {
			t.Errorf("%s: what it caches lapses after %v", name, p.AutoTTL)
		}
	}
	p := Prices().Lookup("qwen3-coder")
	if p.Window != 0 || p.AutoTTL != Unbounded || p.Bound || p.Rates(0).Rho() != 0.05 || p.Rates(0).Write(Long) != 2 {
		t.Errorf("default %+v", p)
	}
}

// Any version of any family, however it is written, has a price, and is bound from the family's first bound version on.
func TestEveryVersion(t *testing.T) {
	from := map[string]int{"opus": 505, "sonnet": 505, "haiku": 505, "fable": 501, "mythos": 501}
	rapid.Check(t, func(t *rapid.T) {
		family := rapid.SampledFrom([]string{"opus", "sonnet", "haiku", "fable", "mythos"}).Draw(t, "family")
		major, minor := rapid.IntRange(1, 20).Draw(t, "major"), rapid.IntRange(0, 99).Draw(t, "minor")
		number := fmt.Sprint(major)
		if minor > 0 || rapid.Bool().Draw(t, "zero") {
			number += rapid.SampledFrom([]string{"-", "."}).Draw(t, "dot") + fmt.Sprint(minor)
		}
		name := "claude-" + family + "-" + number
		if rapid.Bool().Draw(t, "old") {
			name = "claude-" + number + "-" + family
		}
		name = rapid.SampledFrom([]string{"", "anthropic.", "us.anthropic.", "vertex/", "arn:aws:x:1:foundation-model/anthropic."}).Draw(t, "prefix") + name +
			rapid.SampledFrom([]string{"", "-20260101", "@20260101", "-v1:0", "-20260101-v1:0", "[1m]", "-latest", ":beta"}).Draw(t, "suffix")
		if rapid.Bool().Draw(t, "upper") {
			name = strings.ToUpper(name)
		}
		p := Prices().Lookup(name)
		if p.Bound != (100*major+minor >= from[family]) {
			t.Fatalf("%s: bound %v", name, p.Bound)
		}
		if p.Known && p.Name != fmt.Sprintf("claude-%s-%d-%d", family, major, minor) && p.Name != fmt.Sprintf("claude-%s-%d", family, major) {
			t.Fatalf("%s is %s", name, p.Name)
		}
	})
}

// TestLookupShared: many may ask at once, more names than are remembered.
func TestLookupShared(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 3 * maxSeen {
				if p := Prices().Lookup(fmt.Sprintf("claude-opus-5-%d-%d", i%100, g+i+1000)); p.Bound != (i%100 >= 5) {
					t.Errorf("5-%d: bound %v", i%100, p.Bound)
				}
			}
		})
	}
	wg.Wait()
	if n := Prices().seen.Len(); n > maxSeen {
		t.Errorf("%d names are remembered", n)
	}
}

func TestParsePricesRefuses(t *testing.T) {
	row := `{model: claude-opus-5, input: 5, output: 25, read: 0.5, write_5m: 6.25, write_1h: 10, minimum: 512, window: 1}`
	good := "date: \"2026-01-02\"\ndefault: {input: 1, output: 2, read: 0.1, write_5m: 1, write_1h: 1, auto_ttl: none}\n" +
		"families:\n  - {name: opus, auto_ttl: 1h, bound_from: \"5.5\", models: [" + row + "]}\n"
	if _, err := parsePrices([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"write_1h: 10", "write_1h: 6", "family opus: model claude-opus-5: write_1h is below write_5m"},
		{"read: 0.5", "read: 6", "read is above input"},
		{"read: 0.5", "reed: 0.5", "reed"},
		{"output: 25", "output: 0", "output must be above 0"},
		{"claude-opus-5", "claude-sonnet-5", `the name says family ""`},
		{"\"5.5\"", "soon", "bound_from"},
		{"auto_ttl: 1h", "auto_ttl: long", "auto_ttl"},
		{"2026-01-02", "2026", "date"},
		{row, "", "no models"},
		{"input: 1,", "input: 0,", "default"},
	} {
		_, err := parsePrices([]byte(strings.Replace(good, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v", c.to, c.from, err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	table := Prices()
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table.Lookup("us.anthropic.claude-opus-5-5-20260922-v1:0")
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table.find("us.anthropic.claude-opus-5-5-20260922-v1:0")
		}
	})
}

// FuzzLookup: whatever the name, there is a price that can be calculated with, under a bounded label, alike in both cases.
func FuzzLookup(f *testing.F) {
	for _, seed := range []string{"claude-opus-5-5", "us.anthropic.claude-3-5-haiku-20241022-v1:0", "gpt-6.1-sol-2026-09-29", "vertex/claude-sonnet-4@20250514", "claude-", "gpt-"} {
		f.Add(seed)
	}
	table := Prices()
	names := append(table.Names(), Other)
	f.Fuzz(func(t *testing.T, name string) {
		p := table.find(name)
		if !slices.Contains(names, p.Name) || p.Known == (p.Name == Other) {
			t.Fatalf("name %q, known %v", p.Name, p.Known)
		}
		if err := p.check(); err != nil || p.Minimum <= 0 || p.AutoTTL <= 0 {
			t.Fatalf("%+v: %v", p, err)
		}
		ascii := strings.IndexFunc(name, func(c rune) bool { return c >= 128 }) < 0
		if upper := table.find(strings.ToUpper(name)); ascii && !cmp.Equal(upper, p) {
			t.Fatalf("%+v, in capitals %+v", p, upper)
		}
		// A listed model in front of a path never hides behind what precedes it.
		if last := table.find(name + "/claude-opus-5-5"); ascii && !last.Bound {
			t.Fatalf("%q is not bound", name+"/claude-opus-5-5")
		}
	})
}

// What an override leaves alone stays.
func TestOverride(t *testing.T) {
	no, yes := false, true
	table, err := Prices().With([]Override{
		{Model: "claude-opus-*", Input: 4.5, Output: 20},
		{Model: "claude-opus-4.8", Read: 0.25},
		{Model: "claude-haiku-5-5", Input: 0.05, Read: 0.005, Write5m: 0.0625, Write1h: 0.1},
		{Model: "claude-sonnet-5-5", Bound: &no, Window: 500_000, Minimum: 2048},
		{Model: "our/fast.model", Input: 1, Output: 3, Bound: &yes},
		{Model: "*-mini", Window: 128_000},
		{Model: "*other", Window: 7}, // the label of unknown models is no name
	})
	if err != nil {
		t.Fatal(err)
	}
	type say struct {
		Name           string
		Known, Bound   bool
		Rates          Rates
		Minimum, Limit int
	}
	for name, want := range map[string]say{
		"claude-opus-5-5":                   {"claude-opus-5-5", true, true, Rates{4.5, 20, 0.2, 5, 8}, 512, 1_000_000},
		"us.anthropic.claude-opus-4-8-v1:0": {"claude-opus-4-8", true, false, Rates{4.5, 20, 0.25, 6.25, 10}, 1024, 1_000_000},
		"claude-sonnet-5-5":                 {"claude-sonnet-5-5", true, false, Rates{2, 10, 0.1, 2.5, 4}, 2048, 500_000},
		"claude-sonnet-5":                   {"claude-sonnet-5", true, false, Rates{2, 10, 0.2, 2.5, 4}, 1024, 1_000_000},
		"our/fast.model":                    {"our/fast.model", true, true, Rates{1, 3, 0.05, 1.25, 2}, 4096, 0},
		"other/fast.model":                  {Other, false, false, Rates{2, 10, 0.1, 2.5, 4}, 4096, 0},
		"gpt-5-mini":                        {"gpt-5-mini", true, false, Rates{0.25, 2, 0.025, 0.25, 0.25}, 1024, 128_000},
		"their-mini":                        {Other, false, false, Rates{2, 10, 0.1, 2.5, 4}, 4096, 128_000},
	} {
		p := table.Lookup(name)
		got := say{p.Name, p.Known, p.Bound, p.Rates(0), p.Minimum, p.Window}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if r := table.Lookup("claude-haiku-5-5").Rates(200_000); math.Abs(r.Input-0.25) > 1e-12 || r.Output != 2.5 {
		t.Errorf("upper tier %+v", r)
	}
	if diff := cmp.Diff(append(Prices().Names(), "our/fast.model"), table.Names()); diff != "" {
		t.Errorf("names: %s", diff)
	}
	if r := Prices().Lookup("claude-opus-5-5").Rates(0); r.Input != 4 {
		t.Errorf("the table itself changed: %+v", r)
	}
	if _, err := table.With(nil); err != nil {
		t.Error(err)
	}
	if table.Date() != Prices().Date() {
		t.Error("date")
	}
}

func TestOverrideRefused(t *testing.T) {
	for _, c := range []struct {
		o    Override
		want string
	}{
		{Override{Input: 1}, "prices[1].model: must be"},
		{Override{Model: "claude-[", Input: 1}, `prices[1].model: "claude-["`},
		{Override{Model: "a", Input: -1}, "prices[1].input: -1"},
		{Override{Model: "a", Read: math.NaN()}, "prices[1].read: NaN"},
		{Override{Model: "a", Output: math.Inf(1)}, "prices[1].output: +Inf"},
		{Override{Model: "a", Window: -5}, "prices[1].window: -5"},
		{Override{Model: "claude-opus-5", Read: 6}, "prices[1]: of claude-opus-5, read is above input"},
		{Override{Model: "claude-opus-*", Input: 6}, "prices[1]: of claude-opus-5-5, write_5m is below input"},
		{Override{Model: "claude-haiku-5-5", Write1h: 0.01}, "write_1h is below write_5m"},
		{Override{Model: "claude-haiku-5-5", Output: 1e308}, "prices[1]: of claude-haiku-5-5, a price is out of range"},
		{Override{Model: "a-model", Input: 1e308}, "a price is out of range"},
		{Override{Model: "a-model", Input: 1, Read: 2}, "prices[1]: of a-model, read is above input"},
	} {
		_, err := Prices().With([]Override{{Model: "claude-*", Window: 300_000}, c.o})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
}

// TestWriteOfTTL: what lives for less than an hour is billed as five minutes.
func TestWriteOfTTL(t *testing.T) {
	r := Rates{Input: 2, Read: 0.2, Write5m: 2.5, Write1h: 4}
	for ttl, want := range map[time.Duration]float64{0: 1.25, Short: 1.25, 30 * time.Minute: 1.25, Long: 2, Unbounded: 2} {
		if got := r.Write(ttl); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
}

// Bound reports whether the provider binds thinking blocks of the model to their prefix, by the embedded table. Platform
// prefixes ("anthropic.", "us.anthropic.", "vertex/…"), dots for dashes and date or version suffixes do not matter.
func Bound(model string) bool { return Prices().Lookup(model).Bound }
