package simprovider

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// message is one parsed message. Bodies share it as long as its bytes are the same.
type message struct {
	role   string
	blocks []*block
	flaw   *flaw
}

// head is the parsed value of tools or system.
type head struct {
	blocks []*block
	fault  *Error
}

// body is a request body that is valid JSON: its top-level values, with the large ones parsed further.
type body struct {
	values   map[string]*node // all but the following
	tools    *head
	system   *head
	messages []*message
	list     bool // messages is a list
}

// parser turns request bodies into values. It keeps what it parsed by raw bytes, because an agent sends nearly the same body
// again and again; what it returns is shared and never changes.
type parser struct {
	messages map[string]*message
	tools    map[string]*head
	systems  map[string]*head
	values   map[string]*node
	size     int
	last     tape
}

// tape is the list of messages of the last body: most bodies begin with it, and what begins with the same bytes need not be
// looked at again.
type tape struct {
	raw      []byte // from the opening bracket on
	ends     []int  // of the messages in raw, as far as they are objects
	messages []*message
}

// common returns how many messages a list begins with that are on the tape.
func (t *tape) common(raw []byte) int {
	from := 0
	for i, end := range t.ends {
		if end > len(raw) || !bytes.Equal(t.raw[from:end], raw[from:end]) {
			return i
		}
		from = end
	}
	return len(t.ends)
}

// keptBytes bounds what a parser keeps, in bytes of bodies; beyond it everything is forgotten.
const keptBytes = 32 << 20

func newParser() *parser {
	return &parser{
		messages: map[string]*message{}, tools: map[string]*head{}, systems: map[string]*head{}, values: map[string]*node{},
	}
}

// room makes room for a value, and checks that it is one.
func (p *parser) room(raw []byte) error {
	if p.size += len(raw); p.size > keptBytes {
		*p = *newParser()
		p.size = len(raw)
	}
	return simkit.Sound(raw)
}

// parse reads a body; the error says why it is not valid JSON.
func (p *parser) parse(raw []byte) (*body, error) {
	b := &body{values: map[string]*node{}}
	err := simkit.Members(raw, func(name string, at int) (int, error) {
		if name == "messages" && at < len(raw) && raw[at] == '[' {
			return p.list(b, raw, at)
		}
		end, err := simkit.Skip(raw, at)
		if err != nil {
			return 0, err
		}
		switch value := raw[at:end]; name {
		case "tools":
			b.tools, err = p.head(&p.tools, value, newTools)
		case "system":
			b.system, err = p.head(&p.systems, value, newSystem)
		default:
			b.values[name], err = p.value(value)
			b.list = b.list && name != "messages"
		}
		return end, err
	})
	return b, err
}

// list reads the messages from their bracket on and returns where they end.
func (p *parser) list(b *body, raw []byte, at int) (int, error) {
	known := p.last.common(raw[at:])
	b.list, b.messages = true, slices.Clone(p.last.messages[:known])
	ends, objects := slices.Clone(p.last.ends[:known]), true
	visit := func(from, to int) error {
		m, err := p.message(raw[from:to])
		b.messages = append(b.messages, m)
		if objects = objects && raw[from] == '{'; objects {
			ends = append(ends, to-at)
		}
		return err
	}
	var end int
	var err error
	if known > 0 {
		end, err = simkit.ElementsAfter(raw, at+ends[known-1], visit)
	} else {
		end, err = simkit.Elements(raw, at, visit)
	}
	if err == nil {
		p.last = tape{raw[at:end:end], ends, b.messages[:len(ends):len(ends)]}
	}
	return end, err
}

func (p *parser) value(raw []byte) (*node, error) {
	if n := p.values[string(raw)]; n != nil {
		return n, nil
	}
	if err := p.room(raw); err != nil {
		return nil, err
	}
	n, err := simkit.Decode(raw)
	if err != nil {
		return nil, err
	}
	p.values[string(raw)] = n
	return n, nil
}

// head reads tools or system; seen is a map of this parser, which may be replaced on the way.
func (p *parser) head(seen *map[string]*head, raw []byte, read func(*node) *head) (*head, error) {
	if h := (*seen)[string(raw)]; h != nil {
		return h, nil
	}
	if err := p.room(raw); err != nil {
		return nil, err
	}
	n, err := simkit.Decode(raw)
	if err != nil {
		return nil, err
	}
	h := read(n)
	(*seen)[string(raw)] = h
	return h, nil
}

