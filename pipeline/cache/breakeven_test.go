package cache

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBreakEven: while writing costs 1.25 and reading 0.1, a cut of S tokens with W tokens behind it pays after 11.5·W/S calls.
func TestBreakEven(t *testing.T) {
	for _, c := range []struct {
		name                         string
		removed, remains, w, rho, is float64
	}{
		{"as much as stays behind it", 1_000, 1_000, 1.25, 0.1, 11.5},
		{"5k, cut at a fifth of 150k", 5_000, 120_000, 1.25, 0.1, 276},
		{"60k in one batch", 60_000, 120_000, 1.25, 0.1, 23},
		{"twelve times its size behind it", 10_500, 126_000, 1.25, 0.1, 138},
		{"written for an hour", 1_000, 1_000, 2, 0.1, 19},
		{"cheaper reads", 1_000, 1_000, 1.25, 0.025, 49},
		{"nothing behind it", 5_000, 0, 1.25, 0.1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Warm([]float64{c.removed}, []float64{c.removed + c.remains}, c.rho, c.w, 1).Needed; !near(got, c.is) {
				t.Errorf("pays after %v calls, want %v", got, c.is)
			}
			for _, n := range []float64{max(0, c.is-0.5), c.is + 0.5} {
				if sum := Warm([]float64{c.removed}, []float64{c.removed + c.remains}, c.rho, c.w, n); sum.Gain > 0 != (n > c.is) {
					t.Errorf("gain %v over %v calls", sum.Gain, n)
				}
			}
		})
	}
}

// TestBreakEvenHasNoScale: a larger transcript with the same shares needs the same calls, and a larger share fewer.
func TestBreakEvenHasNoScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Float64Range(1, 1e5)
		removed, remains, scale := size.Draw(t, "removed"), size.Draw(t, "remains"), rapid.Float64Range(0.1, 100).Draw(t, "scale")
		needed := func(r, s float64) float64 { return Warm([]float64{r}, []float64{r + s}, 0.1, 1.25, 1).Needed }
		once := needed(removed, remains)
		if got := needed(removed*scale, remains*scale); !near(got, once) && (got-once)/once > 1e-6 {
			t.Fatalf("%v calls, at %v times the size %v", once, scale, got)
		}
		if more := needed(removed*2, remains); more >= once {
			t.Fatalf("%v calls, with twice as much removed %v", once, more)
		}
	})
}
