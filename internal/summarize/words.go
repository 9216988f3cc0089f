package summarize

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
)

// inWord reports whether a character can be part of a word: nothing that a summary names begins or ends beside one.
func inWord(r rune) bool { return r == '_' || unicode.In(r, unicode.L, unicode.N, unicode.M) }

// alone reports whether a word stands in a text, anywhere, with no part of a word on either side.
func alone(text, word string) bool {
	for i := 0; ; {
		n := strings.Index(text[i:], word)
		if n < 0 {
			return false
		}
		i += n
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		if !inWord(before) && !inWord(after) { // at an end of the text it is the replacement character
			return true
		}
		_, n = utf8.DecodeRuneInString(word)
		i += max(1, n)
	}
}

// sequence matches what terminals take for colours and moves, whose last byte is a letter.
var sequence = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// alien reports whether a summary holds an identifier or a number of two digits or more that does not stand in its source as a
// whole word, or as one that is cut at a separator.
func alien(source, summary string) bool {
	source = sequence.ReplaceAllLiteralString(source, " ")
	found := false
	identifier.Each(summary, func(id string) {
		for i := 0; !found; {
			n := strings.Index(summary[i:], id)
			if n < 0 {
				return
			}
			begin, end := i+n, i+n+len(id)
			found = !stands(source, widened(summary, begin, end))
			i = end
		}
	})
	if found {
		return true
	}
	for _, word := range numbered.FindAllString(summary, -1) {
		if digits(word) >= 2 && !stands(source, word) {
			return true
		}
	}
	return false
}

// stands reports whether a text has a word: as it is, or, if it is a version, with a v before it, or, if it is another number,
// with a unit behind it, with another or with none.
func stands(text, word string) bool {
	if alone(text, word) || version.MatchString(word) && alone(text, "v"+word) {
		return true
	}
	m := amount.FindStringSubmatch(word)
	if m == nil {
		return false
	}
	there, err := regexp.Compile(`(?:^|[^\pL\pM\pN_])` + regexp.QuoteMeta(m[1]) + units + `(?:$|[^\pL\pM\pN_])`)
	return err == nil && there.MatchString(text)
}

// widened is a part of a text with the rest of the words that it begins and ends in: underscores, which identifiers are trimmed
// of, what is too long for one, and letters beyond ASCII, which look like others.
func widened(text string, begin, end int) string {
	for begin > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:begin])
		if !inWord(r) {
			break
		}
		begin -= n
	}
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !inWord(r) {
			break
		}
		end += n
	}
	return text[begin:end]
}

// units of numbers; none of them is a digit of a hexadecimal word.
const units = `(?:[nuµm]?s|sec|min|[mhx]|[kKMGT]i?B?|B|px|th)?`

var (
	// numbered are words with a digit; a point between digits parts no words.
	numbered = regexp.MustCompile(`[\pL\pM\pN_]*\pN[\pL\pM\pN_]*(?:\.\pN[\pL\pM\pN_]*)*`)
	amount   = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)` + units + `$`)
	version  = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+){2,}$`)
)

func digits(s string) (n int) {
	for _, r := range s {
		if unicode.IsNumber(r) {
			n++
		}
	}
	return n
}

var (
	// words are runs of letters with their marks.
	words = regexp.MustCompile(`[\pL\pM]+`)
	// mingled are scripts that may stand in one word with Latin, as in the level "highly restrictive" of Unicode's UTS 39: none of
	// their letters looks like a Latin one.
	mingled = []*unicode.RangeTable{unicode.Latin, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul, unicode.Common, unicode.Inherited}
)

// imitates reports whether a summary has a word that may look like another: of Latin letters and those of another script, or
// with combining marks that the source does not have in that very word.
func imitates(source, summary string) bool {
	for _, word := range words.FindAllString(summary, -1) {
		latin, other, marked := false, false, false
		for _, r := range word {
			latin = latin || unicode.Is(unicode.Latin, r)
			other = other || !unicode.In(r, mingled...)
			marked = marked || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r)
		}
		if latin && other || marked && !alone(source, word) {
			return true
		}
	}
	return false
}
