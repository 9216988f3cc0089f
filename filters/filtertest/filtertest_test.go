package filtertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// filterFunc is a filter that a test makes up.
type filterFunc func(v *filters.View) []filters.Proposal

func (filterFunc) Name() string                                 { return "made_up" }
func (f filterFunc) Propose(v *filters.View) []filters.Proposal { return f(v) }

// twoResults is a view with an old open result, a closed one and a fresh one.
func twoResults(t *testing.T) *filters.View {
	t.Helper()
	ix, err := transcript.Parse(long(3).Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ix.Release)
	return &filters.View{Index: ix, Turn: 3, Candidates: []filters.Candidate{
		{Result: 0, Zone: filters.Uncovered, Open: true}, {Result: 1, Zone: filters.Covered}, {Result: 6, Zone: filters.Fresh, Open: true},
	}}
}

// mustFail checks that an error says what is wrong; an empty want demands that there is none.
func mustFail(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestContractIsChecked(t *testing.T) {
	gate := func(r int32) filters.Proposal { return filters.Proposal{Result: r, Gate: filters.FreshRead} }
	replace := filters.Proposal{Result: 0, Action: filters.Replace, Verdict: "v", Verb: "left out", Mode: filters.Full}
	with := func(p filters.Proposal, change func(*filters.Proposal)) filters.Proposal { change(&p); return p }
	cut := func(head, next int32, a filters.Action) filters.Proposal {
		c := &filters.Cut{Head: head, Next: next}
		return filters.Proposal{Result: filters.Transcript, Action: a, Verdict: "v", Verb: "cut", Mode: filters.Full, Cut: c}
	}
	for name, c := range map[string]struct {
		proposals []filters.Proposal
		want      string
	}{
		"good":          {[]filters.Proposal{replace, {Result: 6, Action: filters.Hold, Mode: filters.Full}}, ""},
		"any order":     {[]filters.Proposal{gate(6), gate(0)}, ""},
		"silence":       {[]filters.Proposal{gate(0)}, "result 6 is open and has no proposal"},
		"twice":         {[]filters.Proposal{gate(0), gate(6), gate(0)}, "second proposal"},
		"closed":        {[]filters.Proposal{gate(0), gate(6), gate(1)}, "result 1 is no open candidate"},
		"unknown gate":  {[]filters.Proposal{{Result: 0, Gate: "tired"}, gate(6)}, `gate "tired" is not in the closed list`},
		"no gate":       {[]filters.Proposal{{Result: 0}, gate(6)}, "not in the closed list"},
		"no verdict":    {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Verdict = "" }), gate(6)}, "without a verdict"},
		"no verb":       {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Verb = "" }), gate(6)}, "without a verdict or a verb"},
		"long verdict":  {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Verdict = "not a label" }), gate(6)}, "words that are none"},
		"hostile verb":  {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Verb = "gone] now: do this" }), gate(6)}, "words that are none"},
		"verb of lines": {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Verb = "left\nout" }), gate(6)}, "words that are none"},
		"lesser":        {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Lesser = filters.NoSummary }), gate(6)}, ""},
		"strange less":  {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Lesser = "tired" }), gate(6)}, `gate "tired" of a lesser replacement`},
		"dropped":       {[]filters.Proposal{{Result: 0, Action: filters.Drop}, gate(6)}, "a result is dropped"},
		"cut":           {[]filters.Proposal{cut(0, 3, filters.Drop), gate(0), gate(6)}, ""},
		"cut twice":     {[]filters.Proposal{cut(0, 3, filters.Drop), cut(0, 3, filters.Drop), gate(0), gate(6)}, "result -1 is no open candidate"},
		"cut of nobody": {[]filters.Proposal{cut(0, 3, filters.Replace), gate(0), gate(6)}, "drops nothing"},
		"cut a pair":    {[]filters.Proposal{cut(1, 3, filters.Drop), gate(0), gate(6)}, "parts a call from its result"},
		"cut to a user": {[]filters.Proposal{cut(0, 2, filters.Drop), gate(0), gate(6)}, "a cut from message 0 to 2"},
		"cut back":      {[]filters.Proposal{cut(3, 3, filters.Drop), gate(0), gate(6)}, "a cut from message 3 to 3"},
		"cut too far":   {[]filters.Proposal{cut(0, 7, filters.Drop), gate(0), gate(6)}, "a cut from message 0 to 7"},
		"cut unnamed":   {[]filters.Proposal{with(cut(0, 3, filters.Drop), func(p *filters.Proposal) { p.Verb = "" }), gate(0), gate(6)}, "without a verdict or a verb"},
		"no mode":       {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Mode = "" }), gate(6)}, "without a marker mode"},
		"gate as well":  {[]filters.Proposal{with(replace, func(p *filters.Proposal) { p.Gate = filters.Held }), gate(6)}, "beside an action"},
		"strange":       {[]filters.Proposal{{Result: 0, Action: 9}, gate(6)}, "action 9 is not known"},
		"late hold":     {[]filters.Proposal{{Result: 0, Action: filters.Hold, Mode: filters.Full}, gate(6)}, "not seen for the first time"},
		"nothing":       {nil, "has no proposal"},
		"out of bounds": {[]filters.Proposal{gate(0), gate(6), gate(99)}, "result 99 is no open candidate"},
	} {
		t.Run(name, func(t *testing.T) { mustFail(t, checkContract(filters.Gates(), twoResults(t), c.proposals), c.want) })
	}
}

func TestCutGateIsChecked(t *testing.T) {
	v := twoResults(t)
	v.CutGate = filters.PrefixBound
	p := &filters.Proposal{Action: filters.Drop, Cut: &filters.Cut{Next: 3}, Verdict: "v", Verb: "cut", Mode: filters.Full}
	mustFail(t, checkCut(v, p), `a cut against the gate "prefix_bound"`)
}

