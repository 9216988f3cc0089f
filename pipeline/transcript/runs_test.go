package transcript

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The words of a text are the words of its pieces, however the text is escaped.
func TestRunsHoldTheWordsOfTheText(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z0-9_./:-]+`)
	parts := []string{
		"a", "B9", "_x", "/", ".", " ", `\n`, `\t`, `\"`, `\\`, `\/`, `\u0041`, `\u003c`, `\u000a`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, `\u002f`, "é",
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := `"` + strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "parts"), "") + `"`
		var text string
		if err := json.Unmarshal([]byte(raw), &text); err != nil {
			t.Fatal(err)
		}
		ix := &Index{Body: []byte(raw)}
		var got []string
		ix.Runs(Span{0, uint32(len(raw))}, func(piece string) { got = append(got, word.FindAllString(piece, -1)...) })
		if want := word.FindAllString(text, -1); !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", raw, got, want)
		}
	})
}
