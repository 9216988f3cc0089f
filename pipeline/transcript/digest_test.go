package transcript

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// digests are the digests of a body by message, and its key.
type digests struct {
	key      Digest
	messages []Digest
}

func digestsOf(t rapid.TB, body []byte) digests {
	t.Helper()
	return digestsAs(t, body, Anthropic)
}

func digestsAs(t rapid.TB, body []byte, f Format) digests {
	t.Helper()
	ix, err := Parse(body, f)
	if err != nil {
		t.Fatalf("%v in %s", err, clip(body))
	}
	defer ix.Release()
	ix.Digest(NewHasher(secret))
	d := digests{key: ix.Key}
	for i := range ix.Messages {
		d.messages = append(d.messages, ix.Messages[i].Hash)
	}
	return d
}

// scatter puts breakpoints anywhere, inside results and null ones too, and changes between a string and a list of one
// block.
func scatter(t *rapid.T, c *gen.Conversation) {
	c.Unmark()
	marker := rapid.SampledFrom([]gen.Marker{gen.NoMarker, gen.NoMarker, gen.Short, gen.Long, gen.Null})
	mark := func(blocks []gen.Block) {
		for i := range blocks {
			blocks[i].Marker = marker.Draw(t, "marker")
			parts, ok := blocks[i].Get("content").(gen.List)
			if !ok {
				continue
			}
			parts = slices.Clone(parts)
			for j := range parts {
				if p, ok := parts[j].(gen.Block); ok {
					p.Marker = marker.Draw(t, "nested")
					parts[j] = p
				}
			}
			blocks[i].Set("content", parts)
		}
	}
	mark(c.System)
	mark(c.Tools)
	for i := range c.Messages {
		mark(c.Messages[i].Blocks)
		c.Messages[i].String = rapid.Bool().Draw(t, "string")
	}
	c.SystemString = rapid.Bool().Draw(t, "string")
	c.TopMarker = marker.Draw(t, "top")
	c.Seed = rapid.Uint64Max(1<<20).Draw(t, "seed")
}

// Wherever breakpoints stand, whether plain content is a string or a list, and however the body around messages is
// written, equal content has equal digests.
func TestDigestIgnoresBreakpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := strange().Draw(t, "conversation")
		b := a.Clone()
		scatter(t, a)
		scatter(t, b)
		if x, y := digestsOf(t, a.Body()), digestsOf(t, b.Body()); !reflect.DeepEqual(x, y) {
			t.Fatalf("digests differ:\n%s\n%s", a.Body(), b.Body())
		}
	})
}

// Thinking, the attribution block and deferred tools may come and go.
func TestDigestIgnoresWhatIsNotCached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := strange().Draw(t, "conversation")
		b := a.Clone()
		for i := range b.Messages {
			m := &b.Messages[i]
			m.Blocks = slices.DeleteFunc(m.Blocks, func(b gen.Block) bool { return b.Type() == "thinking" || b.Type() == "redacted_thinking" })
		}
		b.SystemString = false
		a.SystemString = false
		b.System = append([]gen.Block{gen.Text("x-anthropic-billing-header: cch=1;")}, b.System...)
		a.System = append([]gen.Block{gen.Text("x-anthropic-billing-header: cch=2; cc=3")}, a.System...)
		b.Tools = append(b.Tools, gen.Block{Members: gen.Object{{Key: "name", Value: "later"}, {Key: "defer_loading", Value: true}}})
		if x, y := digestsOf(t, a.Body()), digestsOf(t, b.Body()); !reflect.DeepEqual(x, y) {
			t.Fatalf("digests differ:\n%s\n%s", a.Body(), b.Body())
		}
	})
}

// place is a byte of a body that some digest depends on; message is -1 for the key.
type place struct {
	at      uint32
	message int
}

