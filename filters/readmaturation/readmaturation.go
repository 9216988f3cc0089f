package readmaturation

import (
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Name is the filter's name in config, events and metrics.
const Name = "readmaturation"

// Verdicts of proposals: why a held read matures.
const (
	Quiet = "quiet" // no call on the file for quiesce_turns
	Cap   = "cap"   // held for max_hold_turns
)

// filter is immutable and safe for concurrent use.
type filter struct{ c Config }

// New returns the filter for a valid config.
func New(c Config) (filters.Filter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Tools = slices.Clone(c.Tools)
	return &filter{c: c}, nil
}

// Name implements [filters.Filter].
func (*filter) Name() string { return Name }

// Propose implements [filters.Filter]. It looks at the open candidates and, if a held read is older than quiesce_turns, at
// the calls of the last quiesce_turns turns.
func (f *filter) Propose(v *filters.View) []filters.Proposal {
	out := make([]filters.Proposal, 0, len(v.Candidates))
	a := activity{v: v, turns: f.c.QuiesceTurns}
	for i := range v.Candidates {
		if c := &v.Candidates[i]; c.Open {
			out = append(out, f.propose(c, &a))
		}
	}
	return out
}

func (f *filter) propose(c *filters.Candidate, a *activity) filters.Proposal {
	r := &a.v.Index.Results[c.Result]
	if gate := f.c.Barred(a.v.Index, r); gate != "" {
		return filters.Proposal{Result: c.Result, Gate: gate}
	}
	if c.Held {
		return f.held(c.Result, r, a)
	}
	if gate := f.declined(c, r, a); gate != "" {
		return filters.Proposal{Result: c.Result, Gate: gate}
	}
	return filters.Proposal{Result: c.Result, Action: filters.Hold, Hint: filters.ReRead, Mode: f.c.MarkerMode}
}

// held says whether a held read stays or matures.
func (f *filter) held(result int32, r *transcript.Result, a *activity) filters.Proposal {
	verdict := f.over(r, pathOf(a.v.Index.CallFacts(r.Call)), a)
	if verdict == "" {
		return filters.Proposal{Result: result, Gate: filters.Held}
	}
	return filters.Proposal{
		Result: result, Action: filters.Replace, Verdict: verdict, Verb: "quiet since", Hint: filters.ReRead, Mode: f.c.MarkerMode,
	}
}

// declined is why a result is not held at first sight, empty if it is.
func (f *filter) declined(c *filters.Candidate, r *transcript.Result, a *activity) filters.Gate {
	ix := a.v.Index
	if c.Zone != filters.Fresh {
		return filters.HoldDeclined
	}
	facts := ix.CallFacts(r.Call)
	if !isRead(facts) || ix.IsStub(r) {
		return filters.NotARead
	}
	// ResultSize is never below the size of the text, so most small reads are not unescaped.
	if ix.ResultSize(r) < f.c.MinSizeBytes || len(ix.ResultText(r)) < f.c.MinSizeBytes {
		return filters.BelowMinSize
	}
	if gate := f.c.Small(ix, r); gate != "" {
		return gate
	}
	switch {
	case f.c.Hold == Never:
		return filters.HoldNever
	case f.over(r, pathOf(facts), a) != "":
		return filters.HoldDeclined
	case a.v.HoldGate != "":
		return a.v.HoldGate
	}
	if a.v.HoldAt != nil {
		if gate := a.v.HoldAt(c.Result); gate != "" {
			return gate
		}
	}
	if f.c.MarkerMode == filters.Meter {
		return filters.MeterOnly
	}
	// A read is held until its file was quiet for that long, so it is held at least that long.
	if f.c.Hold == Economic && (a.v.HoldPays == nil || !a.v.HoldPays(c.Result, min(f.c.QuiesceTurns, f.c.MaxHoldTurns))) {
		return filters.HoldUneconomic
	}
	return ""
}

// over is the verdict on a read whose time to be held is over, empty before that.
func (f *filter) over(r *transcript.Result, path string, a *activity) string {
	age := int(a.v.Turn - r.Turn)
	switch {
	case age >= f.c.QuiesceTurns && !a.on(path):
		return Quiet
	case age >= f.c.MaxHoldTurns:
		return Cap
	}
	return ""
}

// isRead reports whether a call reads one file. Which one need not be known.
func isRead(f *transcript.CallFacts) bool {
	return f.Role == transcript.Read || len(f.Shell) == 1 && f.Shell[0].Role == transcript.Read
}

// pathOf is the file that a read reads, empty if its arguments name none.
func pathOf(f *transcript.CallFacts) string {
	if f.Path == "" && len(f.Shell) == 1 {
		return f.Shell[0].Path
	}
	return f.Path
}

// activity is the set of files that calls of the last turns named, made when it is first asked for.
type activity struct {
	v     *filters.View
	turns int
	paths map[string]struct{}
}

// on reports whether a call of the last turns named the file; no call names the empty path.
func (a *activity) on(path string) bool {
	if a.paths == nil {
		a.collect()
	}
	_, ok := a.paths[path]
	return ok
}

func (a *activity) collect() {
	a.paths = map[string]struct{}{}
	ix := a.v.Index
	for i := int32(len(ix.Calls)) - 1; i >= 0 && int(ix.Calls[i].Turn) > int(a.v.Turn)-a.turns; i-- {
		f := ix.CallFacts(i)
		if f.Path != "" {
			a.paths[f.Path] = struct{}{}
		}
		for _, files := range [][]transcript.Access{f.Files, f.Shell} {
			for i := range files {
				a.paths[files[i].Path] = struct{}{}
			}
		}
	}
}
