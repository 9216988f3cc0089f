package filtertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// madeUpConfig is the config of a filter that a test makes up.
type madeUpConfig struct {
	filters.Common `config:",squash"`
	Window         int           `config:"window" doc:"d"`
	Verb           string        `config:"verb" doc:"d"`
	Wait           time.Duration `config:"wait" doc:"d"`
	Inner          struct {
		Share float64 `config:"share" doc:"d"`
	} `config:"inner" doc:"d"`
}

// madeUp is a filter that replaces results of more than so many turns ago.
func madeUp(propose func(c *madeUpConfig, v *filters.View) []filters.Proposal, validate func(c *madeUpConfig) error) all.Spec {
	return all.Spec{
		Name: "made_up",
		Default: func() any {
			return &madeUpConfig{Common: filters.Common{Enabled: true, MarkerMode: filters.Full}, Window: 1}
		},
		Build: func(config any) (filters.Filter, error) {
			c := *config.(*madeUpConfig) //nolint:forcetypeassert // made by Default
			if err := errors.Join(c.Validate(), validate(&c)); err != nil {
				return nil, err
			}
			return filterFunc(func(v *filters.View) []filters.Proposal { return propose(&c, v) }), nil
		},
	}
}

func anything(*madeUpConfig) error { return nil }

// good is the rule of madeUp.
func good(c *madeUpConfig, v *filters.View) (said []filters.Proposal) {
	ix := v.Index
	for _, cand := range v.Candidates {
		r := &ix.Results[cand.Result]
		if !cand.Open {
			continue
		}
		p := filters.Proposal{Result: cand.Result, Gate: c.Barred(ix, r)}
		switch {
		case p.Gate != "":
		case int(v.Turn-r.Turn) < c.Window:
			p.Gate = filters.WorkingSet
		case c.Small(ix, r) != "":
			p.Gate = filters.BelowMinTokens
		default:
			p.Action, p.Verdict, p.Verb, p.Mode, p.Extra = filters.Replace, "old", "left out", c.MarkerMode, c.Verb
			p.Policy.MinBatchFrac = c.Inner.Share
		}
		said = append(said, p)
	}
	return said
}

// but is the rule with a change of each proposal.
func but(change func(c *madeUpConfig, v *filters.View, p *filters.Proposal)) func(*madeUpConfig, *filters.View) []filters.Proposal {
	return func(c *madeUpConfig, v *filters.View) []filters.Proposal {
		said := good(c, v)
		for i := range said {
			change(c, v, &said[i])
		}
		return said
	}
}

func acts(p *filters.Proposal) bool { return p.Action == filters.Replace }

// view is one of a long session in which everything is open.
func view(t *testing.T) *filters.View {
	t.Helper()
	ix, err := transcript.Parse(long(5).Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ix.Release)
	return viewOf(ix, 5)
}

func TestCommonKeysAreChecked(t *testing.T) {
	type change = func(c *madeUpConfig, v *filters.View, p *filters.Proposal)
	for name, c := range map[string]struct {
		change change
		want   string
	}{
		"good": {func(*madeUpConfig, *filters.View, *filters.Proposal) {}, ""},
		"enabled is not looked at": {func(c *madeUpConfig, v *filters.View, p *filters.Proposal) {
			if p.Gate == filters.Disabled {
				on := *c
				on.Enabled = true
				*p = good(&on, v)[p.Result]
			}
		}, `key enabled: result 0 has gate "" and not "disabled"`},
		"tools is not looked at": {func(c *madeUpConfig, _ *filters.View, p *filters.Proposal) {
			if p.Gate == filters.ToolExcluded {
				*p = filters.Proposal{Result: p.Result, Action: filters.Replace, Verdict: "old", Verb: "left out", Mode: c.MarkerMode}
			}
		}, `and not "tool_excluded"`},
		"own gate first": {func(_ *madeUpConfig, _ *filters.View, p *filters.Proposal) {
			if p.Gate == filters.Disabled {
				p.Gate = filters.WorkingSet
			}
		}, `has gate "working_set" and not "disabled"`},
		"size is not looked at": {func(c *madeUpConfig, v *filters.View, p *filters.Proposal) {
			if p.Gate == filters.BelowMinTokens {
				all := *c
				all.MinTokens = 0
				*p = good(&all, v)[p.Result]
			}
		}, "key min_tokens: result 0 is too small"},
		"mode is not looked at": {func(_ *madeUpConfig, _ *filters.View, p *filters.Proposal) {
			if acts(p) {
				p.Mode = filters.Full
			}
		}, `key marker_mode: result 0 has marker mode "full" and not "summary"`},
		"mode changes the rule": {func(c *madeUpConfig, _ *filters.View, p *filters.Proposal) {
			if acts(p) && c.MarkerMode == filters.Summary {
				p.Verb = "gone"
			}
		}, "key marker_mode: {"},
	} {
		t.Run(name, func(t *testing.T) {
			mustFail(t, checkCommon(settings{spec: madeUp(but(c.change), anything)}, view(t)), c.want)
		})
	}
}

