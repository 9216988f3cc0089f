package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// others are the formats that this file is about.
var others = map[Format]gen.Format{Converse: gen.Converse, Gemini: gen.Gemini}

// oddBodies are bodies that no generator makes.
var oddBodies = map[Format][]string{Converse: converseBodies, Gemini: geminiBodies}

func otherFormat(t *rapid.T) Format {
	return rapid.SampledFrom([]Format{Converse, Gemini}).Draw(t, "format")
}

// strangest are conversations of every shape, in every dialect.
func strangest() *rapid.Generator[*gen.Conversation] {
	return gentest.Conversation(gen.Options{Strange: true, Wild: true, Dialects: true, ResultBytes: 60}, 5)
}

// Every body is read as encoding/json reads it.
func TestOthersEqualReference(t *testing.T) {
	for f, list := range oddBodies {
		for _, body := range list {
			parseAs(t, []byte(body), f).Release()
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := otherFormat(t)
		parseAs(t, strangest().Draw(t, "conversation").As(others[f]), f).Release()
	})
}

// otherBody is a body of a generator, or an odd one.
func otherBody(t *rapid.T, f Format) []byte {
	if rapid.Bool().Draw(t, "odd") {
		return []byte(rapid.SampledFrom(oddBodies[f]).Draw(t, "body"))
	}
	return strangest().Draw(t, "conversation").As(others[f])
}

// What Parse accepts is JSON, and every span of it holds, however the body came about.
func TestOthersMutated(t *testing.T) {
	accepted := map[Format]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := otherFormat(t)
		body := otherBody(t, f)
		for range 20 {
			if ix, err := Parse(mutate(t, body), f); err == nil {
				check(t, ix)
				ix.Release()
				accepted[f]++
			}
		}
	})
	if len(accepted) < len(others) {
		t.Errorf("accepted: %v", accepted)
	}
}

// Any changed byte that says something changes the digest of its message, or the key, and no other.
func TestOthersDigestSeesEveryByte(t *testing.T) {
	changed := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := otherFormat(t)
		ix := parseAs(t, strangest().Draw(t, "conversation").As(others[f]), f)
		defer ix.Release()
		changeBytes(t, ix, places(ix, Span{}), changed)
	})
	t.Logf("changed bytes: %v", changed)
	if changed["text"] == 0 || changed["block"] == 0 {
		t.Errorf("changed bytes: %v", changed)
	}
}

// Reading on from a memo gives what reading the whole body gives, also for bodies that go on otherwise.
func TestOthersReadOn(t *testing.T) {
	h, followed := NewHasher(secret), map[Format]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := otherFormat(t)
		maker := gen.New(gentest.Source(t), gen.Options{Strange: true, Dialects: true, Wild: true, ResultBytes: 60})
		c := maker.Conversation(1)
		var m *Memo
		for range rapid.IntRange(2, 5).Draw(t, "turns") {
			body := c.As(others[f])
			ix, known := readOnAs(t, body, f, m, h)
			if known {
				followed[f]++
			}
			m = ix.Memo(h)
			ix.Release()
			for range 5 {
				if other, _ := readOnAs(t, mutate(t, body), f, m, h); other != nil {
					other.Release()
				}
			}
			maker.Turn(c)
			c.Mark(gen.Short)
		}
	})
	if len(followed) < len(others) {
		t.Errorf("read on: %v", followed)
	}
}

// One conversation says the same in these formats as in Anthropic's: messages, turns, calls and results.
func TestOthersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Comparable(gen.Options{Wild: true, ResultBytes: 60}, 6).Draw(t, "conversation")
		first := parse(t, c.As(gen.Anthropic))
		defer first.Release()
		for f, name := range others {
			ix := parseAs(t, c.As(name), f)
			want, got := plainly(t, first), plainly(t, ix)
			if f == Gemini && !c.Dialect.IDs {
				want, got = anonymous(want), anonymous(got)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (+) differs from %s (-):\n%s\nof %s", f, Anthropic, diff, ix.Body)
			}
			for i := range ix.Results {
				a, b := &first.Results[i], &ix.Results[i]
				if a.Call != b.Call || a.Turn != b.Turn || a.Ambiguous != b.Ambiguous || first.ResultTokens(int32(i)) != ix.ResultTokens(int32(i)) ||
					a.IsError != b.IsError || first.ResultOutcome(a) != ix.ResultOutcome(b) {
					t.Fatalf("%s: result %d: %+v, want %+v (%s)", f, i, b, a, clip([]byte(ix.ResultText(b))))
				}
			}
			ix.Release()
		}
	})
}

// anonymous is what turns say without ids.
func anonymous(turns []turn) []turn {
	for i := range turns {
		for c := range turns[i].Calls {
			turns[i].Calls[c][0] = ""
		}
		for r := range turns[i].Results {
			turns[i].Results[r][0] = ""
		}
	}
	return turns
}

