package openai

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// turn is one request of a billing case.
type turn struct {
	after time.Duration // the turn before
	body  []byte
	want  Usage // without output
}

func play(t *testing.T, s *Sim, turns []turn) {
	t.Helper()
	at := start
	for i, n := range turns {
		at = at.Add(n.after)
		path := pathResponses
		if strings.Contains(string(n.body), `"messages"`) {
			path = pathChat
		}
		cached := s.Cached(path, n.body, at)
		got := must(t, s, path, n.body, nil, at).Usage
		got.Output = 0
		if got != n.want {
			t.Errorf("turn %d: %+v, want %+v", i+1, got, n.want)
		}
		if i > 0 && s.opts.Policy.Evicted == nil && cached != got.Read {
			t.Errorf("turn %d: read %d, but %d cached", i+1, got.Read, cached)
		}
	}
}

// TestSteps: models before GPT-5.6 read in whole steps, from 1,024 tokens on, and the beginning of a block counts as well.
func TestSteps(t *testing.T) {
	a, b := says("user", input("a", 1000)), says("user", input("b", 300))
	for _, c := range []struct {
		name  string
		turns []turn
	}{
		{"below the minimum", []turn{{0, conv(plain, "", a), Usage{Input: 1000}}, {0, conv(plain, "", a), Usage{Input: 1000}}}},
		{"the same again", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{0, conv(plain, "", a, b), Usage{Input: 20, Read: 1280}},
		}},
		{"a block that ends with a step", []turn{
			{0, conv(plain, "", says("user", input("a", 1280))), Usage{Input: 1280}},
			{0, conv(plain, "", says("user", input("a", 1280)), b), Usage{Input: 300, Read: 1280}},
			{0, conv(plain, "", says("user", input("a", 1280)), b), Usage{Input: 44, Read: 1536}},
		}},
		{"appended", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{0, conv(plain, "", a, b, says("user", input("c", 500))), Usage{Input: 520, Read: 1280}},
			{0, conv(plain, "", a, b, says("user", input("c", 500))), Usage{Input: 1800 - 1792, Read: 1792}},
		}},
		{"changed behind the minimum", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{0, conv(plain, "", a, says("user", input("c", 300))), Usage{Input: 1300}}, // 1000 common tokens are too few
		}},
		{"changed inside a block", []turn{
			{0, conv(plain, "", says("user", input("a", 2000))), Usage{Input: 2000}},
			{
				0, conv(plain, "", says("user", strings.Replace(input("a", 2000), "."+strings.Repeat(".", 2879)+`"`, "."+strings.Repeat("!", 2879)+`"`, 1))),
				Usage{Input: 2000 - 1152, Read: 1152}, // 7200-16-2879 = 4305 bytes in common: 1,195 tokens
			},
		}},
		{"changed at the start", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{0, conv(plain, "", says("user", input("z", 1000)), b), Usage{Input: 1300}},
		}},
		{"steps of 2,048", []turn{
			{0, conv(coarse, "", a, b), Usage{Input: 1300}},
			{0, conv(coarse, "", a, b, a), Usage{Input: 2300}},
			{0, conv(coarse, "", a, b, a, b), Usage{Input: 2600 - 2048, Read: 2048}},
		}},
		{"chat", []turn{
			{0, talk(plain, "", says("user", sized("text", "a", 1300))), Usage{Input: 1300}},
			{0, talk(plain, "", says("user", sized("text", "a", 1300))), Usage{Input: 20, Read: 1280}},
		}},
		{"24h by default", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{24 * time.Hour, conv(plain, "", a, b), Usage{Input: 20, Read: 1280}},
			{24*time.Hour + 1, conv(plain, "", a, b), Usage{Input: 1300}},
		}},
		{"in memory", []turn{
			{0, conv(plain, `"prompt_cache_retention":"in_memory",`, a, b), Usage{Input: 1300}},
			{5 * time.Minute, conv(plain, `"prompt_cache_retention":"in_memory",`, a, b), Usage{Input: 20, Read: 1280}},
			{5*time.Minute + 1, conv(plain, `"prompt_cache_retention":"in_memory",`, a, b), Usage{Input: 1300}},
		}},
		{"in memory where 24h is not served", []turn{
			{0, conv("gpt-5-mini", "", a, b), Usage{Input: 1300}},
			{5*time.Minute + 1, conv("gpt-5-mini", "", a, b), Usage{Input: 1300}},
		}},
		{"another key", []turn{
			{0, conv(plain, `"prompt_cache_key":"x",`, a, b), Usage{Input: 1300}},
			{0, conv(plain, `"prompt_cache_key":"y",`, a, b), Usage{Input: 1300}},
			{0, conv(plain, `"prompt_cache_key":"x",`, a, b), Usage{Input: 20, Read: 1280}},
		}},
		{"another model", []turn{
			{0, conv(plain, "", a, b), Usage{Input: 1300}},
			{0, conv("gpt-5", "", a, b), Usage{Input: 1300}},
		}},
		{"another effort", []turn{
			{0, conv(plain, `"reasoning":{"effort":"low","summary":"auto"},`, a, b), Usage{Input: 1300}},
			{0, conv(plain, `"reasoning":{"effort":"high"},`, a, b), Usage{Input: 1300}},
			{0, conv(plain, `"reasoning":{"effort":"low"},`, a, b), Usage{Input: 20, Read: 1280}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, New(Options{}), c.turns) })
	}
}

