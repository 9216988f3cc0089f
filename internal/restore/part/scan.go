package part

import (
	"iter"
	"strings"
)

// isSpace reports whether a character is white space between JSON values.
func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// values walks over the values of a list or object, keys included, from where they begin. Nothing is copied, and nesting costs no
// stack. What is damaged ends somewhere within s.
func values(s string, from int) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for i := from; i < len(s); {
			switch c := s[i]; {
			case isSpace(rune(c)) || c == ',' || c == ':':
				i++
			case c == ']' || c == '}':
				return
			default:
				end := valueEnd(s, i)
				if !yield(i, end) {
					return
				}
				i = end
			}
		}
	}
}

// valueEnd is where the value that begins at i ends.
func valueEnd(s string, i int) int {
	switch s[i] {
	case '"':
		return stringEnd(s, i)
	case '{', '[':
		return nestEnd(s, i)
	}
	if n := strings.IndexAny(s[i:], ",:]}{[\" \t\r\n"); n >= 0 {
		return i + n
	}
	return len(s)
}

// nestEnd is where the list or object that begins at i ends.
func nestEnd(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			i = stringEnd(s, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
	return len(s)
}

// stringEnd is where the string literal that begins at i ends.
func stringEnd(s string, i int) int {
	for i++; i < len(s); {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		end := i + n
		escapes := 0
		for end-escapes > i && s[end-escapes-1] == '\\' {
			escapes++
		}
		i = end + 1
		if escapes%2 == 0 {
			return i
		}
	}
	return len(s)
}
