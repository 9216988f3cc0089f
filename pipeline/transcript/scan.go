package transcript

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unsafe"
)

// scanner walks JSON strictly: it accepts what encoding/json accepts, and nothing else.
type scanner struct {
	b   []byte
	i   int
	key []byte // the last key that was written with escapes
}

// fault is an error with a place. It never quotes the body.
func (s *scanner) fault(what string) error { return fmt.Errorf("%s at byte %d", what, s.i) }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *scanner) space() {
	for s.i < len(s.b) && isSpace(s.b[s.i]) {
		s.i++
	}
}

// peek skips white space and returns the byte there, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		if c := s.b[s.i]; c > ' ' {
			return c
		}
	}
	return s.peekFar()
}

func (s *scanner) peekFar() byte {
	if s.space(); s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.peek() == c {
		s.i++
		return nil
	}
	return s.fault("expected " + string(rune(c)))
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, in its lowest set bit, the first byte of w that ends a run of plain string bytes: a quote, a backslash or
// a control character. Higher bits may be wrong: a subtraction borrows from the byte above one that is marked. Flipping
// bit 1 takes the quote next to the control characters, so that one comparison finds both.
func special(w uint64) uint64 {
	return (((w ^ ones*2) - ones*0x21) | ((w ^ ones*'\\') - ones)) &^ w & highs
}

// str reads a string literal and returns its span, quotes included.
func (s *scanner) str() (Span, error) {
	lo := s.i
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return Span{}, s.fault("expected a string")
	}
	i, b := s.i+1, s.b
	for i < len(b) {
		for ; i+8 <= len(b); i += 8 {
			if m := special(binary.LittleEndian.Uint64(b[i : i+8])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		if i >= len(b) {
			break
		}
		c := b[i]
		if c == '"' {
			s.i = i + 1
			return Span{uint32(lo), uint32(s.i)}, nil
		}
		if c == '\\' && i+1 < len(b) && simple[b[i+1]] != 0 { // nearly every escape
			i += 2
			continue
		}
		switch {
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				s.i = i
				return Span{}, s.fault("bad escape")
			}
			i += n
		case c < ' ':
			s.i = i
			return Span{}, s.fault("control character in a string")
		default:
			i++ // near the end
		}
	}
	s.i = len(b)
	return Span{}, s.fault("unterminated string")
}

// escapeLen is the length of the escape that b starts with, 0 if it is none.
func escapeLen[T []byte | string](b T) int {
	switch {
	case len(b) < 2:
		return 0
	case simple[b[1]] != 0:
		return 2
	case b[1] == 'u' && len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]):
		return 6
	}
	return 0
}

func isHex(c byte) bool { return c-'0' < 10 || (c|0x20)-'a' < 6 }

// skip reads any value and returns its span. depth is that of the value itself.
func (s *scanner) skip(depth int) (Span, error) {
	c := s.peek()
	lo := s.i
	var err error
	switch c {
	case '"':
		return s.str()
	case '{', '[':
		err = s.container(c, depth)
	case 't':
		err = s.literal("true")
	case 'f':
		err = s.literal("false")
	case 'n':
		err = s.literal("null")
	default:
		err = s.number()
	}
	return Span{uint32(lo), uint32(s.i)}, err
}

func (s *scanner) container(open byte, depth int) error {
	if open == '{' {
		return s.object(depth, func(*scanner, Span) error { _, err := s.skip(depth + 1); return err })
	}
	return s.array(depth, func(*scanner) error { _, err := s.skip(depth + 1); return err })
}

// object reads an object and calls member at each value, with the span of its key. member must consume the value.
func (s *scanner) object(depth int, member func(*scanner, Span) error) error {
	if err := s.open('{', depth); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.i++
		return nil
	}
	return s.members(member)
}

// members reads an object from the key of a member on.
func (s *scanner) members(member func(*scanner, Span) error) error {
	for {
		s.peek()
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		s.peek()
		if err := member(s, key); err != nil {
			return err
		}
		if more, err := s.next('}'); !more || err != nil {
			return err
		}
	}
}

// array reads an array and calls element at each value, which must consume it.
func (s *scanner) array(depth int, element func(*scanner) error) error {
	if err := s.open('[', depth); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.i++
		return nil
	}
	return s.elements(element)
}

// elements reads an array from an element on.
func (s *scanner) elements(element func(*scanner) error) error {
	for {
		s.peek()
		if err := element(s); err != nil {
			return err
		}
		if more, err := s.next(']'); !more || err != nil {
			return err
		}
	}
}

func (s *scanner) open(c byte, depth int) error {
	if depth > MaxDepth {
		return s.fault("nesting over the limit")
	}
	return s.expect(c)
}

// next consumes a comma (more follows) or the closing byte.
func (s *scanner) next(closing byte) (more bool, err error) {
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, s.fault("expected , or " + string(rune(closing)))
}

// isJSON reports whether a text is one JSON value that is nested no deeper than a body may be. A text is anybody's to choose, and a
// reader that recurses without a bound takes the process down with it.
func isJSON(text string) bool {
	s := scanner{b: unsafe.Slice(unsafe.StringData(text), len(text))}
	_, err := s.skip(bodyDepth)
	s.space()
	return err == nil && s.i == len(s.b)
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fault("expected a value")
	}
	s.i += len(word)
	return nil
}

func (s *scanner) digits() bool {
	lo := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' < 10 {
		s.i++
	}
	return s.i > lo
}

func (s *scanner) number() error {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.fault("expected a value")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.fault("bad number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.fault("bad number")
		}
	}
	return nil
}

// inside is what stands between the quotes of a string literal.
func (s *scanner) inside(v Span) string { return view(s.b[v.Lo+1 : v.Hi-1]) }

// isString reports whether a value, read or absent, is a string.
func (s *scanner) isString(v Span) bool { return v.Len() >= 2 && s.b[v.Lo] == '"' }

// word is the text of a value that is a string, empty for anything else.
func (s *scanner) word(v Span) string {
	if !s.isString(v) {
		return ""
	}
	return unquote(s.inside(v))
}

// unknownKey is the number of every key that is not known.
const unknownKey = -1

// seen holds the known keys of one object, as bits: a second occurrence of one of them makes the body ambiguous.
type seen uint32

// find returns the number of a key, however it is escaped, by the switch over names; it fails if a known key stands twice.
func (k *seen) find(s *scanner, key Span, names func(string) int) (int, error) {
	raw := s.inside(key)
	n := names(raw)
	if n < 0 && strings.IndexByte(raw, '\\') >= 0 {
		s.key = appendUnquoted(s.key[:0], raw)
		n = names(view(s.key))
	}
	if n < 0 {
		return unknownKey, nil
	}
	if *k&(1<<n) != 0 {
		return n, s.fault("a known key stands twice")
	}
	*k |= 1 << n
	return n, nil
}
