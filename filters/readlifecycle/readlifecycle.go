package readlifecycle

import (
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Name is the filter's name in config, events and metrics.
const Name = "readlifecycle"

// Verdicts of proposals.
const (
	Stale      = "stale"
	Superseded = "superseded"
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

// Propose implements [filters.Filter]. Its time is linear in the calls of the turns after the oldest read that is open; on
// a turn where only the newest results are open it looks at these alone.
func (f *filter) Propose(v *filters.View) []filters.Proposal {
	out := make([]filters.Proposal, 0, len(v.Candidates))
	reads := f.reads(v)
	later := f.index(v, reads)
	for _, c := range v.Candidates {
		if !c.Open {
			continue
		}
		if len(reads) > 0 && reads[0].result == c.Result {
			out = append(out, f.decide(v.Index, &reads[0], later))
			reads = reads[1:]
			continue
		}
		gate := f.c.Barred(v.Index, &v.Index.Results[c.Result])
		if gate == "" {
			gate = later.other
		}
		out = append(out, filters.Proposal{Result: c.Result, Gate: gate})
	}
	return out
}

// read is an open candidate that reads a file.
type read struct {
	result int32
	part
}

// part is what a read asks for: two reads show the same only if their parts are equal.
type part struct {
	path string
	rng  transcript.Range
}

// reads lists the open candidates that the filter may decide on, in the view's order.
func (f *filter) reads(v *filters.View) (found []read) {
	for _, c := range v.Candidates {
		r := &v.Index.Results[c.Result]
		if !c.Open || f.c.Barred(v.Index, r) != "" || v.Index.IsStub(r) {
			continue
		}
		if p, ok := f.readOf(v.Index.CallFacts(r.Call)); ok {
			found = append(found, read{result: c.Result, part: p})
		}
	}
	return found
}

// readOf returns what a call reads, if it is a read of one file.
func (f *filter) readOf(facts *transcript.CallFacts) (part, bool) {
	switch {
	case facts.Role == transcript.Read && facts.Path != "":
		return part{path: facts.Path, rng: facts.Range}, true
	case f.c.BashReads && len(facts.Shell) == 1 && facts.Shell[0].Role == transcript.Read:
		return part{path: facts.Shell[0].Path, rng: facts.Shell[0].Range}, true
	}
	return part{}, false
}

// events is, for the files and parts of open reads alone, the turn of the last event.
type events struct {
	edited map[string]int32
	reread map[part]int32
	other  filters.Gate // of the candidates that are no reads
}

// index looks once at every result of a turn after the oldest open read. Where only reads of the newest turn are open there
// is none.
func (f *filter) index(v *filters.View, reads []read) *events {
	e := &events{other: filters.NoFileReads}
	if len(reads) == 0 {
		return e
	}
	e.other = filters.NotARead
	ix, oldest := v.Index, v.Turn
	for i := range reads {
		oldest = min(oldest, ix.Results[reads[i].result].Turn)
	}
	e.edited, e.reread = make(map[string]int32, len(reads)), make(map[part]int32, len(reads))
	for i := range reads {
		e.edited[reads[i].path], e.reread[reads[i].part] = 0, 0
	}
	for i := range ix.Results {
		if r := &ix.Results[i]; r.Turn > oldest && happened(ix, r) {
			f.note(e, ix, r)
		}
	}
	return e
}

// happened reports whether the call of a result was done beyond doubt. Of an id that stands twice nobody knows which call
// the result answers.
func happened(ix *transcript.Index, r *transcript.Result) bool {
	return r.Call >= 0 && !r.Ambiguous && ix.ResultOutcome(r) == transcript.Succeeded
}

// note enters what the call of a result did to files that matter.
func (f *filter) note(e *events, ix *transcript.Index, r *transcript.Result) {
	facts := ix.CallFacts(r.Call)
	if facts.Role.Changes() {
		raise(e.edited, facts.Path, r.Turn)
	}
	e.edits(facts.Files, r.Turn)
	if f.c.BashEdits {
		e.edits(facts.Shell, r.Turn)
	}
	if p, ok := f.readOf(facts); ok && e.reread[p] < r.Turn && shows(ix, r) {
		raise(e.reread, p, r.Turn)
	}
}

// shows reports whether a result shows all that its call asked for. What a client cut covers only a part of that.
func shows(ix *transcript.Index, r *transcript.Result) bool {
	return r.Form != transcript.NoContent && !ix.IsStub(r) && !ix.IsCut(r)
}

// edits enters the files that were changed among those that a call names.
func (e *events) edits(files []transcript.Access, turn int32) {
	for i := range files {
		if files[i].Role.Changes() {
			raise(e.edited, files[i].Path, turn)
		}
	}
}

// raise sets the turn of a key that is there to the later of both.
func raise[K comparable](m map[K]int32, key K, turn int32) {
	if old, ok := m[key]; ok && turn > old {
		m[key] = turn
	}
}

// decide gives the verdict on one read.
func (f *filter) decide(ix *transcript.Index, rd *read, later *events) filters.Proposal {
	r := &ix.Results[rd.result]
	p := filters.Proposal{Result: rd.result, Hint: filters.ReRead, Mode: f.c.MarkerMode, Policy: filters.Policy{Cold: f.c.ColdCache}}
	switch {
	case f.c.Stale && later.edited[rd.path] > r.Turn:
		p.Verdict, p.Verb = Stale, "modified later"
		p.Policy.Warm, p.Policy.BreakEven = f.c.StaleAtDepth, true
	case f.c.Superseded && later.reread[rd.part] > r.Turn:
		p.Verdict, p.Verb = Superseded, "read again later"
	default:
		return filters.Proposal{Result: rd.result, Gate: filters.FreshRead}
	}
	if gate := f.c.Small(ix, r); gate != "" {
		return filters.Proposal{Result: rd.result, Gate: gate}
	}
	p.Action = filters.Replace
	return p
}
