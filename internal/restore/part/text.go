package part

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Text is what an original says: the text of a string, and of a list of text blocks their texts, joined by line feeds. Of any other
// list, as a span of messages is, it is the JSON of the elements as it stood, each on lines of its own. What is no JSON string or
// list is its own text.
//
// A lone surrogate, which no UTF-8 can hold, becomes U+FFFD; then only content itself is exact. The text is no longer than content.
func Text(content []byte) string {
	return view(appendText(make([]byte, 0, len(content)), content))
}

// Unwrap is Text, written over content, so that a large original is not held twice. content must not be used any more.
func Unwrap(content []byte) string { return view(appendText(content[:0], content)) }

// appendText appends the text of content to dst, which may be content[:0]: what is written is never longer than what was read.
func appendText(dst, content []byte) []byte {
	s := strings.TrimFunc(view(content), isSpace)
	switch {
	case strings.HasPrefix(s, `"`):
		return appendUnquoted(dst, s)
	case !strings.HasPrefix(s, "["):
		return append(dst, content...)
	}
	elements, blocks, ok := elements(s)
	if !ok {
		return append(dst, content...)
	}
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, '\n')
		}
		if blocks {
			dst = appendUnquoted(dst, e)
		} else {
			dst = append(dst, e...)
		}
	}
	return dst
}

// elements lists the string literals of a list's texts if all elements are text blocks, else the raw elements. ok is false for what
// is no list, as nothing parts its elements.
func elements(list string) (raw []string, blocks, ok bool) {
	var texts []string
	last := 0
	for e, end := range values(list, 1) {
		if e == last {
			return nil, false, false
		}
		last = end
		raw = append(raw, list[e:end])
		if literal, ok := blockText(list[e:end]); ok {
			texts = append(texts, literal)
		}
	}
	if len(texts) == len(raw) {
		return texts, true, true
	}
	return raw, false, true
}

// blockText is the literal of a block's text. A message has a role and is no block, whatever else it has.
func blockText(block string) (literal string, ok bool) {
	if block[0] != '{' {
		return "", false
	}
	key := ""
	for lo, end := range values(block, 1) {
		v := block[lo:end]
		switch {
		case key == "":
			key = v
			continue
		case key == `"role"`:
			return "", false
		case key == `"text"` && !ok && v[0] == '"':
			literal, ok = v, true
		}
		key = ""
	}
	return literal, ok
}

// appendUnquoted appends what a string literal says. Of one that is damaged it appends what can be read.
func appendUnquoted(dst []byte, literal string) []byte {
	literal = strings.TrimSuffix(strings.TrimPrefix(literal, `"`), `"`)
	for {
		i := strings.IndexByte(literal, '\\')
		if i < 0 || i+1 == len(literal) {
			return append(dst, literal...)
		}
		dst = append(dst, literal[:i]...)
		dst, literal = unescape(dst, literal[i:])
	}
}

var simple = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends what the escape at the start of s, of two bytes at least, stands for, and returns what follows it.
func unescape(dst []byte, s string) (out []byte, rest string) {
	c := s[1]
	if c != 'u' {
		if simple[c] != 0 {
			c = simple[c]
		}
		return append(dst, c), s[2:]
	}
	r, ok := unit(s)
	if !ok {
		return append(dst, s[:2]...), s[2:]
	}
	if utf16.IsSurrogate(r) {
		if low, ok := unit(s[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(dst, pair), s[12:]
			}
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), s[6:]
}

// unit reads the escape \uXXXX at the start of s.
func unit(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// view is b as a string without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
