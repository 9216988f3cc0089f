package cache

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// met is what an outbound meets where only these entries are a part of it, sent last at that time.
func met(at time.Time, ids ...byte) map[Digest]time.Time {
	m := map[Digest]time.Time{}
	for _, id := range ids {
		m[Digest{id}] = at
	}
	return m
}

// TestConfirm: what one usage says of the entries of an outbound with breakpoints at a third, two thirds and the end.
func TestConfirm(t *testing.T) {
	key, now := Digest{9}, epoch.Add(time.Hour)
	marks := func(ttl time.Duration) (all []Mark) {
		for i := range 3 {
			all = append(all, Mark{ID: Digest{byte(i + 1)}, Cells: int32(i+1) * 10, TTL: ttl, Weight: int32(i+1) * 9000})
		}
		return all
	}
	held := func(*Entry) bool { return true }
	short, long := marks(Short), marks(Long)
	known := func(tokens int32, ttl, sureTTL time.Duration, ago time.Duration) []Entry {
		return []Entry{{Key: key, ID: Digest{1}, Cells: 10, TTL: ttl, Start: now.Add(-ago), Weight: 9000, Tokens: tokens, Sure: now.Add(-ago), SureTTL: sureTTL}}
	}
	for _, c := range []struct {
		name    string
		entries []Entry
		marks   []Mark
		met     map[Digest]time.Time
		billed  Billed
		want    [3]time.Duration // by mark: how long it is certain to live, 0 if it is not certain
	}{
		{name: "all of it was written", marks: short, billed: Billed{Write5m: 9000, Minimum: 1024}, want: [3]time.Duration{Short, Short, Short}},
		{name: "all of it was written for an hour", marks: long, billed: Billed{Write1h: 9000, Minimum: 1024}, want: [3]time.Duration{Long, Long, Long}},
		{
			name: "asked for an hour, written for five minutes", marks: long, billed: Billed{Write5m: 9000, Minimum: 1024},
			want: [3]time.Duration{Short, Short, Short},
		},
		{name: "nothing is cached", marks: short, billed: Billed{Minimum: 1024}},
		{name: "the shorter prefixes are below the minimum", marks: short, billed: Billed{Write5m: 1500, Minimum: 1400}, want: [3]time.Duration{2: Short}},
		{
			name: "a prefix so near the minimum that nobody can tell", marks: short, billed: Billed{Write5m: 4500, Minimum: 1024},
			want: [3]time.Duration{1: Short, 2: Short},
		},
		{
			name: "of what was read nobody knows how far it reaches", marks: short, billed: Billed{Read: 2900, Write5m: 6100, Minimum: 1024},
			want: [3]time.Duration{2: Short},
		},
		{name: "what was written is itself below the minimum", marks: short, billed: Billed{Write5m: 1000, Minimum: 1024}},
		{name: "and just above it", marks: short, billed: Billed{Write5m: 1030, Minimum: 1024}, want: [3]time.Duration{2: Short}},
		{
			name: "a tail whose increment is tiny", entries: known(9000, Short, Short, time.Minute), met: met(now.Add(-time.Minute), 1), marks: short,
			billed: Billed{Read: 9000, Write5m: 3, Minimum: 1024}, want: [3]time.Duration{Short, Short, Short},
		},
		{
			name: "the tail was read", marks: short, billed: Billed{Read: 9000, Minimum: 1024},
			want: [3]time.Duration{2: Short},
		},
		{
			name: "what was read is certain by its size", entries: known(3000, Short, Short, time.Minute), met: met(now.Add(-time.Minute), 1),
			marks: short, billed: Billed{Read: 3000, Write5m: 6000, Minimum: 1024}, want: [3]time.Duration{Short, Short, Short},
		},
		{
			name: "what was certain of an hour stays so", entries: known(3000, Long, Long, 40*time.Minute), met: met(now.Add(-40*time.Minute), 1),
			marks: short, billed: Billed{Read: 3000, Write5m: 6000, Minimum: 1024}, want: [3]time.Duration{Long, Short, Short},
		},
		{
			name: "what outlived five minutes was written for an hour", entries: known(3000, Long, Short, 40*time.Minute), met: met(now.Add(-40*time.Minute), 1),
			marks: long, billed: Billed{Read: 3000, Write1h: 6000, Minimum: 1024}, want: [3]time.Duration{Long, Long, Long},
		},
		{
			name: "unless a request in between, of which nobody knows what it wrote", entries: known(3000, Long, Short, 40*time.Minute),
			met: met(now.Add(-2*time.Minute), 1), marks: long, billed: Billed{Read: 3000, Write1h: 6000, Minimum: 1024},
			want: [3]time.Duration{Short, Long, Long},
		},
		{
			name: "what is no part of the outbound was not read, whatever its size", entries: known(6000, Short, Short, 10*time.Minute),
			marks: short[1:], billed: Billed{Read: 6000, Write5m: 3000, Minimum: 1024}, want: [3]time.Duration{2: Short},
		},
		{
			name: "a prefix with other thoughts is another one", marks: short, billed: Billed{Write5m: 9000, Minimum: 1024},
			entries: []Entry{{Key: key, ID: Digest{3}, Cells: 30, TTL: Short, Start: now.Add(-time.Minute), Weight: 28_000, Thoughts: 2}},
			want:    [3]time.Duration{Short, Short, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries := Note(c.entries, key, c.marks, held, now)
			entries = Confirm(entries, key, c.marks, c.met, c.billed, now)
			var got [3]time.Duration
			for i := range entries {
				if e := &entries[i]; e.SureAlive(now) {
					got[e.ID[0]-1] = e.SureTTL
				}
			}
			if got != c.want {
				t.Errorf("certain for %v, want %v", got, c.want)
			}
		})
	}
}

