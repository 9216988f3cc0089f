package tiered

import (
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Name is the filter's name in config, events and metrics.
const Name = "tiered"

// Verdicts of proposals.
const (
	Tier1   = "tier1"   // facts of the call
	Tier2   = "tier2"   // an excerpt
	Browser = "browser" // one line for a view of a page that later ones replaced

	Tier2Summary = "tier2_summary" // a summary in the excerpt's place
)

// filter is immutable and safe for concurrent use.
type filter struct {
	c     Config
	floor roleSet
}

// New returns the filter for a valid config.
func New(c Config) (filters.Filter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	floor, err := c.Floor.set()
	if err != nil {
		return nil, err
	}
	c.Tools = slices.Clone(c.Tools)
	return &filter{c, floor}, nil
}

// Name implements [filters.Filter].
func (*filter) Name() string { return Name }

// Propose implements [filters.Filter]. It counts the turns of all results, and looks at the open ones alone; only the text
// of those that are to be shortened is read.
func (f *filter) Propose(v *filters.View) []filters.Proposal {
	open, oldest := 0, int32(len(v.Index.Results))
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if c.Open {
			open++
		}
		if c.Open || f.summarizes(v) {
			oldest = min(oldest, c.Result)
		}
	}
	if open == 0 {
		return nil
	}
	out := make([]filters.Proposal, 0, open)
	a := f.ages(v.Index, oldest)
	for i := range v.Candidates {
		if c := &v.Candidates[i]; c.Open {
			out = append(out, f.propose(v, c, &a))
		}
	}
	f.prepare(v, &a)
	return out
}

// ages says how far back the results of a body stand.
type ages struct {
	later []int32 // by turn: how many later turns have results
	turns int32   // that have results
	seen  int32   // observations before this result have browser_window newer ones
}

// ages counts turns, and observations as far back as the oldest open result.
func (f *filter) ages(ix *transcript.Index, oldest int32) ages {
	a := ages{later: make([]int32, ix.LastTurn()+1)}
	for i := range ix.Results {
		if r := &ix.Results[i]; r.Call >= 0 {
			a.later[r.Turn] = 1
		}
	}
	for t, has := range slices.Backward(a.later) {
		a.later[t] = a.turns
		a.turns += has
	}
	newer := 0
	for i := int32(len(ix.Results)) - 1; i > oldest && newer < f.c.BrowserWindow; i-- {
		if observes(ix, &ix.Results[i]) {
			newer++
			if newer == f.c.BrowserWindow {
				a.seen = i
			}
		}
	}
	return a
}

// propose says what becomes of one result.
func (f *filter) propose(v *filters.View, c *filters.Candidate, a *ages) filters.Proposal {
	ix := v.Index
	r := &ix.Results[c.Result]
	p := filters.Proposal{Result: c.Result}
	if p.Gate = f.c.Barred(ix, r); p.Gate != "" {
		return p
	}
	if p.Verdict, p.Gate = f.tier(ix, c, a); p.Gate == "" {
		p.Gate = f.c.Small(ix, r)
	}
	if p.Gate == "" {
		p.Gate = f.extra(v, &p, a)
	}
	if p.Gate != "" {
		return filters.Proposal{Result: c.Result, Gate: p.Gate}
	}
	p.Action, p.Mode, p.Policy = filters.Replace, f.c.MarkerMode, filters.Policy{Cold: true}
	p.Verb, p.Hint = verb(&p), hint(ix.CallFacts(r.Call))
	return p
}

// verb is that of the marker.
func verb(p *filters.Proposal) string {
	switch {
	case p.Verdict == Browser:
		return "newer views follow"
	case p.Verdict == Tier2Summary:
		return "aged, model-written summary follows"
	case p.Verdict == Tier2 && p.Extra != "":
		return "aged, excerpt follows"
	}
	return "aged out"
}

// tier is the verdict that the age of a result brings, or why there is none.
func (f *filter) tier(ix *transcript.Index, c *filters.Candidate, a *ages) (verdict string, gate filters.Gate) {
	r := &ix.Results[c.Result]
	distance := int(a.later[r.Turn])
	switch {
	case int(a.turns) < f.c.Window:
		return "", filters.ShortSession
	case distance == 0 || c.Zone == filters.Fresh:
		return "", filters.WorkingSet
	case c.Result < a.seen && observes(ix, r):
		return Browser, ""
	case distance < f.c.Window:
		return "", filters.WorkingSet
	case distance < f.c.StubDistance || f.floor[role(ix.CallFacts(r.Call))]:
		return Tier2, ""
	}
	return Tier1, ""
}

// extra fills in what follows the marker, or says why there is nothing to leave out.
func (f *filter) extra(v *filters.View, p *filters.Proposal, a *ages) filters.Gate {
	ix := v.Index
	r := &ix.Results[p.Result]
	switch p.Verdict {
	case Tier1:
		p.Extra = facts(ix, r)
	case Tier2:
		var all bool
		text := ix.ResultText(r)
		if p.Extra, all = excerpt(text, f.c.MaxChars); !all {
			f.summarize(v, p, text)
			return ""
		}
		if int(a.later[r.Turn]) >= f.c.StubDistance {
			return filters.Floor
		}
		return filters.MarkerNoGain
	}
	return ""
}

// role is that of a call's tool; a shell command that reads one file is a read of it.
func role(f *transcript.CallFacts) transcript.ToolRole {
	if len(f.Shell) == 1 && f.Shell[0].Role == transcript.Read {
		return transcript.Read
	}
	return f.Role
}

// hint says how the content can be had again. A command may have effects, and a page has changed, so that neither is
// said to be run again.
func hint(f *transcript.CallFacts) filters.Hint {
	switch {
	case role(f) == transcript.Read:
		return filters.ReRead
	case f.Role == transcript.Search, f.Role == transcript.List:
		return filters.ReRun
	}
	return filters.NoHint
}
