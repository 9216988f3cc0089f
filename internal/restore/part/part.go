package part

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrBeyond is the error of a part that begins behind the end of the text. What wraps it says where the end is.
var ErrBeyond = errors.New("nothing is there")

// Piece is a part of a text.
type Piece struct {
	// Text is the part, byte for byte. Unless a pattern was asked for it shares memory with the whole.
	Text string
	// Note says that there is more of what was asked for, and how to ask for that. It is one line of ASCII, or empty.
	Note string
}

// Cut takes the part out of a text that is asked for, without looking at the id.
func Cut(text string, a Ask) (Piece, error) {
	if err := a.check(); err != nil {
		return Piece{}, err
	}
	lo, hi, err := lines(text, a)
	if err != nil {
		return Piece{}, err
	}
	line := a.From
	if a.Offset > lo {
		if a.Offset >= hi {
			return Piece{}, fmt.Errorf("%w: what was asked for ends at byte %d", ErrBeyond, hi)
		}
		lo, line = runeStart(text, a.Offset), 0
	}
	if a.Grep != "" {
		return grep(text, lo, hi, line, a)
	}
	end := hi
	if most := max(a.MaxBytes, utf8.UTFMax); a.MaxBytes > 0 && hi-lo > most {
		end = lo + fit(text[lo:hi], most)
	}
	p := Piece{Text: text[lo:end]}
	if end < hi {
		p.Note = fmt.Sprintf(`(These are bytes %d to %d of a text of %d bytes and %d lines. To go on, ask with the same arguments `+
			`and "offset": %d. To see less of it, ask with "grep", "from" and "to", or "tail".)`, lo, end, len(text), count(text), end)
	}
	return p, nil
}

// Of is Cut as one text: a note stands on a line of its own behind the part.
func Of(text string, a Ask) (string, error) {
	p, err := Cut(text, a)
	switch {
	case err != nil:
		return "", err
	case p.Note == "":
		return p.Text, nil
	case p.Text == "" || strings.HasSuffix(p.Text, "\n"):
		return p.Text + p.Note, nil
	}
	return p.Text + "\n" + p.Note, nil
}

// lines finds the lines that are asked for. A line ends with its line feed.
func lines(text string, a Ask) (lo, hi int, err error) {
	hi = len(text)
	switch {
	case a.Head > 0:
		hi = after(text, a.Head)
	case a.Tail > 0:
		lo = before(text, a.Tail)
	case a.To > 0:
		hi = after(text, a.To)
	}
	if a.From > 1 {
		if lo = after(text, a.From-1); lo == len(text) {
			return 0, 0, fmt.Errorf("%w: the text has %d lines", ErrBeyond, count(text))
		}
	}
	return lo, hi, nil
}

// count is the number of lines of a text. The last one need not end with a line feed.
func count(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// after is where the first n lines end.
func after(text string, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// before is where the last n lines begin.
func before(text string, n int) int {
	at := len(strings.TrimSuffix(text, "\n"))
	for ; ; n-- {
		i := strings.LastIndexByte(text[:at], '\n')
		if i < 0 || n == 1 {
			return i + 1
		}
		at = i
	}
}

// fit is how much of the text goes into n bytes: whole lines where they take more than half of it, else whole characters.
func fit(text string, n int) int {
	if i := strings.LastIndexByte(text[:n], '\n'); i >= n/2 {
		return i + 1
	}
	return runeStart(text, n)
}

// runeStart is where the character that at lies in begins. In what is no UTF-8 it is at itself.
func runeStart(text string, at int) int {
	for i := at; i > at-utf8.UTFMax && i > 0; i-- {
		if i == len(text) || utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}
