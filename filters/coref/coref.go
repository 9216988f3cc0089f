package coref

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Name is the filter's name in config, events and metrics.
const Name = "coref"

// Verdicts of proposals.
const (
	Unreferenced = "unreferenced"
	Closed       = "closed"
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

// Propose implements [filters.Filter]. The index is made only where a result is open that can be in it; a turn on which
// the newest results alone are open costs next to nothing. Else its time is linear in the transcript, or with a memo in
// the number of identifiers and in what is new.
func (f *filter) Propose(v *filters.View) []filters.Proposal {
	out := make([]filters.Proposal, 0, len(v.Candidates))
	j := judge{f: f, v: v}
	for _, c := range v.Candidates {
		if c.Open {
			out = append(out, j.propose(c.Result))
		}
	}
	return out
}

// judge looks at the results of one view.
type judge struct {
	f     *filter
	v     *filters.View
	x     *index // made when it is first needed
	turns []int32
}

// propose says what becomes of one result.
func (j *judge) propose(result int32) filters.Proposal {
	c, ix := &j.f.c, j.v.Index
	r := &ix.Results[result]
	verdict, gate := "", c.Barred(ix, r)
	if gate == "" {
		verdict, gate = j.verdict(result)
	}
	if gate == "" {
		gate = c.Small(ix, r)
	}
	if gate != "" {
		return filters.Proposal{Result: result, Gate: gate}
	}
	return filters.Proposal{
		Result: result, Action: filters.Replace, Verdict: verdict, Verb: "compacted", Hint: hint(ix.CallFacts(r.Call)),
		Extra: j.peek(r), Mode: c.MarkerMode, Policy: c.policy(),
	}
}

// verdict is the filter's rule: the verdict under which a result is cut, or the gate that keeps it.
func (j *judge) verdict(result int32) (verdict string, gate filters.Gate) {
	c, ix := &j.f.c, j.v.Index
	if c.Trigger.MinRequestFrac > j.v.Filled {
		return "", filters.TriggerNotMet
	}
	if ix.Results[result].Msg > ix.LastAssistant() {
		return "", filters.NotIndexed
	}
	x := j.index()
	if x.full {
		return "", filters.NotIndexed
	}
	e := x.evidence(result, &j.turns)
	switch {
	case e.introduced == 0:
		return "", filters.OpaqueResult
	case int(ix.LastTurn()-x.outputs[result].turn) < c.MinLaterTurns:
		return "", filters.OpenResult
	case e.references == 0 && !c.CutUnreferenced:
		return "", filters.UnreferencedResult
	case e.references == 0:
		return Unreferenced, ""
	case e.references >= c.OpenReps, len(ix.Messages)-1-int(e.last) < c.ClosedDist:
		return "", filters.OpenResult
	case !c.CutClosed:
		return "", filters.ClosedResult
	}
	return Closed, ""
}

// peek is how the content begins, on one line, for the marker. What may be JSON has none: there the marker tells its shape.
func (j *judge) peek(r *transcript.Result) string {
	n := j.f.c.KeepHeadChars
	head := strings.Join(strings.FieldsFunc(j.v.Index.ResultHead(r, n*bytesPerChar), func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) }), " ")
	if n == 0 || head == "" || head[0] == '{' || head[0] == '[' {
		return ""
	}
	return "starts: " + filters.Clip(head, n)
}

// bytesPerChar is how many bytes of a body are looked at for one character of a peek.
const bytesPerChar = 4

// index is that of the view's transcript.
func (j *judge) index() *index {
	if j.x != nil {
		return j.x
	}
	grow := func(kept filters.Memo) filters.Memo {
		x, _ := kept.(*index)
		if x == nil {
			x = &index{numbers: map[uint64]int32{}}
		}
		x.read(j.v.Index)
		j.x = x
		return x
	}
	if j.v.Memo == nil {
		grow(nil)
	} else {
		j.v.Memo(Name, grow)
	}
	return j.x
}

// hint says how the content can be had again: only by what is known to change nothing.
func hint(facts *transcript.CallFacts) filters.Hint {
	switch {
	case facts.Role == transcript.Read && facts.Path != "", len(facts.Shell) == 1 && facts.Shell[0].Role == transcript.Read:
		return filters.ReRead
	case facts.Role == transcript.Search, facts.Role == transcript.List:
		return filters.ReRun
	}
	return filters.NoHint
}
