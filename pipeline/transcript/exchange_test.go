package transcript

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// naiveGap is the rule of Gap, told by what is known of a talk without reading it.
func naiveGap(k gentest.Talk, head, next int, keepHuman bool) (dropped []bool, ok bool) {
	dropped = make([]bool, len(k))
	stays := map[int]bool{} // exchanges
	if keepHuman {
		for m := head + 1; m < next; m++ {
			human := k[m].Human()
			if human && len(k[m].Answers) == 0 {
				stays[k[m-1].Exchange] = true // what it answers
			} else if human {
				stays[k[m].Exchange] = true
			}
		}
	}
	for m := head + 1; m < next; m++ {
		said := k[m].Human() && len(k[m].Answers) == 0
		kept := k[m].Role == "system" || keepHuman && (said || stays[k[m].Exchange])
		dropped[m] = !kept
		ok = ok || dropped[m]
	}
	for _, pair := range k.Together() {
		ok = ok && dropped[pair[0]] == dropped[pair[1]]
	}
	return dropped, ok
}

// TestGapEqualsTheNaiveRule, and what it says of calls, humans and roles holds in the transcript that is left.
func TestGapEqualsTheNaiveRule(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		k := gentest.Talks(8).Draw(t, "talk")
		keepHuman := rapid.Bool().Draw(t, "keep human")
		ix := parse(t, k.Body())
		defer ix.Release()
		head := k.Head()
		for m := range k {
			if ix.Human(int32(m)) != k[m].Human() || ix.Opens(int32(m)) != k.Opens(m) {
				t.Fatalf("message %d: human %v, opens %v", m, ix.Human(int32(m)), ix.Opens(int32(m)))
			}
		}
		if int(ix.FirstHuman()) != head {
			t.Fatalf("the first human speaks in message %d, not %d", ix.FirstHuman(), head)
		}
		for next := head + 1; next < len(k); next++ {
			if !k.Opens(next) {
				continue
			}
			want, ok := naiveGap(k, head, next, keepHuman)
			g, gotOK := ix.Gap(int32(head), int32(next), keepHuman)
			if gotOK != ok || !slices.Equal(g.Dropped, want) || int(g.Head) != head || int(g.Next) != next {
				t.Fatalf("%d to %d: %v (%v), want %v (%v)", head, next, g.Dropped, gotOK, want, ok)
			}
			if !ok {
				seen["refused"]++
				continue
			}
			seen["left out"]++
			checkLeft(t, k, &g, keepHuman)
		}
	})
	t.Logf("%v", seen)
	if seen["refused"] == 0 || seen["left out"] == 0 {
		t.Error("not everything was tried")
	}
}

// checkLeft looks at the transcript without a gap.
func checkLeft(t *rapid.T, k gentest.Talk, g *Gap, keepHuman bool) {
	var left gentest.Talk
	next := 0
	for m := range k {
		switch {
		case !g.Dropped[m]:
			if m == int(g.Next) {
				next = len(left)
			}
			left = append(left, k[m])
		case m <= int(g.Head) || m >= int(g.Next) || k[m].Role == "system" || keepHuman && k[m].Human():
			t.Fatalf("message %d is left out: %+v", m, k[m])
		}
	}
	if was, is := inARow(k), inARow(left); is > was {
		t.Fatalf("%d messages follow one of their own role, %d before: %+v", is, was, left)
	}
	answered := map[string]bool{}
	for m := range left {
		for _, id := range left[m].Calls {
			answered[id] = false
		}
		for _, id := range left[m].Answers {
			if _, called := answered[id]; !called {
				t.Fatalf("%s is answered and not called", id)
			}
			answered[id] = true
		}
	}
	for m := range k {
		for _, id := range k[m].Answers {
			if is, called := answered[id]; called && !is {
				t.Fatalf("the answer to %s is missing", id)
			}
		}
	}
	again := parse(t, left.Body())
	defer again.Release()
	if g, ok := again.Gap(again.FirstHuman(), int32(next), keepHuman); ok || int(again.FirstHuman()) != int(g.Head) || !again.Opens(int32(next)) {
		t.Fatalf("more is left out of what is left: %v", g.Dropped)
	}
}

