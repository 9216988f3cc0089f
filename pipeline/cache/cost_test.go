package cache

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

func TestHorizon(t *testing.T) {
	for _, c := range []struct {
		calls, fixed           int
		prompt, window, growth float64
		want                   float64
	}{
		{calls: 0, want: 0},
		{calls: 5, want: 0},
		{calls: 6, want: 3},
		{calls: 41, want: 20.5},
		{calls: 100, prompt: 150_000, window: 200_000, growth: 2_000, want: 25},
		{calls: 100, prompt: 150_000, window: 200_000, growth: 0, want: 50},
		{calls: 100, prompt: 150_000, window: 0, growth: 2_000, want: 50},
		{calls: 100, prompt: 210_000, window: 200_000, growth: 2_000, want: 0},
		{calls: 100, prompt: 210_000, window: 200_000, growth: -1, want: 0},
		{calls: 2, fixed: 40, want: 40},
		{calls: 2, fixed: 40, prompt: 180_000, window: 200_000, growth: 2_000, want: 10},
	} {
		if got := Horizon(c.calls, c.fixed, c.prompt, c.window, c.growth); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestHorizonBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls, fixed := rapid.IntRange(0, 1000).Draw(t, "calls"), rapid.IntRange(0, 50).Draw(t, "fixed")
		size := rapid.Float64Range(0, 1e6)
		prompt, window, growth := size.Draw(t, "prompt"), size.Draw(t, "window"), size.Draw(t, "growth")
		n := Horizon(calls, fixed, prompt, window, growth)
		if n < 0 || n > max(float64(calls)/2, float64(fixed)) {
			t.Fatalf("%v", n)
		}
		if window > 0 && growth > 0 && n > 0 && prompt+n*growth > window*(1+1e-9) {
			t.Fatalf("after %v calls the window is left", n)
		}
		if fixed == 0 && Horizon(calls+1, 0, prompt, window, growth) < n {
			t.Fatal("falls as calls are seen")
		}
	})
}

// shelf is a prompt of a few candidates, each in front of some tokens that stay.
type shelf struct {
	removed, kept []float64
	rho, w        float64
}

func drawShelf(t *rapid.T) *shelf {
	s := &shelf{}
	for range rapid.IntRange(0, 8).Draw(t, "candidates") {
		s.removed = append(s.removed, float64(rapid.IntRange(0, 5000).Draw(t, "removed")))
		s.kept = append(s.kept, float64(rapid.IntRange(0, 50_000).Draw(t, "kept")))
	}
	s.rho = rapid.SampledFrom([]float64{0.025, 0.05, 0.1, 0.5}).Draw(t, "rho")
	s.w = rapid.SampledFrom([]float64{1, 1.25, 2}).Draw(t, "w")
	return s
}

// behind is the covered tokens at or after each candidate.
func (s *shelf) behind() []float64 {
	out := make([]float64, len(s.removed))
	for i := range s.removed {
		for j := i; j < len(s.removed); j++ {
			out[i] += s.removed[j] + s.kept[j]
		}
	}
	return out
}

// bill is what the shelf costs over n calls when the candidates from i on are cut in the first; len(removed) cuts none.
func (s *shelf) bill(from, n int) float64 {
	total := 0.0
	for call := range n {
		for j := range s.removed {
			switch {
			case j < from:
				total += s.rho * (s.removed[j] + s.kept[j])
			case call == 0:
				total += s.w * s.kept[j]
			default:
				total += s.rho * s.kept[j]
			}
		}
	}
	return total
}

