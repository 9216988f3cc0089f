package tiered_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// asked lists the calls whose summaries the filter asks for, in that order, while nothing but the newest turn is open. After
// so many answers the attempts are spent.
func asked(t *testing.T, c tiered.Config, s filtertest.Session, left int) (calls []string) {
	t.Helper()
	f, err := tiered.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	v := &filters.View{Index: ix, Turn: ix.LastTurn()}
	for i := range ix.Results {
		newest := ix.Results[i].Turn == v.Turn
		v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Zone: filters.Covered, Open: newest})
	}
	v.Summary = func(result int32, by *filters.Summarizer, attempts int) (string, filters.Gate) {
		if *by != c.Summarizer || attempts != c.MaxAttempts {
			t.Errorf("asked %+v for %d attempts", by, attempts)
		}
		calls = append(calls, strings.Clone(ix.CallID(&ix.Results[result])))
		if left--; left < 0 {
			return "", filters.AttemptsSpent
		}
		return "", filters.NoSummary
	}
	for _, p := range f.Propose(v) {
		if p.Action != filters.None {
			t.Errorf("%+v of what the provider holds or the model has not seen", p)
		}
	}
	return calls
}

// A result that is open and old enough is asked for as it is decided, and not a second time.
func TestSummariesAreAskedForOnce(t *testing.T) {
	f, err := tiered.New(summarizing())
	if err != nil {
		t.Fatal(err)
	}
	call := filtertest.Call{Tool: "Bash", Input: filtertest.Input{"command": "go test"}, Answer: &filtertest.Answer{Text: filtertest.Source(200)}}
	ix, err := transcript.Parse(turnsOf(30, call).Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	v, times := &filters.View{Index: ix, Turn: ix.LastTurn()}, map[int32]int{}
	for i := range ix.Results {
		v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Zone: filters.Uncovered, Open: true})
	}
	v.Summary = func(result int32, _ *filters.Summarizer, _ int) (string, filters.Gate) {
		times[result]++
		return "", filters.NoSummary
	}
	f.Propose(v)
	for result, n := range times {
		if n > 1 {
			t.Errorf("result %d is asked for %d times", result, n)
		}
	}
	if len(times) != 14 {
		t.Errorf("%d results are asked for, want those from 6 to 19 turns old", len(times))
	}
}

func summarizing() tiered.Config {
	c := tiered.Default()
	c.Summarizer.URL, c.Summarizer.Model = "https://models.example/v1/messages", "small"
	return c
}

// turnsOf is a session in which every turn makes the same call.
func turnsOf(n int, call filtertest.Call) (s filtertest.Session) {
	for i := range n {
		c := call
		c.ID = fmt.Sprint(n - 1 - i) // by its distance
		s = append(s, filtertest.Turn{Calls: []filtertest.Call{c}})
	}
	return s
}

// Summaries are asked for from two turns before window up to stub_distance, the newest first, while attempts are left.
func TestSummariesArePreparedAhead(t *testing.T) {
	test := filtertest.Call{Tool: "Bash", Input: filtertest.Input{"command": "go test"}, Answer: &filtertest.Answer{Text: filtertest.Source(200)}}
	named := func(name string) filtertest.Call {
		c := test
		c.Tool = name
		return c
	}
	answered := func(a filtertest.Answer) filtertest.Call {
		c := test
		c.Answer = &a
		return c
	}
	var near []string
	for d := 6; d < 20; d++ {
		near = append(near, fmt.Sprint(d))
	}
	for _, c := range []struct {
		name  string
		s     filtertest.Session
		left  int
		shape func(*tiered.Config)
		want  []string
	}{
		{name: "all that may be decided next", s: turnsOf(30, test), left: 99, want: near},
		{name: "attempts spent", s: turnsOf(30, test), left: 2, want: near[:3]},
		{name: "short session", s: turnsOf(7, test), left: 99},
		{name: "a small window", s: turnsOf(5, test), left: 99, shape: func(c *tiered.Config) { c.Window = 1; c.StubDistance = 3 }, want: []string{"1", "2"}},
		{name: "no summarizer", s: turnsOf(30, test), left: 99, shape: func(c *tiered.Config) { c.Summarizer.URL = "" }},
		{name: "disabled", s: turnsOf(30, test), left: 99, shape: func(c *tiered.Config) { c.Enabled = false }},
		{name: "only metered", s: turnsOf(30, test), left: 99, shape: func(c *tiered.Config) { c.MarkerMode = filters.Meter }},
		{name: "a tool that is left out", s: turnsOf(30, test), left: 99, shape: func(c *tiered.Config) { c.Tools = filters.Globs{"!Bash"} }},
		{name: "a role with a floor", s: turnsOf(30, named("Grep")), left: 99},
		{name: "older browser views", s: turnsOf(30, named("browser_snapshot")), left: 99, shape: func(c *tiered.Config) { c.Floor = nil }},
		{name: "browser views without a window", s: turnsOf(30, named("browser_snapshot")), left: 99, shape: func(c *tiered.Config) { c.Floor, c.BrowserWindow = nil, 0 }, want: near},
		{name: "a thinker", s: turnsOf(30, named("Task")), left: 99},
		{name: "failed", s: turnsOf(30, answered(filtertest.Answer{Text: filtertest.Source(200), Error: true})), left: 99},
		{name: "short texts", s: turnsOf(30, answered(filtertest.Answer{Text: filtertest.Source(20)})), left: 99},
		{name: "many bytes, few characters", s: turnsOf(30, answered(filtertest.Answer{Text: strings.Repeat("語 ", 900)})), left: 99},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := summarizing()
			if c.shape != nil {
				c.shape(&config)
			}
			if got := asked(t, config, c.s, c.left); !slices.Equal(got, c.want) {
				t.Errorf("asked for %v, want %v", got, c.want)
			}
		})
	}
}

// A summary is used if it saves 20 tokens beyond the largest marker, which takes 100.
func TestSummaryMustSave(t *testing.T) {
	c := summarizing()
	c.SummaryMinChars, c.MaxChars, c.MinTokens = 0, 10, 0
	f, err := tiered.New(c)
	if err != nil {
		t.Fatal(err)
	}
	const summary = "All tests of the limiter passed, and those of the store were skipped."
	text := ""
	for seen := map[bool]int{}; seen[true] < 30; {
		text += " word"
		saved := transcript.Est(text) - transcript.Est(summary)
		if saved < 10 {
			continue
		}
		s := turnsOf(9, filtertest.Call{Tool: "Bash", Input: filtertest.Input{"command": "go test"}, Answer: &filtertest.Answer{Text: text}})
		ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		p := f.Propose(&filters.View{
			Index: ix, Turn: ix.LastTurn(), Candidates: []filters.Candidate{{Result: 0, Zone: filters.Uncovered, Open: true}},
			Summary: func(int32, *filters.Summarizer, int) (string, filters.Gate) { return summary, "" },
		})[0]
		ix.Release()
		used := p.Verdict == tiered.Tier2Summary && p.Extra == summary && p.Lesser == ""
		excerpt := p.Verdict == tiered.Tier2 && p.Lesser == filters.MarkerNoGain
		if used != (saved >= 120) || excerpt != (saved < 120) {
			t.Fatalf("%d tokens saved before the marker: %+v", saved, p)
		}
		seen[used]++
	}
}
