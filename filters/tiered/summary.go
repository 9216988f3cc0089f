package tiered

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// maxSummary is how many characters of a summary are kept.
const maxSummary = 800

// maxMarker is more than the estimate of any marker without what follows it.
const maxMarker = 100

// ahead is how many turns before window a summary is wanted: a summarizer takes seconds, a turn does too.
const ahead = 2

// thinkers are tools whose output is a thought or another agent's report, which are summaries themselves: their names in small
// letters and without signs (clients of 2026-11).
var thinkers = map[string]bool{
	"think": true, "sequentialthinking": true, "task": true, "taskoutput": true, "newtask": true, "agent": true, "agentoutput": true,
	"dispatchagent": true, "spawnagent": true, "waitagent": true, "subagent": true, "runsubagent": true, "delegate": true,
	"delegatetask": true, "clouddelegate": true,
}

// summarizes reports whether any result of the view can be summarised. What is only metered is not worth a summary.
func (f *filter) summarizes(v *filters.View) bool {
	return f.c.Summarizer.Given() && v.Summary != nil && f.c.MarkerMode != filters.Meter
}

// long reports whether a text has so many characters that it is worth a summary.
func (f *filter) long(text string) bool {
	return len(text) > f.c.SummaryMinChars && utf8.RuneCountInString(text) > f.c.SummaryMinChars
}

// exempt reports whether results of a tool are never summarised.
func (f *filter) exempt(ix *transcript.Index, call int32) bool {
	if f.floor[role(ix.CallFacts(call))] {
		return true
	}
	name := ix.ToolName(&ix.Calls[call])
	name = name[strings.LastIndex(name, "__")+1:] // of a tool of a server, behind the server's name
	return thinkers[strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)]
}

// summarize puts a summary in the excerpt's place if one is ready, else it notes why there is none.
func (f *filter) summarize(v *filters.View, p *filters.Proposal, text string) {
	switch {
	case !f.c.Summarizer.Given() || !f.long(text):
		return
	case f.exempt(v.Index, v.Index.Results[p.Result].Call):
		p.Lesser = filters.SummaryExempt
		return
	case !f.summarizes(v):
		p.Lesser = filters.NoSummary
		return
	}
	var summary string
	if summary, p.Lesser = v.Summary(p.Result, &f.c.Summarizer, f.c.MaxAttempts); p.Lesser != "" {
		return
	}
	summary = filters.Clip(summary, maxSummary)
	if transcript.Est(summary)+maxMarker+filters.MinGain > transcript.Est(text) {
		p.Lesser = filters.MarkerNoGain
		return
	}
	p.Verdict, p.Extra = Tier2Summary, summary
}

// prepare asks for summaries of results that can not be decided in this request, so that they are ready when they can be: from
// two turns before window up to stub_distance, the newest first, because those stay in between for longest.
func (f *filter) prepare(v *filters.View, a *ages) {
	if !f.summarizes(v) || int(a.turns) < f.c.Window {
		return
	}
	for _, c := range slices.Backward(v.Candidates) {
		r := &v.Index.Results[c.Result]
		if r.Call < 0 {
			continue
		}
		distance := int(a.later[r.Turn])
		if distance < max(1, f.c.Window-ahead) || distance >= f.c.StubDistance || c.Open && distance >= f.c.Window || !f.wanted(v.Index, &c, a) {
			continue
		}
		if _, gate := v.Summary(c.Result, &f.c.Summarizer, f.c.MaxAttempts); gate == filters.AttemptsSpent {
			return // nothing more is begun
		}
	}
}

// wanted reports whether a result would be summarised once it is old enough.
func (f *filter) wanted(ix *transcript.Index, c *filters.Candidate, a *ages) bool {
	r := &ix.Results[c.Result]
	switch {
	case f.c.Barred(ix, r) != "" || f.exempt(ix, r.Call) || c.Result < a.seen && observes(ix, r):
		return false
	case ix.ResultSize(r) <= f.c.SummaryMinChars || f.c.Small(ix, r) != "":
		return false
	}
	text := ix.ResultText(r)
	return f.long(text) && utf8.RuneCountInString(text) > f.c.MaxChars
}
