package part

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// Limits of a search.
const (
	maxMatches = 200     // lines that match
	maxFound   = 1 << 20 // bytes of an answer
	maxSteps   = 10_000  // instructions of a compiled pattern
	maxWork    = 1 << 28 // instructions times bytes: about 3 s at the worst
	longLine   = 2000    // bytes; a longer line is searched and shown in pieces
	pieceLen   = 1000    // bytes of such a piece
	pieceMore  = 500     // bytes behind a piece through which a match that begins in it may run
	rowWork    = 2000    // bytes of the longest row: the first one is searched whatever it takes
)

// pattern is a compiled pattern and what each byte that it looks at may cost.
type pattern struct {
	*regexp.Regexp
	steps int
}

func compile(expr string, most int) (p pattern, err error) {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			return p, fmt.Errorf("grep is no RE2 pattern: %s", e.Code)
		}
		return p, errors.New("grep is no RE2 pattern")
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > most {
		return p, errors.New("grep is too complex a pattern")
	}
	p.steps = len(prog.Inst)
	if p.Regexp, err = regexp.Compile(expr); err != nil {
		return p, errors.New("grep is no RE2 pattern")
	}
	if _, all := p.LiteralPrefix(); all {
		p.steps = 1 // it is looked for as a string
	}
	return p, nil
}

// row is a line, or a piece of a long one.
type row struct {
	lo, hi int // without the line feed
	line   int
	begin  int // of the line
	end    int // of the line, without its line feed
}

// cost is about how many bytes it takes to show a row.
func (r *row) cost() int { return r.hi - r.lo + 24 }

// rows walks over text[at:hi].
type rows struct {
	text   string
	at, hi int
	line   int // that at lies in
	begin  int // of that line
	end    int // of that line, where that is at or behind at
}

// next returns the next row. ok is false at the end.
func (s *rows) next() (r row, ok bool) {
	if s.at >= s.hi {
		return r, false
	}
	if s.end < s.at || s.begin == s.at { // of a long line the end is looked for once
		s.end = s.hi
		if i := strings.IndexByte(s.text[s.at:s.hi], '\n'); i >= 0 {
			s.end = s.at + i
		}
	}
	r = row{lo: s.at, hi: s.end, line: s.line, begin: s.begin, end: s.end}
	if s.end-s.begin > longLine && s.end-s.at > pieceLen {
		r.hi = runeStart(s.text, s.at+pieceLen)
		s.at = r.hi
		return r, true
	}
	s.at = s.end + 1
	s.line, s.begin = s.line+1, s.at
	return r, true
}

// search is one search under way.
type search struct {
	text    string
	p       pattern
	a       Ask
	limit   int // of out, in bytes
	out     strings.Builder
	before  []row // at most Context rows that were not shown
	after   int   // rows to show behind the last match
	shown   int   // end of the last row that was shown, -1 before one
	matches int
}

// grep shows the rows of text[lo:hi] that match, as grep -n does: number, a colon, the line; a hyphen in the colon's place for the
// lines around; two hyphens between groups. A long line comes in pieces, and its number is followed by @ and the byte of the text at
// which the piece begins. line is the number of the line at lo, 0 if it has to be counted.
func grep(text string, lo, hi, line int, a Ask) (Piece, error) {
	most := maxWork
	if a.Work > 0 {
		most = min(most, a.Work)
	}
	p, err := compile(a.Grep, min(maxSteps, most/rowWork))
	if err != nil {
		return Piece{}, err
	}
	begin := strings.LastIndexByte(text[:lo], '\n') + 1
	if line == 0 {
		line = strings.Count(text[:lo], "\n") + 1
	}
	s := &search{text: text, p: p, a: a, limit: maxFound, shown: -1}
	if a.MaxBytes > 0 {
		s.limit = min(s.limit, a.MaxBytes)
	}
	walk, work := &rows{text: text, at: lo, hi: hi, line: line, begin: begin, end: -1}, 0
	for r, ok := walk.next(); ok; r, ok = walk.next() {
		if work += s.p.steps * (r.hi - r.lo + 1); work > most && r.lo > lo {
			return s.stopped(r), nil
		}
		if !s.take(r) {
			return s.stopped(r), nil
		}
	}
	return Piece{Text: s.out.String()}, nil
}

// take looks at a row. It is false if the row would be too much.
func (s *search) take(r row) bool {
	if !s.match(r) {
		switch {
		case s.after > 0 && s.out.Len()+r.cost() > s.limit:
			return false
		case s.after > 0:
			s.after--
			s.show(r, '-')
		case s.a.Context > 0:
			if len(s.before) == s.a.Context {
				s.before = append(s.before[:0], s.before[1:]...)
			}
			s.before = append(s.before, r)
		}
		return true
	}
	need := s.out.Len() + r.cost()
	if s.matches > 0 && (s.matches == maxMatches || need > s.limit) {
		return false
	}
	s.matches++
	around := s.before
	for i := range around {
		need += around[i].cost()
	}
	for len(around) > 0 && need > s.limit {
		need -= around[0].cost()
		around = around[1:]
	}
	for _, b := range around {
		s.show(b, '-')
	}
	s.before = s.before[:0]
	s.show(r, ':')
	s.after = s.a.Context
	return true
}

// match reports whether a match begins in a row.
func (s *search) match(r row) bool {
	if r.hi == r.end {
		return s.p.MatchString(s.text[r.lo:r.hi])
	}
	found := s.p.FindStringIndex(s.text[r.lo:min(r.hi+pieceMore, r.end)])
	return len(found) > 0 && found[0] < r.hi-r.lo
}

func (s *search) show(r row, sign byte) {
	if s.a.Context > 0 && s.shown >= 0 && r.lo > s.shown+1 {
		s.out.WriteString("--\n")
	}
	s.shown = r.hi
	s.out.WriteString(strconv.Itoa(r.line))
	if r.hi != r.end || r.lo != r.begin {
		s.out.WriteString("@" + strconv.Itoa(r.lo))
	}
	s.out.WriteByte(sign)
	s.out.WriteString(s.text[r.lo:r.hi])
	s.out.WriteByte('\n')
}

// stopped is what was found where a search ends before its text does.
func (s *search) stopped(r row) Piece {
	return Piece{Text: s.out.String(), Note: fmt.Sprintf(`(The search stopped at line %d after %d matches. To go on, ask with the same `+
		`arguments and "offset": %d.)`, r.line, s.matches, r.lo)}
}
