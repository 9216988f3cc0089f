package transcript

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// bare is a copy of an index with what anything reads, and with nil for every empty list.
func bare(ix *Index) *Index {
	c := *ix
	c.facts, c.tokens, c.texts, c.ids, c.dup, c.scratch, c.tools, c.system, c.known, c.from, c.members = nil, nil, nil, nil, nil, nil, nil, nil, known{}, nil, nil
	c.pairs = pairing{}
	for f := range reflect.TypeFor[Index]().NumField() {
		if field := reflect.ValueOf(&c).Elem().Field(f); field.Kind() == reflect.Slice && field.Len() == 0 && field.CanSet() {
			field.SetZero()
		}
	}
	if len(c.cuts) == 0 {
		c.cuts = nil
	}
	return &c
}

// sameIndex compares two indexes of one body in every field that anything reads.
func sameIndex(a, b *Index) string {
	a, b = bare(a), bare(b)
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return gocmp.Diff(a, b, gocmp.AllowUnexported(Index{}, Block{}, Message{}, Call{}, Result{}, Marker{}, preface{}, known{}, pairing{})) + "."
}

// readOn reads a body with a memo and without, and compares. It returns the index that was read on, if the body is one.
func readOn(t rapid.TB, body []byte, m *Memo, h *Hasher) (ix *Index, known bool) {
	t.Helper()
	return readOnAs(t, body, Anthropic, m, h)
}

func readOnAs(t rapid.TB, body []byte, f Format, m *Memo, h *Hasher) (ix *Index, known bool) {
	t.Helper()
	whole, want := Parse(body, f)
	ix, known, err := ParseOn(body, f, m, h)
	if fmt.Sprint(want) != fmt.Sprint(err) {
		t.Fatalf("%v read on, %v as a whole: %s", err, want, clip(body))
	}
	if err != nil {
		return nil, known
	}
	defer whole.Release()
	whole.Digest(h)
	ix.Digest(h)
	if joined := len(m0(m)) - ix.known.messages; known && joined != 0 && (joined != 1 || !f.Automatic()) { // its last one may go on
		t.Fatalf("%d messages known of %d", ix.known.messages, len(m0(m)))
	}
	if diff := sameIndex(whole, ix); diff != "" {
		t.Fatalf("read on (+) differs from what reading the whole body (-) gives:\n%s\nof %s", diff, clip(body))
	}
	return ix, known
}

// m0 are the messages that a memo knows.
func m0(m *Memo) []Message {
	if m == nil {
		return nil
	}
	return m.ix.Messages
}

// Whatever is read on from a memo is what reading the whole body gives, turn by turn, and for bodies that go on otherwise.
func TestReadOn(t *testing.T) {
	h, followed, unlike := NewHasher(secret), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		maker := gen.New(gentest.Source(t), gen.Options{Strange: true, Wild: true, ResultBytes: 60})
		c := maker.Conversation(1)
		if rapid.Bool().Draw(t, "diagnostics") { // before the messages or after them, as the body is written
			c.Extra = append(c.Extra, gen.Member{Key: "diagnostics", Value: nil})
		}
		var m *Memo
		for range rapid.IntRange(2, 5).Draw(t, "turns") {
			body := c.Body()
			ix, known := readOn(t, body, m, h)
			if known {
				followed++
			}
			m = ix.Memo(h)
			ix.Release()
			for range 5 {
				other, known := readOn(t, mutate(t, body), m, h)
				if known {
					unlike++
				}
				if other != nil {
					other.Release()
				}
			}
			if rapid.Bool().Draw(t, "unmark") {
				c.Unmark()
			}
			maker.Turn(c)
			c.Mark(gen.Short)
		}
	})
	if followed == 0 || unlike == 0 {
		t.Errorf("%d bodies were read on, and %d that were changed behind the memo", followed, unlike)
	}
}

// A memo of an agent's body is good for the next one: the breakpoint moves from the last message, and all before it is known.
func TestMemoReachesTheTail(t *testing.T) {
	h := NewHasher(secret)
	maker := gen.New(rand.New(rand.NewPCG(1, 2)), gen.Options{})
	c := maker.Conversation(5)
	var m *Memo
	for range maxSeals + 5 {
		maker.Turn(c)
		c.Unmark()
		c.Mark(gen.Short)
		ix, known := readOn(t, c.Compact(), m, h)
		if known != (m != nil) {
			t.Fatal("the next body of a conversation is not read on")
		}
		m = ix.Memo(h)
		if want := len(c.Messages) - 1; len(m.ix.Messages) != want {
			t.Errorf("a memo of %d messages, not %d", len(m.ix.Messages), want)
		}
		if len(m.seals) == 0 || len(m.seals) > maxSeals || m.seals[len(m.seals)-1].end != m.at {
			t.Errorf("%d seals through byte %d of %d", len(m.seals), m.seals[len(m.seals)-1].end, m.at)
		}
		ix.Release()
	}
	if m.Size() <= 0 || m.Size() > 4*len(c.Compact()) {
		t.Errorf("a memo of %d bytes for a body of %d", m.Size(), len(c.Compact()))
	}
}

