package tiered_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// drawConfig draws a config that short sessions and small results can meet.
func drawConfig(t *rapid.T) tiered.Config {
	c := tiered.Default()
	c.MinTokens, c.MaxChars = 0, 0
	c.Window, c.StubDistance = rapid.IntRange(1, 4).Draw(t, "window"), rapid.IntRange(0, 6).Draw(t, "stub_distance")
	return c
}

// proposals asks the filter about every result of a session, by call id.
func proposals(t *rapid.T, c tiered.Config, s filtertest.Session) map[string]filters.Proposal {
	f, err := tiered.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	v := filtertest.AllOpen(ix)
	found := map[string]filters.Proposal{}
	for _, p := range f.Propose(v) {
		found[strings.Clone(ix.CallID(&ix.Results[p.Result]))] = p
	}
	return found
}

// answered counts the turns that have results.
func answered(turns filtertest.Session) (n int) {
	for _, turn := range turns {
		for i := range turn.Calls {
			if turn.Calls[i].Answer != nil {
				n++
				break
			}
		}
	}
	return n
}

// naive is the rule, told by counting the later turns of every call.
func naive(c tiered.Config, s filtertest.Session, turn int, call *filtertest.Call) string {
	distance := answered(s[turn+1:])
	floored := call.Does.Effect == filtertest.Reads || call.Does.Effect == filtertest.ShellReads || call.Tool == "Grep"
	switch {
	case answered(s) < c.Window:
		return string(filters.ShortSession)
	case distance == 0 || distance < c.Window:
		return string(filters.WorkingSet)
	case distance < c.StubDistance || floored:
		return tiered.Tier2
	}
	return tiered.Tier1
}

func TestVerdictsEqualTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawConfig(t), filtertest.Sessions(filtertest.UniqueIDs).Draw(t, "session")
		got := proposals(t, c, s)
		for i, turn := range s {
			for j := range turn.Calls {
				call := &turn.Calls[j]
				if !call.Done() || call.Answer.Shape > filtertest.List {
					continue // the common gates have vectors of their own
				}
				p, want := got[call.ID], naive(c, s, i, call)
				if p.Verdict != want && string(p.Gate) != want {
					t.Fatalf("%s: %+v, want %s\n%s", call.ID, p, want, s.Body())
				}
			}
		}
	})
}

// Age only grows: the longer a session becomes, the less may be kept of a result.
func TestInvariant04_AgeIsMonotone(t *testing.T) {
	rank := map[string]int{"": 0, tiered.Tier2: 1, tiered.Tier1: 2}
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawConfig(t), filtertest.Sessions(filtertest.UniqueIDs).Draw(t, "session")
		before, after := proposals(t, c, s[:rapid.IntRange(1, len(s)).Draw(t, "turns")]), proposals(t, c, s)
		for id, was := range before {
			if now := after[id]; rank[now.Verdict] < rank[was.Verdict] {
				t.Fatalf("%s: %s, then %s %s\n%s", id, was.Verdict, now.Verdict, now.Gate, s.Body())
			}
		}
	})
}

// An excerpt is head and tail of the text, in max_chars characters at most.
func TestExcerptIsOfTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := tiered.Default()
		c.MinTokens, c.Window, c.MaxChars = 0, 1, rapid.IntRange(0, 40).Draw(t, "max_chars")
		text := rapid.StringN(1, 80, -1).Draw(t, "text")
		call := func(id, text string) filtertest.Turn {
			return filtertest.Turn{Calls: []filtertest.Call{{ID: id, Tool: "Bash", Input: filtertest.Input{"command": "x"}, Answer: &filtertest.Answer{Text: text}}}}
		}
		p := proposals(t, c, filtertest.Session{call("a", text), call("b", "ok")})["a"]
		size := utf8.RuneCountInString(text)
		if p.Gate == filters.FailedResult {
			return // the text looks like a client's refusal
		}
		if size <= c.MaxChars {
			if p.Gate != filters.MarkerNoGain {
				t.Fatalf("%d characters: %+v", size, p)
			}
			return
		}
		if p.Extra == "" {
			if c.MaxChars > 4 {
				t.Fatalf("no excerpt: %+v", p)
			}
			return
		}
		head, tail := cut(t, p.Extra, c.MaxChars)
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || utf8.RuneCountInString(p.Extra) > c.MaxChars || !utf8.ValidString(p.Extra) {
			t.Fatalf("%q of %q", p.Extra, text)
		}
	})
}

// cut takes an excerpt of n characters apart.
func cut(t *rapid.T, excerpt string, n int) (head, tail string) {
	runes := []rune(excerpt)
	at := len(runes) - n/4
	if string(runes[at-3:at]) != "\n…\n" {
		t.Fatalf("%q has no gap before the last quarter", excerpt)
	}
	return string(runes[:at-3]), string(runes[at:])
}