// TestPoints: GPT-5.6 and later write at breakpoints for a fee, and read what ends at one.
func TestPoints(t *testing.T) {
	user := func(name string, n int, more ...string) string { return says("user", input(name, n, more...)) }
	said := says("assistant", sized("output_text", "s", 100))
	dev := says("developer", input("d", 1100))
	options := func(s string) string { return `"prompt_cache_options":{` + s + `},` }
	many := make([]string, 0, 60)
	for i := range 60 {
		many = append(many, input(fmt.Sprintf("p%d", i), 20, marked))
	}
	for _, c := range []struct {
		name  string
		turns []turn
	}{
		{"below the minimum", []turn{{0, conv(modern, "", user("a", 1023)), Usage{Input: 1023}}, {0, conv(modern, "", user("a", 1023)), Usage{Input: 1023}}}},
		{"implicit", []turn{
			{0, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
			{0, conv(modern, "", user("a", 1500), said, user("b", 50)), Usage{Read: 1500, Write: 150}},
			{0, conv(modern, "", user("a", 1500), said, user("b", 50), said), Usage{Read: 1650, Input: 100}},
		}},
		{"no shorter prefix", []turn{
			{0, conv(modern, "", user("a", 1500), user("b", 50)), Usage{Write: 1550}},
			{0, conv(modern, "", user("a", 1500), user("c", 50)), Usage{Write: 1550}},
		}},
		{"a longer last message", []turn{ // what extends an earlier message cannot be read
			{0, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
			{0, conv(modern, "", says("user", input("a", 1500), input("b", 50))), Usage{Write: 1550}},
		}},
		{"explicit only", []turn{
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1500, marked), user("b", 50)), Usage{Write: 1500, Input: 50}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1500, marked), user("c", 70)), Usage{Read: 1500, Input: 70}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1500), user("c", 70)), Usage{Input: 1570}},
		}},
		{"explicit and implicit", []turn{
			{0, conv(modern, "", user("a", 1500, marked), user("b", 50)), Usage{Write: 1550}},
			{0, conv(modern, "", user("a", 1500, marked), user("c", 70)), Usage{Read: 1500, Write: 70}},
		}},
		{"only the latest are written", []turn{
			{0, conv(modern, "", user("a", 1100, marked), user("b", 100, marked), user("c", 100, marked), user("d", 100, marked), user("e", 100)), Usage{Write: 1500}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100, marked)), Usage{Write: 1100}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100, marked), user("b", 100, marked)), Usage{Read: 1200}},
		}},
		{"the initial words of the developer", []turn{
			{0, conv(modern, options(`"mode":"explicit"`), says("developer", input("d", 1100, marked)), user("a", 50)), Usage{Write: 1100, Input: 50}},
			{0, conv(modern, "", dev, user("b", 50)), Usage{Read: 1100, Write: 50}},
		}},
		{"the initial words end once", []turn{
			{0, conv(modern, "", dev), Usage{Write: 1100}},
			{0, conv(modern, "", dev, says("developer", input("e", 50)), user("a", 50)), Usage{Write: 1200}},
			{0, conv(modern, "", dev, user("a", 50)), Usage{Read: 1100, Write: 50}},
			{0, conv(modern, options(`"mode":"explicit"`), dev, user("a", 50)), Usage{Input: 1150}},
		}},
		{"a run of outputs has one end", []turn{
			{0, conv(modern, "", user("a", 1500), call("x"), call("y"), output("x", "1"), output("y", "2")), Usage{Write: 1500 + 2*callTokens + 2*outputTokens}},
			{0, conv(modern, "", user("a", 1500), call("x"), call("y"), output("x", "1"), output("y", "3")), Usage{Write: 1500 + 2*callTokens + 2*outputTokens}},
		}},
		{"twenty earlier ends", []turn{
			{0, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
			{0, conv(modern, "", append([]string{user("a", 1500)}, repeat(user("b", 10), 20)...)...), Usage{Read: 1500, Write: 200}},
		}},
		{"twenty-one earlier ends", []turn{
			{0, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
			{0, conv(modern, "", append([]string{user("a", 1500)}, repeat(user("b", 10), 21)...)...), Usage{Write: 1710}},
		}},
		{"breakpoints in the middle are not looked up", []turn{
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100), says("user", many[:3]...)), Usage{Write: 1160}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100), says("user", many[:52]...)), Usage{Read: 1160, Write: 980}},
		}},
		{"breakpoints in the middle of more", []turn{
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100), says("user", many[:3]...)), Usage{Write: 1160}},
			{0, conv(modern, options(`"mode":"explicit"`), user("a", 1100), says("user", many[:53]...)), Usage{Read: 1140, Write: 1020}},
		}},
		{"half an hour", []turn{
			{0, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
			{30 * time.Minute, conv(modern, options(`"ttl":"30m"`), user("a", 1500)), Usage{Read: 1500}},
			{30*time.Minute + 1, conv(modern, "", user("a", 1500)), Usage{Write: 1500}},
		}},
		{"prewarmed", []turn{
			{0, conv(modern, options(`"prewarm":true`), user("a", 1500)), Usage{Write: 1500}},
			{0, conv(modern, "", user("a", 1500)), Usage{Read: 1500}},
		}},
		{"chat", []turn{
			{0, talk(modern, "", says("user", sized("text", "a", 1500)), calls("x"), tool("x", "1")), Usage{Write: 1520}},
			{0, talk(modern, "", says("user", sized("text", "a", 1500)), calls("x"), tool("x", "1"), hi), Usage{Read: 1520, Write: 5}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, New(Options{}), c.turns) })
	}
}

