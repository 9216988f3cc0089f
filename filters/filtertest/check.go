package filtertest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
)

// checkContract returns what is wrong with the proposals for a view, nil if they keep the contract of package filters.
func checkContract(v *filters.View, proposals []filters.Proposal) error {
	open := map[int32]filters.Candidate{}
	for _, c := range v.Candidates {
		if c.Open {
			open[c.Result] = c
		}
	}
	for i := range proposals {
		p := &proposals[i]
		c, ok := open[p.Result]
		if !ok {
			return fmt.Errorf("result %d is no open candidate, or has a second proposal", p.Result)
		}
		delete(open, p.Result)
		if err := checkProposal(p, c); err != nil {
			return fmt.Errorf("proposal for result %d: %w", p.Result, err)
		}
	}
	for result := range open {
		return fmt.Errorf("result %d is open and has no proposal", result)
	}
	return nil
}

func checkProposal(p *filters.Proposal, c filters.Candidate) error {
	switch p.Action {
	case filters.None:
		if !slices.Contains(filters.Gates(), p.Gate) {
			return fmt.Errorf("gate %q is not in the closed list", p.Gate)
		}
		return nil
	case filters.Hold:
		if c.Zone != filters.Fresh || c.Held {
			return errors.New("hold of a result that is not seen for the first time")
		}
	case filters.Replace:
		if p.Verdict == "" || p.Verb == "" {
			return errors.New("replace without a verdict or a verb")
		}
	default:
		return fmt.Errorf("action %d is not known", p.Action)
	}
	if p.Gate != "" {
		return fmt.Errorf("gate %q beside an action", p.Gate)
	}
	if p.Mode == "" {
		return errors.New("an action without a marker mode")
	}
	return nil
}

// checkPure returns how a filter is not a pure function of the view, nil if asking twice gives the same proposals, asking
// for the candidates in reverse gives the same ones in any order, and neither changes the view.
func checkPure(f filters.Filter, v *filters.View) error {
	body, candidates, turn := bytes.Clone(v.Index.Body), slices.Clone(v.Candidates), v.Turn
	first := slices.Clone(f.Propose(v))
	second := f.Propose(v)
	if !reflect.DeepEqual(first, second) {
		return fmt.Errorf("asked twice: %v, then %v", first, second)
	}
	if !bytes.Equal(body, v.Index.Body) || !slices.Equal(candidates, v.Candidates) || turn != v.Turn {
		return errors.New("the view was changed")
	}
	back := *v
	back.Candidates = slices.Clone(v.Candidates)
	slices.Reverse(back.Candidates)
	third := f.Propose(&back)
	if a, b := render(v.Index, first), render(v.Index, third); a != b {
		return fmt.Errorf("candidates in reverse: %s\ninstead of: %s", b, a)
	}
	return nil
}
