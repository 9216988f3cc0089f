package usage

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/tidwall/gjson"
)

// readMessage reads a JSON response. What could be read of it counts if it is a whole document: a message that is cut off is
// not valid JSON, while a whole one may come in a compressed form whose end is missing.
func readMessage(body io.Reader, t *tally) {
	b, _ := io.ReadAll(io.LimitReader(body, maxJSON+1))
	if len(b) <= maxJSON && json.Valid(b) { // json, as gjson recurses as deep as the document does
		t.message(gjson.ParseBytes(b))
		t.final = true
	}
}

// readEvents reads a stream of server-sent events, with lines that end as the standard allows: LF, CRLF or CR. The last event
// needs no blank line after it; one that is cut off is not valid JSON.
func readEvents(body io.Reader, t *tally) {
	e := events{tally: t}
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		e.write(buf[:n])
		if err != nil {
			e.lineEnd()
			e.eventEnd()
			return
		}
	}
}

// events takes a stream apart.
type events struct {
	tally  *tally
	line   []byte // so far
	length int    // of the line so far, also of what was not kept
	data   []byte // of the event so far
	over   bool   // the event is too large: it is left out
	cr     bool   // the last byte was a CR, so that an LF belongs to it
}

func (e *events) write(b []byte) {
	for len(b) > 0 {
		if e.cr && b[0] == '\n' {
			b = b[1:]
		}
		e.cr = false
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			e.add(b)
			return
		}
		e.add(b[:i])
		if e.length == 0 {
			e.eventEnd()
		}
		e.lineEnd()
		e.cr = b[i] == '\r'
		b = b[i+1:]
	}
}

func (e *events) add(b []byte) {
	e.length += len(b)
	switch {
	case e.over:
	case len(e.line)+len(e.data)+len(b) > maxEvent:
		e.over, e.line, e.data = true, nil, nil
	default:
		e.line = append(e.line, b...)
	}
}

// lineEnd keeps the line if it is data; the type of an event is in its data too.
func (e *events) lineEnd() {
	if value, ok := bytes.CutPrefix(e.line, []byte("data:")); ok {
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
	}
	e.line, e.length = e.line[:0], 0
}

var start, delta = []byte(`"message_start"`), []byte(`"message_delta"`)

// eventEnd takes what the event says of usage. Most events are pieces of text, so that it first looks whether it can be one
// of the two that do.
func (e *events) eventEnd() {
	if (bytes.Contains(e.data, start) || bytes.Contains(e.data, delta)) && json.Valid(e.data) {
		switch v := gjson.ParseBytes(e.data); v.Get("type").Str {
		case "message_start":
			e.tally.message(v.Get("message"))
		case "message_delta":
			e.tally.delta(v)
		}
	}
	e.data, e.over = e.data[:0], false
}
