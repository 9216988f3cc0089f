package usage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/tidwall/gjson"
)

// readDocument reads a JSON response. What could be read of it counts if it is a whole document: one that is cut off is not valid
// JSON, while a whole one may come in a compressed form whose end is missing.
func readDocument(body io.Reader, a account) {
	b, _ := io.ReadAll(io.LimitReader(body, maxJSON+1))
	if len(b) <= maxJSON && json.Valid(b) { // json, as gjson recurses as deep as the document does
		a.document(gjson.ParseBytes(b))
	}
}

// drain hands a body to write, piece by piece, until it ends.
func drain(body io.Reader, write func([]byte)) {
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		write(buf[:n])
		if err != nil {
			return
		}
	}
}

// readEvents reads a stream of server-sent events, with lines that end as the standard allows: LF, CRLF or CR. The last event
// needs no blank line after it; one that is cut off is not valid JSON.
func readEvents(body io.Reader, a account) {
	l := lines{account: a}
	drain(body, l.write)
	l.lineEnd()
	l.eventEnd()
}

// lines takes a stream of server-sent events apart.
type lines struct {
	account account
	line    []byte // so far
	length  int    // of the line so far, also of what was not kept
	data    []byte // of the event so far
	over    bool   // the event is too large: it is left out
	cr      bool   // the last byte was a CR, so that an LF belongs to it
}

func (l *lines) write(b []byte) {
	for len(b) > 0 {
		if l.cr && b[0] == '\n' {
			b = b[1:]
		}
		l.cr = false
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			l.add(b)
			return
		}
		l.add(b[:i])
		if l.length == 0 {
			l.eventEnd()
		}
		l.lineEnd()
		l.cr = b[i] == '\r'
		b = b[i+1:]
	}
}

func (l *lines) add(b []byte) {
	l.length += len(b)
	switch {
	case l.over:
	case len(l.line)+len(l.data)+len(b) > maxEvent:
		l.over, l.line, l.data = true, nil, nil
	default:
		l.line = append(l.line, b...)
	}
}

// lineEnd keeps the line if it is data; the type of an event is in its data too.
func (l *lines) lineEnd() {
	if value, ok := bytes.CutPrefix(l.line, []byte("data:")); ok {
		if len(l.data) > 0 {
			l.data = append(l.data, '\n')
		}
		l.data = append(l.data, bytes.TrimPrefix(value, []byte(" "))...)
	}
	l.line, l.length = l.line[:0], 0
}

func (l *lines) eventEnd() {
	if len(l.data) > 0 {
		l.account.event("", l.data)
	}
	l.data, l.over = l.data[:0], false
}

// readElements reads a JSON response that may be an array, which grows by one object with each chunk of the answer.
func readElements(body io.Reader, a account) {
	b := bufio.NewReader(body)
	for {
		c, err := b.ReadByte()
		switch {
		case err != nil:
			return
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '[':
			e := elements{account: a}
			drain(b, e.write)
			return
		default:
			_ = b.UnreadByte() // of a byte that was just read
			readDocument(b, a)
			return
		}
	}
}

// elements takes an array apart, behind its first bracket.
type elements struct {
	account account
	data    []byte // of the object so far
	depth   int    // of brackets within the array; below zero it is over
	text    bool   // within a string,
	escaped bool   // and behind a backslash
	over    bool   // the object is too large: it is left out
}

func (e *elements) write(b []byte) {
	for _, c := range b {
		if e.depth < 0 {
			return
		}
		was := e.depth
		e.step(c)
		if was > 0 || e.depth > 0 {
			e.keep(c)
		}
		if was == 1 && e.depth == 0 {
			if !e.over {
				e.account.event("", e.data)
			}
			e.data, e.over = e.data[:0], false
		}
	}
}

// step follows strings and brackets. That the brackets match is for the element's reader to find out.
func (e *elements) step(c byte) {
	switch {
	case e.escaped:
		e.escaped = false
	case e.text:
		e.escaped = c == '\\'
		e.text = c != '"'
	case c == '"':
		e.text = true
	case c == '{' || c == '[':
		e.depth++
	case c == '}' || c == ']':
		e.depth--
	}
}

func (e *elements) keep(c byte) {
	switch {
	case e.over:
	case len(e.data) == maxEvent:
		e.over, e.data = true, nil
	default:
		e.data = append(e.data, c)
	}
}
