package filtertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// anID stands for the id of an original.
const anID = "0123456789abcdef01234567"

// markerForm is the first line of every marker.
var markerForm = regexp.MustCompile(`^\[tidemark [a-z][^\[\]:]*: [^\[\]]+ · [0-9]+ tokens left out of this transcript( · id [0-9a-f]{24})?\][^\[\]]*$`)

// checkSmaller carries out every replacement as the engine does and returns how many were carried out, cuts included. The error says what
// was wrong with one: the request must become smaller, the result by [filters.MinGain] tokens, and the model must read what
// the filter wrote.
func checkSmaller(v *filters.View, proposals []filters.Proposal) (carried int, err error) {
	for i := range proposals {
		p := &proposals[i]
		if p.Action == filters.Drop {
			carried++
		}
		if p.Action != filters.Replace || p.Mode == filters.Meter {
			continue
		}
		id := ""
		if p.Mode == filters.Full {
			id = anID
		}
		n, gate := p.Replacement(v.Index, filters.Back{ID: id})
		if gate != "" {
			continue
		}
		carried++
		if err := checkReplaced(v.Index, p, n.Content); err != nil {
			return carried, fmt.Errorf("replacement of result %d: %w", p.Result, err)
		}
	}
	return carried, nil
}

// checkGain returns an error if no vector that was run shows a cut, or a replacement that the engine would carry out.
func checkGain(list []*vector) error {
	if !slices.ContainsFunc(list, func(v *vector) bool { return v.carried > 0 }) {
		return errors.New("no vector shows a replacement that saves anything")
	}
	return nil
}

// checkReplaced reads the request with the replacement in it.
func checkReplaced(ix *transcript.Index, p *filters.Proposal, content []byte) error {
	span := ix.Results[p.Result].Content
	out := slices.Concat(ix.Body[:span.Lo], content, ix.Body[span.Hi:])
	if !json.Valid(out) || len(out) >= len(ix.Body) {
		return fmt.Errorf("%d bytes became %d", len(ix.Body), len(out))
	}
	now, err := transcript.Parse(out, ix.Format)
	if err != nil {
		return err
	}
	defer now.Release()
	if len(now.Results) != len(ix.Results) {
		return errors.New("results came or went")
	}
	before, after := ix.ResultText(&ix.Results[p.Result]), now.ResultText(&now.Results[p.Result])
	line, extra, _ := strings.Cut(after, "\n")
	switch {
	case transcript.Est(before)-transcript.Est(after) < filters.MinGain || len(after) >= len(before):
		return fmt.Errorf("a text of %d bytes became one of %d", len(before), len(after))
	case !markerForm.MatchString(line):
		return fmt.Errorf("%q is no marker", line)
	case extra != p.Extra:
		return fmt.Errorf("what follows the marker is %q and not %q", extra, p.Extra)
	}
	return nil
}
