package simkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest.
const maxDepth = 1000

var (
	// ErrSyntax says that the JSON grammar does not allow a byte where it stands.
	ErrSyntax    = errors.New("unexpected character")
	errDepth     = errors.New("recursion limit exceeded")
	errUTF8      = errors.New("str is not valid UTF-8")
	errSurrogate = errors.New("no low surrogate in string")
)

// Members calls visit for every member of the object that raw is, in order, with the place where its value starts; visit
// returns where the value ends.
//
// Only the object's own grammar is checked here, so that values seen before need no second look: raw is valid JSON iff
// Members succeeds and every value is sound.
func Members(raw []byte, visit func(name string, at int) (int, error)) error {
	end, err := split(raw, Blank(raw, 0), '{', visit)
	if err == nil && Blank(raw, end) != len(raw) {
		return ErrSyntax
	}
	return err
}

// Elements calls visit with the bounds of every element of an array, and returns where the array ends.
func Elements(raw []byte, at int, visit func(at, end int) error) (int, error) {
	return split(raw, at, '[', element(raw, visit))
}

// ElementsAfter does the same for the rest of an array, behind the element that ends at end.
func ElementsAfter(raw []byte, end int, visit func(at, end int) error) (int, error) {
	at, closed, err := next(raw, end, '[')
	if closed || err != nil {
		return at, err
	}
	return each(raw, at, '[', element(raw, visit))
}

func element(raw []byte, visit func(at, end int) error) func(string, int) (int, error) {
	return func(_ string, at int) (int, error) {
		end, err := Skip(raw, at)
		if err != nil {
			return 0, err
		}
		return end, visit(at, end)
	}
}

func split(raw []byte, at int, open byte, visit func(string, int) (int, error)) (int, error) {
	if at == len(raw) || raw[at] != open {
		return 0, ErrSyntax
	}
	at = Blank(raw, at+1)
	if at < len(raw) && raw[at] == open+2 {
		return at + 1, nil
	}
	return each(raw, at, open, visit)
}

// each visits the members or elements from the one at that place on.
func each(raw []byte, at int, open byte, visit func(string, int) (int, error)) (int, error) {
	for {
		name := ""
		if open == '{' {
			end, err := Skip(raw, at)
			if err != nil || raw[at] != '"' || json.Unmarshal(raw[at:end], &name) != nil {
				return 0, ErrSyntax
			}
			if !utf8.Valid(raw[at:end]) {
				return 0, errUTF8
			}
			if at = Blank(raw, end); at == len(raw) || raw[at] != ':' {
				return 0, ErrSyntax
			}
			at = Blank(raw, at+1)
		}
		end, err := visit(name, at)
		if err != nil {
			return 0, err
		}
		var closed bool
		if at, closed, err = next(raw, end, open); closed || err != nil {
			return at, err
		}
	}
}

// next returns where the value behind the one that ends at end starts, or where the group ends that it closes.
func next(raw []byte, end int, open byte) (at int, closed bool, err error) {
	at = Blank(raw, end)
	switch {
	case at < len(raw) && raw[at] == open+2:
		return at + 1, true, nil
	case at < len(raw) && raw[at] == ',':
		return Blank(raw, at+1), false, nil
	}
	return 0, false, ErrSyntax
}

// Blank returns where the next byte stands that is no white space.
func Blank(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// Skip returns the end of the value that starts at at. What it spans is a value only if it is sound.
func Skip(raw []byte, at int) (int, error) {
	depth := 0
	for start := at; at < len(raw); {
		switch raw[at] {
		case '"':
			end, err := skipString(raw, at)
			if err != nil || depth == 0 {
				return end, err
			}
			at = end
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return 0, errDepth
			}
		case '}', ']':
			if depth == 0 {
				return end(start, at)
			}
			if depth--; depth == 0 {
				return at + 1, nil
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return end(start, at)
			}
		}
		at++
	}
	return 0, ErrSyntax // a member or an element is always followed by something
}

func end(start, at int) (int, error) {
	if start == at {
		return 0, ErrSyntax
	}
	return at, nil
}

func skipString(raw []byte, at int) (int, error) {
	for from := at + 1; ; {
		i := bytes.IndexByte(raw[from:], '"')
		if i < 0 {
			return 0, ErrSyntax
		}
		from += i
		slashes := 0
		for raw[from-1-slashes] == '\\' {
			slashes++
		}
		from++
		if slashes%2 == 0 {
			return from, nil
		}
	}
}

// Sound checks that raw is valid JSON in UTF-8 without a lone surrogate, which the provider's parser refuses.
func Sound(raw []byte) error {
	if !utf8.Valid(raw) {
		return errUTF8
	}
	if !json.Valid(raw) {
		return ErrSyntax
	}
	for at := bytes.IndexByte(raw, '\\'); at >= 0; {
		next := at + 2
		if raw[at+1] == 'u' {
			switch unit := hex(raw[at+2 : at+6]); {
			case unit >= 0xDC00 && unit < 0xE000:
				return errSurrogate
			case unit >= 0xD800 && unit < 0xDC00:
				low := raw[at+6:]
				if len(low) < 6 || low[0] != '\\' || low[1] != 'u' || hex(low[2:6])&^0x3FF != 0xDC00 {
					return errSurrogate
				}
				next = at + 12
			default:
				next = at + 6
			}
		}
		i := bytes.IndexByte(raw[next:], '\\')
		if i < 0 {
			return nil
		}
		at = next + i
	}
	return nil
}

func hex(digits []byte) uint64 {
	v, _ := strconv.ParseUint(string(digits), 16, 32) // the text is valid JSON, so these are hex digits
	return v
}