// places lists, by what they are, the bytes that digests promise to depend on: the model, the text of plain blocks, every
// byte of other blocks but their breakpoints, a role that is not one of the two, and what stands beside role and content.
func places(ix *Index, model Span) map[string][]place {
	all := map[string][]place{}
	add := func(what string, s Span, message int) {
		for at := s.Lo; at < s.Hi; at++ {
			if !slices.ContainsFunc(ix.cuts, func(c Span) bool { return c.Lo <= at && at < c.Hi }) {
				all[what] = append(all[what], place{at, message})
			}
		}
	}
	add("model", model, -1)
	for n := range int32(ix.Len()) {
		switch b := ix.Seq(n); {
		case !b.Counts():
		case b.Plain:
			add("text", b.Text, max(int(b.Msg), -1))
		default:
			add("block", b.Raw, max(int(b.Msg), -1))
		}
	}
	for i := range ix.Messages {
		m := &ix.Messages[i]
		if m.Role == OtherRole {
			add("role", m.role, i)
		}
		if m.Extra {
			add("before", Span{m.Raw.Lo, m.Content.Lo}, i)
			add("behind", Span{m.Content.Hi, m.Raw.Hi}, i)
		}
	}
	return all
}

// changeBytes changes bytes that digests promise to depend on, and counts them by what they are.
func changeBytes(t *rapid.T, ix *Index, all map[string][]place, changed map[string]int) {
	body := ix.Body
	before := digestsAs(t, body, ix.Format)
	for range 20 {
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "what")
		p := rapid.SampledFrom(all[what]).Draw(t, "place")
		other := slices.Clone(body)
		other[p.at] = rapid.SampledFrom([]byte("aZ09 é\"\\{}[]:,.-")).Draw(t, "byte")
		again, err := Parse(other, ix.Format)
		if err != nil || bytes.Equal(other, body) {
			continue
		}
		again.Release()
		after := digestsAs(t, other, ix.Format)
		if len(after.messages) != len(before.messages) {
			continue
		}
		changed[what]++
		for i := range before.messages {
			if same := before.messages[i] == after.messages[i]; same == (i == p.message) {
				t.Fatalf("byte %d belongs to message %d, but the digest of %d is the same: %v\n%s\n%s", p.at, p.message, i, same, body, other)
			}
		}
		if same := before.key == after.key; same == (p.message < 0) {
			t.Fatalf("byte %d belongs to message %d, but the key is the same: %v\n%s\n%s", p.at, p.message, same, body, other)
		}
	}
}

// Any other changed byte changes the digest of its message, or the key, and no other.
func TestDigestSeesEveryByte(t *testing.T) {
	changed := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		body := strange().Draw(t, "conversation").Body()
		ix := parse(t, body)
		defer ix.Release()
		changeBytes(t, ix, places(ix, treeOf(t, body).get("model").at), changed)
	})
	t.Logf("changed bytes: %v", changed)
	for _, what := range []string{"model", "text", "block"} { // the others are rarer than a hundred bodies always hold
		if changed[what] == 0 {
			t.Errorf("no byte of a %s was changed", what)
		}
	}
}

// The digests of an index are those of the bytes as the spans say: nothing of one block leaks into another.
func TestDigestOfBlocks(t *testing.T) {
	h := NewHasher(secret)
	rapid.Check(t, func(t *rapid.T) {
		ix := parse(t, strange().Draw(t, "conversation").Body())
		defer ix.Release()
		ix.Digest(h)
		for n := range int32(ix.Len()) {
			b := ix.Seq(n)
			var raw []byte
			for at := b.Raw.Lo; at < b.Raw.Hi; at++ {
				if !slices.ContainsFunc(ix.cuts, func(c Span) bool { return c.Lo <= at && at < c.Hi }) {
					raw = append(raw, ix.Body[at])
				}
			}
			if want := h.Sum(raw); !b.Plain && b.Hash != want {
				t.Fatalf("digest of %s is not that of %s", b.Raw.Of(ix.Body), raw)
			}
		}
	})
}

// A body with a breakpoint cut out is what a client sends that sets none there.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := strange().Draw(t, "conversation")
		scatter(t, c)
		for i := range c.Messages {
			c.Messages[i].String = false
		}
		c.SystemString = false
		body := c.Body()
		ix := parse(t, body)
		defer ix.Release()
		if len(ix.Markers) > 0 {
			cut := rapid.SampledFrom(ix.Markers).Draw(t, "marker").Cut
			one := slices.Concat(body[:cut.Lo], body[cut.Hi:])
			again := parse(t, one)
			if len(again.Markers) != len(ix.Markers)-1 {
				t.Fatalf("%d breakpoints without one of %d in %s", len(again.Markers), len(ix.Markers), one)
			}
			again.Release()
		}
		var none []byte
		at := uint32(0)
		for _, cut := range ix.cuts {
			none, at = append(none, body[at:cut.Lo]...), cut.Hi
		}
		none = append(none, body[at:]...)
		c.Unmark()
		if want := c.Body(); !bytes.Equal(none, want) {
			t.Fatalf("without breakpoints it is\n%s\nnot\n%s", none, want)
		}
	})
}

