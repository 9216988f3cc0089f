package gemini

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// turn is one request of a billing case.
type turn struct {
	after time.Duration // the turn before
	body  []byte
	read  int
	total int
}

// TestBilling: what requests read, computed by hand.
func TestBilling(t *testing.T) {
	a, b, c := says("user", sized("a", 2500)), says("model", sized("b", 300)), says("user", sized("c", 100))
	image := says("user", `{"inlineData":{"mimeType":"image/png","data":"`+strings.Repeat("A", 9000)+`"}}`, sized("a", 2500))
	second := func(n int) bool { return n == 2 }
	for _, tt := range []struct {
		name   string
		model  string
		policy Policy
		turns  []turn
	}{
		{"below the minimum", plain, Policy{}, []turn{{0, conv("", says("user", sized("a", 2047))), 0, 2047}, {0, conv("", says("user", sized("a", 2047))), 0, 2047}}},
		{"the minimum", plain, Policy{}, []turn{{0, conv("", says("user", sized("a", 2048))), 0, 2048}, {0, conv("", says("user", sized("a", 2048))), 2048, 2048}}},
		{"below the minimum of 3", modern, Policy{}, []turn{{0, conv("", says("user", sized("a", 4095))), 0, 4095}, {0, conv("", says("user", sized("a", 4095))), 0, 4095}}},
		{"the minimum of 3", modern, Policy{}, []turn{{0, conv("", says("user", sized("a", 4096))), 0, 4096}, {0, conv("", says("user", sized("a", 4096))), 4096, 4096}}},
		{"appended", plain, Policy{}, []turn{{0, conv("", a), 0, 2500}, {0, conv("", a, b, c), 2500, 2900}, {0, conv("", a, b, c), 2900, 2900}}},
		{"the end changed", plain, Policy{}, []turn{{0, conv("", a, b, c), 0, 2900}, {0, conv("", a, b, says("user", sized("d", 100))), 2800, 2900}}},
		{"the start changed", plain, Policy{}, []turn{{0, conv("", a, b, c), 0, 2900}, {0, conv("", says("user", sized("d", 2500)), b, c), 0, 2900}}},
		{"another role", plain, Policy{}, []turn{{0, conv("", a, b), 0, 2800}, {0, conv("", a, says("user", sized("b", 300))), 2500, 2800}}},
		{"an image in front", plain, Policy{}, []turn{{0, conv("", image), 0, 2761}, {0, conv("", image), 2761, 2761}}},
		{"tools and system", plain, Policy{}, []turn{
			{0, conv(`"tools":[{"functionDeclarations":[{"name":"read"}]}],"systemInstruction":{"parts":[`+sized("s", 2100)+`]},`, hi), 0, 3 + 2100 + 2},
			{0, conv(`"tools":[{"functionDeclarations":[{"name":"read"}]}],"systemInstruction":{"parts":[`+sized("s", 2100)+`]},`, c), 2103, 2203},
			{0, conv(`"tools":[{"functionDeclarations":[{"name":"list"}]}],"systemInstruction":{"parts":[`+sized("s", 2100)+`]},`, c), 0, 2203},
		}},
		{"five minutes", plain, Policy{}, []turn{{0, conv("", a), 0, 2500}, {5 * time.Minute, conv("", a), 2500, 2500}, {5*time.Minute + 1, conv("", a), 0, 2500}}},
		{"a read renews", plain, Policy{}, []turn{{0, conv("", a), 0, 2500}, {4 * time.Minute, conv("", a, b, c), 2500, 2900}, {4 * time.Minute, conv("", a), 2500, 2500}}},
		{"an hour", plain, Policy{Life: time.Hour}, []turn{{0, conv("", a), 0, 2500}, {time.Hour, conv("", a), 2500, 2500}, {time.Hour + 1, conv("", a), 0, 2500}}},
		{"missed", plain, Policy{Missed: second}, []turn{{0, conv("", a), 0, 2500}, {0, conv("", a), 0, 2500}, {0, conv("", a), 2500, 2500}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, when := New(Options{Policy: tt.policy}), start
			for i, n := range tt.turns {
				when = when.Add(n.after)
				res := must(t, s, at(tt.model, methodGenerate), n.body, nil, when)
				if u := res.Usage; u.Read != n.read || u.Input != n.total-n.read || res.Prompt != n.total {
					t.Errorf("turn %d: %+v of %d, want %d of %d read", i+1, u, res.Prompt, n.read, n.total)
				}
			}
		})
	}
}

