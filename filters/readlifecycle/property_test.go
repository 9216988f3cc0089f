package readlifecycle_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// drawConfig draws a config that can be met with small results.
func drawConfig(t *rapid.T) readlifecycle.Config {
	c := readlifecycle.Default()
	c.MinTokens = 0
	c.Stale, c.Superseded = rapid.Bool().Draw(t, "stale"), rapid.Bool().Draw(t, "superseded")
	c.BashEdits, c.BashReads = rapid.Bool().Draw(t, "bash_edits"), rapid.Bool().Draw(t, "bash_reads")
	return c
}

// verdicts asks the filter about every result of a session and returns, by call id, the verdict or else the gate.
func verdicts(t *rapid.T, c readlifecycle.Config, s filtertest.Session) map[string]string {
	f, err := readlifecycle.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	v := filtertest.AllOpen(ix)
	found := map[string]string{}
	for _, p := range f.Propose(v) {
		id := string([]byte(ix.CallID(&ix.Results[p.Result])))
		if found[id] = p.Verdict; p.Action == filters.None {
			found[id] = string(p.Gate)
		}
	}
	return found
}

// naive is the rule, told by comparing every call with every later one.
func naive(c readlifecycle.Config, s filtertest.Session) map[string]string {
	reads := func(call *filtertest.Call) bool {
		return call.Does.Path != "" && !call.Answer.Stub &&
			(call.Does.Effect == filtertest.Reads || c.BashReads && call.Does.Effect == filtertest.ShellReads)
	}
	want, any := map[string]string{}, false
	for i, turn := range s {
		for j := range turn.Calls {
			call := &turn.Calls[j]
			if call.Answer == nil {
				continue
			}
			if want[call.ID] = barred(call); want[call.ID] != "" {
				continue
			}
			if !reads(call) {
				want[call.ID] = string(filters.NotARead)
				continue
			}
			any = true
			want[call.ID] = judge(c, call, s[i+1:], reads)
		}
	}
	for id, w := range want {
		if w == string(filters.NotARead) && !any {
			want[id] = string(filters.NoFileReads)
		}
	}
	return want
}

// barred is the common gates.
func barred(call *filtertest.Call) string {
	switch {
	case call.Answer.Shape == filtertest.Nested:
		return string(filters.NestedBreakpoint)
	case call.Answer.Shape == filtertest.Image:
		return string(filters.NonTextBlocks)
	case call.Answer.Shape == filtertest.Empty:
		return string(filters.BelowMinTokens)
	case !call.Done():
		return string(filters.FailedResult)
	}
	return ""
}

func judge(c readlifecycle.Config, read *filtertest.Call, later []filtertest.Turn, reads func(*filtertest.Call) bool) string {
	superseded := false
	for _, turn := range later {
		for i := range turn.Calls {
			call := &turn.Calls[i]
			if !call.Done() || !call.Does.On(read.Does.Path) {
				continue
			}
			edits := call.Does.Effect == filtertest.Edits || c.BashEdits && call.Does.Effect == filtertest.ShellEdits
			if edits && c.Stale && call.Does.Place == read.Does.Place {
				return readlifecycle.Stale
			}
			superseded = superseded || reads(call) && call.Does.Part == read.Does.Part && call.Answer.Shape != filtertest.Empty
		}
	}
	if superseded && c.Superseded {
		return readlifecycle.Superseded
	}
	return string(filters.FreshRead)
}

func TestVerdictsEqualTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawConfig(t), filtertest.Sessions(filtertest.UniqueIDs).Draw(t, "session")
		got, want := verdicts(t, c, s), naive(c, s)
		if len(got) != len(want) {
			t.Fatalf("%d results, want %d", len(got), len(want))
		}
		for id := range want {
			if got[id] != want[id] {
				t.Fatalf("%s: %s, want %s\n%s", id, got[id], want[id], s.Body())
			}
		}
	})
}

// A verdict never goes back to fresh when the session grows: by whole turns, by calls of the newest turn, or by answers to
// calls that had none.
func TestInvariant04_VerdictMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawConfig(t), filtertest.Sessions(filtertest.UniqueIDs).Draw(t, "session")
		short := s[:rapid.IntRange(1, len(s)).Draw(t, "turns")]
		if last := &short[len(short)-1]; rapid.Bool().Draw(t, "part of a turn") && len(last.Calls) > 0 {
			part := append(filtertest.Session(nil), short...)
			part[len(part)-1].Calls = last.Calls[:rapid.IntRange(0, len(last.Calls)-1).Draw(t, "calls")]
			short = part
		}
		before, after := verdicts(t, c, short), verdicts(t, c, s)
		for id, was := range before {
			switch was {
			case readlifecycle.Stale:
				if after[id] != was {
					t.Fatalf("%s: stale, then %s\n%s", id, after[id], s.Body())
				}
			case readlifecycle.Superseded:
				if after[id] != was && after[id] != readlifecycle.Stale {
					t.Fatalf("%s: superseded, then %s\n%s", id, after[id], s.Body())
				}
			}
		}
	})
}
