package filtertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// checkCommon returns which of the keys that filters have in common does not do what it says for a view, nil if all do. What
// [filters.Common.Barred] bars has that gate before any of the filter's own.
func checkCommon(s settings, v *filters.View) error {
	before, keys, err := s.answer(v)
	if err != nil {
		return err
	}
	if err := checkBarred(v, keys, before); err != nil {
		return err
	}
	for _, k := range s.spec.Keys() {
		var value any
		var check func(after []filters.Proposal) error
		switch k.Name {
		case enabledKey:
			value, check = false, checkDisabled
		case toolsKey:
			value = excludes(v, keys, before)
		case minKey:
			value, check = 1<<30, func(after []filters.Proposal) error { return checkNothingActs(v, after) }
		case modeKey:
			value, check = string(filters.Summary), func(after []filters.Proposal) error { return checkOnlyMode(before, after) }
		default:
			continue
		}
		after, changed, err := s.with(k.Name, value).answer(v)
		if err == nil {
			err = checkBarred(v, changed, after)
		}
		if err == nil && check != nil {
			err = check(after)
		}
		if err != nil {
			return fmt.Errorf("key %s: %w", k.Name, err)
		}
	}
	return nil
}

// answer is what the filter says, and its common keys.
func (s settings) answer(v *filters.View) (said []filters.Proposal, keys *filters.Common, err error) {
	f, err := s.filter()
	if err != nil {
		return nil, nil, err
	}
	keys, err = s.common()
	return ask(f, v).proposals, keys, err
}

// excludes is the value of tools that leaves out the tool of the first result that is acted on too.
func excludes(v *filters.View, keys *filters.Common, proposals []filters.Proposal) (globs []string) {
	globs = slices.Clone(keys.Tools)
	for i := range proposals {
		if p := &proposals[i]; p.Action != filters.None && p.Result != filters.Transcript {
			if r := &v.Index.Results[p.Result]; r.Call >= 0 {
				if name := v.Index.ToolName(&v.Index.Calls[r.Call]); name != "" && !strings.ContainsAny(name, `*?[\`) {
					return append(globs, "!"+name)
				}
			}
		}
	}
	return globs
}

// checkBarred wants the gates of the common keys where there are any, and their marker mode.
func checkBarred(v *filters.View, keys *filters.Common, proposals []filters.Proposal) error {
	for i := range proposals {
		p := &proposals[i]
		if keys == nil || p.Result == filters.Transcript {
			continue
		}
		gate := keys.Barred(v.Index, &v.Index.Results[p.Result])
		switch {
		case gate != "" && p.Gate != gate:
			return fmt.Errorf("result %d has gate %q and not %q of the common keys", p.Result, p.Gate, gate)
		case p.Action != filters.None && p.Mode != keys.MarkerMode:
			return fmt.Errorf("result %d has marker mode %q and not %q", p.Result, p.Mode, keys.MarkerMode)
		}
	}
	return nil
}

func checkDisabled(proposals []filters.Proposal) error {
	for i := range proposals {
		if p := &proposals[i]; p.Gate != filters.Disabled {
			return fmt.Errorf("result %d has gate %q and not %q", p.Result, p.Gate, filters.Disabled)
		}
	}
	return nil
}

// checkNothingActs wants that no result is large enough. One that is held was large enough when its hold began.
func checkNothingActs(v *filters.View, proposals []filters.Proposal) error {
	for i := range proposals {
		p := &proposals[i]
		held := slices.ContainsFunc(v.Candidates, func(c filters.Candidate) bool { return c.Result == p.Result && c.Held })
		if p.Action != filters.None && !held {
			return fmt.Errorf("result %d is too small and not left alone", p.Result)
		}
	}
	return nil
}

// checkOnlyMode wants that a filter whose mode was full says the same with the mode summary.
func checkOnlyMode(before, after []filters.Proposal) error {
	for i := range min(len(before), len(after)) {
		want := before[i]
		if want.Mode != "" && want.Mode != filters.Full || want.Gate == filters.MeterOnly {
			return nil
		}
		if want.Mode == filters.Full {
			want.Mode = filters.Summary
		}
		if !same(want, after[i]) {
			return fmt.Errorf("%+v became %+v", before[i], after[i])
		}
	}
	return nil
}

// checkCommonGates asks a filter about a session in which every gate of its common keys stands, and returns these gates.
func checkCommonGates(s settings) ([]filters.Gate, error) {
	read := func(id string, a Answer) Call {
		return Call{ID: id, Tool: "Read", Input: Input{"file_path": "/w/" + id}, Answer: &a}
	}
	text := Source(200)
	session := slices.Concat(Session{{Calls: []Call{
		read("nested", Answer{Text: text, Shape: Nested}), read("image", Answer{Text: text, Shape: Image}),
		read("error", Answer{Text: text, Error: true}), read("empty", Answer{Shape: Empty}),
		read("twice", Answer{Text: text}), read("twice", Answer{Text: text}),
		{ID: "left", Tool: "Left", Input: Input{}, Answer: &Answer{Text: text}},
	}}}, long(30))
	want := map[string]filters.Gate{
		"nested": filters.NestedBreakpoint, "image": filters.NonTextBlocks, "error": filters.FailedResult,
		"empty": filters.BelowMinTokens, "twice": filters.AmbiguousID, "left": filters.ToolExcluded,
	}
	ix, err := transcript.Parse(session.Body(), transcript.Anthropic)
	if err != nil {
		return nil, err
	}
	defer ix.Release()
	v := viewOf(ix, ix.LastTurn()+1)
	var seen []filters.Gate
	keys, err := s.common()
	if err != nil {
		return nil, err
	}
	for _, enabled := range []bool{true, false} {
		s := s.with(enabledKey, enabled)
		if keys != nil {
			s = s.with(toolsKey, []string{"!Left"})
		}
		said, _, err := s.answer(v)
		if err != nil {
			return nil, err
		}
		for i := range said {
			id := ix.CallID(&ix.Results[said[i].Result])
			gate, known := want[id]
			switch {
			case !enabled:
				gate, known = filters.Disabled, true
			case keys == nil:
				known = false
			}
			if known && said[i].Gate != gate {
				return nil, fmt.Errorf("result %s has gate %q and not %q", id, said[i].Gate, gate)
			}
			if known {
				seen = append(seen, gate)
			}
		}
	}
	return seen, nil
}