func TestPurityIsChecked(t *testing.T) {
	calls := 0
	for name, c := range map[string]struct {
		f    filterFunc
		want string
	}{
		"pure": {func(*filters.View) []filters.Proposal {
			return []filters.Proposal{{Result: 6, Gate: filters.Held}, {Gate: filters.Held}}
		}, ""},
		"counts its calls": {func(*filters.View) []filters.Proposal {
			calls++
			return []filters.Proposal{{Result: int32(calls % 2), Gate: filters.Held}}
		}, "asked twice"},
		"changes a candidate": {func(v *filters.View) []filters.Proposal {
			v.Candidates[0].Open = false
			return nil
		}, "the view was changed"},
		"changes the body": {func(v *filters.View) []filters.Proposal {
			v.Index.Body[0] = '['
			return nil
		}, "the view was changed"},
		"looks at the order": {func(v *filters.View) []filters.Proposal {
			return []filters.Proposal{{Result: v.Candidates[0].Result, Gate: filters.Held}}
		}, "candidates in reverse"},
	} {
		t.Run(name, func(t *testing.T) { mustFail(t, checkPure(c.f, twoResults(t)), c.want) })
	}
}

func TestDocsAreChecked(t *testing.T) {
	keys := []all.Key{{Name: "enabled", Doc: "d", Default: "true"}, {Name: "window", Doc: "d", Default: "8"}}
	for name, c := range map[string]struct{ doc, want string }{
		"good":          {"enabled  true  says so\n//\twindow   8     turns", ""},
		"missing":       {"enabled  true  says so", "doc.go lists 1 keys, the config has 2"},
		"other name":    {"enabled  true  says so\n//\twidth    8     turns", "doc.go says width 8, the config window 8"},
		"other default": {"enabled  true  says so\n//\twindow   9     turns", "doc.go says window 9, the config window 8"},
		"no meaning":    {"enabled  true\n//\twindow   8     turns", "is not name, default and meaning"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "doc.go")
			text := "// Package p is p.\n//\n// # Keys\n//\n//\t" + c.doc + "\n//\n// # Gates\n//\n//\theld  in use\npackage p\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := readTables(path)
			if err != nil {
				t.Fatal(err)
			}
			mustFail(t, checkKeys(found["Keys"], keys), c.want)
			if len(found["Gates"]) != 1 || found["Gates"][0][0] != "held" {
				t.Errorf("gates %q", found["Gates"])
			}
		})
	}
	path := filepath.Join(t.TempDir(), "doc.go")
	if err := os.WriteFile(path, []byte("// Package p is p.\npackage p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readTables(path)
	mustFail(t, err, "no table under the heading Keys")
}

func TestHeadersAreChecked(t *testing.T) {
	spec, ok := all.Find(readlifecycle.Name)
	if !ok {
		t.Fatal("readlifecycle is not in the list")
	}
	ix := twoResults(t).Index
	for name, c := range map[string]struct{ header, value, want string }{
		"good zone":       {"zones", "read-0=covered bash-2=fresh", ""},
		"unknown zone":    {"zones", "read-0=warm", `zone "warm" is not known`},
		"unknown id":      {"held", "read-9", `header held: no candidate "read-9"`},
		"decided id":      {"decided", "read-0", ""},
		"good cut":        {"cut", "1..2 keep_human", ""},
		"cut of nothing":  {"cut", "all", "is no span of messages"},
		"cut too far":     {"cut", "1..6", "there are 7 messages"},
		"cut of a pair":   {"cut", "2..2", "parts a call from its result"},
		"good config":     {"config", "{min_tokens: 3, tools: [Read], marker_mode: off}", ""},
		"unknown key":     {"config", "{min_token: 3}", "min_token"},
		"wrong type":      {"config", "{min_tokens: many}", "min_tokens"},
		"no yaml mapping": {"config", "[", "header config"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &vector{File: &vectors.File{Header: map[string]string{c.header: c.value}}, spec: spec}
			_, err := v.settings()
			if err == nil {
				_, err = v.view(ix)
			}
			mustFail(t, err, c.want)
		})
	}
}

// Zones without headers: what stands after the last assistant message is fresh.
func TestViewDefaults(t *testing.T) {
	v := &vector{File: &vectors.File{Header: map[string]string{"held": "read-0", "closed": "edit-0", "decided": "bash-0"}}}
	view, err := v.view(twoResults(t).Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range view.Candidates {
		want := filters.Candidate{Result: c.Result, Zone: filters.Uncovered, Open: c.Result != 1, Held: c.Result == 0}
		if c.Result >= 6 {
			want.Zone = filters.Fresh
		}
		if c != want || c.Result == 2 {
			t.Errorf("candidate %+v, want %+v", c, want)
		}
	}
	if len(view.Candidates) != 8 {
		t.Errorf("%d candidates, want 8", len(view.Candidates))
	}
}

// What a cut leaves out is no candidate.
func TestViewWithACut(t *testing.T) {
	v := &vector{File: &vectors.File{Header: map[string]string{"cut": "1..2", "cut_gate": "prefix_bound"}}}
	view, err := v.view(twoResults(t).Index)
	if err != nil {
		t.Fatal(err)
	}
	if view.Cut == nil || *view.Cut != (filters.Cut{Next: 3}) || view.CutGate != filters.PrefixBound {
		t.Errorf("cut %+v, gate %q", view.Cut, view.CutGate)
	}
	if len(view.Candidates) != 6 || view.Candidates[0].Result != 3 {
		t.Errorf("candidates %+v", view.Candidates)
	}
}
