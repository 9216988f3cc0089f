package shed

import (
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Name is the filter's name in config, events and metrics.
const Name = "shed"

// Verdicts of proposals.
const (
	First = "cut"   // the first span of the transcript
	Again = "recut" // the span grows
)

// maxQuote is how many characters of the span's first human words the stub quotes where these are left out.
const maxQuote = 240

// filter is immutable and safe for concurrent use.
type filter struct{ c Config }

// New returns the filter for a valid config.
func New(c Config) (filters.Filter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Pins = slices.Clone(c.Pins)
	return &filter{c}, nil
}

// Name implements [filters.Filter].
func (*filter) Name() string { return Name }

// Propose implements [filters.Filter]. What it says of results follows from the one span that it would cut.
func (f *filter) Propose(v *filters.View) []filters.Proposal {
	s, gate := f.span(v)
	if gate == "" {
		gate = f.quote(v, s)
	}
	out := make([]filters.Proposal, 0, len(v.Candidates)+1)
	if gate == "" {
		p := filters.Proposal{
			Result: filters.Transcript, Action: filters.Drop, Verdict: First, Verb: "cut", Extra: s.extra, Mode: f.c.MarkerMode,
			Policy: filters.Policy{Cold: true, Warm: true, BreakEven: true},
			Cut:    &filters.Cut{Head: s.Head, Next: s.Next, KeepHuman: s.keepHuman},
		}
		if v.Cut != nil {
			p.Verdict = Again
		}
		out = append(out, p)
	}
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if !c.Open {
			continue
		}
		p := filters.Proposal{Result: c.Result, Gate: gate}
		if gate == "" {
			p.Gate = filters.BeyondCut
			if s.Dropped[v.Index.Results[c.Result].Msg] {
				p.Gate = filters.InCut
			}
		}
		out = append(out, p)
	}
	return out
}

// span is what is to be cut.
type span struct {
	transcript.Gap
	keepHuman bool
	extra     string
}

// span finds the span that brings the messages back under budget, or says why there is none.
func (f *filter) span(v *filters.View) (s *span, gate filters.Gate) {
	ix := v.Index
	head := ix.FirstHuman()
	switch {
	case !f.c.Enabled || f.c.Budget == 0:
		return nil, filters.Disabled
	case v.CutGate != "":
		return nil, v.CutGate
	case head < 0:
		return nil, filters.NoMessages
	case ix.Format == transcript.Anthropic && len(ix.Markers) == 0 && !ix.TopMarker:
		return nil, filters.NoBreakpoint
	case int(v.Turn-ix.Messages[head].Turn) <= f.c.KeepRecentTurns:
		return nil, filters.TooFewMessages
	case slices.ContainsFunc(ix.Results, func(r transcript.Result) bool { return r.Ambiguous }):
		return nil, filters.AmbiguousID
	}
	size := v.Size
	if size == nil {
		size = ix.EstMessage
	}
	sizes, total := make([]int, len(ix.Messages)), 0
	for m := range sizes {
		sizes[m] = size(int32(m))
		total += sizes[m]
	}
	if total <= f.c.Budget {
		return nil, filters.UnderBudget
	}
	if ix.Compacted() { // what stands before the provider's own summary is no part of the prompt
		return nil, filters.NothingToDrop
	}
	return f.choose(v, head, sizes, (total-f.c.Budget+f.c.Quantum-1)/f.c.Quantum)
}

// choose ends the span at the first boundary that leaves out as many quanta, or as many of them as there is a boundary for.
// Quanta are measured from the head, so that the boundary stands still while the transcript grows.
func (f *filter) choose(v *filters.View, head int32, sizes []int, quanta int) (*span, filters.Gate) {
	ix, keepHuman := v.Index, f.c.KeepHuman
	from := head
	if v.Cut != nil { // what is left out stays so
		from, keepHuman = v.Cut.Next, v.Cut.KeepHuman
	}
	all, _ := ix.Gap(head, int32(len(ix.Messages)), keepHuman)
	open := openPairs(ix, all.Dropped)
	best, reached, parted, left := int32(-1), 0, false, 0
	for m := head + 1; int(m) < len(ix.Messages) && int(v.Turn-ix.Messages[m].Turn)+1 >= f.c.KeepRecentTurns; m++ {
		if q := min(left/f.c.Quantum, quanta); q > reached && m > from && ix.Opens(m) {
			if open[m] > 0 {
				parted = true
			} else {
				best, reached = m, q
			}
		}
		if all.Dropped[m] {
			left += sizes[m]
		}
	}
	switch {
	case best < 0 && parted:
		return nil, filters.OpenPair
	case best < 0:
		return nil, filters.NothingToDrop
	}
	gap, ok := ix.Gap(head, best, keepHuman)
	if !ok {
		return nil, filters.OpenPair
	}
	return &span{Gap: gap, keepHuman: keepHuman}, ""
}

// openPairs counts, for every message, the calls before it whose results stand at or behind it. One that would go and has no
// result yet may have one in a later request, and would be parted from it then.
func openPairs(ix *transcript.Index, gone []bool) []int {
	open := make([]int, len(ix.Messages)+2)
	ix.Pairs(func(call, result int32) {
		open[call+1]++
		open[result+1]--
	})
	for c := range ix.Calls {
		if msg := ix.Calls[c].Msg; gone[msg] && ix.Answer(int32(c)) == nil {
			open[msg+1]++
		}
	}
	for m := 1; m < len(open); m++ {
		open[m] += open[m-1]
	}
	return open
}

// quote fills in what of a human's words the stub keeps, or says why the span cannot go: pins word for word, else the
// beginning of the first words.
func (f *filter) quote(v *filters.View, s *span) filters.Gate {
	if s.keepHuman {
		return ""
	}
	was := transcript.Gap{Dropped: make([]bool, len(v.Index.Messages))}
	if v.Cut != nil {
		was, _ = v.Index.Gap(v.Cut.Head, v.Cut.Next, v.Cut.KeepHuman)
	}
	var pins []string
	first, tokens := "", 0
	for m := s.Head + 1; m < s.Next; m++ {
		if !s.Dropped[m] || was.Dropped[m] || !v.Index.Human(m) {
			continue
		}
		msg := &v.Index.Messages[m]
		for i := msg.First; i < msg.Last; i++ {
			text := v.Index.BlockText(&v.Index.Blocks[i])
			if transcript.IsReminder(text) {
				continue
			}
			if first == "" {
				first = strings.Join(strings.Fields(text), " ")
			}
			if f.pinned(text) {
				pins = append(pins, text)
				tokens += transcript.Est(text)
			}
		}
	}
	switch {
	case tokens > f.c.Budget/4:
		return filters.PinRefused
	case len(pins) > 0:
		s.extra = strings.Join(pins, "\n")
	case first != "":
		s.extra = `first words of a human in it: "` + filters.Clip(first, maxQuote) + `"`
	}
	return ""
}

// pinned reports whether a line of a text starts with one of the pins.
func (f *filter) pinned(text string) bool {
	for line := range strings.Lines(text) {
		for _, pin := range f.c.Pins {
			if strings.HasPrefix(line, pin) {
				return true
			}
		}
	}
	return false
}