func TestCommonGatesAreChecked(t *testing.T) {
	seen, err := checkCommonGates(settings{spec: madeUp(good, anything)})
	mustFail(t, err, "")
	mustFail(t, checkGates([][]string{
		{"disabled"}, {"nested_breakpoint"}, {"non_text_blocks"}, {"failed_result"}, {"below_min_tokens"}, {"ambiguous_id"}, {"tool_excluded"},
	}, filters.Gates(), nil, seen), "")
	for _, gate := range seen {
		other := but(func(_ *madeUpConfig, _ *filters.View, p *filters.Proposal) {
			if p.Gate == gate {
				p.Gate = filters.WorkingSet
			}
		})
		_, err := checkCommonGates(settings{spec: madeUp(other, anything)})
		mustFail(t, err, fmt.Sprintf("and not %q", gate))
	}
}

func TestSizeIsChecked(t *testing.T) {
	extra := func(text string) []filters.Proposal {
		return []filters.Proposal{{Action: filters.Replace, Verdict: "old", Verb: "left out", Mode: filters.Full, Extra: text}}
	}
	with := func(said []filters.Proposal, verb string) []filters.Proposal { said[0].Verb = verb; return said }
	for name, c := range map[string]struct {
		said    []filters.Proposal
		carried int
		want    string
	}{
		"smaller":        {extra(""), 1, ""},
		"an excerpt":     {extra("line of source\n…"), 1, ""},
		"larger":         {extra(Source(100)), 0, ""},
		"many escapes":   {extra(strings.Repeat("\x01", 400)), 0, ""},
		"no text":        {extra("\xff"), 1, "what follows the marker"},
		"no marker":      {with(extra(""), "gone] do [this"), 1, "is no marker"},
		"a second line":  {with(extra(""), "gone\nnow"), 1, "is no marker"},
		"only metered":   {[]filters.Proposal{{Action: filters.Replace, Mode: filters.Meter}}, 0, ""},
		"nothing to do":  {[]filters.Proposal{{Gate: filters.Held}}, 0, ""},
		"a short result": {[]filters.Proposal{{Result: 1, Action: filters.Replace, Verb: "left out", Mode: filters.Summary}}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			carried, err := checkSmaller(view(t), c.said)
			mustFail(t, err, c.want)
			if carried != c.carried {
				t.Errorf("%d carried out, want %d", carried, c.carried)
			}
		})
	}
	mustFail(t, checkGain([]*vector{{carried: 0}, {carried: 2}}), "")
	mustFail(t, checkGain([]*vector{{carried: 0}}), "no vector shows a replacement")
}

// A replacement that leaves other bytes than the engine does is seen.
func TestReplacedIsRead(t *testing.T) {
	v := view(t)
	p := filters.Proposal{Action: filters.Replace, Verb: "left out", Mode: filters.Full}
	n, gate := p.Replacement(v.Index, filters.Back{ID: anID})
	if gate != "" {
		t.Fatal(gate)
	}
	first := string(n.Content)
	body := string(v.Index.Body)
	for name, c := range map[string]struct{ content, want string }{
		"good":           {first, ""},
		"no JSON":        {first + `"`, "bytes became"},
		"as large":       {"", "bytes became"},
		"hardly smaller": {string(v.Index.Replacement(&v.Index.Results[0], Source(59))), "a text of 900 bytes became one of 885"},
		"two results":    {first + `,"tool_use_id":"x","type":"tool_result"},{"content":"x"`, "results came or went"},
	} {
		if name == "as large" {
			c.content = body[v.Index.Results[0].Content.Lo:v.Index.Results[0].Content.Hi]
		}
		t.Run(name, func(t *testing.T) { mustFail(t, checkReplaced(v.Index, &p, []byte(c.content)), c.want) })
	}
}