// What a call of the tests weighs, 65 bytes, and an output of one character, 23 bytes.
const callTokens, outputTokens = 19, 7

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// TestPolicies: what the documentation leaves open is settled as the policy says.
func TestPolicies(t *testing.T) {
	a := says("user", input("a", 1300))
	memory := `"prompt_cache_retention":"in_memory",`
	whole, hit := Usage{Input: 1300}, Usage{Input: 20, Read: 1280}
	fee, read := Usage{Write: 1300}, Usage{Read: 1300}
	second := func(n int) bool { return n == 2 }
	evicted := func(tokens int) func(int) (int, bool) {
		return func(n int) (int, bool) { return tokens, n == 2 }
	}
	longer := says("user", input("b", 100))
	for _, c := range []struct {
		name   string
		policy Policy
		turns  []turn
	}{
		{"any key", Policy{AnyKey: true}, []turn{{0, conv(plain, `"prompt_cache_key":"x",`, a), whole}, {0, conv(plain, "", a), hit}}},
		{"longer in memory", Policy{Memory: time.Hour}, []turn{
			{0, conv(plain, memory, a), whole}, {time.Hour, conv(plain, memory, a), hit}, {time.Hour + 1, conv(plain, memory, a), whole},
		}},
		{"a shorter day", Policy{Day: time.Hour}, []turn{{0, conv(plain, "", a), whole}, {time.Hour, conv(plain, "", a), hit}, {time.Hour + 1, conv(plain, "", a), whole}}},
		{"beyond half an hour", Policy{Beyond: time.Hour}, []turn{{0, conv(modern, "", a), fee}, {90 * time.Minute, conv(modern, "", a), read}, {90*time.Minute + 1, conv(modern, "", a), fee}}},
		{"all evicted", Policy{Evicted: evicted(0)}, []turn{{0, conv(plain, "", a), whole}, {0, conv(plain, "", a), whole}, {0, conv(plain, "", a), hit}}},
		{"the end evicted", Policy{Evicted: evicted(1152)}, []turn{{0, conv(plain, "", a), whole}, {0, conv(plain, "", a), Usage{Input: 148, Read: 1152}}, {0, conv(plain, "", a), hit}}},
		{"the point evicted", Policy{Evicted: evicted(1299)}, []turn{{0, conv(modern, "", a), fee}, {0, conv(modern, "", a), fee}, {0, conv(modern, "", a), read}}},
		{"renew the entry that was read", Policy{}, []turn{
			{0, conv(modern, "", a), fee},
			{time.Minute, conv(modern, "", a, longer), Usage{Read: 1300, Write: 100}},
			{29 * time.Minute, conv(modern, "", a, longer), Usage{Read: 1400}},
			{5 * time.Minute, conv(modern, "", a), fee},
		}},
		{"a breakpoint before the hit renews nothing", Policy{}, []turn{
			{0, conv(modern, "", says("user", input("a", 1300, marked)), longer), Usage{Write: 1400}},
			{20 * time.Minute, conv(modern, "", says("user", input("a", 1300, marked)), longer), Usage{Read: 1400}},
			{15 * time.Minute, conv(modern, "", a), fee},
		}},
		{"renew all before it", Policy{RefreshAll: true}, []turn{
			{0, conv(modern, "", a), fee},
			{time.Minute, conv(modern, "", a, longer), Usage{Read: 1300, Write: 100}},
			{29 * time.Minute, conv(modern, "", a, longer), Usage{Read: 1400}},
			{5 * time.Minute, conv(modern, "", a), read},
		}},
		{"an entry before the hit is free", Policy{}, []turn{
			{0, conv(modern, "", a, longer), Usage{Write: 1400}},
			{0, conv(modern, "", says("user", input("a", 1300, marked)), longer), Usage{Read: 1400}},
			{0, conv(modern, "", a), read},
		}},
		{"no entry before the hit", Policy{SkipBelow: true}, []turn{
			{0, conv(modern, "", a, longer), Usage{Write: 1400}},
			{0, conv(modern, "", says("user", input("a", 1300, marked)), longer), Usage{Read: 1400}},
			{0, conv(modern, "", a), fee},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, New(Options{Policy: c.policy}), c.turns) })
	}
	s := New(Options{Policy: Policy{Misrouted: second}})
	at := start
	for i, want := range []Usage{whole, whole, hit} {
		got := must(t, s, pathResponses, conv(plain, "", a), nil, at).Usage
		if got.Output = 0; got != want {
			t.Errorf("misrouted, request %d: %+v, want %+v", i+1, got, want)
		}
	}
}