// Results without ids are joined, and known by names of their own, as they are with ids, whatever else a conversation holds.
func TestOrderIsAsGoodAsIDs(t *testing.T) {
	joined := 0
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Conversation(gen.Options{Dialects: true, ResultBytes: 60}, 8).Draw(t, "conversation")
		c.Dialect.IDs = true
		with := parseAs(t, c.As(gen.Gemini), Gemini)
		defer with.Release()
		c.Dialect.IDs = false
		without := parseAs(t, c.As(gen.Gemini), Gemini)
		defer without.Release()
		names := map[string]bool{}
		for i := range with.Results {
			a, b := &with.Results[i], &without.Results[i]
			if names[without.CallID(b)] || a.Call != b.Call || a.Turn != b.Turn || b.Ambiguous {
				t.Fatalf("result %d: %+v, with ids %+v", i, b, a)
			}
			names[without.CallID(b)] = true
			joined++
		}
	})
	if joined == 0 {
		t.Error("nothing was joined")
	}
}

// A replacement has the shape of what it stands for, and its digest is that of the block as it is really forwarded.
func TestOthersReplaced(t *testing.T) {
	h, replaced := NewHasher(secret), map[Form]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := otherFormat(t)
		ix := parseAs(t, otherBody(t, f), f)
		defer ix.Release()
		ix.Digest(h)
		for i := range ix.Results {
			r := &ix.Results[i]
			text := "x" + rapid.String().Draw(t, "text")
			content := ix.Replacement(r, text)
			if fits := r.Form == StringForm || r.Form == TextForm; ix.IsReplacement(r, content) != fits {
				t.Fatalf("%s stands for a result of form %d: %v", content, r.Form, !fits)
			} else if !fits || r.NestedMarker {
				continue
			}
			replaced[r.Form]++
			again := parseAs(t, slices.Concat(ix.Body[:r.Content.Lo], content, ix.Body[r.Content.Hi:]), f)
			again.Digest(h)
			if got := again.ResultText(&again.Results[i]); got != validText(text) {
				t.Fatalf("the text is %q, not %q", got, text)
			}
			for b := range ix.Blocks {
				want := ix.Blocks[b].Hash
				if int32(b) == r.Block {
					want = ix.Replaced(h, r, content)
				}
				if again.Blocks[b].Hash != want {
					t.Fatalf("block %d of %s has another digest than was told", b, again.Body)
				}
			}
			again.Release()
		}
	})
	if replaced[StringForm] == 0 || replaced[TextForm] == 0 {
		t.Errorf("replaced: %v", replaced)
	}
}

// An index that comes from the pool says nothing of the body before.
func TestOthersPool(t *testing.T) {
	for _, f := range slices.Sorted(maps.Keys(others)) {
		for _, body := range append(slices.Clone(oddBodies[f]), oddBodies[f]...) {
			ix := parseAs(t, []byte(body), f)
			ix.Release()
			if len(ix.pairs.byName) > 0 || slices.ContainsFunc(ix.pairs.lanes[:cap(ix.pairs.lanes)], func(l lane) bool { return l.name != "" }) {
				t.Fatalf("names of a body are kept: %v", ix.pairs)
			}
		}
	}
}

// Whatever the bytes are: either an error, or JSON of which every span is what encoding/json says, and reading on gives the same.
func FuzzOthers(f *testing.F) {
	for format, list := range oddBodies {
		for _, body := range list {
			f.Add([]byte(body), format == Gemini)
		}
	}
	for seed := range uint64(20) {
		m := gen.New(rand.New(rand.NewPCG(seed, 1)), gen.Options{Dialects: true, Strange: true, Wild: seed%2 == 0, ResultBytes: 30})
		c := m.Conversation(int(seed % 4))
		f.Add(c.As(gen.Converse), false)
		f.Add(c.As(gen.Gemini), true)
	}
	h := NewHasher(secret)
	f.Fuzz(func(t *testing.T, body []byte, gemini bool) {
		if len(body) > maxFuzz {
			return
		}
		format := Converse
		if gemini {
			format = Gemini
		}
		ix, err := Parse(body, format)
		if err != nil {
			return
		}
		check(t, ix)
		ix.Digest(h)
		ids := map[string]bool{}
		for i := range ix.Results {
			r := &ix.Results[i]
			if text := ix.ResultText(r); len(text) > ix.ResultSize(r) {
				t.Fatalf("text of %d bytes, size %d", len(text), ix.ResultSize(r))
			}
			if r.IsError && ix.ResultOutcome(r) != Failed {
				t.Fatal("a failed result succeeded")
			}
			if content := ix.Replacement(r, "x"); !json.Valid(content) {
				t.Fatalf("replaced by %s", content)
			}
			if r.CallID.Len() > 0 {
				continue
			}
			if ids[ix.CallID(r)] {
				t.Fatalf("two results are %s", ix.CallID(r))
			}
			ids[ix.CallID(r)] = true
		}
		for c := range ix.Calls {
			checkFacts(t, ix.CallFacts(int32(c)))
		}
		m := ix.Memo(h)
		ix.Release()
		if again, _ := readOnAs(t, body, format, m, h); again != nil {
			again.Release()
		}
	})
}