func (p *parser) message(raw []byte) (*message, error) {
	if m := p.messages[string(raw)]; m != nil {
		return m, nil
	}
	if err := p.room(raw); err != nil {
		return nil, err
	}
	n, err := simkit.Decode(raw)
	if err != nil {
		return nil, err
	}
	m := newMessage(n)
	p.messages[string(raw)] = m
	return m, nil
}

func newMessage(n *node) *message {
	m := &message{}
	if n.Kind != '{' {
		m.flaw = flawed("", notObject)
		return m
	}
	if m.flaw = requires(n, "", "role", 's'); m.flaw != nil {
		return m
	}
	m.role, _ = n.Str("role")
	if n.Get("cache_control") != nil {
		m.flaw = flawed(".cache_control", extra)
		return m
	}
	who := leadOf(m.role, n.Without("role", "content"))
	content := n.Get("content")
	switch {
	case content == nil:
		m.flaw = flawed(".content", required)
	case content.Kind == 's' && content.Text == "":
	case content.Kind == 's':
		content = &node{Kind: '[', Kids: []*node{textNode(content.Text)}}
		fallthrough
	case content.Kind == '[':
		for i, kid := range content.Kids {
			b, f := newContent(kid, who, fmt.Sprintf(".content.%d", i))
			if f != nil {
				m.flaw = f
				return m
			}
			m.blocks = append(m.blocks, b)
		}
	default:
		m.flaw = flawed(".content", notList)
	}
	return m
}

func newTools(n *node) *head {
	h := &head{}
	if n.Kind != '[' {
		h.fault = refuse("tools: %s", notList)
		return h
	}
	who := leadOf("tools", &node{Kind: '{'})
	for i, kid := range n.Kids {
		b, f := newTool(kid, who, fmt.Sprintf("tools.%d", i))
		if f != nil {
			h.fault = f.at("")
			return h
		}
		if slices.ContainsFunc(h.blocks, func(other *block) bool { return other.id == b.id }) {
			h.fault = refuse("tools: Tool names must be unique.")
			return h
		}
		h.blocks = append(h.blocks, b)
	}
	return h
}

func newTool(n *node, who lead, path string) (*block, *flaw) {
	if n.Kind != '{' {
		return nil, flawed(path, notObject)
	}
	tag := ".custom"
	if kind, ok := n.Str("type"); ok && kind != "custom" {
		tag = "." + kind
	}
	if f := requires(n, path+tag, "name", 's'); f != nil {
		return nil, f
	}
	if tag == ".custom" {
		if f := requires(n, path+tag, "input_schema", '{'); f != nil {
			return nil, f
		}
	}
	b, f := newBlock(n, who, path, tag)
	if f != nil {
		return nil, f
	}
	b.id, _ = n.Str("name")
	if b.deferred = n.Get("defer_loading").Is("true"); b.deferred && b.mark != nil {
		return nil, flawed(path, "Tool '%s' cannot have both defer_loading=true and cache_control set.", b.id)
	}
	return b, nil
}

func newSystem(n *node) *head {
	h := &head{}
	switch {
	case n.Kind == 's' && n.Text == "":
		return h
	case n.Kind == 's':
		n = &node{Kind: '[', Kids: []*node{textNode(n.Text)}}
	case n.Kind != '[':
		h.fault = refuse("system: %s", notList)
		return h
	}
	who := leadOf("system", &node{Kind: '{'})
	for i, kid := range n.Kids {
		path := fmt.Sprintf("system.%d", i)
		if kid.Kind != '{' {
			h.fault = refuse("%s: %s", path, notObject)
			return h
		}
		for _, name := range []string{"type", "text"} {
			if f := requires(kid, path, name, 's'); f != nil {
				h.fault = f.at("")
				return h
			}
		}
		b, f := newBlock(kid, who, path, "")
		if f != nil {
			h.fault = f.at("")
			return h
		}
		b.text(kid)
		b.billing = isBilling(kid)
		h.blocks = append(h.blocks, b)
	}
	return h
}