// TestNotReadableBeforeTheAnswerBegins: two requests at once both pay.
func TestNotReadableBeforeTheAnswerBegins(t *testing.T) {
	for _, model := range []string{plain, modern} {
		s, body := New(Options{}), conv(model, "", says("user", input("a", 1300)))
		h := answer(defaultItems)
		h.Set(simkit.HeaderDelay, "2s")
		if res := must(t, s, pathResponses, body, h, start); !res.First.Equal(start.Add(2 * time.Second)) {
			t.Errorf("%s: first byte at %v", model, res.First)
		}
		if n := s.Cached(pathResponses, body, start.Add(2*time.Second-1)) + s.Cached(pathResponses, body, start.Add(2*time.Second)); n < 1280 || n > 1300 {
			t.Errorf("%s: %d cached at once or twice", model, n)
		}
		if got := must(t, s, pathResponses, body, nil, start.Add(time.Second)).Usage.Read; got != 0 {
			t.Errorf("%s: %d read before it could be", model, got)
		}
		if got := must(t, s, pathResponses, body, nil, start.Add(time.Second)).Usage.Read; got < 1280 { // the second one was faster
			t.Errorf("%s: %d read", model, got)
		}
	}
}

// TestAccountsApart: nobody reads what another account wrote.
func TestAccountsApart(t *testing.T) {
	s, body := New(Options{}), conv(modern, "", says("user", input("a", 1300)))
	keys := []map[string][]string{{"Authorization": {"Bearer one"}}, {"Authorization": {"Bearer two"}}, {"Api-Key": {"one"}}}
	for i, want := range []int{0, 0, 1300} {
		if got := must(t, s, pathResponses, body, keys[i], start).Usage.Read; got != want {
			t.Errorf("request %d reads %d, want %d", i+1, got, want)
		}
	}
}

// TestHolds: an entry holds the texts in it until it dies.
func TestHolds(t *testing.T) {
	for _, model := range []string{plain, modern} {
		s := New(Options{})
		must(t, s, pathResponses, conv(model, "", says("user", `{"type":"input_text","text":"secret"}`), says("user", input("a", 1300))), nil, start)
		for at, want := range map[time.Duration]bool{0: true, 30 * time.Minute: true, 25 * time.Hour: false} {
			if got := s.Holds("secret", start.Add(at)); got != want {
				t.Errorf("%s after %v: %v", model, at, got)
			}
		}
		must(t, s, pathResponses, conv(model, "", says("user", input("short", 1023))), nil, start.Add(time.Second))
		if rec := s.Requests()[1]; len(rec.Live) != 1 || rec.Live[0].Tokens < 1280 {
			t.Errorf("%s holds %+v, and a prompt that is too short", model, rec.Live)
		}
		if s.Holds("secre", start) {
			t.Errorf("%s holds a text that nobody sent", model)
		}
	}
}