// benchOther is the conversation of benchBody in another format.
func benchOther(f Format) []byte {
	m := gen.New(rand.New(rand.NewPCG(1, 2)), gen.Options{ResultBytes: 4000, Files: 40})
	c := m.Conversation(250)
	return bytes.Clone(c.CompactAs(others[f]))
}

func BenchmarkParseOthers(b *testing.B) {
	for _, f := range []Format{Converse, Gemini} {
		b.Run(f.String(), func(b *testing.B) {
			body := benchOther(f)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				ix, err := Parse(body, f)
				if err != nil {
					b.Fatal(err)
				}
				ix.Release()
			}
		})
	}
}

// An index that is used again allocates next to nothing, whatever the size of the body.
func TestOthersAllocations(t *testing.T) {
	for _, f := range []Format{Converse, Gemini} {
		body, h, ix := benchOther(f), NewHasher(secret), &Index{}
		allocations := testing.AllocsPerRun(10, func() {
			clear(ix.ids)
			ix.reset(body, f)
			if err := readBody(ix, nil); err != nil {
				t.Fatal(err)
			}
			ix.Digest(h)
		})
		if allocations > 2 {
			t.Errorf("%s: %v allocations", f, allocations)
		}
	}
}

// Hostile shapes are refused or read with memory in proportion to the body.
func TestOthersHostile(t *testing.T) {
	many := func(n int, element func(i int) string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = element(i)
		}
		return strings.Join(list, ",")
	}
	same := func(s string) func(int) string { return func(int) string { return s } }
	const turn = `{"contents":[{"role":"model","parts":[%s]},{"role":"user","parts":[%s]}]}`
	call := func(i int) string { return fmt.Sprintf(`{"functionCall":{"name":"f%d"}}`, i) }
	answer := func(i int) string {
		return fmt.Sprintf(`{"functionResponse":{"name":"g%d","response":{"output":"x"}}}`, MaxBlocks/2-i)
	}
	const user, lots = `{"messages":[{"role":"user","content":[%s]}]}`, 200_000
	for _, c := range []struct {
		name, body string
		f          Format
		ok         bool
	}{
		{"names that nothing has in common", fmt.Sprintf(turn, many(MaxBlocks/2, call), many(MaxBlocks/2, answer)), Gemini, true},
		{"one name", fmt.Sprintf(turn, many(MaxBlocks/2, same(call(1))), many(MaxBlocks/2, same(answer(1)))), Gemini, true},
		{"parts", fmt.Sprintf(turn, many(lots, same("{}")), ""), Gemini, false},
		{"functions", `{"tools":[{"functionDeclarations":[` + many(lots, same("{}")) + `]}],"contents":[{"parts":[]}]}`, Gemini, false},
		{"tools", `{"tools":[{` + many(lots, same(`"x":1`)) + `}],"contents":[{"parts":[]}]}`, Gemini, false},
		{"members of a response", fmt.Sprintf(turn, "", `{"functionResponse":{"name":"f","response":{`+many(lots, same(`"x":"y"`))+`}}}`), Gemini, true},
		{"depth", fmt.Sprintf(turn, "", `{"functionResponse":{"name":"f","response":{"x":`+strings.Repeat("[", lots)+`}}}`), Gemini, false},
		{"breakpoints", fmt.Sprintf(user, `{"text":"a"},`+many(MaxBlocks, same(`{"cachePoint":{}}`))), Converse, true},
		{"breakpoints over the limit", fmt.Sprintf(user, `{"text":"a"},`+many(lots, same(`{"cachePoint":{}}`))), Converse, false},
		{"breakpoints in a result", fmt.Sprintf(user, `{"toolResult":{"toolUseId":"a","content":[`+many(MaxBlocks-1, same(`{"cachePoint":{}}`))+`]}}`), Converse, true},
		{"parts of a result", fmt.Sprintf(user, `{"toolResult":{"toolUseId":"a","content":[`+many(lots, same("{}"))+`]}}`), Converse, false},
		{"blocks", fmt.Sprintf(user, many(lots, same("{}"))), Converse, false},
	} {
		body, h := []byte(c.body), NewHasher(secret)
		used := allocated(func() {
			ix, err := Parse(body, c.f)
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil {
				ix.Digest(h)
				ix.Release()
			}
		})
		if limit := 8*len(body) + MaxBlocks*512; used > limit {
			t.Errorf("%s: %d bytes for a body of %d", c.name, used, len(body))
		}
	}
}
