package cache

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// story is the calls of one read, one by one: what the test's provider bills from the read on.
type story struct {
	read, marker float64
	held, calls  int       // calls 1 to held would hold the read; calls in all
	tails        []float64 // by call: what stands behind the read
	cold         int       // the call that finds the cache empty, 0 for none
	rho, w       float64
}

// bill walks the calls. held: the read is out of the cache at first, and a marker afterwards. cut: it becomes a marker in the
// cold call. The cache holds the first so many tokens from the read on.
func (s *story) bill(held, cut bool) float64 {
	total, cached, size := 0.0, 0.0, s.read
	for call := 1; call <= s.calls; call++ {
		if call == s.cold {
			cached = 0
			if cut {
				size = s.marker
			}
		}
		if held && call == s.held+1 {
			size = s.marker
		}
		prompt := size + s.tails[call-1]
		if held && call <= s.held {
			total += prompt // nothing is read, nothing is written
			continue
		}
		total += s.rho*cached + s.w*(prompt-cached)
		cached = prompt
	}
	return total
}

func (s *story) formula(p, cold float64) Bills {
	mean := 0.0
	for _, tail := range s.tails[:min(s.held, s.calls)] {
		mean += tail / float64(s.held)
	}
	return Hold(Read{
		Tokens: s.read, Marker: s.marker, Turns: float64(s.held), After: float64(s.calls - s.held), Tail: mean,
		Rho: s.rho, Write: s.w, Cold: p, ColdAt: cold,
	})
}

func drawStory(t *rapid.T) *story {
	s := &story{
		read: float64(rapid.IntRange(1, 20_000).Draw(t, "read")), marker: float64(rapid.IntRange(0, 200).Draw(t, "marker")),
		held: rapid.IntRange(1, 10).Draw(t, "held"),
		rho:  rapid.SampledFrom([]float64{0.025, 0.05, 0.1}).Draw(t, "rho"), w: rapid.SampledFrom([]float64{1, 1.25, 2}).Draw(t, "w"),
	}
	s.calls = s.held + rapid.IntRange(0, 30).Draw(t, "after")
	return s
}

// TestHoldIsTheBill: with a tail that is alike in every call, the three bills are those of the story, call by call, but for
// the writing of the tail that all three pay.
func TestHoldIsTheBill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStory(t)
		tail := float64(rapid.IntRange(0, 5_000).Draw(t, "tail"))
		for range s.calls {
			s.tails = append(s.tails, tail)
		}
		p := rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "p")
		cold := rapid.IntRange(2, s.calls+2).Draw(t, "cold")
		got := s.formula(p, float64(cold))
		expect := func(held, cut bool) float64 {
			s.cold = 0
			without := s.bill(held, false)
			s.cold = cold
			return p*s.bill(held, cut) + (1-p)*without
		}
		// What all three pay alike: the tail is written once, read after the hold, and written again in a cold moment then.
		common := 0.0
		if after := s.calls - s.held; after > 0 {
			common = s.w*tail + s.rho*tail*float64(after-1)
			if cold > s.held+1 && cold <= s.calls {
				common += p * (s.w - s.rho) * tail
			}
		}
		for _, c := range []struct {
			way       string
			got, want float64
		}{
			{"hold", got.Hold + common, expect(true, false)},
			{"keep", got.Keep + common, expect(false, false)},
			{"cut", got.Cut + common, expect(false, true)},
		} {
			if !near(c.got, c.want) {
				t.Fatalf("%s: %v, call by call %v (p %v, cold %d, %+v)", c.way, c.got, c.want, p, cold, s)
			}
		}
	})
}

// TestHoldTailGrows: a tail that grows from call to call counts by its average over the held calls.
func TestHoldTailGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, tail := drawStory(t), 0.0
		if s.calls == s.held {
			s.calls++
		}
		for range s.calls {
			tail += float64(rapid.IntRange(0, 3_000).Draw(t, "growth"))
			s.tails = append(s.tails, tail)
		}
		got := s.formula(0, 0)
		if want := s.bill(true, false) - s.bill(false, false); !near(got.Hold-got.Keep, want) {
			t.Fatalf("hold costs %v more, call by call %v: %+v", got.Hold-got.Keep, want, s)
		}
		if got.Cut != got.Keep {
			t.Fatalf("without a cold moment nothing is cut: %+v", got)
		}
	})
}

// TestHoldPays: the three ways each have their place.
func TestHoldPays(t *testing.T) {
	for _, c := range []struct {
		name string
		read Read
		pays bool
		best func(Bills) float64
	}{
		{"a short hold in a long session", Read{Tokens: 8000, Marker: 60, Turns: 1, After: 60, Tail: 200, Rho: 0.1, Write: 1.25}, true, func(b Bills) float64 { return b.Hold }},
		{"a long hold", Read{Tokens: 8000, Marker: 60, Turns: 8, After: 20, Tail: 5000, Rho: 0.1, Write: 1.25}, false, func(b Bills) float64 { return b.Keep }},
		{"cheap reads", Read{Tokens: 8000, Marker: 60, Turns: 3, After: 40, Tail: 1000, Rho: 0.025, Write: 1.25}, false, func(b Bills) float64 { return b.Keep }},
		{"a pause is sure to come soon", Read{Tokens: 8000, Marker: 60, Turns: 3, After: 40, Tail: 3000, Rho: 0.1, Write: 1.25, Cold: 1, ColdAt: 4}, false, func(b Bills) float64 { return b.Cut }},
		{"no call to come", Read{Tokens: 8000, Marker: 60, Turns: 0, After: -1, Tail: 0, Rho: 0.1, Write: 1.25}, true, func(b Bills) float64 { return b.Hold }},
	} {
		b := Hold(c.read)
		if b.Pays() != c.pays || c.best(b) != math.Min(b.Hold, math.Min(b.Keep, b.Cut)) {
			t.Errorf("%s: %v", c.name, b)
		}
	}
	b := Hold(Read{Tokens: 8000, Marker: 60, Turns: 3, After: 40, Tail: 1000, Rho: 0.1, Write: 1.25, Cold: 0.5, ColdAt: 10})
	if got, want := b.String(), "hold 27344, keep 48500, cut when cold 30436"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
