package transcript

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Hints are found exactly where a search for each of them finds one.
func TestHints(t *testing.T) {
	few := rapid.RuneFrom([]rune("abc"))
	word := rapid.StringOfN(few, 2, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 4).Draw(t, "words")
		text := rapid.OneOf(rapid.StringOf(few), rapid.StringOf(rapid.RuneFrom([]rune("abcé\n"))), rapid.SampledFrom(words),
			rapid.Map(word, func(w string) string { return strings.Repeat("x", len(w)*7) + words[0] + w })).Draw(t, "text")
		want := false
		for _, w := range words {
			want = want || strings.Contains(text, w)
		}
		if got := newHints(words...).in(text); got != want {
			t.Fatalf("%v for %q in %q", got, words, text)
		}
	})
}