// TestSettled: a memo ends before the first breakpoint of the last messages, as that one will move.
func TestSettled(t *testing.T) {
	h := NewHasher(secret)
	for marks, want := range map[string]int32{"": 19, "19": 19, "17 19": 17, "12": 12, "11": 11, "10": 19, "0 5": 19, "11 15 19": 11} {
		var list []string
		for i := range 20 {
			marker := ""
			if slices.Contains(strings.Fields(marks), fmt.Sprint(i)) {
				marker = `,"cache_control":{"type":"ephemeral"}`
			}
			list = append(list, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%d"%s}]}`, i, marker))
		}
		ix := parse(t, []byte(`{"messages":[`+strings.Join(list, ",")+`]}`))
		ix.Digest(h)
		if got := int32(len(ix.Memo(h).ix.Messages)); got != want {
			t.Errorf("breakpoints on messages %q: a memo of %d, want %d", marks, got, want)
		}
		ix.Release()
	}
	ix := parse(t, fmt.Appendf(nil, asContent, `"a"`))
	ix.Digest(h)
	if ix.Memo(h) != nil {
		t.Error("a memo of nothing")
	}
	ix.Release()
	ix = parse(t, []byte(`{"messages":[`+strings.Repeat(`{"role":"user","content":"a"},`, maxKept)+`{"role":"user","content":"b"}]}`))
	ix.Digest(h)
	if ix.Memo(h) != nil {
		t.Error("a memo of a body that no client sends")
	}
}

// A memo is bound to its bytes and to the secret.
func TestMemoIsChecked(t *testing.T) {
	h := NewHasher(secret)
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`)
	ix := parse(t, body)
	ix.Digest(h)
	m := ix.Memo(h)
	ix.Release()
	for _, c := range []struct {
		name  string
		body  string
		h     *Hasher
		known bool
	}{
		{"the same", string(body), h, true},
		{"another end", strings.Replace(string(body), `"b"`, `"c"`, 1), h, true},
		{"no more than the memo", string(body[:m.at]), h, true},
		{"less than the memo", string(body[:m.at-1]), h, false},
		{"another message", strings.Replace(string(body), `"a"`, `"c"`, 1), h, false},
		{"another byte in between", strings.Replace(string(body), `"a"`, `"a" `, 1), h, false},
		{"another model", strings.Replace(string(body), `"m"`, `"n"`, 1), h, false},
		{"another secret", string(body), NewHasher(slices.Repeat([]byte("x"), 32)), false},
	} {
		if ix, known := readOn(t, []byte(c.body), m, c.h); known != c.known {
			t.Errorf("%s: known %v", c.name, known)
		} else if ix != nil {
			ix.Release()
		}
	}
	if _, known, err := ParseOn(body, UnknownFormat, m, h); known || err == nil {
		t.Error("a memo of another format is read on")
	}
}

// Whatever follows the bytes of a memo, reading on gives what reading all gives.
func FuzzReadOn(f *testing.F) {
	for seed := range uint64(20) {
		m := gen.New(rand.New(rand.NewPCG(seed, 3)), gen.Options{Strange: true, Wild: seed%2 == 0, ResultBytes: 30})
		c := m.Conversation(int(seed%3) + 1)
		body := c.Body()
		m.Turn(c)
		f.Add(body, c.Body(), uint16(len(body)/2))
	}
	h := NewHasher(secret)
	f.Fuzz(func(t *testing.T, body, next []byte, at uint16) {
		if len(body)+len(next) > maxFuzz {
			return
		}
		ix, err := Parse(body, Anthropic)
		if err != nil {
			return
		}
		ix.Digest(h)
		m := ix.Memo(h)
		ix.Release()
		if m == nil {
			return
		}
		for _, tail := range [][]byte{next[min(int(at), len(next)):], next[min(int(m.at), len(next)):]} {
			if ix, _ := readOn(t, append(slices.Clone(body[:m.at]), tail...), m, h); ix != nil {
				again, _ := readOn(t, ix.Body, ix.Memo(h), h)
				again.Release()
				ix.Release()
			}
		}
	})
}