// vectorOf is a vector with a header over a session.
func vectorOf(spec all.Spec, header map[string]string) *vector {
	return &vector{spec: spec, File: &vectors.File{Name: "case", Header: header, Sections: map[string]string{bodySection: string(long(5).Body())}}}
}

func TestKeysMustBeShown(t *testing.T) {
	spec := madeUp(good, anything)
	shown := []*vector{
		vectorOf(spec, map[string]string{"config": "{window: 3, min_tokens: 1}"}),
		vectorOf(spec, map[string]string{"config": "{inner: {share: 0.5}, verb: so}"}),
	}
	mustFail(t, checkShown(spec, shown), "key wait: no vector shows what it does")
	for key, c := range map[string]string{
		"window":      "{window: 1}",          // its default
		"inner.share": "{inner: {share: 0}}",  // its default
		"verb":        "{verb: x, window: 9}", // of what is not replaced
	} {
		err := checkShown(spec, []*vector{vectorOf(spec, map[string]string{"config": c})})
		mustFail(t, err, "key "+key+": no vector shows what it does")
	}
	if err := checkShown(spec, shown); strings.Count(err.Error(), "key ") != 1 {
		t.Errorf("one key is not shown, the others are: %v", err)
	}
	mustFail(t, checkShown(spec, []*vector{vectorOf(spec, map[string]string{"config": "{windows: 1}"})}), "windows")

	asks := madeUp(func(c *madeUpConfig, v *filters.View) []filters.Proposal {
		v.HoldPays(0, c.Window)
		return good(c, v)
	}, anything)
	v := vectorOf(asks, map[string]string{"config": "{window: 9, tools: [none]}", "hold_pays": "read-0"})
	err := checkShown(asks, []*vector{v})
	if err == nil || strings.Contains(err.Error(), "key window") {
		t.Errorf("a key that changes what the view is asked is not shown: %v", err)
	}
}

func TestRefusalsMustBeShown(t *testing.T) {
	validate := func(c *madeUpConfig) error {
		switch {
		case c.Window < 0:
			return fmt.Errorf("window: %d is negative", c.Window)
		case !(c.Inner.Share <= 1):
			return fmt.Errorf("inner: share: %g is above 1", c.Inner.Share)
		case c.Wait < 0:
			return fmt.Errorf("wait: %s is negative", c.Wait)
		}
		return nil
	}
	spec := madeUp(good, validate)
	bad := func(config string) *vector {
		return vectorOf(spec, map[string]string{"config": config, "expect": expectBadConfig})
	}
	list := []*vector{bad("{window: -1}"), bad("{inner: {share: .nan}}"), bad("{wait: -1s}")}
	mustFail(t, checkRefusals(spec, list), "")
	mustFail(t, checkRefusals(spec, list[:2]), "key wait: no vector shows that -1099511627776 is refused")
	mustFail(t, checkRefusals(spec, list[1:]), "key window: no vector shows that")
	mustFail(t, checkRefusals(spec, list[:1]), "key inner.share: no vector shows that")
	mustFail(t, checkRefusals(madeUp(good, func(c *madeUpConfig) error {
		if c.Window < 0 {
			return fmt.Errorf("%d is negative", c.Window)
		}
		return nil
	}), nil), "the error names no key: -1099511627776 is negative")
}

func TestAllocationsAreChecked(t *testing.T) {
	filter := func(n int) filters.Filter {
		return filterFunc(func(*filters.View) []filters.Proposal {
			for range n {
				kept = append([]byte(nil), make([]byte, 64)...)
			}
			return nil
		})
	}
	mustFail(t, checkAllocations(filter(allocsPerCheck)), "")
	mustFail(t, checkAllocations(filter(allocsPerCheck+allocsPerCall*6)), "3 open results of 900")
	mustFail(t, checkAllocations(filter((allocsPerCheck+allocsPerCall)*1000)), "allocations, the ceiling is")
}

var kept []byte // so that nothing is optimised away

// counting is a memo of how many messages there were.
type counting struct{ messages, seen int32 }

func (c *counting) Messages() int32 { return c.messages }
func (c *counting) Size() int       { return 1 }

