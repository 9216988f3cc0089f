package simprovider

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// naive is the cache as the documentation tells it, with whole prefixes compared one by one.
type naive struct {
	policy  Policy
	minimum int
	entries []*naiveEntry
}

type naiveEntry struct {
	values       []string
	ttl          time.Duration
	start, ready time.Time
}

func (e *naiveEntry) alive(at time.Time) bool { return at.Sub(e.start) <= e.ttl }

// cell is one block of a prompt as the naive cache sees it.
type cell struct {
	value  string
	kind   string
	tokens int
	ttl    time.Duration
}

// cells reads a body the simple way: decode everything, take cache_control out, write it again.
func cells(t *rapid.T, body []byte) []cell {
	var top struct {
		Tools, System []map[string]any
		Messages      []struct {
			Role    string
			Content []map[string]any
		}
	}
	if err := json.Unmarshal(body, &top); err != nil {
		t.Fatal(err)
	}
	var out []cell
	add := func(role string, list []map[string]any) {
		for _, b := range list {
			c := cell{}
			if control, ok := b["cache_control"].(map[string]any); ok {
				if c.ttl = 5 * time.Minute; control["ttl"] == "1h" {
					c.ttl = time.Hour
				}
			}
			delete(b, "cache_control")
			raw, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			c.kind, _ = b["type"].(string)
			c.value, c.tokens = role+string(raw), int(math.Ceil(float64(weight(b))/3.6))
			out = append(out, c)
		}
	}
	add("tools", top.Tools)
	add("system", top.System)
	for _, m := range top.Messages {
		add(m.Role, m.Content)
	}
	return out
}

func weight(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		n = utf8.RuneCountInString(v)
	case []any:
		for _, e := range v {
			n += weight(e)
		}
	case map[string]any:
		for name, e := range v {
			n += utf8.RuneCountInString(name) + weight(e)
		}
	}
	return n
}

// apart counts the positions from block i to block j: a run of calls, or of results, is one.
func apart(list []cell, i, j int) int {
	n := 0
	for k := i + 1; k <= j; k++ {
		if run := list[k].kind == "tool_use" || list[k].kind == "tool_result"; !run || list[k].kind != list[k-1].kind {
			n++
		}
	}
	return n
}

func (c *naive) find(list []cell, through int) *naiveEntry {
	for _, e := range c.entries {
		if len(e.values) == through+1 && slices.EqualFunc(e.values, list[:through+1], func(v string, c cell) bool { return v == c.value }) {
			return e
		}
	}
	return nil
}

func size(list []cell, through int) int {
	n := 0
	for _, c := range list[:through+1] {
		n += c.tokens
	}
	return n
}

// hit is the longest readable entry that some breakpoint reaches.
func (c *naive) hit(list []cell, at time.Time) int {
	best := -1
	for m := range list {
		for i := 0; list[m].ttl > 0 && i <= m; i++ {
			if e := c.find(list, i); e != nil && e.alive(at) && !at.Before(e.ready) && apart(list, i, m) < 20 {
				best = max(best, i)
			}
		}
	}
	return best
}

func (c *naive) call(list []cell, at, first time.Time) Usage {
	hit := c.hit(list, at)
	u := Usage{}
	for i := range hit + 1 { // renew
		e := c.find(list, i)
		renew := i == hit || c.policy.Refresh == RefreshAll || c.policy.Refresh == RefreshMarks && list[i].ttl > 0
		if e != nil && e.alive(at) && renew && at.After(e.start) {
			e.start = at
		}
	}
	for i, x := range list {
		counts := i > hit && size(list, lastMark(list)) >= c.minimum && i <= lastMark(list)
		switch {
		case i <= hit:
			u.Read += x.tokens
		case counts && i <= lastLong(list, c.minimum):
			u.Write1h += x.tokens
		case counts:
			u.Write5m += x.tokens
		default:
			u.Input += x.tokens
		}
	}
	var base *naiveEntry
	if hit >= 0 {
		base = c.find(list, hit)
	}
	for i, x := range list {
		if x.ttl > 0 && size(list, i) >= c.minimum {
			c.mark(list, i, i <= hit, base, at, first)
		}
	}
	return u
}

func (c *naive) mark(list []cell, i int, below bool, base *naiveEntry, at, first time.Time) {
	e, ttl := c.find(list, i), list[i].ttl
	if c.policy.NoLift && base != nil {
		ttl = min(ttl, base.ttl)
	}
	if e != nil && e.alive(at) {
		if !below {
			e.ttl = max(e.ttl, ttl)
		} else if c.policy.Upgrade {
			e.ttl = max(e.ttl, list[i].ttl)
		}
		if !below {
			if at.After(e.start) {
				e.start = at
			}
			if first.Before(e.ready) {
				e.ready = first
			}
		}
		return
	}
	if below && c.policy.SkipBelow {
		return
	}
	c.entries = slices.DeleteFunc(c.entries, func(o *naiveEntry) bool { return o == e })
	values := make([]string, i+1)
	for k := range values {
		values[k] = list[k].value
	}
	c.entries = append(c.entries, &naiveEntry{values, ttl, at, first})
}