// TestWarm: the gain is the difference of two bills, and no other cut has a larger one.
func TestWarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := drawShelf(t), rapid.IntRange(1, 60).Draw(t, "n")
		got := Warm(s.removed, s.behind(), s.rho, s.w, float64(n))
		none := len(s.removed)
		best := math.Inf(-1)
		for i := range s.removed {
			best = max(best, s.bill(none, n)-s.bill(i, n))
		}
		if none == 0 {
			if got != (Sum{N: float64(n)}) {
				t.Fatalf("of nothing: %+v", got)
			}
			return
		}
		if !near(got.Gain, best) || !near(got.Gain, s.bill(none, n)-s.bill(got.From, n)) {
			t.Fatalf("%+v, the best is %v", got, best)
		}
		r, kept := 0.0, 0.0
		for j := got.From; j < none; j++ {
			r, kept = r+s.removed[j], kept+s.kept[j]
		}
		if !near(got.Removed, r) || !near(got.Rewritten, kept) {
			t.Fatalf("%+v: removes %v, re-writes %v", got, r, kept)
		}
		if !math.IsInf(got.Needed, 1) {
			if at := Warm(s.removed[got.From:], s.behind()[got.From:], s.rho, s.w, got.Needed); at.Gain < -1e-6*(1+kept) {
				t.Fatalf("after %v calls it has not paid: %+v", got.Needed, at)
			}
		}
		if r > 0 && !near(got.N, got.Needed) && (got.Gain > 0) != (got.N > got.Needed) {
			t.Fatalf("gain and needed disagree: %+v", got)
		}
	})
}

// TestWarmAndTime: without calls to come nothing pays, and every call more can only help.
func TestWarmAndTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShelf(t)
		behind := s.behind()
		if got := Warm(s.removed, behind, s.rho, s.w, 0); got.Gain > 0 {
			t.Fatalf("%+v", got)
		}
		n, more := rapid.Float64Range(0, 100).Draw(t, "n"), rapid.Float64Range(0, 100).Draw(t, "more")
		if a, b := Warm(s.removed, behind, s.rho, s.w, n), Warm(s.removed, behind, s.rho, s.w, n+more); b.Gain < a.Gain {
			t.Fatalf("%+v, with %v more calls %+v", a, more, b)
		}
		// Reads dearer than writes are no reason to write.
		if got := Warm(s.removed, behind, 2, 1, 0); got.Gain > 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// TestWarmDeepest: of cuts that pay alike the deepest is taken, and short lists cannot be read past their end.
func TestWarmDeepest(t *testing.T) {
	got := Warm([]float64{0, 100}, []float64{100, 100}, 0.1, 1.25, 10)
	if got.From != 1 || got.Removed != 100 || got.Rewritten != 0 || got.Needed != 0 || got.Gain != 100 {
		t.Errorf("%+v", got)
	}
	if got := Warm([]float64{5, 7}, []float64{5}, 0.1, 1.25, 10); got.Removed != 5 || got.From != 0 {
		t.Errorf("%+v", got)
	}
}

// TestCold: the gain is the difference of two bills that both begin with an empty cache.
func TestCold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		removed, kept := float64(rapid.IntRange(0, 1e6).Draw(t, "removed")), float64(rapid.IntRange(0, 1e6).Draw(t, "kept"))
		rho, w := rapid.Float64Range(0.01, 1).Draw(t, "rho"), rapid.Float64Range(1, 2).Draw(t, "w")
		n := rapid.IntRange(0, 60).Draw(t, "n")
		bill := func(tokens float64) float64 {
			total := w * tokens
			for range n {
				total += rho * tokens
			}
			return total
		}
		got := Cold(removed, rho, w, float64(n))
		if want := bill(removed+kept) - bill(kept); !near(got.Gain, want) && math.Abs(got.Gain-want) > 1e-6*bill(removed+kept) {
			t.Fatalf("%+v, want %v", got, want)
		}
		if got.Removed != removed || got.Rewritten != 0 || got.Needed != 0 || got.N != float64(n) {
			t.Fatalf("%+v", got)
		}
	})
}

func TestSumString(t *testing.T) {
	for _, c := range []struct {
		sum  Sum
		want string
	}{
		{Warm([]float64{2000, 8000}, []float64{60_000, 40_000}, 0.1, 1.25, 20), "removes 8000, re-writes 32000, N 20.0 (needed 46.0), gain -20800"},
		{Warm([]float64{8000}, []float64{12_000}, 0.1, 1.25, 20), "removes 8000, re-writes 4000, N 20.0 (needed 5.8), gain 11400"},
		{Warm([]float64{0}, []float64{12_000}, 0.1, 1.25, 20), "removes 0, re-writes 12000, N 20.0 (needed never enough), gain -13800"},
		{Cold(8000, 0.1, 1.25, 20), "removes 8000, re-writes 0, N 20.0 (needed 0.0), gain 26000"},
		{Sum{}, "removes 0, re-writes 0, N 0.0 (needed 0.0), gain 0"},
	} {
		if got := c.sum.String(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
