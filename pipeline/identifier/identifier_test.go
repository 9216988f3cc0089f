package identifier_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
)

// The rule for identifiers, as regular expressions.
var (
	candidate = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_./:-]{2,63}|\b[0-9]{3,}\b|\b[0-9a-f]{7,40}\b`)
	number    = regexp.MustCompile(`^[0-9._]+$`)
	telling   = regexp.MustCompile(`[._:/-]|[0-9]|[a-z][A-Z]`)
	fiveOrSep = regexp.MustCompile(`[0-9]{5}|[._]`)
)

// rule finds identifiers by them.
func rule(text string) (ids []string) {
	for _, c := range candidate.FindAllString(text, -1) {
		id := strings.Trim(c, "._:-/")
		if len(id) < 4 || number.MatchString(id) && !fiveOrSep.MatchString(id) || !telling.MatchString(id) {
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

func TestIdentifiersEqualTheRule(t *testing.T) {
	parts := []string{
		"a", "f", "g", "Z", "_", "0", "7", "42", "12345", "deadbeef", ".", ":", "-", "/", " ", "\n", "é", "<", "word", "Word", "WORDS", "camelCase", strings.Repeat("x", 61), strings.Repeat("0a", 20),
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "parts"), "")
		if diff := cmp.Diff(rule(text), identifiers(text)); diff != "" {
			t.Fatalf("%q: %s", text, diff)
		}
	})
}

func FuzzIdentifiers(f *testing.F) {
	for _, seed := range []string{"", "maxRetryCount src/a.go:12 deadbeef 12345", "1234567a_", strings.Repeat("ab_", 40), "1.5 _12.5 10.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 || !json.Valid([]byte(`"`+text+`"`)) {
			t.Skip("no text of a body without escapes")
		}
		if diff := cmp.Diff(rule(text), identifiers(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}

// identifiers are those of a text, in order.
func identifiers(text string) (ids []string) {
	identifier.Each(text, func(id string) { ids = append(ids, id) })
	return ids
}