// TestConfirmTakesNoSpans: an assumed span and the entries of another key are nobody's word.
func TestConfirmTakesNoSpans(t *testing.T) {
	key := Digest{9}
	marks := []Mark{{ID: Digest{1}, Cells: 10, TTL: Short, Weight: 9000}}
	before := []Entry{
		{Key: Digest{8}, ID: Digest{1}, Cells: 10, TTL: Short, Start: epoch, Tokens: 3000},
		{Key: key, Assumed: true, Msg: 4, TTL: Short, Start: epoch, Tokens: 3000},
	}
	after := Confirm(slices.Clone(before), key, marks, met(epoch, 1), Billed{Read: 3000, Minimum: 1024}, epoch)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// TestConfirmOrder: the order of the entries does not matter.
func TestConfirmOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := Digest{9}
		var entries []Entry
		all := map[Digest]time.Time{}
		for i := range rapid.IntRange(1, 8).Draw(t, "entries") {
			ago := time.Duration(rapid.IntRange(0, 70).Draw(t, "ago")) * time.Minute
			e := Entry{
				Key: key, ID: Digest{byte(i)}, Cells: int32(i), Msg: int32(i), TTL: rapid.SampledFrom([]time.Duration{Short, Long}).Draw(t, "ttl"),
				Start: epoch.Add(-ago), Weight: int32(i) * 3000, Tokens: int32(rapid.SampledFrom([]int{0, 1000 * i, 4000}).Draw(t, "tokens")),
			}
			if rapid.Bool().Draw(t, "sure") {
				e.Sure, e.SureTTL = e.Start, e.TTL
			}
			if entries = append(entries, e); rapid.Bool().Draw(t, "met") {
				all[e.ID] = e.Start
			}
		}
		var marks []Mark
		for i := range entries {
			if rapid.Bool().Draw(t, "mark") {
				marks = append(marks, Mark{ID: entries[i].ID, Cells: entries[i].Cells, Msg: entries[i].Msg, TTL: Short, Weight: entries[i].Weight})
			}
		}
		b := Billed{
			Read: rapid.SampledFrom([]int{0, 2000, 4000}).Draw(t, "read"), Write5m: rapid.SampledFrom([]int{0, 5, 3000}).Draw(t, "5m"),
			Write1h: rapid.SampledFrom([]int{0, 5, 3000}).Draw(t, "1h"), Minimum: 1024,
		}
		shuffled := rapid.Permutation(entries).Draw(t, "order")
		x, y := Confirm(slices.Clone(entries), key, marks, all, b, epoch), Confirm(slices.Clone(shuffled), key, marks, all, b, epoch)
		slices.SortFunc(x, compare)
		slices.SortFunc(y, compare)
		if diff := cmp.Diff(x, y); diff != "" {
			t.Fatal(diff)
		}
	})
}

