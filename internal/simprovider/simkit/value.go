package simkit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Digest names a value or a prefix: 128 bits of SHA-256.
type Digest [16]byte

// Sum is the digest of some bytes.
func Sum(b []byte) Digest {
	h := sha256.Sum256(b)
	return Digest(h[:16])
}

// Step extends a prefix by one value.
func (d Digest) Step(next Digest) Digest {
	var b [32]byte
	copy(b[:], d[:])
	copy(b[16:], next[:])
	return Sum(b[:])
}

// Node is one decoded JSON value. Numbers keep their literal; objects keep the order of their members, and of a name
// that stands twice the last value counts.
type Node struct {
	Kind  byte // '{', '[', 's' string, 'n' number, 'l' true, false or null
	Text  string
	Names []string
	Kids  []*Node
}

// Decode reads one JSON value that is known to be valid.
func Decode(raw []byte) (*Node, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	n, err := decodeValue(dec)
	if err != nil {
		return nil, fmt.Errorf("decode value: %w", err)
	}
	return n, nil
}

func decodeValue(dec *json.Decoder) (*Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return &Node{Kind: 's', Text: v}, nil
	case json.Number:
		return &Node{Kind: 'n', Text: string(v)}, nil
	case json.Delim:
		return decodeGroup(dec, byte(v))
	}
	text := "null"
	if v, is := token.(bool); is {
		text = strconv.FormatBool(v)
	}
	return &Node{Kind: 'l', Text: text}, nil
}

func decodeGroup(dec *json.Decoder, kind byte) (*Node, error) {
	n := &Node{Kind: kind}
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
		n.Put(name, kid)
	}
	_, err := dec.Token()
	return n, err
}

// Put adds an element to an array, or sets a member of an object.
func (n *Node) Put(name string, kid *Node) {
	if n.Kind == '[' {
		n.Kids = append(n.Kids, kid)
		return
	}
	if i := slices.Index(n.Names, name); i >= 0 {
		n.Kids[i] = kid
		return
	}
	n.Names, n.Kids = append(n.Names, name), append(n.Kids, kid)
}

// Get returns the member of that name, nil if there is none.
func (n *Node) Get(name string) *Node {
	if i := slices.Index(n.Names, name); i >= 0 {
		return n.Kids[i]
	}
	return nil
}

// Str returns the text of a string member; false if it is missing or no string.
func (n *Node) Str(name string) (string, bool) {
	kid := n.Get(name)
	if kid == nil || kid.Kind != 's' {
		return "", false
	}
	return kid.Text, true
}

// Is reports whether the node is that literal: true, false or null.
func (n *Node) Is(literal string) bool { return n != nil && n.Kind == 'l' && n.Text == literal }

// Without returns the object less the named members; it is the object itself if it has none of them.
func (n *Node) Without(names ...string) *Node {
	if !slices.ContainsFunc(n.Names, func(name string) bool { return slices.Contains(names, name) }) {
		return n
	}
	out := &Node{Kind: n.Kind}
	for i, name := range n.Names {
		if !slices.Contains(names, name) {
			out.Names, out.Kids = append(out.Names, name), append(out.Kids, n.Kids[i])
		}
	}
	return out
}

// TextNode is a text block with nothing but its text.
func TextNode(kind, text string) *Node {
	return &Node{Kind: '{', Names: []string{"type", "text"}, Kids: []*Node{{Kind: 's', Text: kind}, {Kind: 's', Text: text}}}
}

// plainText reports whether the Node is a text block with nothing but its text. Its members have no order, because such a
// block equals string content.
func (n *Node) plainText() bool {
	kind, _ := n.Str("type")
	return n.Kind == '{' && len(n.Names) == 2 && kind == "text" && n.Get("text") != nil
}

// Encode appends the value in a form that equal values share. Blanks, escapes and number forms do not matter; the order of
// members matters unless sorted.
func (n *Node) Encode(dst []byte, sorted bool) []byte {
	switch n.Kind {
	case 's':
		return AppendText(dst, n.Text)
	case 'n':
		return append(append(append(dst, 'n'), number(n.Text)...), ';')
	case 'l':
		return append(append(append(dst, 'l'), n.Text...), ';')
	}
	order := make([]int, len(n.Kids))
	for i := range order {
		order[i] = i
	}
	if n.Kind == '{' && (sorted || n.plainText()) {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(n.Names[a], n.Names[b]) })
	}
	dst = append(dst, n.Kind)
	for _, i := range order {
		if n.Kind == '{' {
			dst = AppendText(dst, n.Names[i])
		}
		dst = n.Kids[i].Encode(dst, sorted)
	}
	return append(dst, n.Kind+2) // '}' and ']' follow their opening by two
}

// AppendText appends a text in a form that no other text is the beginning of.
func AppendText(dst []byte, s string) []byte {
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

// Each visits the node and everything in it.
func (n *Node) Each(visit func(*Node)) {
	visit(n)
	for _, kid := range n.Kids {
		kid.Each(visit)
	}
}

// JSON appends the value as JSON.
func (n *Node) JSON(dst []byte) []byte {
	switch n.Kind {
	case 's':
		return appendJSONString(dst, n.Text)
	case 'n', 'l':
		return append(dst, n.Text...)
	}
	dst = append(dst, n.Kind)
	for i, kid := range n.Kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.Kind == '{' {
			dst = append(appendJSONString(dst, n.Names[i]), ':')
		}
		dst = kid.JSON(dst)
	}
	return append(dst, n.Kind+2)
}

func appendJSONString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals; an empty one keeps the document valid
		b = []byte(`""`)
	}
	return append(dst, b...)
}
