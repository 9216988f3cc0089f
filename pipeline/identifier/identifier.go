// Package identifier finds the words of a text that tell one thing from another: names, numbers and hexadecimal words.
//
// The rule: candidates are, the leftmost first, a letter or underscore with 2 to 63 of A-Z a-z 0-9 _ . / : -; a word of three
// digits or more; a word of 7 to 40 digits and letters a to f. They are trimmed of . _ : - / and kept if four bytes are left and
// they are no plain word and no short number: a number needs five digits or a separator, all else a separator, a digit, or a
// capital after a small letter.
package identifier

// What a byte can be part of.
const (
	opens  = 1 << iota // first byte of a name: a letter or an underscore
	goesOn             // further byte of a name
	word               // letter, digit or underscore: no number begins or ends beside one
	digit
	hex       // digit or a to f
	lower     // a to z
	upper     // A to Z
	separator // what names are trimmed of: . _ : - /
)

var classes = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= 'a' && b <= 'z':
			c[b] = opens | goesOn | word | lower
			if b <= 'f' {
				c[b] |= hex
			}
		case b >= 'A' && b <= 'Z':
			c[b] = opens | goesOn | word | upper
		case b >= '0' && b <= '9':
			c[b] = goesOn | word | digit | hex
		case b == '_':
			c[b] = opens | goesOn | word | separator
		case b == '.' || b == ':' || b == '-' || b == '/':
			c[b] = goesOn | separator
		}
	}
	return c
}()

// Lengths of candidates, in bytes.
const (
	minName, maxName = 3, 64
	minNumber        = 3
	minHex, maxHex   = 7, 40
	minKept          = 4 // after trimming
	minDigits        = 5 // of a number without a separator
)

// Each calls found with every identifier of a text, in order and as often as it stands there. What is found is a part of the
// text.
func Each(text string, found func(id string)) {
	for i := 0; i < len(text); {
		switch c := classes[text[i]]; {
		case c&opens != 0:
			end, has := name(text, i)
			if end-i < minName {
				i++
				continue
			}
			if has&^(lower|opens|goesOn|word|hex) != 0 { // plain words are most of a text, and never kept
				if id := trimmed(text[i:end]); kept(id) {
					found(id)
				}
			}
			i = end
		case c&digit != 0 && (i == 0 || classes[text[i-1]]&word == 0):
			end := number(text, i)
			if end == i {
				i++
				continue
			}
			if id := text[i:end]; kept(id) {
				found(id)
			}
			i = end
		default:
			i++
		}
	}
}

// name returns where the name that begins at i ends, and all that its bytes are.
func name(text string, i int) (end int, has uint8) {
	last := min(len(text), i+maxName)
	for end = i; end < last; end++ {
		c := classes[text[end]]
		if c&goesOn == 0 {
			break
		}
		has |= c
	}
	return end, has
}

// number returns where the number or hexadecimal word that begins at i ends, i if there is none.
func number(text string, i int) int {
	alone := func(end int) bool { return end == len(text) || classes[text[end]]&word == 0 }
	end := i
	for end < len(text) && classes[text[end]]&digit != 0 {
		end++
	}
	if end-i >= minNumber && alone(end) {
		return end
	}
	for end < len(text) && end-i <= maxHex && classes[text[end]]&hex != 0 {
		end++
	}
	if end-i >= minHex && end-i <= maxHex && alone(end) {
		return end
	}
	return i
}

// trimmed takes separators off both ends.
func trimmed(id string) string {
	for id != "" && classes[id[0]]&separator != 0 {
		id = id[1:]
	}
	for id != "" && classes[id[len(id)-1]]&separator != 0 {
		id = id[:len(id)-1]
	}
	return id
}

// kept reports whether a trimmed candidate tells one thing from another: it is no plain word and no short number.
func kept(id string) bool {
	if len(id) < minKept {
		return false
	}
	digits, separators, steps, pure, before := 0, 0, 0, true, uint8(0)
	for i := range len(id) {
		c := classes[id[i]]
		switch {
		case c&digit != 0:
			digits++
		case c&separator != 0:
			separators++
			pure = pure && (id[i] == '.' || id[i] == '_')
		default:
			pure = false
			if c&upper != 0 && before&lower != 0 {
				steps++
			}
		}
		before = c
	}
	if pure {
		return digits >= minDigits || separators > 0
	}
	return digits+separators+steps > 0
}