// Replaced is the digest of the block as it stands in the body that is really forwarded.
func TestReplaced(t *testing.T) {
	h := NewHasher(secret)
	replaced := 0
	rapid.Check(t, func(t *rapid.T) {
		ix := parse(t, strange().Draw(t, "conversation").Body())
		defer ix.Release()
		ix.Digest(h)
		if len(ix.Results) > 0 {
			r := &ix.Results[rapid.IntRange(0, len(ix.Results)-1).Draw(t, "result")]
			content := ix.Replacement(r, rapid.String().Draw(t, "text"))
			got := ix.Replaced(h, r, content)
			if r.Content.Len() == 0 {
				if got != ix.Blocks[r.Block].Hash {
					t.Fatal("a result without content was replaced")
				}
				return
			}
			replaced++
			out := slices.Concat(ix.Body[:r.Content.Lo], content, ix.Body[r.Content.Hi:])
			again := parse(t, out)
			again.Digest(h)
			for b := range ix.Blocks {
				want := ix.Blocks[b].Hash
				if int32(b) == r.Block {
					want = got
				}
				if again.Blocks[b].Hash != want {
					t.Fatalf("block %d of %s has another digest than was told", b, out)
				}
			}
			again.Release()
		}
	})
	if replaced == 0 {
		t.Error("no result was replaced")
	}
}

// A replacement is a JSON value of the form that it stands for, and its text is the text.
func TestReplacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		var s string
		if err := json.Unmarshal((&Index{}).Replacement(&Result{Form: StringForm}, text), &s); err != nil || s != validText(text) {
			t.Fatalf("a string of %q: %q, %v", text, s, err)
		}
		var list []map[string]string
		err := json.Unmarshal((&Index{}).Replacement(&Result{Form: TextForm}, text), &list)
		if want := []map[string]string{{"type": "text", "text": validText(text)}}; err != nil || !reflect.DeepEqual(list, want) {
			t.Fatalf("a list of %q: %q, %v", text, list, err)
		}
	})
}

func TestHasher(t *testing.T) {
	a, b := NewHasher(secret), NewHasher(append([]byte("x"), secret[1:]...))
	if a.Sum(nil) == b.Sum(nil) || a.Sum([]byte("a")) == b.Sum([]byte("a")) {
		t.Error("the digest does not depend on the secret")
	}
	if a.Sum([]byte("a")) != NewHasher(secret).Sum([]byte("a")) {
		t.Error("the digest depends on more than the secret")
	}
	seen := map[Digest]bool{}
	for _, prefix := range []Digest{{}, {1}} {
		for _, area := range []byte{0, 1, 17, 18} {
			for _, block := range []Digest{{}, {1}} {
				seen[a.Step(prefix, area, block)] = true
			}
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d prefix ids of 16", len(seen))
	}
}

// Areas tell apart what the provider tells apart.
func TestArea(t *testing.T) {
	ix := parse(t, []byte(`{"system":"s","tools":[{}],"messages":[`+
		`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"c"}]}`))
	defer ix.Release()
	seen := map[byte]bool{}
	for n := range int32(ix.Len()) {
		seen[ix.Area(ix.Seq(n))] = true
	}
	if len(seen) != ix.Len() {
		t.Errorf("%d areas of %d", len(seen), ix.Len())
	}
}

// A client that grows a conversation sends the same digests again, and new ones behind them.
func TestDigestsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := gen.New(gentest.Source(t), gen.Options{Strange: true, Wild: true, ResultBytes: 60})
		c := m.Start()
		last := digestsOf(t, c.Body())
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			m.Turn(c)
			c.Mark(gen.Short)
			next := digestsOf(t, c.Body())
			if next.key != last.key || !slices.Equal(next.messages[:len(last.messages)], last.messages) {
				t.Fatal("the digests of what was sent before changed")
			}
			last = next
		}
	})
}
