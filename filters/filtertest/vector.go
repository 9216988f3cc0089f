package filtertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// What a vector expects.
const (
	expectProposals = "proposals"  // of the open candidates: section proposals
	expectUnparsed  = "unparsed"   // no index: the body is forwarded as it came
	expectBadConfig = "bad_config" // no filter: section error
)

const (
	bodySection      = "body.json"
	proposalsSection = "proposals"
	errorSection     = "error"
)

// form is what the file of a filter's vector may hold; see testdata/README.md.
var form = vectors.Form{
	Headers: []string{
		"shows", "config", "format", "zones", "held", "closed", "decided", "hold_gate", "hold_at", "hold_pays", "filled", "summaries", "cut_gate", "cut", "expect", "observed", "reason",
	},
	Sections: []string{bodySection, proposalsSection, errorSection},
}

// vector is one vector of a filter.
type vector struct {
	*vectors.File
	spec    all.Spec
	carried int // replacements that the engine would carry out, once the vector was run
}

// settings are the vector's config.
func (v *vector) settings() (settings, error) {
	s := settings{spec: v.spec}
	if err := yaml.Unmarshal([]byte(v.Header["config"]), &s.keys); err != nil {
		return s, fmt.Errorf("header config: %w", err)
	}
	_, err := s.config()
	return s, err
}

// expects is what the header says is expected.
func (v *vector) expects() string { return cmp.Or(v.Header["expect"], expectProposals) }

// format is the wire format that the header names; one without a reader is unknown to transcript.
func (v *vector) format() transcript.Format {
	name := v.Header["format"]
	if name == "" {
		return transcript.Anthropic
	}
	for f := transcript.UnknownFormat + 1; f.String() != transcript.UnknownFormat.String(); f++ {
		if f.String() == name {
			return f
		}
	}
	return transcript.UnknownFormat
}

var zones = map[string]filters.Zone{"covered": filters.Covered, "uncovered": filters.Uncovered, "fresh": filters.Fresh}

// view is what the filter sees. Without headers every result is an open candidate; those after the last assistant message
// are fresh, the others uncovered.
func (v *vector) view(ix *transcript.Index) (*filters.View, error) {
	view := &filters.View{
		Index: ix, Turn: ix.LastTurn(), HoldGate: filters.Gate(v.Header["hold_gate"]), CutGate: filters.Gate(v.Header["cut_gate"]),
	}
	var errs []error
	gap, err := v.cut(ix, view)
	if err != nil {
		errs = append(errs, err)
	}
	of := v.candidates(ix, view, &gap)
	each := func(header string, do func(c *filters.Candidate, value string)) {
		for word := range strings.FieldsSeq(v.Header[header]) {
			id, value, _ := strings.Cut(word, "=")
			n, ok := of[id]
			if !ok {
				errs = append(errs, fmt.Errorf("header %s: no candidate %q", header, id))
				continue
			}
			do(&view.Candidates[n], value)
		}
	}
	each("zones", func(c *filters.Candidate, value string) {
		zone, ok := zones[value]
		if c.Zone = zone; !ok {
			errs = append(errs, fmt.Errorf("header zones: zone %q is not known", value))
		}
	})
	each("held", func(c *filters.Candidate, _ string) { c.Held = true })
	each("closed", func(c *filters.Candidate, _ string) { c.Open = false })
	at := map[int32]filters.Gate{}
	each("hold_at", func(c *filters.Candidate, value string) { at[c.Result] = filters.Gate(value) })
	if len(at) > 0 {
		view.HoldAt = func(result int32) filters.Gate { return at[result] }
	}
	pays := map[int32]bool{}
	each("hold_pays", func(c *filters.Candidate, _ string) { pays[c.Result] = true })
	if len(pays) > 0 {
		view.HoldPays = func(result int32, turns int) bool { return pays[result] && turns > 0 }
	}
	if share, ok := v.Header["filled"]; ok {
		if view.Filled, err = strconv.ParseFloat(share, 64); err != nil {
			errs = append(errs, fmt.Errorf("header filled: %w", err))
		}
	}
	if view.Summary, err = v.summaries(of, view.Candidates); err != nil {
		errs = append(errs, err)
	}
	return view, errors.Join(errs...)
}