// text is a block of the test's prompts: the text, and whether it is a thinking block.
type text struct {
	words   string
	thought bool
}

// prompts is a conversation with a simulated provider, and the entries that are known of it.
type prompts struct {
	sim     *simprovider.Sim
	noLift  bool
	blocks  []text
	at      time.Time
	entries []Entry
	seen    [][]text // what was sent
	late    []func()
	sure    int
}

// step is one more block of a running hash; thoughts leave no trace in it.
func step(id Digest, b text) Digest {
	if b.thought {
		return id
	}
	h := binary.LittleEndian.Uint64(id[:])
	for _, c := range []byte(b.words + "\x00") {
		h = (h ^ uint64(c)) * 1099511628211
	}
	binary.LittleEndian.PutUint64(id[:], h)
	return id
}

// body writes the blocks, a message each, with breakpoints on the given ones.
func body(blocks []text, marks map[int]string) []byte {
	type message struct {
		Role    string           `json:"role"`
		Content []map[string]any `json:"content"`
	}
	messages := []message{{Role: "user", Content: []map[string]any{{"type": "text", "text": "hello"}}}}
	for i, b := range blocks {
		block := map[string]any{"type": "text", "text": b.words}
		if b.thought {
			block = map[string]any{"type": "thinking", "thinking": b.words, "signature": "c2ln"}
		}
		if ttl := marks[i]; ttl != "" {
			block["cache_control"] = map[string]any{"type": "ephemeral", "ttl": ttl}
		}
		messages = append(messages, message{[]string{"assistant", "user"}[i%2], []map[string]any{block}})
	}
	out, _ := json.Marshal(map[string]any{"model": "claude-sonnet-4-6", "max_tokens": 100, "messages": messages})
	return out
}

// send plays one request with breakpoints on the given blocks; its response is seen at once, later or never.
func (p *prompts) send(t *rapid.T, ttl string, at []int, response string) {
	wanted := map[int]string{}
	marks := make([]Mark, 0, len(at))
	life := map[string]time.Duration{"5m": Short, "1h": Long}[ttl]
	ids, weights, thoughts := p.measure(p.blocks)
	for _, i := range at {
		wanted[i] = ttl
		marks = append(marks, Mark{ID: ids[i], Cells: int32(i + 1), Msg: int32(i + 1), TTL: life, Weight: weights[i], Thoughts: thoughts[i]})
	}
	meets := map[Digest]time.Time{}
	part := func(e *Entry) bool { return int(e.Cells) <= len(ids) && ids[e.Cells-1] == e.ID }
	for i := range p.entries {
		if e := &p.entries[i]; part(e) && thoughts[e.Cells-1] == e.Thoughts {
			meets[e.ID] = later(meets[e.ID], e.Start)
		}
	}
	now := p.at
	p.entries = Note(p.entries, Digest{9}, marks, part, now)
	r := p.sim.Call(body(p.blocks, wanted), http.Header{"X-Api-Key": {"k"}}, now)
	if r.Status != http.StatusOK {
		t.Fatalf("refused: %v", r.Err)
	}
	p.seen = append(p.seen, slices.Clone(p.blocks))
	u := r.Usage
	confirm := func() {
		p.entries = Confirm(p.entries, Digest{9}, marks, meets, Billed{Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Minimum: 1024}, now)
	}
	switch response {
	case "seen":
		confirm()
	case "late":
		p.late = append(p.late, confirm)
	}
}

// measure computes ids, weights and thoughts of every prefix. A weight is of JSON, not of what the provider counts.
func (p *prompts) measure(blocks []text) (ids []Digest, weights, thoughts []int32) {
	id, weight, n := Digest{7}, int32(100), int32(0)
	for _, b := range blocks {
		quoted, _ := json.Marshal(b.words)
		id, weight = step(id, b), weight+int32(len(quoted))+40
		if b.thought {
			n++
		}
		ids, weights, thoughts = append(ids, id), append(weights, weight), append(thoughts, n)
	}
	return ids, weights, thoughts
}

// check reads every entry that is said to be certain.
func (p *prompts) check(t *rapid.T) {
	for i := range p.entries {
		e := &p.entries[i]
		if !e.SureAlive(p.at) || p.noLift && p.at.Sub(e.Sure) > Short { // a bill does not say that a lift is void
			continue
		}
		p.sure++
		if !slices.ContainsFunc(p.seen, func(blocks []text) bool { return p.reads(blocks, e) }) {
			t.Fatalf("%d blocks are certain until %v, at %v nothing is read", e.Cells, e.Sure.Add(e.SureTTL).Sub(epoch), p.at.Sub(epoch))
		}
	}
}

