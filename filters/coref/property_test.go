package coref_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/pipeline/identifier"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// identifiers are those of a text, in order.
func identifiers(text string) (ids []string) {
	identifier.Each(text, func(id string) { ids = append(ids, id) })
	return ids
}

// exchange is one assistant turn with what answers it.
type exchange struct {
	Thinks, Says string
	Calls        []string // arguments
	Answers      []string // of the first calls; the others have none
	Beside       string   // a user's text in the message of the answers
}

type object = map[string]any

// messages writes the exchanges as an Anthropic body has them.
func messages(s []exchange) []object {
	list := []object{{"role": "user", "content": "begin"}}
	text := func(s string) object { return object{"type": "text", "text": s} }
	for i, e := range s {
		said := []object{{"type": "thinking", "thinking": e.Thinks, "signature": "s"}, text(e.Says + ".")}
		answered := []object{}
		for j, args := range e.Calls {
			id := fmt.Sprintf("t%d-%d", i, j)
			said = append(said, object{"type": "tool_use", "id": id, "name": "Run", "input": object{"with": args}})
			if j < len(e.Answers) {
				answered = append(answered, object{"type": "tool_result", "tool_use_id": id, "content": e.Answers[j]})
			}
		}
		if e.Beside != "" || len(answered) == 0 {
			answered = append(answered, text(e.Beside+"."))
		}
		list = append(list, object{"role": "assistant", "content": said}, object{"role": "user", "content": answered})
	}
	return list
}

func parse(tb testing.TB, list []object) *transcript.Index {
	tb.Helper()
	body, err := json.Marshal(object{"model": "claude-opus-4-6", "messages": list})
	if err != nil {
		tb.Fatal(err)
	}
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		tb.Fatal(err)
	}
	return ix
}

// drawExchanges draws a session that speaks with few words.
func drawExchanges(t *rapid.T) []exchange {
	words := []string{"plain", "oneThing", "two_things", "src/three.go", "12345", "4a5b6c7", "sixthOne", "", "<seven&7>"}
	say := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "words"), "\n")
	})
	s := make([]exchange, rapid.IntRange(1, 12).Draw(t, "turns"))
	for i := range s {
		e := &s[i]
		if rapid.IntRange(0, 2).Draw(t, "quiet") > 0 {
			e.Says, e.Thinks = say.Draw(t, "says"), say.Draw(t, "thinks")
		}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			e.Calls = append(e.Calls, rapid.SampledFrom([]string{"", "oneThing", "other"}).Draw(t, "with"))
			if len(e.Answers) == len(e.Calls)-1 && rapid.IntRange(0, 9).Draw(t, "answered") > 0 {
				e.Answers = append(e.Answers, say.Draw(t, "answer")+" end")
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "speaks") == 0 {
			e.Beside = say.Draw(t, "beside")
		}
	}
	return s
}

// naive is the rule, told by looking at every text for every result.
func naive(c *coref.Config, s []exchange) (want []string) {
	results := 0
	spread := map[string]int{}
	for _, e := range s[:len(s)-1] {
		for _, a := range e.Answers {
			results++
			ids := identifiers(a)
			slices.Sort(ids)
			for _, id := range slices.Compact(ids) {
				spread[id]++
			}
		}
	}
	for i, e := range s {
		for j := range e.Answers {
			if i == len(s)-1 {
				want = append(want, string(filters.NotIndexed))
				continue
			}
			news := introduced(s, i, j)
			for id := range news {
				if spread[id] > max(5, results/4) {
					delete(news, id)
				}
			}
			want = append(want, verdict(c, s, i, news))
		}
	}
	return want
}

// introduced is what the jth answer of the ith exchange shows for the first time and alone.
func introduced(s []exchange, i, j int) map[string]bool {
	news := map[string]bool{}
	for _, id := range identifiers(s[i].Answers[j]) {
		news[id] = true
	}
	for k, e := range s[:i+1] {
		texts := append([]string{e.Says, e.Beside}, e.Calls...)
		for l, a := range e.Answers {
			if k < i || l != j {
				texts = append(texts, a)
			}
		}
		for _, text := range texts {
			for _, id := range identifiers(text) {
				delete(news, id)
			}
		}
	}
	return news
}

