package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestIdentifiers(t *testing.T) {
	got := identifiers([]byte(`"see\nparseBody in ./src/main.go:12, the Words of HTTP, err_code 123456 42 a1 parseBody"`))
	if want := []string{"parseBody", "src/main.go:12", "err_code", "123456"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Whatever a name is, it is found once between JSON's punctuation and escapes, and is never a piece of an escape.
func TestIdentifiersInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{2,8}_[a-z]{2,8}`).Draw(t, "name")
		around := rapid.SampledFrom([]string{`"%s"`, `"x\n%s\ty"`, `"\"%s\""`, `"a\\%s b %[1]s"`, `{"k":"%s,%[1]s"}`}).Draw(t, "around")
		if got := identifiers(fmt.Appendf(nil, around, name)); !slices.Equal(got, []string{name}) {
			t.Fatalf("%s: got %q", fmt.Sprintf(around, name), got)
		}
	})
}

func TestWhoIntroducedWhat(t *testing.T) {
	rec := story0(t).write()
	s := newStory()
	for n := range rec.Requests {
		s.read(n, &rec.Requests[n], rec.Requests[n].Body())
	}
	if !slices.Contains(s.introduced["toolu_1"], "alphaCounter") || !slices.Contains(s.introduced["toolu_2"], "betaCounter") {
		t.Errorf("got %q and %q", s.introduced["toolu_1"], s.introduced["toolu_2"])
	}
	last := "toolu_16"
	if slices.Contains(s.introduced[last], "alphaCounter") {
		t.Error("what was known is introduced again")
	}
	if s.path["toolu_1"] != "/src/one.go" || s.path["toolu_3"] != "" {
		t.Errorf("paths: %v", s.path)
	}
	for n, said := range s.said {
		if said.used["alphaCounter"] != (n == 15) {
			t.Errorf("request %d: used %v", n, said.used)
		}
	}
}