// TestFormsDoNotCount: blanks, escapes, names in snake_case, lists of one and the order of members do not change what is cached.
func TestFormsDoNotCount(t *testing.T) {
	long := strings.Repeat("ä", 9000)
	first := `{"systemInstruction":{"parts":[{"text":"be brief"}]},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"a":1}}]}],"contents":[` +
		`{"role":"user","parts":[{"text":"` + long + `"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"b":1,"a":2}},"thoughtSignature":"eA=="}]},` +
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"},"parts":[{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}}]}]}`
	second := `{"contents":[{"parts":{ "text":"` + strings.ReplaceAll(long, "ä", `\u00e4`) + `","thought":null}},` +
		`{"parts":[{"thought_signature":"eA==","function_call":{"args":{"a":2,"b":1},"name":"f"}}],"role":"model"},` +
		`{"role":"function","parts":[{"function_response":{"parts":[{"inline_data":{"data":"eA==","mime_type":"image/png"}}],"response":{"output":"x"},"name":"f"}}]}],` +
		`"system_instruction":{"role":"system","parts":{"text":"be brief"}},"tools":{"function_declarations":{"name":"f","parameters_json_schema":{"a":1}}},"generation_config":{"temperature":1}}`
	s := New(Options{CharsPerToken: 1})
	wrote := must(t, s, at(modern, methodGenerate), []byte(first), nil, start)
	if got := must(t, s, at(modern, methodStream), []byte(second), nil, start); got.Usage.Read != wrote.Prompt || got.Prompt != wrote.Prompt {
		t.Errorf("%d of %d read (first %d)", got.Usage.Read, got.Prompt, wrote.Prompt)
	}
}

// TestAccountsApart: nobody reads what another account wrote, nor another model.
func TestAccountsApart(t *testing.T) {
	s, body := New(Options{}), conv("", says("user", sized("a", 5000)))
	key := http.Header{"X-Goog-Api-Key": {"one"}}
	for i, c := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{at(plain, methodGenerate), key, 0},
		{at(plain, methodGenerate) + "?key=one", nil, 5000},
		{at(plain, methodStream) + "?alt=sse&key=two", nil, 0},
		{at(modern, methodGenerate), key, 0},
		{vertex(plain, methodGenerate), key, 0},
		{vertex(plain, methodGenerate), http.Header{"Authorization": {"Bearer two"}}, 5000},
		{at(plain, methodGenerate), http.Header{"Authorization": {"Bearer one"}}, 5000},
	} {
		if got := must(t, s, c.path, body, c.header, start).Usage.Read; got != c.want {
			t.Errorf("request %d reads %d, want %d", i+1, got, c.want)
		}
	}
}

// TestNotReadableBeforeTheAnswerBegins: two requests at once both pay.
func TestNotReadableBeforeTheAnswerBegins(t *testing.T) {
	s, path, body := New(Options{}), at(plain, methodGenerate), conv("", says("user", sized("a", 2500)))
	if res := must(t, s, path, body, http.Header{simkit.HeaderDelay: {"2s"}}, start); !res.First.Equal(start.Add(2 * time.Second)) {
		t.Errorf("first byte at %v", res.First)
	}
	if s.Cached(path, body, start.Add(2*time.Second-1)) != 0 || s.Cached(path, body, start.Add(2*time.Second)) != 2500 {
		t.Error("cached at another time")
	}
	text := "a" + strings.Repeat(".", 2500*36/10-len("texta"))
	if !s.Holds(text, start) || s.Holds("nobody said so", start) || s.Holds(text, start.Add(time.Hour)) {
		t.Error("the cache holds something else")
	}
	for i, want := range []int{0, 2500} { // the second one was faster
		if got := must(t, s, path, body, nil, start.Add(time.Second)).Usage.Read; got != want {
			t.Errorf("request %d reads %d", i+1, got)
		}
	}
	if live := s.Requests()[2].Live; len(live) != 1 || live[0].Tokens != 2500 || live[0].Parts != 1 {
		t.Errorf("live: %+v", live)
	}
}

// TestPrices: units and bills by hand.
func TestPrices(t *testing.T) {
	u := Usage{Input: 100_000, Read: 100_000, Output: 10_000, Thoughts: 10_000}
	long := Usage{Input: 100_001, Read: 100_000}
	for _, c := range []struct {
		id    string
		u     Usage
		units float64
		usd   float64
	}{
		{"gemini-2.5-pro", u, 100_000 + 10_000 + 8*20_000, 0.3375},
		{"gemini-2.5-pro", long, 2 * (100_001 + 10_000), 2 * 110_001 * 1.25e-6},
		{plain, u, 110_000 + 2.5/0.3*20_000, 110_000*0.3e-6 + 20_000*2.5e-6},
		{plain, long, 110_001, 110_001 * 0.3e-6},
		{modern, u, 110_000 + 6*20_000, 0.46},
		{modern, Usage{Input: 300_000, Output: 1000}, 2*300_000 + 9*1000, 1.218},
		{"gemini-4-argon", u, 100_000 + 5_000 + 5*20_000, 0.41},
		{"gemini-1.5-pro", u, 0, 0},
		{"gemini-3-argon", u, 0, 0},
	} {
		if got, usd := Units(c.id, c.u), Bill(c.id, c.u); math.Abs(got-c.units) > 1e-6 || math.Abs(usd-c.usd) > 1e-9 {
			t.Errorf("%s: %v units, %v USD, want %v and %v", c.id, got, usd, c.units, c.usd)
		}
	}
	if got := New(Options{}).Cost(Received{Model: plain, Usage: u}); math.Abs(got-110_000) > 1e-6 {
		t.Errorf("input costs %v units", got)
	}
}