// candidates fills in what is undecided and returns, by call id, which candidate a result is.
func (v *vector) candidates(ix *transcript.Index, view *filters.View, gap *transcript.Gap) map[string]int {
	of, decided := map[string]int{}, strings.Fields(v.Header["decided"])
	for _, c := range AllOpen(ix).Candidates {
		r := &ix.Results[c.Result]
		id := ix.CallID(r)
		if slices.Contains(decided, id) || view.Cut != nil && gap.Dropped[r.Msg] {
			continue
		}
		if r.Msg > ix.LastAssistant() {
			c.Zone = filters.Fresh
		}
		of[id] = len(view.Candidates)
		view.Candidates = append(view.Candidates, c)
	}
	return of
}

// cut fills in the cut in force that the header tells and returns what it leaves out.
func (v *vector) cut(ix *transcript.Index, view *filters.View) (gap transcript.Gap, err error) {
	text, ok := v.Header["cut"]
	if !ok {
		return gap, nil
	}
	var first, last int32
	text, keep := strings.CutSuffix(text, " keep_human")
	if _, err := fmt.Sscanf(text, "%d..%d", &first, &last); err != nil {
		return gap, fmt.Errorf("header cut: %q is no span of messages: %w", text, err)
	}
	c := &filters.Cut{Head: first - 1, Next: last + 1, KeepHuman: keep}
	if c.Head < 0 || c.Head >= c.Next || int(c.Next) >= len(ix.Messages) {
		return gap, fmt.Errorf("header cut: there are %d messages", len(ix.Messages))
	}
	if gap, ok = ix.Gap(c.Head, c.Next, keep); !ok {
		return gap, errors.New("header cut: it leaves out nothing, or parts a call from its result")
	}
	view.Cut = c
	return gap, nil
}

// hints are the names of hints in goldens.
var hints = map[filters.Hint]string{filters.NoHint: "none", filters.ReRead: "re_read", filters.ReRun: "re_run"}

// render writes proposals as a golden holds them: one line each, in the order of the results.
func render(ix *transcript.Index, proposals []filters.Proposal) string {
	sorted := slices.Clone(proposals)
	slices.SortStableFunc(sorted, func(a, b filters.Proposal) int { return int(a.Result - b.Result) })
	lines := make([]string, len(sorted))
	for i := range sorted {
		p := &sorted[i]
		id := "transcript"
		if p.Result != filters.Transcript {
			id = ix.CallID(&ix.Results[p.Result])
		}
		switch p.Action {
		case filters.None:
			lines[i] = fmt.Sprintf("%s: none %s", id, p.Gate)
		case filters.Hold:
			lines[i] = id + ": hold"
		case filters.Replace:
			lines[i] = fmt.Sprintf("%s: replace %s %q hint=%s moves=%s mode=%s", id, p.Verdict, p.Verb, hints[p.Hint], moves(p.Policy), p.Mode)
			if p.Extra != "" {
				lines[i] += fmt.Sprintf(" extra=%q", p.Extra)
			}
			if p.Lesser != "" {
				lines[i] += fmt.Sprintf(" lesser=%s", p.Lesser)
			}
		case filters.Drop:
			lines[i] = fmt.Sprintf("%s: drop %d..%d %s %q keep_human=%t moves=%s mode=%s", id, p.Cut.Head+1, p.Cut.Next-1, p.Verdict, p.Verb, p.Cut.KeepHuman, moves(p.Policy), p.Mode)
			if p.Extra != "" {
				lines[i] += fmt.Sprintf(" extra=%q", p.Extra)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// moves names the moves that a policy allows, the warm one with its conditions.
func moves(p filters.Policy) string {
	var names []string
	if p.Cold {
		names = append(names, "cold")
	}
	if p.Warm {
		warm := fmt.Sprintf("warm(%g,%d", p.MinBatchFrac, p.RewriteBudget)
		if p.BreakEven {
			warm += ",break_even"
		}
		names = append(names, warm+")")
	}
	return cmp.Or(strings.Join(names, ","), "none")
}
