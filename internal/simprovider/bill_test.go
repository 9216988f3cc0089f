package simprovider

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestPrices: the documentation's table, in USD per million tokens; a read of the model's prompts at that price.
func TestPrices(t *testing.T) {
	const m = 1_000_000
	for id, want := range map[string]struct{ input, output, read, write5m, write1h float64 }{
		"claude-fable-5-2":           {8, 40, 0.20, 10, 16},
		"claude-mythos-5-2":          {8, 40, 0.20, 10, 16},
		"claude-fable-5-1":           {10, 50, 0.25, 12.50, 20},
		"claude-fable-5":             {10, 50, 1, 12.50, 20},
		"claude-opus-5-5":            {4, 20, 0.20, 5, 8},
		"claude-opus-5":              {5, 25, 0.50, 6.25, 10},
		"claude-opus-4-5-20251101":   {5, 25, 0.50, 6.25, 10},
		"claude-opus-4-1":            {15, 75, 1.50, 18.75, 30},
		"claude-sonnet-5-5":          {2, 10, 0.10, 2.50, 4},
		"claude-sonnet-5":            {2, 10, 0.20, 2.50, 4},
		"claude-sonnet-4-5-20250929": {3, 15, 0.30, 3.75, 6},
		"claude-haiku-5-5":           {0.50, 2.50, 0.05, 0.625, 1}, // a million is above its tier
		"claude-haiku-4-5-20251001":  {1, 5, 0.10, 1.25, 2},
		"claude-3-5-haiku-latest":    {0.80, 4, 0.08, 1, 1.60},
		"no-model":                   {},
	} {
		for name, c := range map[string]struct {
			u    Usage
			want float64
		}{
			"input": {Usage{Input: m}, want.input}, "read": {Usage{Read: m}, want.read}, "5m": {Usage{Write5m: m}, want.write5m},
			"1h": {Usage{Write1h: m}, want.write1h}, "output": {Usage{Input: m, Output: m}, want.input + want.output},
		} {
			if got := Bill(id, c.u); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%s, a million of %s: %v, want %v", id, name, got, c.want)
			}
		}
	}
}

// TestTier: above 100k tokens of prompt, however they were billed, Haiku 5.5 costs five times as much, output included.
func TestTier(t *testing.T) {
	for _, c := range []struct {
		u     Usage
		units float64
	}{
		{Usage{Input: 100_000}, 100_000},
		{Usage{Input: 100_001}, 500_005},
		{Usage{Input: 1, Read: 99_999, Output: 10}, 1 + 9_999.9 + 50},
		{Usage{Input: 1, Read: 100_000, Output: 10}, 5 * (1 + 10_000 + 50)},
		{Usage{Write5m: 40_000, Write1h: 60_001}, 5 * (50_000 + 120_002)},
	} {
		if got := Units("claude-haiku-5-5", c.u); math.Abs(got-c.units) > 1e-6 {
			t.Errorf("%+v: %v units, want %v", c.u, got, c.units)
		}
		if got := Bill("claude-haiku-5-5", c.u); math.Abs(got-c.units*0.10/1e6) > 1e-12 {
			t.Errorf("%+v: %v USD", c.u, got)
		}
	}
}

// TestUnits: cost in units is linear below a tier, and the bill is the same in USD.
func TestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom(catalogue).Draw(t, "model")
		n := rapid.IntRange(0, 10_000)
		draw := func() Usage {
			return Usage{n.Draw(t, "input"), n.Draw(t, "read"), n.Draw(t, "5m"), n.Draw(t, "1h"), n.Draw(t, "output")}
		}
		a, b := draw(), draw()
		both := Usage{a.Input + b.Input, a.Read + b.Read, a.Write5m + b.Write5m, a.Write1h + b.Write1h, a.Output + b.Output}
		if got, want := Units(id, both), Units(id, a)+Units(id, b); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v units together, %v apart", got, want)
		}
		m, _ := lookup(id)
		if got := Bill(id, a); math.Abs(got*1e6/m.price.input-Units(id, a)) > 1e-6 {
			t.Fatalf("%v USD for %v units", got, Units(id, a))
		}
	})
}

// TestCharsPerToken: another measure scales all tokens, answers included.
func TestCharsPerToken(t *testing.T) {
	body := conv(modern, "", user(sized("a", 2000, mark5m), sized("b", 100)))
	usage(t, must(t, New(Options{}), body, nil, start), 0, 2000, 0, 100)
	usage(t, must(t, New(Options{CharsPerToken: -1}), body, nil, start), 0, 2000, 0, 100)
	usage(t, must(t, New(Options{CharsPerToken: 1.8}), body, nil, start), 0, 4000, 0, 200)
	usage(t, must(t, New(Options{CharsPerToken: 7.2}), body, nil, start), 0, 0, 0, 1050)
	if res := must(t, New(Options{CharsPerToken: 1}), body, nil, start); res.Usage.Output != len("typetexttextUnderstood.") {
		t.Errorf("%d tokens of output", res.Usage.Output)
	}
}

// TestNoLog: without a log nothing is held, and the bill is the same.
func TestNoLog(t *testing.T) {
	body := conv(modern, "", user(sized("a", 2000, mark5m)))
	s := New(Options{NoLog: true})
	usage(t, must(t, s, body, nil, start), 0, 2000, 0, 0)
	usage(t, must(t, s, body, nil, start), 2000, 0, 0, 0)
	if log := s.Requests(); len(log) != 0 {
		t.Errorf("%+v", log)
	}
}