// inARow counts messages that follow one of the same role; system messages are looked past.
func inARow(k gentest.Talk) (n int) {
	last := ""
	for m := range k {
		if k[m].Role == "system" {
			continue
		}
		if k[m].Role == last {
			n++
		}
		last = k[m].Role
	}
	return n
}

// TestGapOfAnything: bodies of any shape lose no human's words, part no pair, and lose nothing outside of the gap.
func TestGapOfAnything(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		ix := parse(t, strange().Draw(t, "conversation").Body())
		defer ix.Release()
		n := len(ix.Messages)
		head := int32(rapid.IntRange(0, n-1).Draw(t, "head"))
		next := int32(rapid.IntRange(int(head), n).Draw(t, "next"))
		keepHuman := rapid.Bool().Draw(t, "keep human")
		g, ok := ix.Gap(head, next, keepHuman)
		if ok && !slices.Contains(g.Dropped, true) {
			t.Fatal("nothing is left out of a gap")
		}
		for m := range g.Dropped {
			if m := int32(m); g.Dropped[m] && (m <= head || m >= next || ix.Messages[m].Role == OtherRole || keepHuman && ix.Human(m)) {
				t.Fatalf("message %d is left out between %d and %d", m, head, next)
			}
		}
		for i := range ix.Results {
			if r := &ix.Results[i]; ok && r.Call >= 0 && g.Dropped[r.Msg] != g.Dropped[ix.Calls[r.Call].Msg] {
				t.Fatalf("result %d is parted from its call", i)
			}
		}
		found += b2i(ok)
	})
	if found == 0 {
		t.Error("nothing was ever left out")
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestHuman: who speaks in a message of the user.
func TestHuman(t *testing.T) {
	const result = `{"type":"tool_result","tool_use_id":"a","content":"x"}`
	for content, human := range map[string]bool{
		`"go on"`:                       true,
		`[{"type":"text","text":"go"}]`: true,
		`[{"type":"text","text":"<system-reminder>x</system-reminder>"}]`: true, // else nobody would have sent it
		`[` + result + `]`: false,
		`[` + result + `,{"type":"text","text":"<system-reminder>x</system-reminder>"}]`:           false,
		`[{"type":"text","text":"\n <system-reminder>x"},` + result + `]`:                          false,
		`[` + result + `,{"type":"text","text":"see <system-reminder>"}]`:                          true,
		`[` + result + `,{"type":"text","text":"<system-reminder>x"},{"type":"text","text":"no"}]`: true,
		`[` + result + `,{"type":"image","source":{}}]`:                                            true,
	} {
		for role, speaks := range map[string]bool{"user": human, "assistant": false, "system": false} {
			ix := parse(t, []byte(`{"model":"m","messages":[{"role":"`+role+`","content":`+content+`}]}`))
			if ix.Human(0) != speaks {
				t.Errorf("%s, %s: human %v", role, content, ix.Human(0))
			}
			ix.Release()
		}
	}
}

// TestCompacted: only a block of the assistant's tells that the provider has put a summary in the place of what was before.
func TestCompacted(t *testing.T) {
	for messages, want := range map[string]bool{
		`{"role":"assistant","content":[{"type":"compaction","content":"so far"}]}`:                true,
		`{"role":"user","content":[{"type":"compaction","content":"so far"}]}`:                     false,
		`{"role":"assistant","content":[{"type":"text","text":"\"type\":\"compaction\""}]}`:        false,
		`{"role":"assistant","content":[{"type":"server_tool_use","id":"compaction","name":"x"}]}`: false,
	} {
		ix := parse(t, []byte(`{"model":"m","messages":[`+messages+`]}`))
		if ix.Compacted() != want {
			t.Errorf("%s: %v", messages, !want)
		}
		ix.Release()
	}
}
