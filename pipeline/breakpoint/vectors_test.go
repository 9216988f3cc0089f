package breakpoint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
)

// gates are the words of the vectors for reasons not to hold.
var gates = map[breakpoint.HoldGate]string{
	breakpoint.CanHold: "", breakpoint.NoMarker: "no_breakpoint", breakpoint.NoAnchor: "no_breakpoint",
	breakpoint.NestedMarker: "nested_breakpoint", breakpoint.Automatic: "automatic_caching",
}

// TestVectors plays testdata/lifecycle/breakpoint: a read is held where that is possible, and the outbound's markers stand
// where the case says.
func TestVectors(t *testing.T) {
	cases, err := vectors.Breakpoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			ix := parse(t, c.Body)
			in := breakpoint.Input{Index: ix, Frontier: -1}
			gate := ""
			for _, at := range c.Held {
				n := seq(t, ix, at.String())
				if g := gates[breakpoint.CanHoldAt(ix, nil, n)]; g != "" {
					gate = g
				} else {
					in.Held = append(in.Held, n)
				}
			}
			if gate != c.Gate {
				t.Errorf("gate %q, want %q", gate, c.Gate)
			}
			plan, err := breakpoint.Decide(&in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Markers, vectors.Markers(apply(c.Body, plan.Edits))); diff != "" {
				t.Errorf("%s\n%s", c.Shows, diff)
			}
		})
	}
}
