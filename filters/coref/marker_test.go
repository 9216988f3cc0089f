package coref_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
)

// Whether a result was never used or was used and that is over, the filter puts the same into its marker: a verb, and how the
// content begins. It claims nothing about references, as a value that the model reworded leaves none.
func TestMarkerClaimsNothingOfUse(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		c, s := drawConfig(rt), drawExchanges(rt)
		ix := parse(t, messages(s))
		defer ix.Release()
		v := &filters.View{Index: ix, Turn: ix.LastTurn()}
		for i := range ix.Results {
			v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Open: true})
		}
		for _, p := range build(t, c).Propose(v) {
			if p.Action != filters.Replace {
				continue
			}
			seen[p.Verdict]++
			if p.Verb != "compacted" || p.Extra != "" && !strings.HasPrefix(p.Extra, "starts: ") {
				rt.Fatalf("a marker under verdict %s: %+v", p.Verdict, p)
			}
		}
	})
	if seen[coref.Unreferenced] == 0 || seen[coref.Closed] == 0 {
		t.Errorf("the sessions prove nothing: %v", seen)
	}
}
