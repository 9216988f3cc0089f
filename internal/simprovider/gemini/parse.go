package gemini

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

type node = simkit.Node

// content is one element of contents. Bodies share it as long as its bytes are the same.
type content struct {
	role      string
	parts     []*part
	calls     int // parts that are function calls
	responses int // parts that are function responses
	thoughts  string
	flaw      flaw
}

// flaw is what is wrong with something that stands at a path; nil if nothing is.
type flaw func(path string) *Error

// head is the parsed value of tools or of the system instruction.
type head struct {
	parts []*part
	fault *Error
}

// body is a request body that is valid JSON: its top-level values by their names in camelCase, with the contents parsed further.
type body struct {
	values   map[string]*node
	contents []*content
	list     bool
}

// request is a body of the right shape.
type request struct {
	endpoint
	facts    model
	tools    []*part
	system   []*part
	contents []*content
}

// parser turns request bodies into values. It keeps what it parsed by raw bytes, because an agent sends nearly the same body
// again and again; what it returns is shared and never changes.
type parser struct {
	charsPerToken float64
	contents      map[string]*content
	values        map[string]*node
	heads         map[*node]*head // by a kept value
	size          int
}

// keptBytes bounds what a parser keeps, in bytes of bodies; beyond it everything is forgotten.
const keptBytes = 32 << 20

func newParser(charsPerToken float64) *parser {
	return &parser{charsPerToken: charsPerToken, contents: map[string]*content{}, values: map[string]*node{}, heads: map[*node]*head{}}
}

