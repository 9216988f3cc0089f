package bedrock

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

type node = simkit.Node

// contentKinds are the members of a ContentBlock, in Bedrock's order; one of them is set.
var contentKinds = []string{
	"text", "image", "toolUse", "toolResult", "document", "video", "cachePoint", "reasoningContent", "citationsContent", "searchResult",
}

// resultKinds are the members of a ToolResultContentBlock.
var resultKinds = []string{"json", "text", "image", "document", "video", "searchResult"}

// only returns the member of a union that is set.
func only(n *node, name string, at path, kinds []string) (kind string, value *node, f flaw) {
	if n.Kind != '{' {
		return "", nil, func(int) *Error { return serialization(n, "a "+name) }
	}
	set := 0
	for i, member := range n.Names {
		if slices.Contains(kinds, member) && !n.Kids[i].Is("null") {
			set, kind, value = set+1, member, n.Kids[i]
		}
	}
	if set == 1 {
		return kind, value, nil
	}
	how := "must set one"
	if set > 1 {
		how = "can only set one"
	}
	return "", nil, func(msg int) *Error {
		return invalid("%s object at %s %s of the following keys: %s.", name, at.dotted(msg), how, strings.Join(kinds, ", "))
	}
}

// path is where something stands in a message: the index of its block, and what follows.
type path struct {
	block int
	tail  string
}

// dotted is the path in the words of texts, which count from 0.
func (p path) dotted(msg int) string {
	return fmt.Sprintf("messages.%d.content.%d%s", msg, p.block, p.tail)
}

// schema is the path in the words of Bedrock's schema.
func (p path) schema(msg int) string {
	return member(member("messages", msg)+".content", p.block) + p.tail
}

// block puts a ContentBlock into Anthropic's form. A cachePoint marks the last block of those before it.
func block(n *node, i int, before *node) ([]*node, flaw) {
	at := path{block: i}
	kind, value, f := only(n, "ContentBlock", at, contentKinds)
	if f != nil {
		return nil, f
	}
	switch kind {
	case "text":
		if f := wantText(value); f != nil {
			return nil, f
		}
		if blank(value.Text) {
			return nil, func(msg int) *Error {
				return invalid("The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at.dotted(msg))
			}
		}
		return []*node{simkit.TextNode("text", value.Text)}, nil
	case "cachePoint":
		return nil, cachePoint(value, at, before)
	case "toolUse":
		return toolUse(value, at)
	case "toolResult":
		return toolResult(value, at)
	case "reasoningContent":
		return reasoning(value), nil
	case "citationsContent":
		return citations(value), nil
	}
	return media(kind, value)
}

func wantText(n *node) flaw {
	if n.Kind != 's' {
		return func(int) *Error { return serialization(n, "a String") }
	}
	return nil
}

// blank reports whether a text has nothing but what Java calls white space: no-break spaces are none.
func blank(text string) bool {
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Z) && r != '\u00a0' && r != '\u2007' && r != '\u202f' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	}) == ""
}

// modelTakesNone is the model's refusal of a breakpoint that marks no block: it reaches the model as a block of no type.
func modelTakesNone(at path) flaw {
	return func(msg int) *Error { return endpoint{api: converse}.refuse("%s.type%s", at.dotted(msg), required) }
}

func cachePoint(n *node, at path, before *node) flaw {
	mark, f := breakpoint(n, func(msg int) string { return at.schema(msg) + ".cachePoint" })
	if f != nil {
		return f
	}
	last := len(before.Kids) - 1
	if last < 0 || before.Kids[last].Get("cache_control") != nil || plainDocument(before.Kids[last]) {
		return modelTakesNone(at)
	}
	before.Kids[last].Put("cache_control", mark)
	return nil
}

// plainDocument reports whether a block is a document that is no PDF, behind which Bedrock fails to place a breakpoint.
func plainDocument(n *node) bool {
	kind, _ := n.Str("type")
	if kind != "document" {
		return false
	}
	mime, _ := n.Get("source").Str("media_type")
	return mime != "application/pdf"
}

