package cache

import (
	"fmt"
	"math"
)

// minCalls is how many calls a branch must have seen before anything is expected of it: young sessions end early.
const minCalls = 6

// Horizon is how many more calls a branch may be expected to make, this one included: half of the calls seen on it, none
// before six. A fixed number above 0 stands in for that. Either way the window is the end: at the growth per call, in tokens,
// the prompt may be re-sent (window−prompt)/growth times. A window or growth that is unknown (0 or less) limits nothing.
func Horizon(calls, fixed int, prompt, window, growth float64) float64 {
	n := float64(fixed)
	if fixed <= 0 {
		if n = float64(calls) / 2; calls < minCalls {
			n = 0
		}
	}
	if window > 0 && growth > 0 {
		n = min(n, (window-prompt)/growth)
	} else if window > 0 && prompt >= window {
		n = 0
	}
	return max(0, n)
}

// Sum is what a move costs and saves, in uncached input tokens.
type Sum struct {
	From      int     // the candidates from this one on are applied
	Removed   float64 // r: tokens that no later call sends
	Rewritten float64 // s: tokens that were covered and have to be written again, because of the move alone
	N         float64 // calls over which it has to pay
	Gain      float64 // over them; not above 0: the move does not pay
	Needed    float64 // calls after which it begins to pay; infinite if never
}

// String is the sum in one line, for explanations and logs.
func (s Sum) String() string {
	needed := fmt.Sprintf("%.1f", s.Needed)
	if math.IsInf(s.Needed, 1) {
		needed = "never enough"
	}
	return fmt.Sprintf("removes %.0f, re-writes %.0f, N %.1f (needed %s), gain %.0f", s.Removed, s.Rewritten, s.N, needed, s.Gain)
}

// Warm finds the cut that pays best while the provider holds what is cut. Candidates are sorted by depth: removed[i] is how
// many tokens candidate i removes, behind[i] how many covered tokens stand at or after it now. A cut at i applies the
// candidates from i on:
//
//	r = removed[i] + removed[i+1] + …    s = behind[i] − r    gain = n·rho·r − (w−rho)·s
//
// The n calls include this one: it reads r tokens less as well. rho and w are the prices of reading and writing. The best sum
// is returned also where it does not pay, for explanations; the deepest of equal ones. Without candidates it is zero.
func Warm(removed, behind []float64, rho, w, n float64) Sum {
	best, r := Sum{Gain: math.Inf(-1)}, 0.0
	loss := max(0, w-rho)
	for i := min(len(removed), len(behind)) - 1; i >= 0; i-- {
		r += removed[i]
		s := max(0, behind[i]-r)
		if gain := n*rho*r - loss*s; gain > best.Gain {
			best = Sum{From: i, Removed: r, Rewritten: s, N: n, Gain: gain, Needed: ratio(loss*s, rho*r)}
		}
	}
	if math.IsInf(best.Gain, -1) {
		return Sum{N: n}
	}
	return best
}

// Cold is the sum of a move where nothing cached is lost: everything behind the cut is written anew in any case, so the
// removed tokens save their writing now and n reads later: gain = r·(w + n·rho).
func Cold(removed, rho, w, n float64) Sum {
	return Sum{Removed: removed, N: n, Gain: removed * (w + n*rho)}
}

// ratio is a/b, where nothing is needed to make up for nothing, and nothing makes up for something.
func ratio(a, b float64) float64 {
	switch {
	case a <= 0:
		return 0
	case b <= 0:
		return math.Inf(1)
	}
	return a / b
}
