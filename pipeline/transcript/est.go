package transcript

import (
	"strings"
	"unicode/utf8"
)

// EstVersion names the estimate. Gates and markers depend on it, so a change of any weight is a new version.
const EstVersion = 1

// Weights in thousandths of a token, fitted by least squares to o200k on tool results of real coding sessions
// (1,263 texts: mean error 6.7 %, 90 % of the texts within −15 % and +12 %). Those hold no script but Latin, so the weights
// of other scripts are o200k's own averages over sentences of fourteen languages, on the low side: too high an estimate
// would let a marker stand for less than it costs.
const (
	estWord    = 1046 // a run of letters; an upper-case letter after a lower-case one begins another
	estLetter  = 182  // each letter of a run beyond the fifth
	estDigits  = 1500 // three digits in a row
	estPunct   = 418  // each other printable byte
	estIndent  = 1197 // a run of white space longer than one byte
	estNewline = 277  // each line feed
	estAccent  = 90   // each letter of two bytes (accented Latin, Greek, Cyrillic, Hebrew, Arabic), beside its part in a run
	estScript  = 300  // each letter of an Indic or South-East Asian script, and of rarer Latin ones; it ends no run
	estIdeo    = 560  // each ideograph, kana or Hangul syllable
	estSign    = 473  // each byte of any other sign: arrows, boxes, emoji
	estRule    = 100  // each byte of a sign beyond the second in a row, as in the rules of tables
)

const (
	classPunct = iota
	classLower
	classUpper
	classDigit
	classSpace
	classSign
	kinds // the classes so far are also what a run may be of
)

const (
	classNewline = kinds + iota
	classAccent
	classScript
	classIdeo
	classTail // a byte that continues a character
	allClasses
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = classLower
		case c >= 'A' && c <= 'Z':
			t[c] = classUpper
		case c >= '0' && c <= '9':
			t[c] = classDigit
		case c == '\n':
			t[c] = classNewline
		case c == ' ' || c == '\t' || c == '\r':
			t[c] = classSpace
		case c < 0x80:
		case c < 0xc0:
			t[c] = classTail
		case c > 0xc2 && c < 0xe0:
			t[c] = classAccent
		case c == 0xe0 || c == 0xe1:
			t[c] = classScript
		case c > 0xe2 && c < 0xee:
			t[c] = classIdeo
		default:
			t[c] = classSign
		}
	}
	return t
}()

// longest is how long a run is counted: what it is made of weighs the same from there on.
var longest = [kinds]int{classPunct: 1, classLower: 6, classUpper: 6, classDigit: 3, classSpace: 3, classSign: 3}

// A run is numbered by its kind and its length. Sides of tables are powers of two, so that an index is cheap.
const (
	rows    = 32
	columns = 16
)

// firstRun is the number of the shortest run of a kind: one byte, and none for punctuation, which is what a text begins with.
var firstRun = [kinds]int{classPunct: 0, classLower: 1, classUpper: 7, classDigit: 13, classSpace: 16, classSign: 19}

func runOf(kind, n int) int { return firstRun[kind] + max(0, n-1) }

// weigh returns what a byte of a class weighs after a run of n bytes of a kind, and the run that it leaves.
func weigh(kind, n, class int) (weight, nextKind, nextN int) {
	switch class {
	case classTail:
		if kind == classSign {
			weight = estSign
			if n > 2 {
				weight = estRule
			}
		}
		return weight, kind, n
	case classScript:
		return estScript, kind, n
	case classIdeo:
		return estIdeo, classPunct, 1
	case classAccent:
		weight, class = estAccent, classLower
	case classNewline:
		weight, class = estNewline, classSpace
	}
	if n++; class != kind && (class != classLower || kind != classUpper) {
		n = 1
	}
	switch {
	case class == classDigit && n > longest[class]:
		n = 1
	case n > longest[class]:
		n = longest[class]
	}
	switch class {
	case classLower, classUpper:
		if n == 1 {
			weight += estWord
		} else if n > 5 {
			weight += estLetter
		}
	case classDigit:
		if n == 1 {
			weight += estDigits
		}
	case classSpace:
		if n == 2 {
			weight += estIndent
		}
	case classSign:
		if weight = estSign; n > 2 {
			weight = estRule
		}
	default:
		weight = estPunct
	}
	return weight, class, n
}

// estStep is what bytes weigh behind a run, and the run that they leave.
type estStep struct{ weight, next uint16 }

// estSteps is weigh as a table: by run, then by class.
var estSteps = func() (t [rows][columns]estStep) {
	for kind := range kinds {
		for n := 1; n <= longest[kind]; n++ {
			for class := range allClasses {
				weight, nextKind, nextN := weigh(kind, n, class)
				t[runOf(kind, n)][class] = estStep{uint16(weight), uint16(runOf(nextKind, nextN))}
			}
		}
	}
	return t
}()

// estPairs is the same for two bytes: each step waits for the one before, so half as many take half the time.
var estPairs = func() (t [rows][columns * columns]estStep) {
	for run := range t {
		for pair := range t[run] {
			one := estSteps[run][pair/columns]
			two := estSteps[one.next][pair%columns]
			t[run][pair] = estStep{one.weight + two.weight, two.next}
		}
	}
	return t
}()

// estimate is Est of a text that comes in pieces.
type estimate struct {
	sum int
	run uint16
}

func (e *estimate) add(text string) {
	sum, run := e.sum, e.run
	for ; len(text) >= 2; text = text[2:] {
		step := estPairs[run%rows][classes[text[0]]%columns*columns+classes[text[1]]%columns]
		sum, run = sum+int(step.weight), step.next
	}
	if text != "" {
		step := estSteps[run%rows][classes[text[0]]%columns]
		sum, run = sum+int(step.weight), step.next
	}
	e.sum, e.run = sum, run
}

// addRaw adds the text inside a valid string literal.
func (e *estimate) addRaw(raw string) {
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 {
			e.add(raw)
			return
		}
		e.add(raw[:i])
		var char [utf8.UTFMax]byte
		text, rest := unescape(char[:0], raw[i:])
		e.add(view(text))
		raw = rest
	}
}

func (e *estimate) tokens() int { return (e.sum + 999) / 1000 }

// Est estimates the number of tokens of a text. It is a fixed function of the text's byte classes: the same on every
// machine and in every version that has the same EstVersion.
func Est(text string) int {
	var e estimate
	e.add(text)
	return e.tokens()
}

// Round2 rounds to two significant digits, as markers show it.
func Round2(n int) int {
	scale := 1
	for n/scale >= 100 {
		scale *= 10
	}
	return (n + scale/2) / scale * scale
}