// breakpoint makes a cache_control of a cachePoint.
func breakpoint(n *node, schema func(msg int) string) (*node, flaw) {
	if n.Kind != '{' {
		return nil, func(int) *Error { return serialization(n, "a CachePointBlock") }
	}
	kind, ok := n.Str("type")
	if !ok {
		return nil, func(msg int) *Error { return missing(schema(msg) + ".type") }
	}
	if kind != "default" {
		return nil, func(msg int) *Error { return notOneOf(kind, schema(msg)+".type", "default") }
	}
	mark := object("type", text("ephemeral"))
	ttl := n.Get("ttl")
	if ttl == nil || ttl.Is("null") {
		return mark, nil
	}
	if ttl.Kind != 's' || ttl.Text != "5m" && ttl.Text != "1h" {
		return nil, func(msg int) *Error { return notOneOf(ttl.Text, schema(msg)+".ttl", "5m, 1h") }
	}
	mark.Put("ttl", ttl)
	return mark, nil
}

// Names and ids of tools.
var named = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

const longestName = 64

// wantName checks a member that is a name or an id.
func wantName(n *node, name string, at path) (string, flaw) {
	value := n.Get(name)
	where := path{at.block, at.tail + "." + name}
	switch {
	case value == nil || value.Is("null"):
		return "", func(msg int) *Error { return missing(where.schema(msg)) }
	case value.Kind != 's':
		return "", wantText(value)
	case !named.MatchString(value.Text):
		return "", func(msg int) *Error {
			return constraint("'"+value.Text+"'", where.schema(msg), "satisfy regular expression pattern: [a-zA-Z0-9_-]+")
		}
	case len(value.Text) > longestName:
		return "", func(msg int) *Error {
			return constraint("'"+value.Text+"'", where.schema(msg), fmt.Sprintf("have length less than or equal to %d", longestName))
		}
	}
	return value.Text, nil
}

func toolUse(n *node, at path) ([]*node, flaw) {
	at.tail = ".toolUse"
	if n.Kind != '{' {
		return nil, func(int) *Error { return serialization(n, "a ToolUseBlock") }
	}
	id, f := wantName(n, "toolUseId", at)
	if f != nil {
		return nil, f
	}
	name, f := wantName(n, "name", at)
	if f != nil {
		return nil, f
	}
	input := n.Get("input")
	if input == nil {
		return nil, func(msg int) *Error { return missing(at.schema(msg) + ".input") }
	}
	return []*node{object("type", text("tool_use"), "id", text(id), "name", text(name), "input", input)}, nil
}

func toolResult(n *node, at path) ([]*node, flaw) {
	at.tail = ".toolResult"
	if n.Kind != '{' {
		return nil, func(int) *Error { return serialization(n, "a ToolResultBlock") }
	}
	id, f := wantName(n, "toolUseId", at)
	if f != nil {
		return nil, f
	}
	content := n.Get("content")
	switch {
	case content == nil || content.Is("null"):
		return nil, func(msg int) *Error { return missing(at.schema(msg) + ".content") }
	case content.Kind != '[':
		return nil, func(int) *Error { return serialization(content, "a List") }
	}
	out := &node{Kind: '['}
	for i, kid := range content.Kids {
		where := path{at.block, fmt.Sprintf("%s.content.%d", at.tail, i)}
		kind, value, f := only(kid, "ToolResultContentBlock", where, resultKinds)
		if f != nil {
			return nil, f
		}
		var list []*node
		switch kind {
		case "text":
			list, f = []*node{simkit.TextNode("text", value.Text)}, wantText(value)
		case "json":
			list = []*node{simkit.TextNode("text", string(value.JSON(nil)))}
		default:
			list, f = media(kind, value)
		}
		if f != nil {
			return nil, f
		}
		out.Kids = append(out.Kids, list...)
	}
	return status(object("type", text("tool_result"), "tool_use_id", text(id), "content", out), n, at)
}

