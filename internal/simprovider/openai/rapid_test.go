package openai

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// cell is one block of a drawn prompt, as the naive caches see it.
type cell struct {
	who, text string
	mark      bool
	end       bool // an implicit breakpoint may stand here
	head      bool // the developer's initial words end here
}

func (c cell) weight() int { return len(":typesinput_text:texts") + len(c.text) }

func (c cell) tokens() int { return int(math.Ceil(float64(c.weight()) / 3.6)) }

func (c cell) value() string { return c.who + "|" + c.text }

// drawn is a body and what it says.
type drawn struct {
	key      string
	explicit bool
	cells    []cell
	body     []byte
}

var drawnRoles = []string{"user", "user", "developer", "user", "user"}

// drawBody draws a conversation out of few texts, so that beginnings come again.
func drawBody(t *rapid.T, model string, marks bool) drawn {
	d := drawn{key: rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"), explicit: marks && rapid.Bool().Draw(t, "explicit")}
	var items []string
	initial := true
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		role := rapid.SampledFrom(drawnRoles).Draw(t, "role")
		initial = initial && role == "developer"
		var parts []string
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			text := strings.Repeat("ab", rapid.SampledFrom([]int{10, 400, 1500, 2100}).Draw(t, "size")) + rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "tail")
			mark := marks && rapid.IntRange(0, 3).Draw(t, "mark") == 0
			more := ""
			if mark {
				more = marked
			}
			d.cells = append(d.cells, cell{who: role, text: text, mark: mark})
			parts = append(parts, fmt.Sprintf(`{"type":"input_text","text":%q%s}`, text, more))
		}
		last := &d.cells[len(d.cells)-1]
		if last.end = role == "user"; initial {
			for i := range d.cells {
				d.cells[i].end, d.cells[i].head = false, false
			}
			last.end, last.head = true, true
		}
		items = append(items, says(role, parts...))
	}
	members := ""
	if d.key != "" {
		members += `"prompt_cache_key":"k",`
	}
	if d.explicit {
		members += `"prompt_cache_options":{"mode":"explicit"},`
	}
	d.body = conv(model, members, items...)
	return d
}

func total(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += c.tokens()
	}
	return n
}

// common is how many tokens two prompts begin with in common.
func common(a, b []cell) int {
	n := 0
	for i := range min(len(a), len(b)) {
		if a[i].value() == b[i].value() {
			n += a[i].tokens()
			continue
		}
		if a[i].who != b[i].who {
			return n
		}
		same := 0
		for same < min(len(a[i].text), len(b[i].text)) && a[i].text[same] == b[i].text[same] {
			same++
		}
		bytes, more := len(":texts")+same, 0
		for int(float64(more+1)*3.6) <= bytes && more+1 < min(a[i].tokens(), b[i].tokens()) {
			more++
		}
		return n + more
	}
	return n
}

// TestStepsAreNaive: what is read is the longest beginning, in whole steps, of any prompt that was sent within the life of the
// cache under the same key.
func TestStepsAreNaive(t *testing.T) {
	type sent struct {
		drawn
		at time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom([]string{plain, "gpt-5-mini", coarse}).Draw(t, "model")
		facts, _ := lookup(model)
		s, at := New(Options{}), start
		var before []sent
		for range rapid.IntRange(2, 8).Draw(t, "requests") {
			at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Minute, 20 * time.Minute, 13 * time.Hour}).Draw(t, "pause"))
			d, want := drawBody(t, model, false), 0
			life := 5 * time.Minute
			if facts.extended {
				life = 24 * time.Hour
			}
			for _, b := range before {
				if n := common(b.cells, d.cells) / facts.step * facts.step; n >= 1024 && b.key == d.key && at.Sub(b.at) <= life {
					want = max(want, n)
				}
			}
			got := must(t, s, pathResponses, d.body, nil, at).Usage
			if got.Read != want || got.Write != 0 || got.Input != total(d.cells)-want {
				t.Fatalf("%+v, want %d of %d read", got, want, total(d.cells))
			}
			if total(d.cells) >= 1024 { // shorter prompts are not cached
				before = append(before, sent{d, at})
			}
		}
	})
}

// naivePoint is an entry of a naive cache with breakpoints.
type naivePoint struct {
	key    string
	values []string
	start  time.Time
}

// naivePoints is the cache as the documentation tells it, with whole prefixes compared one by one.
type naivePoints struct {
	policy  Policy
	entries []*naivePoint
}

func values(cells []cell) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = c.value()
	}
	return out
}