// reads reports whether the provider reads the entry for a prompt that begins with it.
func (p *prompts) reads(blocks []text, e *Entry) bool {
	ids, _, thoughts := p.measure(blocks)
	n := int(e.Cells)
	if n > len(ids) || ids[n-1] != e.ID || thoughts[n-1] != e.Thoughts {
		return false
	}
	alone := body(blocks[:n], map[int]string{n - 1: "5m"})
	whole := simprovider.New(simprovider.Options{NoLog: true}).Call(alone, nil, p.at)
	return p.sim.Cached(alone, p.at) == whole.Prompt
}

// TestConfirmIsSure: whatever of several policies the provider follows, whichever responses are seen and when, it holds every
// entry that is certain.
func TestConfirmIsSure(t *testing.T) {
	sure := 0
	rapid.Check(t, func(t *rapid.T) {
		policy := simprovider.Policy{
			Refresh:   rapid.SampledFrom([]simprovider.Refresh{simprovider.RefreshHit, simprovider.RefreshMarks, simprovider.RefreshAll}).Draw(t, "refresh"),
			SkipBelow: rapid.Bool().Draw(t, "skip below"), Upgrade: rapid.Bool().Draw(t, "upgrade"), NoLift: rapid.Bool().Draw(t, "no lift"),
		}
		p := &prompts{sim: simprovider.New(simprovider.Options{Policy: policy, NoLog: true}), noLift: policy.NoLift, at: epoch}
		word := rapid.SampledFrom([]string{"plain ", "\"\n\t\"", "ab"})
		size := rapid.SampledFrom([]int{3, 300, 1000, 2500})
		block := func() text {
			return text{strings.Repeat(word.Draw(t, "word"), size.Draw(t, "size")) + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "end"), false}
		}
		for range rapid.IntRange(2, 14).Draw(t, "requests") {
			switch rapid.SampledFrom([]string{"grow", "grow", "again", "other end", "back", "forget"}).Draw(t, "does") {
			case "other end": // of the same size
				if n := len(p.blocks); n > 0 {
					p.blocks = slices.Clone(p.blocks)
					last := &p.blocks[n-1]
					last.words = last.words[:len(last.words)-1] + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "end")
				}
			case "back":
				p.blocks = p.blocks[:max(min(2, len(p.blocks)), len(p.blocks)-rapid.SampledFrom([]int{2, 4}).Draw(t, "by"))]
			case "forget": // an empty thought takes the place of none
				p.blocks = slices.Clone(p.blocks)
				for i := range p.blocks[:max(0, len(p.blocks)-1)] {
					p.blocks[i].thought = false
				}
			case "grow":
				thought := block()
				thought.thought = rapid.Bool().Draw(t, "thought")
				p.blocks = append(slices.Clip(p.blocks), thought, block())
			}
			if len(p.blocks) == 0 {
				p.blocks = []text{block(), block()}
			}
			n := len(p.blocks)
			at := []int{n - 1}
			for _, back := range []int{2, 4} {
				if n > back && !p.blocks[n-1-back].thought && rapid.Bool().Draw(t, "mark") {
					at = append([]int{n - 1 - back}, at...)
				}
			}
			ttl := rapid.SampledFrom([]string{"5m", "1h"}).Draw(t, "ttl")
			p.send(t, ttl, at, rapid.SampledFrom([]string{"seen", "seen", "late", "never"}).Draw(t, "response"))
			p.check(t)
			p.at = p.at.Add(rapid.SampledFrom([]time.Duration{
				time.Second, time.Minute, 4*time.Minute + 50*time.Second, 7 * time.Minute, 30 * time.Minute, 62 * time.Minute, 3 * time.Minute,
			}).Draw(t, "pause"))
			if rapid.Bool().Draw(t, "arrives") {
				for _, f := range p.late {
					f()
				}
				p.late = nil
			}
			p.check(t)
		}
		sure += p.sure
	})
	if sure == 0 {
		t.Error("nothing was ever certain")
	}
	t.Logf("%d certain entries were read", sure)
}
