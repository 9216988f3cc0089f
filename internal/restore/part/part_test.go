package part_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

// split cuts a text behind each line feed.
func split(text string) []string { return slices.Collect(strings.Lines(text)) }

// naive is what lines are asked for.
func naive(text string, a part.Ask) (string, bool) {
	lines := split(text)
	lo, hi := 0, len(lines)
	switch {
	case a.Head > 0:
		hi = min(hi, a.Head)
	case a.Tail > 0:
		lo = max(0, hi-a.Tail)
	default:
		if a.To > 0 {
			hi = min(hi, a.To)
		}
		if a.From > 1 {
			lo = a.From - 1
		}
		if lo > 0 && lo >= len(lines) {
			return "", false
		}
	}
	return strings.Join(lines[lo:hi], ""), true
}

func lineAsks() *rapid.Generator[part.Ask] {
	n := rapid.IntRange(1, 12)
	return rapid.Custom(func(t *rapid.T) part.Ask {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return part.Ask{Head: n.Draw(t, "head")}
		case 1:
			return part.Ask{Tail: n.Draw(t, "tail")}
		case 2:
			return part.Ask{From: n.Draw(t, "from")}
		case 3:
			from := n.Draw(t, "from")
			return part.Ask{From: from, To: from + n.Draw(t, "more") - 1}
		default:
			return part.Ask{}
		}
	})
}

func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, a := anyText().Draw(t, "text"), lineAsks().Draw(t, "ask")
		p, err := part.Cut(text, a)
		want, ok := naive(text, a)
		if ok != (err == nil) || err != nil && !errors.Is(err, part.ErrBeyond) {
			t.Fatalf("error %v, want one: %v", err, !ok)
		}
		if ok && (p.Text != want || p.Note != "") {
			t.Fatalf("%+v: %q with %q, want %q", a, p.Text, p.Note, want)
		}
		if whole, err := part.Of(text, a); ok && (err != nil || whole != want) {
			t.Fatalf("Of: %q, %v", whole, err)
		}
	})
}