// decode reads a value that was not seen before, and makes room for it.
func (p *parser) decode(raw []byte) (*node, error) {
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
func (p *parser) parse(raw []byte) (*body, error) {
	b := &body{values: map[string]*node{}}
	err := simkit.Members(raw, func(name string, at int) (int, error) {
		name = camel(name)
		if name == "contents" && at < len(raw) && raw[at] == '[' {
			b.list, b.contents = true, nil
			return simkit.Elements(raw, at, func(from, to int) error { return p.content(b, raw[from:to]) })
		}
		end, err := simkit.Skip(raw, at)
		if err != nil {
			return 0, err
		}
		if name == "contents" && raw[at] == '{' { // one element equals a list of one
			b.list, b.contents = true, nil
			return end, p.content(b, raw[at:end])
		}
		n, err := p.value(raw[at:end])
		if err == nil && !n.Is("null") {
			b.values[name] = n
		}
		return end, err
	})
	return b, err
}

func (p *parser) value(raw []byte) (*node, error) {
	if n := p.values[string(raw)]; n != nil {
		return n, nil
	}
	n, err := p.decode(raw)
	if err == nil {
		p.values[string(raw)] = n
	}
	return n, err
}

func (p *parser) content(b *body, raw []byte) error {
	c := p.contents[string(raw)]
	if c == nil {
		n, err := p.decode(raw)
		if err != nil {
			return err
		}
		c = p.newContent(n)
		p.contents[string(raw)] = c
	}
	b.contents = append(b.contents, c)
	return nil
}

// camel is a name in camelCase.
func camel(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	var out strings.Builder
	up := false
	for _, r := range name {
		switch {
		case r == '_':
			up = true
			continue
		case up:
			r = unicode.ToUpper(r)
		}
		up = false
		out.WriteRune(r)
	}
	return out.String()
}

// snake is a name in snake_case, as paths of errors have it.
func snake(name string) string {
	var out strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// fields returns an object with its names in camelCase and without members that are null; kind is what the schema calls it.
func fields(n *node, kind string, names ...string) (*node, flaw) {
	if n.Kind != '{' {
		return nil, func(path string) *Error { return badValue(path, aMessage+kind, n) }
	}
	out := &node{Kind: '{'}
	for i, name := range n.Names {
		if !slices.Contains(names, camel(name)) {
			return nil, func(path string) *Error { return unknown(name, path) }
		}
		if !n.Kids[i].Is("null") {
			out.Put(camel(name), n.Kids[i])
		}
	}
	return out, nil
}

// within moves a flaw to a member or an element of what stands at a path.
func within(f flaw, tail string) flaw {
	if f == nil {
		return nil
	}
	return func(path string) *Error { return f(path + tail) }
}

func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// wants checks that a member has a kind, if it is there.
func wants(n *node, name string, kind byte, called string) flaw {
	value := n.Get(name)
	if value == nil || value.Kind == kind && (kind != 'l' || value.Text != "null") {
		return nil
	}
	return func(path string) *Error { return badValue(path+"."+snake(name), called, value) }
}

// elements are the elements of a list; one element equals a list of one.
func elements(n *node) []*node {
	switch {
	case n == nil:
		return nil
	case n.Kind == '[':
		return n.Kids
	}
	return []*node{n}
}

func (p *parser) newContent(raw *node) *content {
	c := &content{}
	n, f := fields(raw, "Content", "role", "parts")
	if f == nil {
		f = wants(n, "role", 's', aString)
	}
	if f != nil {
		c.flaw = f
		return c
	}
	c.role, _ = n.Str("role")
	lead := []byte(c.role)
	if c.role == "" || c.role == "function" {
		lead = []byte("user")
	}
	for i, kid := range elements(n.Get("parts")) {
		x, f := p.newPart(kid, lead)
		if f != nil {
			c.flaw = within(f, indexed(".parts", i))
			return c
		}
		c.parts = append(c.parts, x)
		switch {
		case x.kind == "functionCall":
			c.calls++
		case x.kind == "functionResponse":
			c.responses++
		case x.thought:
			c.thoughts += x.text
		}
	}
	return c
}

// members are the names at the top of a body.
var members = []string{
	"contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent", "model", "labels",
	"store", "serviceTier",
}

// shape fills in a request with what its body says.
func (p *parser) shape(r *request, b *body) *Error {
	if nested := b.values["generateContentRequest"]; nested != nil && r.method == methodCount {
		inner, err := p.parse(nested.JSON(nil))
		if err != nil {
			return notJSON()
		}
		return p.shape(r, inner)
	}
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		if !slices.Contains(members, name) {
			return unknown(name, "")
		}
	}
	if n := b.values["contents"]; n != nil && !b.list {
		return badValue("contents", aMessage+"Content", n)
	}
	for i, c := range b.contents {
		if c.flaw != nil {
			return c.flaw(indexed("contents", i))
		}
	}
	r.contents = b.contents
	if b.values["cachedContent"] != nil {
		return &Error{Status: 403, Message: "CachedContent not found (or permission denied)"}
	}
	var f *Error
	if r.tools, f = p.head(b.values["tools"], p.newTools); f != nil {
		return f
	}
	r.system, f = p.head(b.values["systemInstruction"], p.newSystem)
	return f
}

// head reads tools or the system instruction.
func (p *parser) head(n *node, read func(*node) *head) ([]*part, *Error) {
	if n == nil {
		return nil, nil
	}
	h := p.heads[n]
	if h == nil {
		h = read(n)
		p.heads[n] = h
	}
	return h.parts, h.fault
}

func (p *parser) newSystem(n *node) *head {
	const path = "system_instruction"
	h := &head{}
	n, f := fields(n, "Content", "role", "parts")
	if f != nil {
		h.fault = f(path)
		return h
	}
	for i, kid := range elements(n.Get("parts")) {
		x, f := p.newPart(kid, []byte("system"))
		if f != nil {
			h.fault = f(indexed(path+".parts", i))
			return h
		}
		h.parts = append(h.parts, x)
	}
	return h
}

// functionName is what the name of a function must be.
var functionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$`)

func (p *parser) newTools(n *node) *head {
	h := &head{}
	seen := map[string]bool{}
	for i, kid := range elements(n) {
		at := indexed("tools", i)
		if kid.Kind != '{' {
			h.fault = badValue(at, aMessage+"Tool", kid)
			return h
		}
		other := &node{Kind: '{'}
		for j, name := range kid.Names {
			if camel(name) != "functionDeclarations" {
				other.Put(camel(name), kid.Kids[j])
				continue
			}
			for k, d := range elements(kid.Kids[j]) {
				if h.fault = p.declare(h, d, indexed(at+".function_declarations", k), seen); h.fault != nil {
					return h
				}
			}
		}
		if len(other.Names) > 0 {
			h.parts = append(h.parts, p.weigh(other, []byte("tools")))
		}
	}
	return h
}

// declare adds a function.
func (p *parser) declare(h *head, n *node, path string, seen map[string]bool) *Error {
	n, f := fields(n, "FunctionDeclaration", "name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior")
	if f == nil {
		f = wants(n, "name", 's', aString)
	}
	if f != nil {
		return f(path)
	}
	name, _ := n.Str("name")
	switch {
	case !functionName.MatchString(name):
		return refuse("* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be "+
			"alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n", path)
	case seen[name]:
		return refuse("Duplicate function declaration found: %s", name)
	}
	seen[name] = true
	h.parts = append(h.parts, p.weigh(n, []byte("tools")))
	return nil
}
