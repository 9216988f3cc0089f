package filtertest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
)

// checkView returns what is wrong with what a filter says of a view, nil if nothing is: it keeps the contract of package
// filters, is pure, obeys the common keys, and what it has replaced becomes smaller. Gates must be of the closed list. The
// proposals are in the order of the results.
func checkView(s settings, closed []filters.Gate, v *filters.View) ([]filters.Proposal, error) {
	f, err := s.filter()
	if err != nil {
		return nil, err
	}
	proposals := ask(f, v).proposals
	_, larger := checkSmaller(v, proposals)
	return proposals, errors.Join(checkContract(closed, v, proposals), checkPure(f, v), checkCommon(s, v), larger)
}

// answer is what a filter says of a view.
type answer struct {
	proposals []filters.Proposal // in the order of the results
	asked     []string           // what it asked the view's functions
}

// ask asks a filter about a view.
func ask(f filters.Filter, v *filters.View) (a answer) {
	w := *v
	if v.HoldPays != nil {
		w.HoldPays = func(result int32, turns int) bool {
			a.asked = append(a.asked, fmt.Sprint("hold_pays ", result, turns))
			return v.HoldPays(result, turns)
		}
	}
	if v.Summary != nil {
		w.Summary = func(result int32, by *filters.Summarizer, attempts int) (string, filters.Gate) {
			a.asked = append(a.asked, fmt.Sprintf("summary %d %+v %d", result, *by, attempts))
			return v.Summary(result, by, attempts)
		}
	}
	a.proposals = slices.Clone(f.Propose(&w))
	slices.SortStableFunc(a.proposals, func(a, b filters.Proposal) int { return int(a.Result - b.Result) })
	return a
}

// checkContract returns what is wrong with the proposals for a view, nil if they keep the contract of package filters.
func checkContract(closed []filters.Gate, v *filters.View, proposals []filters.Proposal) error {
	open := map[int32]filters.Candidate{}
	for _, c := range v.Candidates {
		if c.Open {
			open[c.Result] = c
		}
	}
	cut := false
	for i := range proposals {
		p := &proposals[i]
		if p.Result == filters.Transcript && !cut {
			cut = true
			if err := checkCut(v, p); err != nil {
				return err
			}
			continue
		}
		c, ok := open[p.Result]
		if !ok {
			return fmt.Errorf("result %d is no open candidate, or has a second proposal", p.Result)
		}
		delete(open, p.Result)
		if err := checkProposal(closed, p, c); err != nil {
			return fmt.Errorf("proposal for result %d: %w", p.Result, err)
		}
	}
	for result := range open {
		return fmt.Errorf("result %d is open and has no proposal", result)
	}
	return nil
}

// Words of proposals: a verdict is a label of metrics, a verb a part of a marker's line.
var (
	verdictForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	verbForm    = regexp.MustCompile(`^[a-z][^\[\]:·\pC]*$`)
)

// checkCut returns what is wrong with a proposal for the transcript as a whole.
func checkCut(v *filters.View, p *filters.Proposal) error {
	switch {
	case p.Action != filters.Drop || p.Cut == nil:
		return errors.New("a proposal for the transcript drops nothing")
	case v.CutGate != "":
		return fmt.Errorf("a cut against the gate %q", v.CutGate)
	case p.Cut.Head < 0 || p.Cut.Head >= p.Cut.Next || int(p.Cut.Next) >= len(v.Index.Messages) || !v.Index.Opens(p.Cut.Next):
		return fmt.Errorf("a cut from message %d to %d", p.Cut.Head, p.Cut.Next)
	}
	if _, ok := v.Index.Gap(p.Cut.Head, p.Cut.Next, p.Cut.KeepHuman); !ok {
		return errors.New("a cut leaves out nothing, or parts a call from its result")
	}
	return checkWords(p)
}

// checkWords returns what is wrong with what an action carries.
func checkWords(p *filters.Proposal) error {
	switch {
	case p.Action != filters.Hold && (!verdictForm.MatchString(p.Verdict) || !verbForm.MatchString(p.Verb)):
		return fmt.Errorf("an action without a verdict or a verb, or with words that are none: %q, %q", p.Verdict, p.Verb)
	case p.Gate != "":
		return fmt.Errorf("gate %q beside an action", p.Gate)
	case p.Mode == "":
		return errors.New("an action without a marker mode")
	}
	return nil
}

func checkProposal(closed []filters.Gate, p *filters.Proposal, c filters.Candidate) error {
	switch p.Action {
	case filters.None:
		if !slices.Contains(closed, p.Gate) {
			return fmt.Errorf("gate %q is not in the closed list", p.Gate)
		}
		return nil
	case filters.Hold:
		if c.Zone != filters.Fresh || c.Held {
			return errors.New("hold of a result that is not seen for the first time")
		}
	case filters.Replace:
		if p.Lesser != "" && !slices.Contains(closed, p.Lesser) {
			return fmt.Errorf("gate %q of a lesser replacement is not in the closed list", p.Lesser)
		}
	case filters.Drop:
		return errors.New("a result is dropped")
	default:
		return fmt.Errorf("action %d is not known", p.Action)
	}
	return checkWords(p)
}

// checkPure returns how a filter is not a pure function of the view (invariant 16), nil if asking twice gives the same
// proposals, asking for the candidates in reverse gives the same ones in any order, and neither changes the view.
func checkPure(f filters.Filter, v *filters.View) error {
	body, candidates, turn := bytes.Clone(v.Index.Body), slices.Clone(v.Candidates), v.Turn
	first := slices.Clone(f.Propose(v))
	second := f.Propose(v)
	if !slices.EqualFunc(first, second, same) {
		return fmt.Errorf("asked twice: %v, then %v", first, second)
	}
	if !bytes.Equal(body, v.Index.Body) || !slices.Equal(candidates, v.Candidates) || turn != v.Turn {
		return errors.New("the view was changed")
	}
	back := *v
	back.Candidates = slices.Clone(v.Candidates)
	slices.Reverse(back.Candidates)
	if a, b := ask(f, v), ask(f, &back); !slices.EqualFunc(a.proposals, b.proposals, same) {
		return fmt.Errorf("candidates in reverse: %v\ninstead of: %v", b.proposals, a.proposals)
	}
	return nil
}

func same(a, b filters.Proposal) bool { return reflect.DeepEqual(a, b) }