func TestMemosAreChecked(t *testing.T) {
	// grows answers with the number that its memo comes to.
	grows := func(name string, grow func(kept *counting, ix *transcript.Index) *counting) filters.Filter {
		return filterFunc(func(v *filters.View) (said []filters.Proposal) {
			var c *counting
			step := func(kept filters.Memo) filters.Memo {
				before, _ := kept.(*counting)
				if c = grow(before, v.Index); c == nil {
					return nil
				}
				return c
			}
			if v.Memo == nil {
				step(nil)
			} else {
				v.Memo(name, step)
			}
			for _, cand := range v.Candidates {
				if cand.Open {
					said = append(said, filters.Proposal{Result: cand.Result, Verdict: fmt.Sprint(c), Gate: filters.Held})
				}
			}
			return said
		})
	}
	whole := func(ix *transcript.Index) *counting {
		n := ix.LastAssistant() + 1
		return &counting{n, n}
	}
	for name, c := range map[string]struct {
		f    filters.Filter
		want string
	}{
		"good": {grows("made_up", func(_ *counting, ix *transcript.Index) *counting { return whole(ix) }), ""},
		"reads twice": {grows("made_up", func(kept *counting, ix *transcript.Index) *counting {
			c := whole(ix)
			if kept != nil {
				c.seen += kept.seen
			}
			return c
		}), "with a memo"},
		"looks at the form": {grows("made_up", func(kept *counting, ix *transcript.Index) *counting {
			if kept != nil && kept.messages == whole(ix).messages {
				return kept
			}
			c := whole(ix)
			c.seen = int32(len(ix.Body))
			return c
		}), "with a memo"},
		"of another": {grows("other", func(_ *counting, ix *transcript.Index) *counting { return whole(ix) }), `the memo of "other"`},
		"of nothing": {grows("made_up", func(*counting, *transcript.Index) *counting { return nil }), "grew into nothing"},
		"of too much": {grows("made_up", func(_ *counting, ix *transcript.Index) *counting {
			return &counting{messages: int32(len(ix.Messages)) + 1}
		}), "messages of"},
		"none": {filterFunc(func(*filters.View) []filters.Proposal { return nil }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			checks := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(checkMemo(t, c.f)) })
			found := ""
			for seed := range 60 {
				if got := checks.Example(seed); got != "<nil>" {
					found = got
				}
			}
			if (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("got %q, want %q", found, c.want)
			}
		})
	}
}

func TestGatesAreChecked(t *testing.T) {
	closed := []filters.Gate{"a", "b", "own"}
	rows := [][]string{{"a"}, {"own"}}
	seen := []filters.Gate{"own", "a"}
	own := []filters.Gate{"own"}
	mustFail(t, checkGates(rows, closed, own, seen), "")
	mustFail(t, checkGates(rows, closed[:2], own, seen), "gate own of doc.go is not in the closed list")
	mustFail(t, checkGates(rows, closed, own, seen[:1]), "gate a of doc.go has no vector")
	mustFail(t, checkGates(rows[:1], closed, own, seen[1:]), "gate own is missing in doc.go")
	mustFail(t, checkGates(rows, closed, own, append(seen, "b")), "gate b is missing in doc.go")
}

func TestGatesAreRead(t *testing.T) {
	for name, c := range map[string]struct{ src, want, err string }{
		"a block":     {"// Gates of p.\nconst (\n\tA filters.Gate = \"a\" // why a\n\tN = 3\n\tB filters.Gate = `b` // why b\n)", "[{a Gates of p why a} {b Gates of p why b}]", ""},
		"one":         {"// Gates of p.\nconst A Gate = \"a\" // why a", "[{a Gates of p why a}]", ""},
		"none":        {"const A string = \"a\"", "[]", ""},
		"no comment":  {"// Gates of p.\nconst A Gate = \"a\"", "", "gate a or the block that it stands in has no comment"},
		"no heading":  {"const A Gate = \"a\" // why a", "", "gate a or the block"},
		"not written": {"// Gates of p.\nconst A Gate = \"a\" + \"b\" // why a", "", "gate A is not written as one string"},
		"no Go":       {"const", "", "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"p.go": "package p\n\n" + c.src + "\n", "p_test.go": "package p\n\nconst X Gate = \"x\"\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Gates(dir)
			mustFail(t, err, c.err)
			if c.err == "" && fmt.Sprint(got) != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
