package transcript

import (
	"strings"
	"unicode/utf16"
)

// Runs calls look with the text inside a JSON value, in order and in pieces: a piece ends where an escape stands for a blank,
// a control character, a quote, a backslash, an angle bracket, an ampersand or something beyond ASCII. Whoever looks for words
// that hold none of these finds in the pieces what the text holds, and nearly all of it is looked at without being copied.
// Where an escape stands for any other character the rest comes in one piece. What is no string comes as it is written.
func (ix *Index) Runs(v Span, look func(piece string)) { pieces(view(v.Of(ix.Body)), look) }

// CallRuns is Runs for the arguments of a call.
func (ix *Index) CallRuns(c *Call, look func(piece string)) {
	text := ix.InputText(c)
	if text == "" || text[0] == '"' || text[0] == '{' && isJSON(text) {
		pieces(text, look)
		return
	}
	look(text) // it is no JSON
}

func pieces(raw string, look func(piece string)) {
	from := 0
	for {
		i := strings.IndexByte(raw[from:], '\\')
		if i < 0 {
			break
		}
		end := from + i
		next, ok := cutting(raw[end:])
		if !ok {
			raw = raw[:from] + unquote(raw[from:])
			break
		}
		if end > from {
			look(raw[from:end])
		}
		from = end + next
	}
	if from < len(raw) {
		look(raw[from:])
	}
}

// cutting reports whether the escape at the start of raw ends a piece, and its length.
func cutting(raw string) (n int, ok bool) {
	switch raw[1] {
	case '/':
		return 2, false
	case 'u':
	default:
		return 2, true
	}
	r := hexRune(raw)
	return 6, r <= ' ' || r > '~' || utf16.IsSurrogate(r) || strings.IndexByte(`"'<>&\`, byte(r)) >= 0
}