// status adds to a result what became of the call.
func status(result, n *node, at path) ([]*node, flaw) {
	status := n.Get("status")
	switch {
	case status == nil || status.Is("null"):
		return []*node{result}, nil
	case status.Text != "success" && status.Text != "error":
		return nil, func(msg int) *Error { return notOneOf(status.Text, at.schema(msg)+".status", "success, error") }
	case status.Text == "success":
		return []*node{result}, nil
	case len(result.Get("content").Kids) == 0:
		return nil, func(msg int) *Error {
			return invalid("The content field at %s cannot be empty when status value is error.", at.dotted(msg))
		}
	}
	result.Put("is_error", &node{Kind: 'l', Text: "true"})
	return []*node{result}, nil
}

// media puts blocks into Anthropic's form that are no words of the conversation.
func media(kind string, n *node) ([]*node, flaw) {
	if n.Kind != '{' {
		return nil, func(int) *Error { return serialization(n, "a Block") }
	}
	format, _ := n.Str("format")
	switch kind {
	case "image":
		return []*node{object("type", text("image"), "source", source(n, "image/"+format))}, nil
	case "document":
		mime := "text/plain"
		if format == "pdf" {
			mime = "application/pdf"
		}
		out := object("type", text("document"), "source", source(n, mime))
		if name := n.Get("name"); name != nil {
			out.Put("title", name)
		}
		return []*node{out}, nil
	case "searchResult":
		out := object("type", text("search_result"))
		for i, name := range n.Names {
			out.Put(name, n.Kids[i])
		}
		return []*node{out}, nil
	}
	return nil, func(int) *Error {
		return invalid("This model doesn't support the %s field. Remove %s and try again.", kind, kind)
	}
}

// source is the source of an image or a document, whatever it is made of.
func source(n *node, mime string) *node {
	out := object("type", text("base64"), "media_type", text(mime))
	if from := n.Get("source"); from != nil && from.Kind == '{' {
		for i, name := range from.Names {
			if name == "bytes" {
				name = "data"
			}
			out.Put(name, from.Kids[i])
		}
	}
	return out
}

// citations are what the model said with its sources: the texts alone.
func citations(n *node) (out []*node) {
	if content := n.Get("content"); content != nil {
		for _, kid := range content.Kids {
			if s, ok := kid.Str("text"); ok && s != "" {
				out = append(out, simkit.TextNode("text", s))
			}
		}
	}
	return out
}

// ownData begins the data of redacted thinking that the simulator made; Bedrock hands it out in base64.
const ownData = "tidemark-sim."

// reasoning puts reasoning into the form of thinking. What it lacks the model misses.
func reasoning(n *node) []*node {
	if data, ok := n.Str("redactedContent"); ok {
		if plain, err := base64.StdEncoding.DecodeString(data); err == nil && strings.HasPrefix(string(plain), ownData) {
			data = string(plain)
		}
		return []*node{object("type", text("redacted_thinking"), "data", text(data))}
	}
	out := object("type", text("thinking"))
	said := n.Get("reasoningText")
	if said == nil {
		return []*node{out}
	}
	if thought := said.Get("text"); thought != nil {
		out.Put("thinking", thought)
	}
	if signature := said.Get("signature"); signature != nil && !signature.Is("null") {
		out.Put("signature", signature)
	}
	return []*node{out}
}

func text(s string) *node { return &node{Kind: 's', Text: s} }

// object makes an object of names and values in turn.
func object(members ...any) *node {
	n := &node{Kind: '{'}
	for i := 0; i+1 < len(members); i += 2 {
		name, _ := members[i].(string)
		value, _ := members[i+1].(*node)
		n.Put(name, value)
	}
	return n
}