// cell is one part of a drawn prompt, as the naive cache sees it.
type cell struct {
	who, text string
	first     bool // of its content
}

func (c cell) tokens() int { return int(math.Ceil(float64(len("text")+len(c.text)) / 3.6)) }

// drawBody draws a conversation out of few texts, so that beginnings come again.
func drawBody(t *rapid.T) (cells []cell, body []byte) {
	part := func(who string, first bool) string {
		text := strings.Repeat("ab", rapid.SampledFrom([]int{10, 400, 2100, 3700}).Draw(t, "size")) + rapid.SampledFrom([]string{"", "x"}).Draw(t, "tail")
		cells = append(cells, cell{who, text, first})
		return words(text)
	}
	members := ""
	if rapid.Bool().Draw(t, "system") {
		members = `"systemInstruction":{"parts":[` + part("system", false) + `]},`
	}
	var contents []string
	for range rapid.IntRange(1, 6).Draw(t, "contents") {
		who := rapid.SampledFrom([]string{"user", "model"}).Draw(t, "role")
		list := []string{part(who, true)}
		if rapid.Bool().Draw(t, "two") {
			list = append(list, part(who, false))
		}
		contents = append(contents, says(who, list...))
	}
	return cells, conv(members, contents...)
}

// TestCacheIsNaive: what is read is the longest beginning, of whole parts, of any prompt that was sent within the life of the cache.
func TestCacheIsNaive(t *testing.T) {
	type sent struct {
		cells []cell
		at    time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom([]string{plain, modern}).Draw(t, "model")
		facts, _ := lookup(model)
		life := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "life")
		s, when := New(Options{Policy: Policy{Life: life}}), start
		if life == 0 {
			life = 5 * time.Minute
		}
		var before []sent
		for range rapid.IntRange(2, 8).Draw(t, "requests") {
			when = when.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 4 * time.Minute, 20 * time.Minute}).Draw(t, "pause"))
			cells, body := drawBody(t)
			want, total := 0, 0
			for i, c := range cells {
				total += c.tokens()
				known := slices.ContainsFunc(before, func(b sent) bool {
					return when.Sub(b.at) <= life && len(b.cells) > i && slices.Equal(b.cells[:i+1], cells[:i+1])
				})
				if known && total >= facts.minimum {
					want = total
				}
			}
			cached := s.Cached(at(model, methodGenerate), body, when)
			if got := must(t, s, at(model, methodGenerate), body, nil, when).Usage; got.Read != want || got.Input != total-want || cached != want {
				t.Fatalf("%+v with %d cached, want %d of %d read", got, cached, want, total)
			}
			before = append(before, sent{cells, when})
		}
	})
}

// TestClientsAreAccepted: what a client lawfully writes is accepted, and read again as it grows.
func TestClientsAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Conversation(gen.Options{Wild: rapid.Bool().Draw(t, "wild"), Dialects: true}, 3).Draw(t, "conversation")
		s, read := New(Options{CharsPerToken: 0.2}), 0
		path := rapid.SampledFrom([]string{at(modern, methodGenerate), vertex(modern, methodGenerate)}).Draw(t, "path")
		for _, end := range c.Ends() {
			turn := c.Clone()
			turn.Truncate(end)
			res := must(t, s, path, turn.As(gen.Gemini), nil, start)
			if res.Usage.Read != read {
				t.Fatalf("read %d of %d", res.Usage.Read, read)
			}
			if res.Prompt >= 4096 {
				read = res.Prompt
			}
		}
	})
}

// FuzzBody: no body makes the simulator panic; a refusal has a text; usage adds up, and the second of two equal requests reads
// what the first left.
func FuzzBody(f *testing.F) {
	for _, c := range append(shapeRefusals(), turnRefusals()...) {
		f.Add(c.body)
	}
	f.Add(conv(`"tools":[{"functionDeclarations":[{"name":"a"}]}],`, says("user", sized("a", 5000)), says("model", call("a", other)), says("user", response("a"))))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, path := New(Options{}), at(modern, methodGenerate)
		res := s.Call(path, body, nil, start)
		if res.Err != nil {
			if res.Status < 400 || res.Err.Message == "" || res.Usage != (Usage{}) {
				t.Errorf("%+v", res)
			}
			return
		}
		if u := res.Usage; !utf8.Valid(body) || u.Read != 0 || u.Input != res.Prompt || u.Input < 1 {
			t.Errorf("usage %+v of a prompt of %d", u, res.Prompt)
		}
		again := s.Call(path, body, nil, start)
		if u := again.Usage; again.Err != nil || u.Read+u.Input != res.Prompt || (res.Prompt >= 4096) != (u.Read == res.Prompt) {
			t.Errorf("first %+v, again %+v (%v)", res.Usage, u, again.Err)
		}
		if _, err := again.JSON(); err != nil {
			t.Error(fmt.Errorf("answer: %w", err))
		}
	})
}
