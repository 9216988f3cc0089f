package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Member is one member of an object.
type Member struct {
	Key   string
	Value any
}

// Object is a JSON object with its members in order; a key may stand twice.
type Object []Member

// List is a JSON array.
type List []any

// Number is a JSON number in its shortest form.
type Number string

// A value is nil, a bool, a Number, a string, a List, an Object or a Block. A string may hold lone surrogates, each in the
// three bytes that UTF-8 would use if it allowed them; they are written as \u escapes.

// Body writes the conversation as its seeds say, as a body of Anthropic.
func (c *Conversation) Body() []byte { return c.As(Anthropic) }

// Compact writes the conversation without any white space, members in order, escaping only what JSON demands.
func (c *Conversation) Compact() []byte { return c.CompactAs(Anthropic) }

func (c *Conversation) anthropic() Object {
	body := Object{}
	if c.Model != "" {
		body = append(body, Member{"model", c.Model})
	}
	if c.MaxTokens > 0 {
		body = append(body, Member{"max_tokens", Number(strconv.Itoa(c.MaxTokens))})
	}
	if len(c.System) == 1 && c.SystemString && c.System[0].plain() {
		body = append(body, Member{"system", literal(c.System[0])})
	} else if c.System != nil {
		body = append(body, Member{"system", blocks(c.System)})
	}
	if c.Tools != nil {
		body = append(body, Member{"tools", blocks(c.Tools)})
	}
	messages := make(List, len(c.Messages))
	for i := range c.Messages {
		messages[i] = &c.Messages[i]
	}
	return append(append(body, Member{"messages", messages}), c.Extra...)
}

// seeded is a block that is written by its own seed; literal is its text alone, in the same bytes; encoded is a value as a
// string that holds its JSON.
type (
	seeded  struct{ b *Block }
	literal Block
	encoded struct{ value any }
)

func blocks(bs []Block) List {
	list := make(List, len(bs))
	for i := range bs {
		list[i] = seeded{&bs[i]}
	}
	return list
}

type writer struct {
	out    []byte
	of     func(uint64) style
	points bool // a breakpoint of a seeded block is an element of its own behind it
	// explicit breakpoints are those of OpenAI, which have no ttl.
	explicit bool
}

func (w *writer) value(v any, s style) {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case Number:
		w.out = append(w.out, s.number(string(v))...)
	case string:
		w.quote(v, s)
	case List:
		w.list(v, s)
	case Object:
		w.object(v, NoMarker, s)
	case Block:
		w.object(v.Members, v.Marker, s)
	case seeded:
		marker := v.b.Marker
		if w.points {
			marker = NoMarker
		}
		w.object(v.b.Members, marker, w.of(v.b.Seed))
	case encoded:
		inner := &writer{of: w.of}
		inner.value(v.value, s)
		w.quote(string(inner.out), s)
	case literal:
		w.value(v.Members[1].Value, w.of(v.Seed).sub(1))
	case *Message:
		w.message(v)
	default:
		w.out = fmt.Append(w.out, v) // no JSON: the test that made such a value sees it fail
	}
}

func (w *writer) message(m *Message) {
	var content any = blocks(m.Blocks)
	if m.String && len(m.Blocks) == 1 && m.Blocks[0].plain() {
		content = literal(m.Blocks[0])
	}
	w.object(append(Object{{"role", m.Role}, {"content", content}}, m.Extra...), NoMarker, w.of(m.Seed))
}

func (w *writer) list(v List, s style) {
	r := s.rng()
	w.out = append(w.out, '[')
	for i, e := range v {
		if i > 0 {
			w.space(s, &r, false)
			w.out = append(w.out, ',')
		}
		w.space(s, &r, i > 0)
		w.value(e, s.sub(i))
		if b, ok := e.(seeded); ok && w.points {
			w.point(b.b)
		}
	}
	w.space(s, &r, false)
	w.out = append(w.out, ']')
}

