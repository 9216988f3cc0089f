package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Prefix is two requests of one branch and what the first one left in the cache. Second continues First within its TTL.
type Prefix struct {
	Case
	First, Second []byte
	Read, Write   int // tokens that the provider reported for First
	Covered       int // leading messages of Second that a live entry covers
}

// Prefixes returns the cases of what is cached after a response.
func Prefixes() ([]Prefix, error) {
	form := Form{Headers: []string{"read", "write", "covered"}, Sections: []string{"first.json", "second.json"}}
	return lifecycle("prefix", form, func(f *File) (c Prefix, err error) {
		c.Case = caseOf(f)
		for _, n := range []struct {
			header string
			to     *int
		}{{"read", &c.Read}, {"write", &c.Write}, {"covered", &c.Covered}} {
			v, err := f.number(n.header)
			if err != nil {
				return c, err
			}
			*n.to = int(v)
		}
		var err2 error
		c.First, err = f.need("first.json")
		c.Second, err2 = f.need("second.json")
		return c, errors.Join(err, err2)
	})
}

// Estimate is a body and what is estimated of its results.
type Estimate struct {
	Case
	Body    []byte
	Results int     // how many results it holds: the only blocks that are ever candidates
	Est     int     // transcript.Est of the first result's text, if there is one
	Exact   int     // tokens of the same text in o200k
	Factor  float64 // how far Est may be from Exact, either way
}

// Estimates returns the cases of token estimates.
func Estimates() ([]Estimate, error) {
	form := Form{Headers: []string{"results", "est", "o200k", "factor"}, Sections: []string{"body.json"}}
	return lifecycle("estimate", form, func(f *File) (Estimate, error) {
		c := Estimate{Case: caseOf(f)}
		n, err := f.number("results")
		if err != nil {
			return c, err
		}
		if c.Results = int(n); n > 0 {
			est, err := f.number("est")
			exact, err2 := f.number("o200k")
			factor, err3 := f.number("factor")
			if err := errors.Join(err, err2, err3); err != nil {
				return c, err
			}
			c.Est, c.Exact, c.Factor = int(est), int(exact), factor
		}
		c.Body, err = f.need("body.json")
		return c, err
	})
}

// NetCost is a removal and what it gains. Warm: gain = N·ρ·r − (w−ρ)·s, where N counts this call too. Cold: nothing cached
// is lost, and gain = r·(w + N·ρ), where N counts the calls after this one.
type NetCost struct {
	Case
	Cold    bool
	Removed float64 // r, tokens
	Remains float64 // s, covered tokens after the cut that remain
	Calls   float64 // N
	Rho, W  float64 // prices of a cache read and a cache write, in units of an input token
	Gain    float64
	Fires   bool // the gain is positive
}

// NetCosts returns the cases of the cost model.
func NetCosts() ([]NetCost, error) {
	form := Form{Headers: []string{"move", "removed", "remains", "calls", "rho", "w", "gain", "fires"}}
	return lifecycle("netcost", form, func(f *File) (NetCost, error) {
		c := NetCost{Case: caseOf(f), Cold: f.Header["move"] == "cold", Fires: f.Header["fires"] == "true"}
		for _, n := range []struct {
			header string
			to     *float64
		}{{"removed", &c.Removed}, {"remains", &c.Remains}, {"calls", &c.Calls}, {"rho", &c.Rho}, {"w", &c.W}, {"gain", &c.Gain}} {
			v, err := f.number(n.header)
			if err != nil {
				return c, err
			}
			*n.to = v
		}
		return c, nil
	})
}

// Replay is two requests of one branch; what was decided in the first must stand in the second.
type Replay struct {
	Case
	First, Second []byte
	Replacements  map[string]string // by call id: the text decided on in First, and expected in the outbound of Second
}

// Replays returns the cases of replay.
func Replays() ([]Replay, error) {
	form := Form{Sections: []string{"first.json", "second.json", "replacements.json"}}
	return lifecycle("replay", form, func(f *File) (c Replay, err error) {
		c.Case = caseOf(f)
		var err2, err3 error
		c.First, err = f.need("first.json")
		c.Second, err2 = f.need("second.json")
		texts, err3 := f.need("replacements.json")
		if err := errors.Join(err, err2, err3); err != nil {
			return c, err
		}
		if err := json.Unmarshal(texts, &c.Replacements); err != nil {
			return c, fmt.Errorf("%s: %w", f.Path, err)
		}
		return c, nil
	})
}

// Session is the first requests of two conversations whose headers name no session.
type Session struct {
	Case
	A, B []byte
	Gate string // of both
	Same bool   // whether both may end up in one session
}

// Sessions returns the cases of session identity.
func Sessions() ([]Session, error) {
	form := Form{Headers: []string{"gate", "same"}, Sections: []string{"a.json", "b.json"}}
	return lifecycle("session", form, func(f *File) (c Session, err error) {
		c = Session{Case: caseOf(f), Gate: f.Header["gate"], Same: f.Header["same"] == "true"}
		var err2 error
		c.A, err = f.need("a.json")
		c.B, err2 = f.need("b.json")
		return c, errors.Join(err, err2)
	})
}
