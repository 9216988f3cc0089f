package simprovider

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// block is one unit of the value sequence tools → system → messages: a tool, a system text or a content block.
type block struct {
	kind    string
	value   digest   // what the prompt cache sees: the order of members counts, cache_control does not
	meaning digest   // what signatures bind to: the order of members does not count either
	chars   int      // what it weighs
	texts   []string // every string in it

	mark   *mark  // its own breakpoint
	nested []mark // those on the blocks of its content: they count in the law but cache nothing

	id        string // of a tool_use; of the tool_use that a tool_result answers; name of a tool
	signature string // of a thinking block, the data of a redacted one
	thought   digest // a thinking block without its signature
	refs      []string
	deferred  bool // a tool that stays out of the prompt until a tool_reference names it
	billing   bool // Claude Code's attribution, which is no part of the prompt
	image     bool // it is or holds an image
	empty     bool // a text block without text
	space     bool // a text block of nothing but white space
	trails    bool // a text block that ends in white space
	hollow    bool // its content holds an empty text block
}

// mark is one cache_control.
type mark struct {
	path  string // of the block that carries it, within the message
	ttl   time.Duration
	scope bool // it has the scope member, which needs a beta
	tag   string
}

// Lifetimes that a breakpoint may ask for.
const (
	short = 5 * time.Minute
	long  = time.Hour
)

func (b *block) thinks() bool { return b.kind == "thinking" || b.kind == "redacted_thinking" }

// markable reports whether automatic caching may put its breakpoint on the block.
func (b *block) markable() bool {
	return !b.thinks() && !b.empty && !b.space && !b.deferred && !b.billing
}

// flaw is what is wrong with a part of a body; path is relative to the part.
type flaw struct{ path, text string }

func flawed(path, format string, args ...any) *flaw { return &flaw{path, fmt.Sprintf(format, args...)} }

const (
	required  = "Field required"
	extra     = "Extra inputs are not permitted"
	notString = "Input should be a valid string"
	notObject = "Input should be an object"
	notList   = "Input should be a valid list"
)

// fields lists the members that a block of a kind must have, and their node kinds.
var fields = map[string][]struct {
	name string
	kind byte
}{
	"text":              {{"text", 's'}},
	"image":             {{"source", '{'}},
	"document":          {{"source", '{'}},
	"tool_use":          {{"id", 's'}, {"name", 's'}, {"input", '{'}},
	"tool_result":       {{"tool_use_id", 's'}},
	"thinking":          {{"thinking", 's'}, {"signature", 's'}},
	"redacted_thinking": {{"data", 's'}},
}

// others are kinds of blocks that the simulator takes as they are; so is every kind that ends in _tool_result.
var others = []string{
	"search_result", "server_tool_use", "mcp_tool_use", "container_upload", "compaction", "tool_reference", "tool_addition",
	"tool_removal",
}

// lead is what the digests of a block start with: who speaks, and whatever else the message holds.
type lead struct{ ordered, sorted []byte }

func leadOf(role string, shell *node) lead {
	return lead{shell.Encode(simkit.AppendText(nil, role), false), shell.Encode(simkit.AppendText(nil, role), true)}
}

// newBlock reads a block; path is where it stands in its message, tag what the provider calls its kind in error paths.
func newBlock(n *node, who lead, path, tag string) (*block, *flaw) {
	b := &block{kind: "tool"}
	if kind, ok := n.Str("type"); ok {
		b.kind = kind
	}
	plain := bare(n)
	b.value = simkit.Sum(plain.Encode(slices.Clone(who.ordered), false))
	b.meaning = simkit.Sum(plain.Encode(slices.Clone(who.sorted), true))
	b.chars = chars(plain)
	plain.Each(b.collect)
	mk, f := newMark(n.Get("cache_control"), path, tag)
	if f != nil {
		return nil, f
	}
	b.mark = mk
	return b, nil
}

func (b *block) collect(n *node) {
	if n.Kind == 's' {
		b.texts = append(b.texts, n.Text)
		return
	}
	switch kind, _ := n.Str("type"); kind {
	case "image":
		b.image = b.image || b.kind != "tool_use"
	case "tool_reference":
		if name, ok := n.Str("tool_name"); ok && b.kind != "tool_use" {
			b.refs = append(b.refs, name)
		}
	}
}

