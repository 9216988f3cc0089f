package bedrock

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// cell is one block of a drawn prompt, as the naive cache sees it.
type cell struct {
	who, text string
	ttl       time.Duration // of its breakpoint, 0 without one
}

func (c cell) tokens() int { return int(math.Ceil(float64(len("typetexttext")+len(c.text)) / 3.6)) }

func total(cells []cell) (n int) {
	for _, c := range cells {
		n += c.tokens()
	}
	return n
}

// drawBody draws a conversation out of few texts, with at most four cachePoints whose lifetimes do not grow.
func drawBody(t *rapid.T) (cells []cell, body []byte) {
	left, ttl := 4, time.Hour
	block := func(who string) string {
		text := strings.Repeat("ab", rapid.SampledFrom([]int{10, 400, 1500, 2100}).Draw(t, "size")) + rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "tail")
		c, out := cell{who: who, text: text}, words(text)
		if left > 0 && rapid.IntRange(0, 2).Draw(t, "point") == 0 {
			left--
			if rapid.Bool().Draw(t, "short") {
				ttl = 5 * time.Minute
			}
			c.ttl = ttl
			out += "," + map[time.Duration]string{time.Hour: pointLong, 5 * time.Minute: point}[ttl]
		}
		cells = append(cells, c)
		return out
	}
	members := ""
	if rapid.Bool().Draw(t, "system") {
		members = `"system":[` + block("system") + `],`
	}
	var messages []string
	for i := range 2*rapid.IntRange(0, 13).Draw(t, "pairs") + 1 {
		who := []string{"user", "assistant"}[i%2]
		blocks := []string{block(who)}
		if rapid.Bool().Draw(t, "two") {
			blocks = append(blocks, block(who))
		}
		messages = append(messages, says(who, blocks...))
	}
	return cells, conv(members, messages...)
}

// naive is the cache as the documentation tells it, with whole prefixes compared one by one.
type naive struct{ entries []*prefix }

type prefix struct {
	cells []cell
	ttl   time.Duration
	start time.Time
}

func (c *naive) find(cells []cell, when time.Time) *prefix {
	same := func(a, b cell) bool { return a.who == b.who && a.text == b.text }
	for _, e := range c.entries {
		if when.Sub(e.start) <= e.ttl && slices.EqualFunc(e.cells, cells, same) {
			return e
		}
	}
	return nil
}

func (c *naive) call(cells []cell, when time.Time) Usage {
	hit := -1
	for i := range cells {
		for back := range 20 {
			if at := i - back; cells[i].ttl > 0 && at > hit && c.find(cells[:at+1], when) != nil {
				hit = at
			}
		}
	}
	u := Usage{Read: total(cells[:hit+1])}
	if hit >= 0 {
		c.find(cells[:hit+1], when).start = when
	}
	end := u.Read
	for i := range cells {
		size := total(cells[:i+1])
		if cells[i].ttl == 0 || size < 1024 {
			continue
		}
		if i > hit && cells[i].ttl == time.Hour {
			u.Write1h = size - u.Read
		}
		end = max(end, size)
		if e := c.find(cells[:i+1], when); e == nil {
			c.entries = append(c.entries, &prefix{cells[:i+1], cells[i].ttl, when})
		}
	}
	u.Write5m, u.Input = end-u.Read-u.Write1h, total(cells)-end
	return u
}

// TestCacheIsNaive: Converse bills what the documentation says.
func TestCacheIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, when, c := New(Options{}), start, &naive{}
		for range rapid.IntRange(2, 8).Draw(t, "requests") {
			when = when.Add(rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Minute, 20 * time.Minute, 61 * time.Minute}).Draw(t, "pause"))
			cells, body := drawBody(t)
			cached := s.Cached(at(sonnet, "converse"), body, when)
			got, want := input(t, s, at(sonnet, "converse"), body, when), c.call(cells, when)
			if got != want || cached != got.Read {
				t.Fatalf("%+v with %d cached, want %+v", got, cached, want)
			}
		}
	})
}

// saysNothing reports whether a conversation has a text that Bedrock takes for none.
func saysNothing(c *gen.Conversation) bool {
	empty := func(blocks []gen.Block) bool {
		return slices.ContainsFunc(blocks, func(b gen.Block) bool {
			text, ok := b.Get("text").(string)
			return ok && strings.TrimSpace(text) == ""
		})
	}
	return empty(c.System) || slices.ContainsFunc(c.Messages, func(m gen.Message) bool { return empty(m.Blocks) })
}

// TestClientsAreAccepted: what a client lawfully writes is accepted in either form, and read again as it grows.
func TestClientsAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Conversation(gen.Options{Wild: rapid.Bool().Draw(t, "wild"), Dialects: true}, 3).Draw(t, "conversation")
		if saysNothing(c) {
			return
		}
		s := New(Options{CharsPerToken: 0.05}) // everything is long enough to be cached
		read := 0
		for _, end := range c.Ends() {
			turn := c.Clone()
			turn.Truncate(end)
			turn.Mark(gen.Short)
			res := must(t, s, at(sonnet, "converse"), turn.As(gen.Converse), nil, start)
			if res.Usage.Read < read {
				t.Fatalf("read %d of %d", res.Usage.Read, read)
			}
			read = res.Usage.Read + res.Usage.Write5m
			must(t, s, at(sonnet, "invoke"), ofInvoke(turn).As(gen.Anthropic), nil, start)
		}
	})
}

// ofInvoke is a conversation as clients write it for InvokeModel.
func ofInvoke(c *gen.Conversation) *gen.Conversation {
	c = c.Clone()
	c.Model = ""
	c.Extra = slices.DeleteFunc(slices.Clone(c.Extra), func(m gen.Member) bool { return m.Key == "stream" })
	c.Extra = append(c.Extra, gen.Member{Key: "anthropic_version", Value: anthropicVersion})
	return c
}

// FuzzBody: no body makes the simulator panic; a refusal has a text; usage adds up, and the second of two equal requests reads
// what the first left.
func FuzzBody(f *testing.F) {
	for _, c := range append(append(converseRefusals(), pointRefusals()...), modelRefusals()...) {
		f.Add(strings.HasSuffix(c.path, "/converse"), c.body)
	}
	f.Add(true, conv(tools, says("user", words(sized("a", 1500)), point), says("assistant", use("a")), says("user", result("a", "x"), point)))
	f.Fuzz(func(t *testing.T, isConverse bool, body []byte) {
		path := at(sonnet, "invoke")
		if isConverse {
			path = at(sonnet, "converse")
		}
		s := New(Options{})
		res := s.Call(path, body, nil, start)
		if res.Err != nil {
			if res.Status < 400 || res.Err.Message == "" || res.Usage != (Usage{}) {
				t.Errorf("%+v", res)
			}
			return
		}
		if u := res.Usage; !utf8.Valid(body) || u.Read != 0 || u.Input < 0 || u.Input+u.Write5m+u.Write1h != res.Prompt {
			t.Errorf("usage %+v of a prompt of %d", u, res.Prompt)
		}
		again := s.Call(path, body, nil, start)
		if u := again.Usage; again.Err != nil || u.Read < res.Usage.Write5m+res.Usage.Write1h {
			t.Errorf("first %+v, again %+v (%v)", res.Usage, u, again.Err)
		}
		if _, err := again.JSON(); err != nil {
			t.Error(fmt.Errorf("answer: %w", err))
		}
	})
}
