package readlifecycle

import (
	"path"
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
	shell := &shell{ix: v.Index}
	reads := f.reads(v, shell)
	later := f.index(v, reads, shell)
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

// file is one file: equal paths at another place, or behind another change of a shell's directory, are other files.
type file struct {
	place, path string
	moves       int32 // of relative paths in shell commands: how many calls before may have changed the directory
}

// part is what a read asks for: two reads show the same only if their parts are equal.
type part struct {
	file

	rng transcript.Range
}

// reads lists the open candidates that the filter may decide on, in the view's order.
func (f *filter) reads(v *filters.View, shell *shell) (found []read) {
	for _, c := range v.Candidates {
		r := &v.Index.Results[c.Result]
		if !c.Open || f.c.Barred(v.Index, r) != "" || v.Index.IsStub(r) {
			continue
		}
		if p, ok := f.readOf(v.Index, r.Call, shell); ok {
			found = append(found, read{result: c.Result, part: p})
		}
	}
	return found
}

// readOf returns what a call reads, if it is a read of one file.
func (f *filter) readOf(ix *transcript.Index, call int32, shell *shell) (part, bool) {
	facts := ix.CallFacts(call)
	switch {
	case facts.Role == transcript.Read && facts.Path != "":
		return part{file{place: facts.Place, path: facts.Path}, facts.Range}, true
	case f.c.BashReads && len(facts.Shell) == 1 && facts.Shell[0].Role == transcript.Read:
		return part{shell.file(facts, &facts.Shell[0], call), facts.Shell[0].Range}, true
	}
	return part{}, false
}

// shell follows the directory of a shell that outlives its calls, as far as it must: it may have been changed in every call whose
// text has a cd. What relative paths mean is not told beyond that.
type shell struct {
	ix    *transcript.Index
	moves []int32 // calls before each that may have changed the directory; as long as it was needed
}

// file is the file that a command touches.
func (s *shell) file(facts *transcript.CallFacts, a *transcript.Access, call int32) file {
	f := file{place: facts.Place, path: a.Path}
	if !path.IsAbs(a.Path) {
		f.moves = s.before(call)
	}
	return f
}

func (s *shell) before(call int32) int32 {
	if s.moves == nil {
		s.moves = append(make([]int32, 0, len(s.ix.Calls)), 0)
	}
	for i := int32(len(s.moves)) - 1; i < call; i++ {
		n := s.moves[i]
		if s.ix.CallFacts(i).Moves {
			n++
		}
		s.moves = append(s.moves, n)
	}
	return s.moves[call]
}

// events is, for the files and parts of open reads alone, the turn of the last event.
type events struct {
	edited map[file]int32
	reread map[part]int32
	other  filters.Gate // of the candidates that are no reads
}

// index looks once at every result of a turn after the oldest open read. Where only reads of the newest turn are open there
// is none.
func (f *filter) index(v *filters.View, reads []read, shell *shell) *events {
	e := &events{other: filters.NoFileReads}
	if len(reads) == 0 {
		return e
	}
	e.other = filters.NotARead
	ix, oldest := v.Index, v.Turn
	for i := range reads {
		oldest = min(oldest, ix.Results[reads[i].result].Turn)
	}
	e.edited, e.reread = make(map[file]int32, len(reads)), make(map[part]int32, len(reads))
	for i := range reads {
		e.edited[reads[i].file], e.reread[reads[i].part] = 0, 0
	}
	for i := range ix.Results {
		if r := &ix.Results[i]; r.Turn > oldest && happened(ix, r) {
			f.note(e, ix, r, shell)
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
func (f *filter) note(e *events, ix *transcript.Index, r *transcript.Result, shell *shell) {
	facts := ix.CallFacts(r.Call)
	if facts.Role.Changes() {
		raise(e.edited, file{place: facts.Place, path: facts.Path}, r.Turn)
	}
	for i := range facts.Files {
		if a := &facts.Files[i]; a.Role.Changes() {
			raise(e.edited, file{place: facts.Place, path: a.Path}, r.Turn)
		}
	}
	for i := range facts.Shell {
		if a := &facts.Shell[i]; f.c.BashEdits && a.Role.Changes() {
			raise(e.edited, shell.file(facts, a, r.Call), r.Turn)
		}
	}
	p, ok := f.readOf(ix, r.Call, shell)
	if last, open := e.reread[p]; ok && open && last < r.Turn && shows(ix, r) {
		raise(e.reread, p, r.Turn)
	}
}

// shows reports whether a result shows all that its call asked for. What a client cut covers only a part of that.
func shows(ix *transcript.Index, r *transcript.Result) bool {
	return r.Form != transcript.NoContent && !ix.IsStub(r) && !ix.IsCut(r)
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
	case f.c.Stale && later.edited[rd.file] > r.Turn:
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
