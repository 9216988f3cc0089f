package part_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"string", `"a\nb\t\"c\" \\ \/ \u00e9 \ud83d\ude00"`, "a\nb\t\"c\" \\ / é 😀"},
		{"empty string", `""`, ""},
		{"space around", " \n\"x\"\t", "x"},
		{"anthropic blocks", `[{"type":"text","text":"one"},{"text":"two\n","type":"text","cache_control":{"type":"ephemeral"}}]`, "one\ntwo\n"},
		{"responses blocks", `[{"type":"input_text","text":"one"}]`, "one"},
		{"converse blocks", `[ {"text" : "one"} , {"text":"two"} ]`, "one\ntwo"},
		{"no blocks", `[]`, ""},
		{"nested quotes", `[{"a":{"text":"no"},"b":["]","}"],"text":"\"yes\" \\"}]`, `"yes" \`},
		{
			"messages", `[{"role":"user","content":"a\nb"},{"role":"assistant","content":[{"type":"text","text":"c"}]}]`,
			"{\"role\":\"user\",\"content\":\"a\\nb\"}\n{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}",
		},
		{
			"items", `[{"type":"function_call_output","call_id":"c","output":"x"},{"role":"user","text":"t"}]`,
			"{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"x\"}\n{\"role\":\"user\",\"text\":\"t\"}",
		},
		{"message with a text", `[{"role":"user","text":"t"}]`, `{"role":"user","text":"t"}`},
		{"lone high surrogate", `"a\ud800b"`, "a\uFFFDb"},
		{"lone low surrogate", `"\udc00"`, "\uFFFD"},
		{"two high surrogates", `"\ud83d\ud83d\ude00"`, "\uFFFD😀"},
		{"NUL", `"a\u0000b"`, "a\x00b"},
		{"other value", `{"a": 1}`, `{"a": 1}`},
		{"null", `null`, `null`},
		{"damaged list", `[""0"`, `[""0"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := part.Text([]byte(c.content)); got != c.want {
				t.Errorf("text %q, want %q", got, c.want)
			}
			if got := part.Unwrap([]byte(c.content)); got != c.want {
				t.Errorf("in place %q, want %q", got, c.want)
			}
		})
	}
}

// TestTextOfAnything compares with encoding/json, on texts that JSON can hold and in several ways of writing them.
func TestTextOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(anyText()).Draw(t, "texts")
		quoted := make([]string, 0, len(texts))
		for _, s := range texts {
			quoted = append(quoted, quote(t, s))
		}
		one := rapid.Just(`""`)
		if len(quoted) > 0 {
			one = rapid.SampledFrom(quoted)
		}
		single := one.Draw(t, "one")
		var want string
		if err := json.Unmarshal([]byte(single), &want); err != nil {
			t.Fatal(err)
		}
		if got := part.Unwrap([]byte(single)); got != want {
			t.Fatalf("string %q: %q, want %q", single, got, want)
		}
		blocks := `[{"type":"text","text":` + strings.Join(quoted, `},{"x":{"text":[1,"]"]},"text":`) + `}]`
		if len(quoted) == 0 {
			blocks = "[]"
		}
		if got, want := part.Unwrap([]byte(blocks)), strings.Join(texts, "\n"); got != want {
			t.Fatalf("blocks %q: %q, want %q", blocks, got, want)
		}
		raw := make([]string, 0, len(quoted))
		for _, q := range quoted {
			raw = append(raw, `{"role":"user","content":`+q+`}`)
		}
		if got, want := part.Unwrap([]byte("["+strings.Join(raw, ",")+"]")), strings.Join(raw, "\n"); got != want {
			t.Fatalf("messages: %q, want %q", got, want)
		}
	})
}

// anyText draws texts that have all that is awkward in JSON and in lines.
func anyText() *rapid.Generator[string] {
	bit := rapid.SampledFrom([]string{"\n", "\n", "\r\n", "a", "bc", " ", "\t", `"`, `\`, "/", "é", "漢", "😀", "\x00", "\x1f", "\u2028", "func main", strings.Repeat("x", 40)})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOf(bit).Draw(t, "bits"), "") })
}

// quote writes a text as JSON, each character escaped or not as it pleases.
func quote(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "plain") {
		b, _ := json.Marshal(s)
		return string(b)
	}
	var b strings.Builder
	for _, r := range s {
		units := []rune{r}
		if r > 0xffff {
			units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
		}
		for _, u := range units {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte("0123456789aBcDeF"[u>>shift&15])
			}
		}
	}
	return `"` + b.String() + `"`
}

// FuzzText: whatever content is, its text is no longer, the same in place, and that of a valid string what encoding/json reads.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\n"`, `[{"text":"a"},{"text":"\ud800"}]`, `[[`, `"\`, `[{"role":"x","text":"y"}]`, `[{"text":"a"`, `["a","b"]`, `"\u12`, `[{`, "[,,]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		text := part.Text(content)
		if len(text) > len(content) {
			t.Fatalf("text of %d bytes from %d", len(text), len(content))
		}
		var want string
		if json.Unmarshal(content, &want) == nil && utf8.Valid(content) && len(content) > 0 && strings.TrimSpace(string(content))[0] == '"' && text != want {
			t.Fatalf("text %q, want %q", text, want)
		}
		if got := part.Unwrap(slices.Clone(content)); got != text {
			t.Fatalf("in place %q, want %q", got, text)
		}
	})
}