func (c *naivePoints) find(key string, cells []cell, at time.Time) *naivePoint {
	for _, e := range c.entries {
		if (c.policy.AnyKey || e.key == key) && at.Sub(e.start) <= 30*time.Minute+c.policy.Beyond && slices.Equal(e.values, values(cells)) {
			return e
		}
	}
	return nil
}

func (c *naivePoints) call(d drawn, at time.Time) Usage {
	var lookups, writes []int
	for i := range d.cells {
		if d.cells[i].mark || !d.explicit && (d.cells[i].end || d.cells[i].head) {
			lookups = append(lookups, i)
		}
	}
	left := 4
	for i := len(d.cells) - 1; i >= 0 && !d.explicit; i-- {
		if d.cells[i].end {
			writes, left = append(writes, i), 3
			break
		}
	}
	for i := len(d.cells) - 1; i >= 0 && left > 0; i-- {
		if d.cells[i].mark {
			left--
			writes = append(writes, i)
		}
	}
	hit := -1
	for _, i := range lookups {
		if c.find(d.key, d.cells[:i+1], at) != nil {
			hit = i
		}
	}
	read := total(d.cells[:hit+1])
	for i := range hit + 1 {
		if e := c.find(d.key, d.cells[:i+1], at); e != nil && (i == hit || c.policy.RefreshAll) {
			e.start = at
		}
	}
	end := read
	for _, i := range writes {
		if size := total(d.cells[:i+1]); size >= 1024 && (i > hit || !c.policy.SkipBelow) {
			end = max(end, size)
			if e := c.find(d.key, d.cells[:i+1], at); e == nil {
				c.entries = append(c.entries, &naivePoint{d.key, values(d.cells[:i+1]), at})
			} else if i > hit {
				e.start = at
			}
		}
	}
	return Usage{Input: total(d.cells) - end, Read: read, Write: end - read}
}

// TestPointsAreNaive: a model with breakpoints bills what the documentation says, whatever the policy.
func TestPointsAreNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			AnyKey: rapid.Bool().Draw(t, "any key"), RefreshAll: rapid.Bool().Draw(t, "refresh all"), SkipBelow: rapid.Bool().Draw(t, "skip below"),
			Beyond: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "beyond"),
		}
		s, at, c := New(Options{Policy: policy}), start, &naivePoints{policy: policy}
		for range rapid.IntRange(2, 10).Draw(t, "requests") {
			at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, 12 * time.Minute, 31 * time.Minute}).Draw(t, "pause"))
			d := drawBody(t, modern, true)
			cached := s.Cached(pathResponses, d.body, at)
			got := must(t, s, pathResponses, d.body, nil, at).Usage
			if got.Output = 0; got != c.call(d, at) {
				t.Fatalf("%+v differs", got)
			}
			if cached != got.Read {
				t.Fatalf("read %d, but %d cached", got.Read, cached)
			}
		}
	})
}

// TestFormsDoNotCount: blanks, escapes, order and form of equal content, ids and states do not change what is cached.
func TestFormsDoNotCount(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	same := map[string][]string{
		pathChat: {
			`{"model":"M","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"` + long + `"},` + calls("a") + `,` + tool("a", "x") + `]}`,
			`{ "messages" : [{"content":[{"text":"` + strings.ReplaceAll(long, "ä", `\u00e4`) + `","type":"text"}],"role":"user"}, ` +
				strings.Replace(calls("a"), `"content":null`, `"refusal":null`, 1) + `,{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"}]}],` +
				`"tools":[{"type" : "function","function":{"name":"f"}}],"model":"M","temperature":1}`,
		},
		pathResponses: {
			`{"model":"M","input":[{"role":"user","content":"` + long + `"},` + says("assistant", `{"type":"output_text","text":"y"}`) + `,` + call("a") + `,` + output("a", "x") + `]}`,
			`{"input":[{"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"` + long + `"}]},` +
				`{"type":"message","status":"completed","id":"msg_2","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"y","logprobs":[]}]},` +
				strings.Replace(call("a"), `{`, `{"id":"fc_1","status":"completed",`, 1) + `,` +
				`{"id":"fco_1","type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"x"}]}],"model":"M","store":false}`,
		},
	}
	for path, bodies := range same {
		for _, model := range []string{plain, modern} {
			s := New(Options{})
			first := must(t, s, path, []byte(strings.ReplaceAll(bodies[0], `"M"`, `"`+model+`"`)), nil, start)
			again := must(t, s, path, []byte(strings.ReplaceAll(bodies[1], `"M"`, `"`+model+`"`)), nil, start)
			if again.Prompt != first.Prompt || again.Usage.Read < first.Prompt-128 {
				t.Errorf("%s %s: %d of %d read (first %d)", path, model, again.Usage.Read, again.Prompt, first.Prompt)
			}
		}
	}
}
