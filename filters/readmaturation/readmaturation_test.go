package readmaturation_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestFilter(t *testing.T) { filtertest.Run(t, readmaturation.Name) }

func TestLifecycleCases(t *testing.T) {
	dir, err := vectors.LifecycleDir("read_maturation")
	if err != nil {
		t.Fatal(err)
	}
	filtertest.Vectors(t, readmaturation.Name, dir)
}

func BenchmarkPropose(b *testing.B) { filtertest.Benchmark(b, readmaturation.Name) }

// lastCall is the turn of the last call that names the file, the read's own turn if its arguments name none.
func lastCall(s filtertest.Session, own int, path string) int {
	last := own
	for i, turn := range s {
		for j := range turn.Calls {
			if turn.Calls[j].Does.On(path) {
				last = max(last, i)
			}
		}
	}
	return last
}

// Every held read stays or matures as the rule says, told by looking at every call of the session.
func TestHeldReadsFollowTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := readmaturation.Default()
		c.QuiesceTurns, c.MaxHoldTurns = rapid.IntRange(0, 4).Draw(t, "quiesce"), rapid.IntRange(0, 7).Draw(t, "max hold")
		f, err := readmaturation.New(c)
		if err != nil {
			t.Fatal(err)
		}
		s := filtertest.Sessions(filtertest.UniqueIDs).Draw(t, "session")
		ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Release()
		v := &filters.View{Index: ix, Turn: ix.LastTurn()}
		for i := range ix.Results {
			v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Zone: filters.Uncovered, Held: true, Open: true})
		}
		got := map[string]filters.Proposal{}
		for _, p := range f.Propose(v) {
			got[ix.CallID(&ix.Results[p.Result])] = p
		}
		for i, turn := range s {
			for _, call := range turn.Calls {
				p, ok := got[call.ID]
				read := call.Does.Effect == filtertest.Reads || call.Does.Effect == filtertest.ShellReads
				if !ok || !read || !call.Done() || call.Answer.Shape > filtertest.List {
					continue // nothing but reads is ever held; the common gates have vectors of their own
				}
				now := len(s) - 1
				want := filters.Proposal{Result: p.Result, Gate: filters.Held}
				quiet := now-lastCall(s, i, call.Does.Path) >= c.QuiesceTurns
				if quiet || now-i >= c.MaxHoldTurns {
					want = filters.Proposal{
						Result: p.Result, Action: filters.Replace, Verdict: readmaturation.Cap, Verb: "quiet since",
						Hint: filters.ReRead, Mode: filters.Full,
					}
				}
				if quiet {
					want.Verdict = readmaturation.Quiet
				}
				if p != want {
					t.Fatalf("%s: %+v, want %+v\n%s", call.ID, p, want, s.Body())
				}
			}
		}
	})
}
