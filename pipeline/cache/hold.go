package cache

import "fmt"

// Read is a file read that is about to be forwarded for the first time, and what is expected of the calls to come. Sizes are
// in tokens, prices in uncached input tokens. Call 1 is this one; calls 1 to Turns hold the read if it is held; After calls
// follow, the first of which writes the marker in its place.
type Read struct {
	Tokens float64 // t: of the read
	Marker float64 // m: of what would stand in its place
	Turns  float64 // h: calls that would send it held, at least 1
	After  float64 // n: calls after those
	Tail   float64 // b: what stands behind the read in a held call, on average, and is kept out of the cache with it
	Rho    float64 // price of reading from the cache
	Write  float64 // w: price of writing to it
	Cold   float64 // probability that a pause of the branch empties the cache within these calls
	ColdAt float64 // c: the call that finds it empty, at least 2
}

// Bills are what a read costs in each of the three ways, in uncached input tokens. What all of them pay alike is left out:
// the prompt before the read, and writing once what stands behind it.
type Bills struct {
	Hold float64 // held, then cached as its marker
	Keep float64 // cached now, and never cut
	Cut  float64 // cached now, and cut at the cold moment if it comes
}

// Hold adds up the three bills. With T = h + n calls in all, P the probability of the cold moment, and n at least 1:
//
//	keep = w·t + rho·t·(T−1)                            written once, then read
//	     + rho·b·h                                      so is the tail; behind a held read it is plain input
//	     + P·(w−rho)·(t + b if c ≤ h+1)                 the cold moment writes again instead of reading
//	cut  = P·(w·t + rho·t·(c−2) + w·m + rho·m·(T−c) + rho·b·h + (w−rho)·b if c ≤ h+1)
//	     + (1−P)·(keep without its last line)
//	hold = (t+b)·h                                      plain input in each held call
//	     + w·m + rho·m·(n−1)                            the marker is written, then read
//	     + P·(w−rho)·m if c > h+1                       the cold moment writes it again
//
// With n below 1 the first call after the hold is only as likely as that. A cold moment after call T does not count.
func Hold(r Read) Bills {
	h, n := max(1, r.Turns), max(0, r.After)
	total := h + n
	first := min(1, n) // whether there is a call after the hold
	tail := r.Rho * r.Tail * (h - 1 + first)
	late := r.Tail * r.Write * (1 - first) // a held tail that no call comes to write
	p, c := r.Cold, max(2, r.ColdAt)
	if c > total {
		p = 0
	}
	loss := r.Write - r.Rho
	again, marker := 0.0, 0.0
	if c <= h+1 {
		again = loss * r.Tail
	} else {
		marker = loss * r.Marker
	}
	keep := r.Write*r.Tokens + r.Rho*r.Tokens*(total-1) + tail + late
	cut := r.Write*r.Tokens + r.Rho*r.Tokens*(c-2) + r.Write*r.Marker + r.Rho*r.Marker*(total-c) + tail + late + again
	return Bills{
		Hold: h*(r.Tokens+r.Tail) + first*r.Write*r.Marker + r.Rho*r.Marker*max(0, n-1) + p*marker,
		Keep: keep + p*(loss*r.Tokens+again),
		Cut:  p*cut + (1-p)*keep,
	}
}

// Pays reports whether holding is cheaper than both other ways.
func (b Bills) Pays() bool { return b.Hold < b.Keep && b.Hold < b.Cut }

// String is the comparison in one line, for explanations and logs.
func (b Bills) String() string {
	return fmt.Sprintf("hold %.0f, keep %.0f, cut when cold %.0f", b.Hold, b.Keep, b.Cut)
}
