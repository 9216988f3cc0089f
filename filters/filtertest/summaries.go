package filtertest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
)

// summariesOf reads id=text and id=gate pairs. A text stands in double quotes, as in Go.
func summariesOf(line string) (texts map[string]string, gates map[string]filters.Gate, err error) {
	texts, gates = map[string]string{}, map[string]filters.Gate{}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		id, value, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(id, " \"") {
			return nil, nil, fmt.Errorf("header summaries: %q is no id=text or id=gate", rest)
		}
		quoted, err := strconv.QuotedPrefix(value)
		if err != nil {
			gate, more, _ := strings.Cut(value, " ")
			gates[id], rest = filters.Gate(gate), more
			continue
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, nil, fmt.Errorf("header summaries: %s: %w", id, err)
		}
		texts[id], rest = text, value[len(quoted):]
	}
	return texts, gates, nil
}

// summaries is the view's function by the header; nil without it. Of a result that the header does not name no summary is ready.
func (v *vector) summaries(of map[string]int, candidates []filters.Candidate) (func(int32, *filters.Summarizer, int) (string, filters.Gate), error) {
	line, ok := v.Header["summaries"]
	if !ok {
		return nil, nil
	}
	texts, gates, err := summariesOf(line)
	if err != nil {
		return nil, err
	}
	ready, why := map[int32]string{}, map[int32]filters.Gate{}
	find := func(id string) (int32, error) {
		if n, ok := of[id]; ok {
			return candidates[n].Result, nil
		}
		return 0, fmt.Errorf("header summaries: no candidate %q", id)
	}
	for id, text := range texts {
		r, err := find(id)
		if err != nil {
			return nil, err
		}
		ready[r] = text
	}
	for id, gate := range gates {
		r, err := find(id)
		if err != nil {
			return nil, err
		}
		why[r] = gate
	}
	return func(result int32, _ *filters.Summarizer, _ int) (string, filters.Gate) {
		switch text, ok := ready[result]; {
		case ok:
			return text, ""
		case why[result] != "":
			return "", why[result]
		}
		return "", filters.NoSummary
	}, nil
}
