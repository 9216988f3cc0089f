package transcript

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

// A run is numbered by its kind and its length. Both sides of the table are powers of two, so that an index is cheap.
const (
	maxRun  = 8
	rows    = 64
	columns = 16
)

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

// estStep is weigh as a table: by run, then by class.
type estStep struct{ weight, next uint16 }

var estSteps = func() (t [rows][columns]estStep) {
	for kind := range kinds {
		for n := range longest[kind] + 1 {
			for class := range allClasses {
				weight, nextKind, nextN := weigh(kind, n, class)
				t[kind*maxRun+n][class] = estStep{uint16(weight), uint16(nextKind*maxRun + nextN)}
			}
		}
	}
	return t
}()

// Est estimates the number of tokens of a text. It is a fixed function of the text's byte classes: the same on every
// machine and in every version that has the same EstVersion.
func Est(text string) int {
	sum, run := 0, uint16(classPunct*maxRun)
	for i := range len(text) {
		step := estSteps[run%rows][classes[text[i]]%columns]
		sum, run = sum+int(step.weight), step.next
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
