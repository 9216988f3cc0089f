package transcript

// EstVersion names the estimate. Gates and markers depend on it, so a change of any weight is a new version.
const EstVersion = 1

// Weights in thousandths of a token, fitted by least squares to o200k on tool results of real coding sessions
// (1,263 texts: mean error 6.7 %, 90 % of the texts within −15 % and +12 %). Those hold no script but Latin, so the weights
// of other scripts are o200k's own averages over sentences of twelve languages, on the low side: too high an estimate
// would let a marker stand for less than it costs.
const (
	estWord    = 1046 // a run of letters; an upper-case letter after a lower-case one begins another
	estLetter  = 182  // each letter of a run beyond the fifth
	estDigits  = 1500 // three digits in a row
	estPunct   = 418  // each other printable byte
	estIndent  = 1197 // a run of white space longer than one byte
	estNewline = 277  // each line feed
	estAccent  = 90   // each letter of two bytes (accented Latin, Greek, Cyrillic, Hebrew, Arabic), beside its part in a run
	estScript  = 300  // each letter of an Indic or South-East Asian script, and the rarer Latin ones
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
	classAccent
	classScript
	classIdeo
	classSign
	classTail // a byte that continues a character
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
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
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

// Est estimates the number of tokens of a text. It is a fixed function of the text's byte classes: the same on every
// machine and in every version that has the same EstVersion.
func Est(text string) int {
	sum, run, prev, tail := 0, 0, classPunct, estSign
	for i := 0; i < len(text); i++ {
		class := int(classes[text[i]])
		if class == classTail {
			sum += tail
			continue
		}
		tail = 0
		if class == classAccent {
			sum, class = sum+estAccent, classLower
		}
		same := class == prev || class == classLower && prev == classUpper
		if run++; !same {
			run = 1
		}
		prev = class
		switch class {
		case classLower, classUpper:
			if run == 1 {
				sum += estWord
			} else if run > 5 {
				sum += estLetter
			}
		case classDigit:
			if run%3 == 1 {
				sum += estDigits
			}
		case classSpace:
			if run == 2 {
				sum += estIndent
			}
			if text[i] == '\n' {
				sum += estNewline
			}
		case classScript:
			sum += estScript
		case classIdeo:
			sum += estIdeo
		case classSign:
			if tail = estSign; run > 2 {
				tail = estRule
			}
			sum += tail
		default:
			sum += estPunct
		}
	}
	return (sum + 999) / 1000
}

// Round2 rounds to two significant digits, as markers show it.
func Round2(n int) int {
	scale := 1
	for n/scale >= 100 {
		scale *= 10
	}
	return (n + scale/2) / scale * scale
}
