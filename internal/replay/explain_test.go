package replay

import (
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
)

func TestExplain(t *testing.T) {
	p := policies(t, reads)[0]
	x, err := Explain(t.Context(), story0(t).write(), &p, 9, Provider{})
	if err != nil {
		t.Fatal(err)
	}
	if x.Outcome.Move == nil || x.Usage == nil || x.Usage.Write5m == 0 || x.Observation.MoveForecast <= 0 || x.Requests != 17 {
		t.Fatalf("got %+v", x)
	}
	if len(x.Markers) != 3 || x.Markers[0].Place != "system" || x.Markers[2].Place != "messages[19]" || x.Markers[2].TTL != 5*time.Minute {
		t.Errorf("breakpoints: %+v", x.Markers)
	}
	if len(x.Outcome.Explain) != 9 {
		t.Fatalf("%d verdicts", len(x.Outcome.Explain))
	}
	one, two := x.Outcome.Explain[0], x.Outcome.Explain[1]
	if one.Filter != "readlifecycle" || one.Verdict != "stale" || one.What != "/src/one.go" || one.Saves < 1000 || !one.Since.Equal(x.At) {
		t.Errorf("the stale read: %+v", one)
	}
	if two.Filter != "" || len(two.Gates) != 1 || two.Gates[0].Gate != filters.FreshRead || two.Zone != filters.Uncovered {
		t.Errorf("the fresh read: %+v", two)
	}
	// A turn later everything is cached, and the decision stands.
	x, err = Explain(t.Context(), story0(t).write(), &p, 10, Provider{})
	if err != nil {
		t.Fatal(err)
	}
	one, two = x.Outcome.Explain[0], x.Outcome.Explain[1]
	if one.Filter == "" || !one.Since.Before(x.At) || two.Zone != filters.Covered || two.Gates[0].Gate != filters.CachedPrefix {
		t.Errorf("got %+v and %+v", one, two)
	}
	if x.Held == 0 || x.Usage.Read != x.Held {
		t.Errorf("held %d, read %d", x.Held, x.Usage.Read)
	}
}

func TestExplainOfARequestThatIsNotThere(t *testing.T) {
	p := policies(t, reads)[0]
	for _, n := range []int{-1, 17} {
		if _, err := Explain(t.Context(), story0(t).write(), &p, n, Provider{}); err == nil {
			t.Errorf("request %d is explained", n)
		}
	}
}