// TestPartsMakeUpTheWhole goes on where the note says until there is no note.
func TestPartsMakeUpTheWhole(t *testing.T) {
	next := regexp.MustCompile(`"offset": (\d+)`)
	rapid.Check(t, func(t *rapid.T) {
		text, a := anyText().Draw(t, "text"), lineAsks().Draw(t, "ask")
		want, ok := naive(text, a)
		if !ok {
			t.Skip("nothing is there")
		}
		a.MaxBytes = rapid.IntRange(1, 50).Draw(t, "max")
		got, steps := "", 0
		for {
			p, err := part.Cut(text, a)
			if err != nil {
				t.Fatalf("%+v: %v", a, err)
			}
			if !utf8.ValidString(p.Text) || len(p.Text) > max(a.MaxBytes, utf8.UTFMax) {
				t.Fatalf("%d bytes of at most %d, %q", len(p.Text), a.MaxBytes, p.Text)
			}
			got += p.Text
			m := next.FindStringSubmatch(p.Note)
			if m == nil {
				break
			}
			if steps++; steps > len(text) {
				t.Fatal("no end")
			}
			_, _ = fmt.Sscan(m[1], &a.Offset)
		}
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// naiveGrep is grep -n -C on lines that are not long.
func naiveGrep(lines []string, first int, re *regexp.Regexp, context int) string {
	show, hit := map[int]bool{}, map[int]bool{}
	for i, l := range lines {
		if re.MatchString(strings.TrimSuffix(l, "\n")) {
			hit[i] = true
			for j := max(0, i-context); j <= min(len(lines)-1, i+context); j++ {
				show[j] = true
			}
		}
	}
	var b strings.Builder
	last := -1
	for i, l := range lines {
		if !show[i] {
			continue
		}
		if context > 0 && last >= 0 && i > last+1 {
			b.WriteString("--\n")
		}
		last = i
		sign := "-"
		if hit[i] {
			sign = ":"
		}
		fmt.Fprintf(&b, "%d%s%s\n", first+i, sign, strings.TrimSuffix(l, "\n"))
	}
	return b.String()
}

func TestGrep(t *testing.T) {
	patterns := rapid.SampledFrom([]string{"a", "b+c", "^$", "x{3}", "(?i)FUNC", "漢|😀", `\s`, ".", "nothing at all", "c$", "^a"})
	rapid.Check(t, func(t *rapid.T) {
		text, a := anyText().Draw(t, "text"), lineAsks().Draw(t, "ask")
		sel, ok := naive(text, a)
		if !ok {
			t.Skip("nothing is there")
		}
		a.Grep, a.Context = patterns.Draw(t, "pattern"), rapid.IntRange(0, 3).Draw(t, "context")
		first := max(1, a.From)
		if a.Tail > 0 {
			first = len(split(text)) - len(split(sel)) + 1
		}
		want := naiveGrep(split(sel), first, regexp.MustCompile(a.Grep), a.Context)
		p, err := part.Cut(text, a)
		if err != nil || p.Text != want || p.Note != "" {
			t.Fatalf("%+v: %q (%q), %v, want %q", a, p.Text, p.Note, err, want)
		}
	})
}

// TestGrepGoesOn: a search that stops says where, and all answers together have each match once.
func TestGrepGoesOn(t *testing.T) {
	next := regexp.MustCompile(`"offset": (\d+)`)
	text := ""
	for i := range 3000 {
		text += fmt.Sprintf("line %d %s\n", i, map[bool]string{true: "hit"}[i%3 == 0])
	}
	for _, limit := range []int{0, 64, 1000} {
		a, hits, answers := part.Ask{Grep: "hit$", Context: 2, MaxBytes: limit}, 0, 0
		for {
			p, err := part.Cut(text, a)
			if err != nil {
				t.Fatal(err)
			}
			if limit > 200 && len(p.Text) > limit {
				t.Fatalf("%d bytes of at most %d", len(p.Text), limit)
			}
			for l := range strings.Lines(p.Text) {
				var n, m int
				if c, _ := fmt.Sscanf(l, "%d:line %d hit", &n, &m); c == 2 {
					if n != m+1 || m != hits*3 {
						t.Fatalf("line %d says %d, want %d", n, m, hits*3)
					}
					hits++
				}
			}
			answers++
			m := next.FindStringSubmatch(p.Note)
			if m == nil {
				break
			}
			_, _ = fmt.Sscan(m[1], &a.Offset)
		}
		if hits != 1000 || answers < 5 {
			t.Errorf("limit %d: %d matches in %d answers", limit, hits, answers)
		}
	}
}

// TestGrepOfALongLine: a text of one line is shown in pieces that say where they are.
func TestGrepOfALongLine(t *testing.T) {
	text := "first\n" + strings.Repeat("é", 20_001) + "needle one" + strings.Repeat("-", 990) + "needle two" + strings.Repeat("x", 30_000)
	p, err := part.Cut(text, part.Ask{Grep: "needle (one|two)"})
	if err != nil || p.Note != "" {
		t.Fatal(p.Note, err)
	}
	found := map[string]bool{}
	for l := range strings.Lines(p.Text) {
		var line, at int
		if n, _ := fmt.Sscanf(l, "2@%d:", &at); n != 1 {
			t.Fatalf("row %q", l)
		}
		_, shown, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ":")
		if !strings.HasPrefix(text[at:], shown) || !utf8.ValidString(shown) || len(shown) > 1000 {
			t.Fatalf("line %d: what is shown of %d bytes is not at %d", line, len(shown), at)
		}
		rest := text[at:min(len(text), at+len(shown)+500)]
		found["one"] = found["one"] || strings.Contains(rest, "needle one")
		found["two"] = found["two"] || strings.Contains(rest, "needle two")
	}
	if !found["one"] || !found["two"] {
		t.Errorf("found %v in %q", found, p.Text)
	}
}

// TestGrepIsBounded: hostile patterns on large texts end, and say where they stopped.
func TestGrepIsBounded(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	for expr, stops := range map[string]bool{"(x+x+)+y": false, "(x(.*y)?)": true, "(.{1000}){1}z": true, "(x|x|x|x|x|x)*$y": false} {
		p, err := part.Cut(text, part.Ask{Grep: expr})
		if err != nil || (p.Note != "") != stops || len(p.Text) > 2<<20 {
			t.Errorf("%s: %d bytes, %q, %v", expr, len(p.Text), p.Note, err)
		}
	}
	for _, expr := range []string{"(", "a{2000}", `\1`, "(?=a)", "[z-a]", strings.Repeat(".{1000}", 100), strings.Repeat("a", 1001), "\xff"} {
		_, err := part.Cut("text", part.Ask{Grep: expr})
		if err == nil || !strings.HasPrefix(err.Error(), "grep ") || len(expr) > 1 && strings.Contains(err.Error(), expr) {
			t.Errorf("%q: %v", expr[:min(20, len(expr))], err)
		}
	}
}

func TestBeyond(t *testing.T) {
	for _, a := range []part.Ask{{From: 4}, {Offset: 6}, {From: 9, To: 12}, {Head: 1, Offset: 2}, {Grep: "a", From: 4}} {
		if _, err := part.Cut("a\nb\ncd", a); !errors.Is(err, part.ErrBeyond) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if p, err := part.Cut("", part.Ask{From: 1, To: 4}); err != nil || p.Text != "" {
		t.Errorf("of nothing: %q, %v", p.Text, err)
	}
}

// TestOfPutsTheNoteOnItsOwnLine keeps the part what it is.
func TestOfPutsTheNoteOnItsOwnLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"one\ntwo\nthree\nfour", "one\ntwo\n("},
		{"onetwothreefour", "onetwoth\n("},
	} {
		got, err := part.Of(c.text, part.Ask{MaxBytes: 8})
		if err != nil || !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, ".)") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// FuzzCut: a part stands in the text where it should, and its cost is bounded.
func FuzzCut(f *testing.F) {
	f.Add("a\nb\nc", 0, 0, 2, 3, "", 0, 0, 0)
	f.Add("aaa\nbbb", 1, 0, 0, 0, "b|a", 1, 2, 30)
	f.Add("\xff\xfe\x80\x80\x80\x80", 0, 1, 0, 0, "", 0, 3, 2)
	f.Fuzz(func(t *testing.T, text string, head, tail, from, to int, expr string, context, offset, limit int) {
		if len(text) > 1<<16 {
			t.Skip("large")
		}
		a := part.Ask{Head: head, Tail: tail, From: from, To: to, Grep: expr, Context: context, Offset: offset, MaxBytes: limit}
		p, err := part.Cut(text, a)
		switch {
		case err != nil:
			if p != (part.Piece{}) {
				t.Fatal("a part and an error")
			}
		case expr == "" && !strings.Contains(text, p.Text):
			t.Fatalf("%q is not in the text", p.Text)
		case expr != "" && len(p.Text) > 4<<20:
			t.Fatalf("%d bytes", len(p.Text))
		}
	})
}

// TestWork: a search stops where its caller wants it to, and says how to go on; what comes to more for the first row alone is refused.
func TestWork(t *testing.T) {
	text := strings.Repeat("a line of the log, and another one\n", 4000) + "the needle\n"
	ask := part.Ask{Grep: `(?i)NEEDLE`, Work: 1 << 17}
	stops := 0
	for {
		p, err := part.Cut(text, ask)
		if err != nil {
			t.Fatal(err)
		}
		if p.Text != "" {
			if p.Text != "4001:the needle\n" {
				t.Errorf("%q", p.Text)
			}
			break
		}
		if _, err := fmt.Sscanf(p.Note[strings.Index(p.Note, `"offset"`):], `"offset": %d.`, &ask.Offset); err != nil {
			t.Fatalf("%q: %v", p.Note, err)
		}
		stops++
	}
	if stops < 5 {
		t.Errorf("it stopped %d times", stops)
	}
	if _, err := part.Cut(text, part.Ask{Grep: `[a-z]{200}`, Work: 1 << 17}); err == nil {
		t.Error("a pattern that takes all work for one row was not refused")
	}
	for _, work := range []int{0, 1 << 40} {
		if p, err := part.Cut(text, part.Ask{Grep: `[a-z]{200}|needle`, Work: work}); err != nil || p.Text != "4001:the needle\n" {
			t.Errorf("%d: %q, %v", work, p.Text, err)
		}
	}
}
