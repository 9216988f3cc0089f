package openai

import (
	"encoding/json"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// item is one message of Chat Completions, or one input item of Responses. Bodies share it as long as its bytes are the same.
type item struct {
	kind    string // type of a Responses item; "message" for every message
	role    string // of a message
	id      string
	call    string   // call_id of a call or an output, tool_call_id of a tool message
	calls   []string // ids of the tool_calls of a message
	sealed  string   // encrypted_content
	shrouds bool     // an item_reference: its id names what stands in its place
	blocks  []*block
	raw     json.RawMessage
	flaw    *flaw
}

// head is the parsed value of tools.
type head struct {
	blocks []*block
	flaw   *flaw
}

// body is a request body that is valid JSON: its top-level values, with the large ones parsed further.
type body struct {
	values map[string]*simkit.Node // all but the following
	tools  *head
	items  []*item
	list   bool // messages or input is a list
}

// parser turns request bodies into values. It keeps what it parsed by raw bytes, because an agent sends nearly the same body
// again and again; what it returns is shared and never changes.
type parser struct {
	charsPerToken float64
	items         map[string]map[string]*item // by what holds them, and by bytes
	tools         map[string]map[string]*head // the same
	values        map[string]*simkit.Node
	size          int
}

// keptBytes bounds what a parser keeps, in bytes of bodies; beyond it everything is forgotten.
const keptBytes = 32 << 20

func newParser(charsPerToken float64) *parser {
	p := &parser{
		charsPerToken: charsPerToken,
		items:         map[string]map[string]*item{}, tools: map[string]map[string]*head{}, values: map[string]*simkit.Node{},
	}
	for _, which := range []api{chat, responses} {
		p.items[which.list()], p.tools[which.list()] = map[string]*item{}, map[string]*head{}
	}
	return p
}

// decode reads a value that was not seen before, and makes room for it.
func (p *parser) decode(raw []byte) (*simkit.Node, error) {
	if err := simkit.Sound(raw); err != nil {
		return nil, err
	}
	if p.size += len(raw); p.size > keptBytes {
		*p = *newParser(p.charsPerToken)
		p.size = len(raw)
	}
	return simkit.Decode(raw)
}

// parse reads a body; the error says why it is not valid JSON.
func (p *parser) parse(which api, raw []byte) (*body, error) {
	b := &body{values: map[string]*simkit.Node{}}
	err := simkit.Members(raw, func(name string, at int) (int, error) {
		if name == which.list() && at < len(raw) && raw[at] == '[' {
			return p.list(b, which, raw, at)
		}
		end, err := simkit.Skip(raw, at)
		if err != nil {
			return 0, err
		}
		if name == "tools" {
			b.tools, err = p.head(which, raw[at:end])
			return end, err
		}
		b.values[name], err = p.value(raw[at:end])
		b.list = b.list && name != which.list()
		return end, err
	})
	return b, err
}

// list reads the items from their bracket on and returns where they end.
func (p *parser) list(b *body, which api, raw []byte, at int) (int, error) {
	b.list, b.items = true, nil
	return simkit.Elements(raw, at, func(from, to int) error {
		it, err := p.item(which, raw[from:to])
		b.items = append(b.items, it)
		return err
	})
}

func (p *parser) value(raw []byte) (*simkit.Node, error) {
	if n := p.values[string(raw)]; n != nil {
		return n, nil
	}
	n, err := p.decode(raw)
	if err != nil {
		return nil, err
	}
	p.values[string(raw)] = n
	return n, nil
}

func (p *parser) item(which api, raw []byte) (*item, error) {
	if it := p.items[which.list()][string(raw)]; it != nil {
		return it, nil
	}
	n, err := p.decode(raw)
	if err != nil {
		return nil, err
	}
	it := p.newItem(which, n)
	it.raw = raw
	p.items[which.list()][string(raw)] = it
	return it, nil
}

func (p *parser) head(which api, raw []byte) (*head, error) {
	if h := p.tools[which.list()][string(raw)]; h != nil {
		return h, nil
	}
	n, err := p.decode(raw)
	if err != nil {
		return nil, err
	}
	h := p.newTools(which, n)
	p.tools[which.list()][string(raw)] = h
	return h, nil
}

func (p *parser) newItem(which api, n *simkit.Node) *item {
	it := &item{}
	if n.Kind != '{' {
		it.flaw = badType("", anObject, n)
		return it
	}
	if it.flaw = stray(n, ""); it.flaw != nil {
		return it
	}
	it.id, _ = n.Str("id")
	if which == chat {
		it.flaw = p.readMessage(it, n)
	} else {
		it.flaw = p.readItem(it, n)
	}
	return it
}

// newTools reads tools. Those of Chat hold a function in a member of its own.
func (p *parser) newTools(which api, n *simkit.Node) *head {
	h := &head{}
	switch {
	case n.Is("null"):
		return h
	case n.Kind != '[':
		h.flaw = badType("tools", anArray, n)
		return h
	case len(n.Kids) == 0 && which == chat:
		h.flaw = empty("tools")
		return h
	}
	for i, kid := range n.Kids {
		path := indexed("tools", i)
		if h.flaw = checkTool(which, kid, path); h.flaw != nil {
			return h
		}
		h.blocks = append(h.blocks, p.newBlock(kid, []byte("tools"), true))
	}
	return h
}

func checkTool(which api, n *simkit.Node, path string) *flaw {
	if n.Kind != '{' {
		return badType(path, anObject, n)
	}
	if f := wants(n, path, "type", 's'); f != nil {
		return f
	}
	if f := stray(n, path); f != nil {
		return f
	}
	kind, _ := n.Str("type")
	if kind != "function" && kind != "custom" {
		if which == chat {
			return badValue(path+".type", kind, "function", "custom")
		}
		return nil
	}
	if which == chat {
		if f := wants(n, path, kind, '{'); f != nil {
			return f
		}
		n, path = n.Get(kind), path+"."+kind
		if f := stray(n, path); f != nil {
			return f
		}
	}
	return wants(n, path, "name", 's')
}

// bare returns an object less the named members and those that are null.
func bare(n *simkit.Node, names ...string) *simkit.Node {
	for i, kid := range n.Kids {
		if n.Kind == '{' && kid.Is("null") {
			names = append(names, n.Names[i])
		}
	}
	return n.Without(names...)
}