// object writes the members in the style's order. A marker is written by a style of its own, with the one comma that it
// needs and no space before that comma, so that the other bytes are those of the object without it.
func (w *writer) object(v Object, m Marker, s style) {
	r := s.rng()
	order, at := s.order(len(v)), s.place(len(v))
	w.out = append(w.out, '{')
	for i, k := range order {
		if i > 0 {
			w.space(s, &r, false)
			w.out = append(w.out, ',')
		}
		w.space(s, &r, i > 0)
		if m != NoMarker && at == 0 && i == 0 {
			w.marker(m, s)
			w.out = append(w.out, ',')
			w.space(s, s.markerRng(), true)
		}
		w.member(v[k], s, &r, k)
		if m != NoMarker && at == i+1 {
			w.out = append(w.out, ',')
			w.space(s, s.markerRng(), true)
			w.marker(m, s)
		}
	}
	if m != NoMarker && len(v) == 0 {
		w.marker(m, s)
	}
	w.space(s, &r, false)
	w.out = append(w.out, '}')
}

func (w *writer) member(m Member, s style, r *rng, k int) {
	w.quote(m.Key, s.sub(-k-1))
	w.space(s, r, false)
	w.out = append(w.out, ':')
	w.space(s, r, true)
	w.value(m.Value, s.sub(k))
}

func (w *writer) marker(m Marker, s style) {
	s = s.sub(marked)
	key, v := "cache_control", any(m.value("ephemeral", s))
	if w.explicit {
		key, v = "prompt_cache_breakpoint", Object{{"mode", "explicit"}}
	}
	if m == Null {
		v = nil
	}
	r := s.rng()
	w.member(Member{key, v}, s, &r, 0)
}

// point writes the cachePoint of Bedrock behind the block that has the breakpoint, with the comma between them.
func (w *writer) point(b *Block) {
	if b.Marker == NoMarker || b.Marker == Null {
		return
	}
	s := w.of(b.Seed).sub(marked)
	w.out = append(w.out, ',')
	w.space(s, s.markerRng(), true)
	w.object(Object{{"cachePoint", b.Marker.value("default", s)}}, NoMarker, s)
}

// value is what stands in a breakpoint; five minutes are also meant where no ttl is written.
func (m Marker) value(kind string, s style) Object {
	if m == Short && !s.flip() {
		return Object{{"type", kind}}
	}
	return Object{{"type", kind}, {"ttl", string(m)}}
}

// space writes white space; usual says that writers with spaces put one here.
func (w *writer) space(s style, r *rng, usual bool) {
	switch {
	case s.spaces == spaced && usual:
		w.out = append(w.out, ' ')
	case s.spaces == scattered:
		for range r.n(3) {
			w.out = append(w.out, " \n\t\r"[r.n(4)])
		}
	}
}

var short = map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func (w *writer) quote(text string, s style) {
	r := s.rng()
	w.out = append(w.out, '"')
	for i := 0; i < len(text); {
		if unit, ok := surrogate(text[i:]); ok {
			w.unit(unit, s, &r)
			i += 3
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		esc, known := short[c]
		must := c < ' ' || c == '"' || c == '\\'
		switch {
		case !must && !s.escapes(c, &r):
			w.out = append(w.out, text[i:i+n]...)
		case known && (s.escaping == plainly || r.n(2) == 0):
			w.out = append(w.out, esc...)
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			w.unit(uint16(hi), s, &r)
			w.unit(uint16(lo), s, &r)
		default:
			w.unit(uint16(c), s, &r)
		}
		i += n
	}
	w.out = append(w.out, '"')
}

// unit writes one UTF-16 code unit as an escape.
func (w *writer) unit(u uint16, s style, r *rng) {
	hex := fmt.Sprintf("%04x", u)
	if s.escaping != plainly && r.n(2) == 0 {
		hex = strings.ToUpper(hex)
	}
	w.out = append(append(w.out, `\u`...), hex...)
}

// surrogate decodes a surrogate that stands alone in the three bytes that UTF-8 forbids.
func surrogate(s string) (uint16, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf {
		return 0, false
	}
	return 0xd000 | uint16(s[1]&0x3f)<<6 | uint16(s[2]&0x3f), true
}

// Surrogate is the string for one surrogate code unit, 0xD800 to 0xDFFF.
func Surrogate(unit uint16) string {
	return string([]byte{0xed, 0x80 | byte(unit>>6)&0x3f, 0x80 | byte(unit)&0x3f})
}

// shuffled is 0 to n-1 in the order of r.
func shuffled(n int, r rng) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := r.n(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return slices.Clip(order)
}
