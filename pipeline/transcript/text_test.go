package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// literals are the insides of valid string literals: plain text, every escape, surrogates in and out of pairs.
func literals() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u0022`, `\u005c`, `\u00e9`, `\uD83D`, `\ude42`, `\ud83d\uDE42`, `\ud800\u0041`,
			`\ud800\ud800\udc00`, `\udc00\ud800`, `\uffff`, `\ufffd`, "\u2028", "🙂", "é", "\x7f", "/", " ", "xude42",
		}),
		rapid.Map(rapid.StringN(0, 12, -1), func(s string) string {
			return strings.Map(func(r rune) rune {
				if r < ' ' || r == '"' || r == '\\' {
					return 'x'
				}
				return r
			}, s)
		}),
	)
	return rapid.Map(rapid.SliceOf(piece), func(s []string) string { return strings.Join(s, "") })
}

func TestUnquote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkUnquote(t, literals().Draw(t, "literal")) })
}

// checkUnquote compares unquote with encoding/json and with itself on the literal's beginnings.
func checkUnquote(t rapid.TB, raw string) {
	t.Helper()
	var want string
	if err := json.Unmarshal([]byte(`"`+raw+`"`), &want); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	got := unquote(raw)
	if validText(got) != want || utf8.ValidString(raw) && got != want {
		t.Fatalf("unquote(%q) = %q, encoding/json says %q", raw, got, want)
	}
	var e estimate
	if e.addRaw(raw); e.tokens() != Est(got) {
		t.Fatalf("%d tokens for the literal %q, %d for its text", e.tokens(), raw, Est(got))
	}
	for n := range len(raw) + 1 {
		head := opening(raw, n)
		if !strings.HasPrefix(got, strings.TrimSuffix(head, "\ufffd")) { // a pair of surrogates may be cut in two
			t.Fatalf("opening(%q, %d) = %q", raw, n, head)
		}
		if len(head) > n || 6*len(head) < n-12 {
			t.Fatalf("opening(%q, %d) is %q", raw, n, head)
		}
	}
}

func TestAppendQuoted(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\x00\x1f\"\\/\n\t\r\u2028é🙂<>&\x7f"))),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		quoted := AppendQuoted([]byte("kept"), s)
		if string(quoted[:4]) != "kept" {
			t.Fatalf("what stood before is gone: %q", quoted)
		}
		var back string
		if err := json.Unmarshal(quoted[4:], &back); err != nil || back != validText(s) {
			t.Fatalf("%q became %q, %v", s, back, err)
		}
		if got := unquote(string(quoted[5 : len(quoted)-1])); got != back {
			t.Fatalf("unquote gives %q of %q", got, quoted)
		}
		if least, err := json.Marshal(back); err != nil || len(quoted)-4 > len(least) {
			t.Fatalf("%q escapes more than JSON demands: %q", s, quoted)
		}
	})
}

// special is right in its lowest set bit, whatever stands beside.
func TestSpecial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.SampledFrom([]byte{0, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0x9f, 0xa0, 0xa2, 0xdc, 0xff})
		b := rapid.SliceOfN(rapid.OneOf(near, rapid.Byte()), 8, 8).Draw(t, "bytes")
		want := 8
		for i := 7; i >= 0; i-- {
			if b[i] < ' ' || b[i] == '"' || b[i] == '\\' {
				want = i
			}
		}
		var w uint64
		for i, c := range b {
			w |= uint64(c) << (8 * i)
		}
		got := 8
		for i := 7; i >= 0; i-- {
			if special(w)>>(8*i)&0xff != 0 {
				got = i
			}
		}
		if got != want {
			t.Fatalf("% x ends at %d, not %d", b, got, want)
		}
	})
}

func TestResultText(t *testing.T) {
	for _, c := range []struct {
		content, text string
		form          Form
	}{
		{`"a\n\u0062"`, "a\nb", StringForm},
		{`"\u0061\u0062\u0063\u0064"`, "abcd", StringForm},
		{`[{"type":"text","text":"\u0061\u0062"},{"type":"text","text":"\u0063"}]`, "ab\nc", TextForm},
		{`""`, "", NoContent},
		{`null`, "", NoContent},
		{`[]`, "", NoContent},
		{`[{"type":"text","text":""}]`, "", TextForm},
		{`[{"type":"text","text":"a"}]`, "a", TextForm},
		{`[{"type":"text","text":"a"},{"text":"\u0062","type":"t\u0065xt","x":1}]`, "a\nb", TextForm},
		{`[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"text","text":"c"}]`, "a\nc", MixedForm},
		{`[{"type":"image","source":{}}]`, "", MixedForm},
		{`["a"]`, "", MixedForm},
		{`[null]`, "", MixedForm},
		{`{}`, "", StrangeForm},
		{`7`, "", StrangeForm},
		{`false`, "", StrangeForm},
	} {
		ix := parse(t, fmt.Appendf(nil, asContent, `[{"type":"tool_result","tool_use_id":"a","content":`+c.content+`}]`))
		r := &ix.Results[0]
		if got := ix.ResultText(r); got != c.text || r.Form != c.form {
			t.Errorf("%s: %q of form %d", c.content, got, r.Form)
		}
		if n := ix.ResultSize(r); n < len(c.text) {
			t.Errorf("%s: size %d is less than its text", c.content, n)
		}
		if n := ix.ResultTokens(0); n != Est(c.text) || n > 0 && !ix.Reaches(r, n) || ix.Reaches(r, n+1) {
			t.Errorf("%s: %d tokens, its text %d", c.content, n, Est(c.text))
		}
		for n := range len(c.text) + 2 {
			if ix.Longer(r, n) != (len(c.text) > n) {
				t.Errorf("%s: longer than %d is %v", c.content, n, ix.Longer(r, n))
			}
		}
		ix.Release()
	}
}

// escaped is text with every character escaped.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

func TestResultOutcome(t *testing.T) {
	for _, c := range []struct {
		members string
		outcome Outcome
		stub    bool
	}{
		{`"content":"fine"`, Succeeded, false},
		{`"content":"fine","is_error":false`, Succeeded, false},
		{`"content":"fine","is_error":null`, Succeeded, false},
		{`"content":"fine","is_error":true`, Failed, false},
		{`"is_error":true`, Failed, false},
		{`"content":null`, Succeeded, false},
		{`"content":"<tool_use_error>File has not been read yet.</tool_use_error>"`, Failed, false},
		{`"content":"\u003ctool_use_error\u003eFile has not been read yet."`, Failed, false},
		{`"content":[{"type":"text","text":"\u003Ctool_use_error>no"},{"type":"text","text":"more"}]`, Failed, false},
		{`"content":[{"type":"image"},{"type":"text","text":"<tool_use_error>"}]`, Failed, false},
		{`"content":"the file holds <tool_use_error>"`, Succeeded, false},
		{`"content":"Error: No such tool available: Reed"`, Failed, false},
		{`"content":"Exit code 1\nnot found"`, Failed, false},
		{`"content":"Exit code 127"`, Failed, false},
		{`"content":"Exit code: 2"`, Failed, false},
		{`"content":"Exit code 0\nall fine"`, Succeeded, false},
		{`"content":"Exit code -1"`, Failed, false},
		{`"content":"Exit code "`, Succeeded, false},
		{`"content":"Exit codes are listed below"`, Succeeded, false},
		{`"content":"<returncode>0</returncode>"`, Succeeded, false},
		{`"content":"<returncode>-9</returncode>"`, Failed, false},
		{`"content":"Process exited with code 3"`, Failed, false},
		{`"content":"File unchanged since last read. The content from the earlier result is still current."`, Succeeded, true},
		{`"content":[{"type":"text","text":"[file unchanged since last read]"}]`, Succeeded, true},
		{`"content":"` + escaped("File unchanged since last read") + `"`, Succeeded, true},
		{`"content":"He said: File unchanged since last read"`, Succeeded, false},
		{`"content":"` + strings.Repeat(`\\`, 400) + `"`, Succeeded, false},
		{`"content":[]`, Succeeded, false},
	} {
		ix := parse(t, fmt.Appendf(nil, asContent, `[{"type":"tool_result","tool_use_id":"a",`+c.members+`}]`))
		if got, stub := ix.ResultOutcome(&ix.Results[0]), ix.IsStub(&ix.Results[0]); got != c.outcome || stub != c.stub {
			t.Errorf("%s: outcome %d, stub %v", c.members, got, stub)
		}
		ix.Release()
	}
}
