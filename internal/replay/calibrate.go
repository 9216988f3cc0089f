package replay

import (
	"math"
)

// Calibration says how the simulator's tokens were made to agree with those that the provider counted in the recording.
type Calibration struct {
	CharsPerToken float64 `json:"chars_per_token"`
	HeadTokens    int     `json:"head_tokens"` // of system and tools that the recording does not hold; filler stands in for them
	Points        int     `json:"points"`      // requests with usage that both were fitted to; 0: the defaults
}

// Limits of calibration. A fit outside the ratios says that the usage is of something else than the messages.
const (
	defaultRatio = 3.6 // characters of a token where no usage tells
	leastRatio   = 1.5
	mostRatio    = 8
	fitPoints    = 64 // requests that are looked at
)

// calibrate fits tokens = head + characters / ratio to the recorded usage, by least squares, and pads the recording's
// system prompt by the part of the head that its bodies lack.
func calibrate(rec *Recording) Calibration {
	chars, tokens := fitted(rec)
	c := Calibration{CharsPerToken: defaultRatio}
	if len(chars) < 2 || rec.session == nil {
		return c
	}
	slope, head := line(chars, tokens)
	if head < 0 {
		slope, head = ray(chars, tokens), 0
	}
	if ratio := 1 / slope; ratio >= leastRatio && ratio <= mostRatio {
		c.CharsPerToken, c.Points = ratio, len(chars)
		if rec.session.pad(int(math.Round(head * ratio))) {
			c.HeadTokens = int(math.Round(head))
		}
	}
	return c
}

// fitted returns the characters of sampled prompts, as a simulator counts them, and their recorded tokens.
func fitted(rec *Recording) (chars, tokens []float64) {
	var known []*Request
	for i := range rec.Requests {
		if r := &rec.Requests[i]; r.Recorded != nil && r.Recorded.Prompt() > 0 {
			known = append(known, r)
		}
	}
	p := newProvider(mostRatio, Provider{}) // so that no prompt is too long
	for i := range min(len(known), fitPoints) {
		r := known[i*len(known)/min(len(known), fitPoints)]
		if res := p.call(r, r.Body()); res.Usage != nil {
			chars = append(chars, float64(res.Usage.Prompt())*mostRatio)
			tokens = append(tokens, float64(r.Recorded.Prompt()))
		}
	}
	return chars, tokens
}

// line is the least-squares line through the points.
func line(x, y []float64) (slope, at0 float64) {
	var sx, sy, sxx, sxy float64
	n := float64(len(x))
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx) // not a number where all x are equal, and then no ratio fits
	return slope, (sy - slope*sx) / n
}

// ray is the least-squares line through the points and the origin.
func ray(x, y []float64) (slope float64) {
	var xx, xy float64
	for i := range x {
		xx, xy = xx+x[i]*x[i], xy+x[i]*y[i]
	}
	return xy / xx
}