func verdict(c *coref.Config, s []exchange, i int, news map[string]bool) string {
	references, last := 0, 0
	for k, e := range s[i+1:] {
		for _, id := range identifiers(strings.Join(append(e.Calls, e.Says), " ")) {
			if news[id] {
				references++
				last = 2*(i+1+k) + 1
				break
			}
		}
	}
	switch {
	case len(news) == 0:
		return string(filters.OpaqueResult)
	case len(s)-1-i < c.MinLaterTurns:
		return string(filters.OpenResult)
	case references == 0:
		return coref.Unreferenced
	case references >= c.OpenReps || 2*len(s)-last < c.ClosedDist:
		return string(filters.OpenResult)
	}
	return coref.Closed
}

// verdicts asks the filter about every result and returns, in their order, the verdict or else the gate.
func verdicts(tb testing.TB, f filters.Filter, ix *transcript.Index, memo func(string, func(filters.Memo) filters.Memo) filters.Memo) (got []string) {
	tb.Helper()
	v := &filters.View{Index: ix, Turn: ix.LastTurn(), Memo: memo}
	for i := range ix.Results {
		v.Candidates = append(v.Candidates, filters.Candidate{Result: int32(i), Open: true})
	}
	for _, p := range f.Propose(v) {
		if p.Action == filters.None {
			got = append(got, string(p.Gate))
		} else {
			got = append(got, p.Verdict)
		}
	}
	return got
}

func drawConfig(t *rapid.T) coref.Config {
	c := coref.Default()
	c.MinTokens, c.CutClosed = 0, true
	c.MinLaterTurns, c.OpenReps = rapid.IntRange(0, 3).Draw(t, "min_later_turns"), rapid.IntRange(1, 3).Draw(t, "open_reps")
	c.ClosedDist = rapid.IntRange(0, 8).Draw(t, "closed_dist")
	return c
}

func build(tb testing.TB, c coref.Config) filters.Filter {
	tb.Helper()
	f, err := coref.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func TestVerdictsEqualTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, s := drawConfig(rt), drawExchanges(rt)
		ix := parse(t, messages(s))
		defer ix.Release()
		if diff := cmp.Diff(naive(&c, s), verdicts(t, build(t, c), ix, nil)); diff != "" {
			rt.Fatalf("%+v: %s", s, diff)
		}
	})
}

// A memo that grew with the session, in whatever steps, says what an index of the whole says, and reads nothing twice.
func TestInvariant16_PureWithAMemo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConfig(rt)
		s, f := drawExchanges(rt), build(t, c)
		var kept filters.Memo
		memo := func(name string, grow func(filters.Memo) filters.Memo) filters.Memo {
			if name != coref.Name {
				rt.Fatalf("the memo of %s", name)
			}
			kept = grow(kept)
			return kept
		}
		for n := 1; n <= len(s); n += rapid.IntRange(1, 3).Draw(rt, "step") {
			list := messages(s[:n])
			if rapid.Bool().Draw(rt, "without thinking") { // which clients drop from older turns
				for _, m := range list[1:] {
					if said, ok := m["content"].([]object); ok && said[0]["type"] == "thinking" {
						m["content"] = said[1:]
					}
				}
			}
			ix := parse(t, list)
			if diff := cmp.Diff(verdicts(t, f, ix, nil), verdicts(t, f, ix, memo)); diff != "" {
				rt.Fatalf("%d turns of %+v: %s", n, s, diff)
			}
			if kept != nil && (kept.Messages() > ix.LastAssistant()+1 || kept.Size() <= 0) {
				rt.Fatalf("a memo of %d messages, the last assistant message is %d", kept.Messages(), ix.LastAssistant())
			}
			ix.Release()
		}
	})
}