func lastMark(list []cell) int {
	last := 0
	for i, c := range list {
		if c.ttl > 0 {
			last = i
		}
	}
	return last
}

func lastLong(list []cell, minimum int) int {
	last := -1
	for i, c := range list {
		if c.ttl == time.Hour && size(list, i) >= minimum {
			last = i
		}
	}
	return last
}

// story draws bodies of one conversation: turns are added, taken back and changed, breakpoints stand anywhere.
type story struct {
	blocks []drawn // of the messages, in order
	calls  int
}

type drawn struct {
	role, block string
}

func (s *story) add(t *rapid.T) {
	text := func(role string) drawn {
		n := rapid.SampledFrom([]int{8, 20, 300, 700}).Draw(t, "size")
		return drawn{role, sized(rapid.SampledFrom([]string{"a", "b", "é"}).Draw(t, "text"), n)}
	}
	switch rapid.IntRange(0, 3).Draw(t, "turn") {
	case 0:
		s.blocks = append(s.blocks, text("user"))
	case 1:
		s.blocks = append(s.blocks, text("assistant"), text("user"))
	default:
		n := rapid.SampledFrom([]int{1, 1, 2, 12}).Draw(t, "calls")
		for i := range n {
			s.blocks = append(s.blocks, drawn{"assistant", use(fmt.Sprint("t", s.calls+i))})
		}
		for i := range n {
			s.blocks = append(s.blocks, drawn{"user", result(fmt.Sprint("t", s.calls+i))})
		}
		s.calls += n
	}
}

// cut takes turns back; what is left ends with a user's block that completes its turn.
func (s *story) cut(t *rapid.T) {
	n := rapid.IntRange(1, len(s.blocks)).Draw(t, "cut")
	for n < len(s.blocks) && (s.blocks[n-1].role != "user" || strings.Contains(s.blocks[n].block, "tool_result")) {
		n++
	}
	s.blocks = s.blocks[:n]
}

// body writes the conversation with breakpoints in up to four places, 1h before 5m.
func (s *story) body(t *rapid.T, model string) []byte {
	tool := `{"name":"Read","input_schema":{},"type":"custom"}`
	system := sized("system", rapid.SampledFrom([]int{30, 700}).Draw(t, "system"))
	list := append([]drawn{{"tools", tool}, {"system", system}}, s.blocks...)
	places := rapid.SliceOfNDistinct(rapid.IntRange(0, min(len(list)-1, 24)), 0, 4, rapid.ID[int]).Draw(t, "breakpoints")
	for i, p := range places {
		places[i] = len(list) - 1 - p // mostly near the end
	}
	slices.Sort(places)
	places = slices.Compact(places)
	longs := rapid.IntRange(0, len(places)).Draw(t, "1h")
	for i, p := range places {
		marker := mark5m
		if i < longs {
			marker = mark1h
		}
		list[p].block = list[p].block[:len(list[p].block)-1] + marker + "}"
	}
	messages := make([]string, 0, len(s.blocks))
	for _, d := range list[2:] { // neighbours of one role are one turn, so every block may be a message
		messages = append(messages, says(d.role, []string{d.block}))
	}
	return conv(model, fmt.Sprintf(`"tools":[%s],"system":[%s],`, list[0].block, list[1].block), messages...)
}

// TestAgainstNaive: every request is billed as the naive cache bills it.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			Refresh:   rapid.SampledFrom([]Refresh{RefreshHit, RefreshMarks, RefreshAll}).Draw(t, "refresh"),
			SkipBelow: rapid.Bool().Draw(t, "skip below"), Upgrade: rapid.Bool().Draw(t, "upgrade"), NoLift: rapid.Bool().Draw(t, "no lift"),
		}
		id := rapid.SampledFrom([]string{modern, binding}).Draw(t, "model")
		facts, _ := lookup(id)
		s, reference := New(Options{Policy: policy}), &naive{policy: policy, minimum: facts.minimum}
		st, at := &story{}, start
		st.blocks = []drawn{{"user", sized("first", 300)}}
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				st.cut(t)
			case 1: // the same again
			default:
				st.add(t)
			}
			at = at.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Minute, short, short + 1, long, long + 1}).Draw(t, "pause"))
			delay := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 4 * time.Second}).Draw(t, "delay")
			body := st.body(t, id)
			list := cells(t, body)
			if got, want := s.Cached(body, at), size(list, reference.hit(list, at)); got != want {
				t.Fatalf("cached %d, the naive cache has %d: %s", got, want, body)
			}
			res := must(t, s, body, http.Header{simkit.HeaderDelay: {delay.String()}}, at)
			got, want := res.Usage, reference.call(list, at, at.Add(delay))
			if got.Output = 0; got != want {
				t.Fatalf("billed %+v, the naive cache says %+v: %s", got, want, body)
			}
		}
	})
}