// newContent reads a content block of a message.
func newContent(n *node, who lead, path string) (*block, *flaw) {
	if n.Kind != '{' {
		return nil, flawed(path, notObject)
	}
	kind, ok := n.Str("type")
	if !ok {
		return nil, flawed(path+".type", required)
	}
	want, known := fields[kind]
	if !known && !slices.Contains(others, kind) && !strings.HasSuffix(kind, "_tool_result") {
		return nil, flawed(path, "Input tag '%s' found using 'type' does not match any of the expected tags", kind)
	}
	path += "." + kind
	for _, field := range want {
		if f := requires(n, path, field.name, field.kind); f != nil {
			return nil, f
		}
	}
	if (kind == "thinking" || kind == "redacted_thinking") && n.Get("cache_control") != nil {
		return nil, flawed(path+".cache_control", extra)
	}
	b, f := newBlock(n, who, strings.TrimSuffix(path, "."+kind), "."+kind)
	if f != nil {
		return nil, f
	}
	switch kind {
	case "text":
		b.text(n)
	case "tool_use":
		b.id, _ = n.Str("id")
	case "tool_result":
		b.id, _ = n.Str("tool_use_id")
		f = b.result(n.Get("content"), path)
	case "thinking":
		b.signature, _ = n.Str("signature")
		b.thought = simkit.Sum(n.Without("signature").Encode(nil, true))
	case "redacted_thinking":
		b.signature, _ = n.Str("data")
	}
	return b, f
}

func requires(n *node, path, name string, kind byte) *flaw {
	value := n.Get(name)
	switch {
	case value == nil:
		return flawed(path+"."+name, required)
	case value.Kind != kind && kind == 's':
		return flawed(path+"."+name, notString)
	case value.Kind != kind && kind == '[':
		return flawed(path+"."+name, notList)
	case value.Kind != kind:
		return flawed(path+"."+name, notObject)
	}
	return nil
}

func (b *block) text(n *node) {
	text, _ := n.Str("text")
	b.empty = text == ""
	b.trails = strings.TrimRight(text, " \t\r\n") != text
	b.space = !b.empty && strings.TrimSpace(text) == ""
}

// result reads the content of a tool_result: a string, or a list of blocks.
func (b *block) result(content *node, path string) *flaw {
	if content == nil || content.Kind == 's' {
		return nil
	}
	if content.Kind != '[' {
		return flawed(path+".content", notList)
	}
	for i, n := range content.Kids {
		at := fmt.Sprintf("%s.content.%d", path, i)
		kind, ok := n.Str("type")
		if !ok {
			return flawed(at+".type", required)
		}
		if kind == "text" {
			if f := requires(n, at+".text", "text", 's'); f != nil {
				return f
			}
			text, _ := n.Str("text")
			b.hollow = b.hollow || text == ""
		}
		mk, f := newMark(n.Get("cache_control"), at, "."+kind)
		if f != nil {
			return f
		}
		if mk != nil {
			b.nested = append(b.nested, *mk)
		}
	}
	return nil
}

// newMark reads a cache_control; nil and null are none.
func newMark(n *node, path, tag string) (*mark, *flaw) {
	if n == nil || n.Is("null") {
		return nil, nil
	}
	at := path + tag + ".cache_control"
	if path == "" && tag == "" {
		at = "cache_control"
	}
	if n.Kind != '{' {
		return nil, flawed(at, notObject)
	}
	kind, ok := n.Str("type")
	if !ok {
		return nil, flawed(at, "Unable to extract tag using discriminator 'type'")
	}
	if kind != "ephemeral" {
		return nil, flawed(at, "Input tag '%s' found using 'type' does not match any of the expected tags: 'ephemeral'", kind)
	}
	m := &mark{path: path, tag: tag, ttl: short}
	for i, name := range n.Names {
		switch name {
		case "type":
		case "scope":
			m.scope = true
		case "ttl":
			switch ttl := n.Kids[i]; {
			case ttl.Kind == 's' && ttl.Text == "1h":
				m.ttl = long
			case ttl.Kind != 's' || ttl.Text != "5m":
				return nil, flawed(at+".ephemeral.ttl", "Input should be '5m' or '1h'")
			}
		default:
			return nil, flawed(at+".ephemeral."+name, extra)
		}
	}
	return m, nil
}
