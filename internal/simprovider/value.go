package simprovider

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// digest names a value or a prefix: 128 bits of SHA-256.
type digest [16]byte

func sum(b []byte) digest {
	h := sha256.Sum256(b)
	return digest(h[:16])
}

// step extends a prefix by one value.
func (d digest) step(next digest) digest {
	var b [32]byte
	copy(b[:], d[:])
	copy(b[16:], next[:])
	return sum(b[:])
}

// imageChars is what an image weighs, whatever its bytes: providers bill its area.
const imageChars = 6000

// node is one decoded JSON value. Numbers keep their literal; objects keep the order of their members, and of a name
// that stands twice the last value counts.
type node struct {
	kind  byte // '{', '[', 's' string, 'n' number, 'l' true, false or null
	text  string
	names []string
	kids  []*node
}

// decode reads one JSON value that is known to be valid.
func decode(raw []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	n, err := decodeValue(dec)
	if err != nil {
		return nil, fmt.Errorf("decode value: %w", err)
	}
	return n, nil
}

func decodeValue(dec *json.Decoder) (*node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return &node{kind: 's', text: v}, nil
	case json.Number:
		return &node{kind: 'n', text: string(v)}, nil
	case json.Delim:
		return decodeGroup(dec, byte(v))
	}
	text := "null"
	if v, is := token.(bool); is {
		text = strconv.FormatBool(v)
	}
	return &node{kind: 'l', text: text}, nil
}

func decodeGroup(dec *json.Decoder, kind byte) (*node, error) {
	n := &node{kind: kind}
	for dec.More() {
		name := ""
		if kind == '{' {
			token, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ = token.(string)
		}
		kid, err := decodeValue(dec)
		if err != nil {
			return nil, err
		}
		n.put(name, kid)
	}
	_, err := dec.Token()
	return n, err
}

// put adds an element to an array, or sets a member of an object.
func (n *node) put(name string, kid *node) {
	if n.kind == '[' {
		n.kids = append(n.kids, kid)
		return
	}
	if i := slices.Index(n.names, name); i >= 0 {
		n.kids[i] = kid
		return
	}
	n.names, n.kids = append(n.names, name), append(n.kids, kid)
}

// get returns the member of that name, nil if there is none.
func (n *node) get(name string) *node {
	if i := slices.Index(n.names, name); i >= 0 {
		return n.kids[i]
	}
	return nil
}

// str returns the text of a string member; false if it is missing or no string.
func (n *node) str(name string) (string, bool) {
	kid := n.get(name)
	if kid == nil || kid.kind != 's' {
		return "", false
	}
	return kid.text, true
}

func (n *node) is(literal string) bool { return n != nil && n.kind == 'l' && n.text == literal }

// without returns the object less the named members; it is the object itself if it has none of them.
func (n *node) without(names ...string) *node {
	if !slices.ContainsFunc(n.names, func(name string) bool { return slices.Contains(names, name) }) {
		return n
	}
	out := &node{kind: n.kind}
	for i, name := range n.names {
		if !slices.Contains(names, name) {
			out.names, out.kids = append(out.names, name), append(out.kids, n.kids[i])
		}
	}
	return out
}

// bare returns the block without cache_control, those on the blocks of its content included.
func (n *node) bare() *node {
	out := n.without("cache_control")
	content := out.get("content")
	if content == nil || content.kind != '[' {
		return out
	}
	inner := &node{kind: '['}
	for _, kid := range content.kids {
		inner.kids = append(inner.kids, kid.without("cache_control"))
	}
	out = &node{kind: '{', names: out.names, kids: slices.Clone(out.kids)}
	out.put("content", inner)
	return out
}

func textNode(text string) *node {
	return &node{kind: '{', names: []string{"type", "text"}, kids: []*node{{kind: 's', text: "text"}, {kind: 's', text: text}}}
}

// plainText reports whether the node is a text block with nothing but its text. Its members have no order, because such a
// block equals string content.
func (n *node) plainText() bool {
	kind, _ := n.str("type")
	return n.kind == '{' && len(n.names) == 2 && kind == "text" && n.get("text") != nil
}

// encode appends the value in a form that equal values share. Blanks, escapes and number forms do not matter; the order of
// members matters unless sorted.
func (n *node) encode(dst []byte, sorted bool) []byte {
	switch n.kind {
	case 's':
		return appendText(dst, n.text)
	case 'n':
		return append(append(append(dst, 'n'), number(n.text)...), ';')
	case 'l':
		return append(append(append(dst, 'l'), n.text...), ';')
	}
	order := make([]int, len(n.kids))
	for i := range order {
		order[i] = i
	}
	if n.kind == '{' && (sorted || n.plainText()) {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(n.names[a], n.names[b]) })
	}
	dst = append(dst, n.kind)
	for _, i := range order {
		if n.kind == '{' {
			dst = appendText(dst, n.names[i])
		}
		dst = n.kids[i].encode(dst, sorted)
	}
	return append(dst, n.kind+2) // '}' and ']' follow their opening by two
}

func appendText(dst []byte, s string) []byte {
	dst = strconv.AppendInt(append(dst, 's'), int64(len(s)), 10)
	return append(append(dst, ':'), s...)
}

// number returns a literal in a form that equal numbers share; 1 and 1.0 are different values, as they are to the provider.
func number(literal string) string {
	if literal == "-0" {
		return "0"
	}
	if !strings.ContainsAny(literal, ".eE") {
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return literal
	}
	return "f" + strconv.FormatFloat(f, 'g', -1, 64)
}

// chars counts the characters of all names, strings and literals in the value.
func (n *node) chars() int {
	if n.kind == '{' {
		if kind, _ := n.str("type"); kind == "image" {
			return imageChars
		}
	}
	total := utf8.RuneCountInString(n.text)
	for _, name := range n.names {
		total += utf8.RuneCountInString(name)
	}
	for _, kid := range n.kids {
		total += kid.chars()
	}
	return total
}

// tokens is the simulator's measure of a block, at least 1.
func (s *Sim) tokens(chars int) int {
	return max(1, int(math.Ceil(float64(chars)/s.opts.CharsPerToken)))
}

// each visits the node and everything in it.
func (n *node) each(visit func(*node)) {
	visit(n)
	for _, kid := range n.kids {
		kid.each(visit)
	}
}

// json appends the value as JSON.
func (n *node) json(dst []byte) []byte {
	switch n.kind {
	case 's':
		return appendJSONString(dst, n.text)
	case 'n', 'l':
		return append(dst, n.text...)
	}
	dst = append(dst, n.kind)
	for i, kid := range n.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == '{' {
			dst = append(appendJSONString(dst, n.names[i]), ':')
		}
		dst = kid.json(dst)
	}
	return append(dst, n.kind+2)
}

func appendJSONString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals; an empty one keeps the document valid
		b = []byte(`""`)
	}
	return append(dst, b...)
}
