package gen

import "slices"

// Marker is a cache_control.
type Marker string

// Markers.
const (
	NoMarker Marker = ""
	Short    Marker = "5m"   // written with or without its ttl
	Long     Marker = "1h"   //
	Null     Marker = "null" // a cache_control that is null marks nothing
)

// Conversation is the body of a request, in the terms of Anthropic Messages.
type Conversation struct {
	Model        string // empty: the body has no model, as on Bedrock and Vertex
	MaxTokens    int    // 0: none
	System       []Block
	SystemString bool // a system of one unmarked block is written as a string
	Tools        []Block
	Messages     []Message
	TopMarker    Marker // automatic caching
	Extra        Object // further members of the body, written as they are
	Seed         uint64 // how the outermost object and its lists are written
	Dialect      Dialect
}

// Message is one message. A message of one unmarked plain text block is written as a string if String is set.
type Message struct {
	Role   string
	Blocks []Block
	String bool
	Extra  Object
	Seed   uint64
}

// Block is an object that may carry a breakpoint: a content block, a system block, a tool, or a part of a result.
type Block struct {
	Members Object // without cache_control
	Marker  Marker
	Seed    uint64 // not used in a part of a result, which is written as its block says
}

// Text makes a text block.
func Text(text string) Block { return Block{Members: Object{{"type", "text"}, {"text", text}}} }

// Call makes a tool_use block.
func Call(id, name string, input any) Block {
	return Block{Members: Object{{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", input}}}
}

// Result makes a tool_result block; content is a string, a List of Blocks, or nil for null.
func Result(id string, content any) Block {
	return Block{Members: Object{{"type", "tool_result"}, {"tool_use_id", id}, {"content", content}}}
}

// Type is the type of a block, empty for a tool.
func (b *Block) Type() string {
	s, ok := b.Get("type").(string)
	if !ok {
		return ""
	}
	return s
}

// Get returns the first member with the key, nil if there is none.
func (b *Block) Get(key string) any {
	for _, m := range b.Members {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// Set changes the first member with the key, or adds one. Clones keep what they had.
func (b *Block) Set(key string, value any) {
	b.Members = slices.Clone(b.Members)
	for i := range b.Members {
		if b.Members[i].Key == key {
			b.Members[i].Value = value
			return
		}
	}
	b.Members = append(b.Members, Member{key, value})
}

// plain reports whether the block may be written as a string.
func (b *Block) plain() bool {
	if b.Marker != NoMarker || len(b.Members) != 2 || b.Type() != "text" {
		return false
	}
	_, text := b.Members[1].Value.(string)
	return text && b.Members[1].Key == "text"
}

// Clone returns a copy that can grow and change on its own.
func (c *Conversation) Clone() *Conversation {
	d := *c
	d.System, d.Tools, d.Messages = slices.Clone(c.System), slices.Clone(c.Tools), slices.Clone(c.Messages)
	for i := range d.Messages {
		d.Messages[i].Blocks = slices.Clone(d.Messages[i].Blocks)
	}
	return &d
}

// Truncate keeps the first n messages; see Ends for where a body may end.
func (c *Conversation) Truncate(n int) { c.Messages = c.Messages[:n:n] }

// Ends returns every number of messages after which a body may end: behind a user message.
func (c *Conversation) Ends() (ends []int) {
	for i := range c.Messages {
		if c.Messages[i].Role == "user" {
			ends = append(ends, i+1)
		}
	}
	return ends
}

// Unmark takes every breakpoint away, inside blocks too.
func (c *Conversation) Unmark() {
	c.TopMarker = NoMarker
	unmark(c.System)
	unmark(c.Tools)
	for i := range c.Messages {
		unmark(c.Messages[i].Blocks)
	}
}

func unmark(blocks []Block) {
	for i := range blocks {
		blocks[i] = blocks[i].unmarked()
	}
}

// unmarked is the block without breakpoints. What it shares with clones is copied.
func (b *Block) unmarked() Block {
	c := *b
	c.Marker, c.Members = NoMarker, b.Members.unmarked()
	return c
}

func (o Object) unmarked() Object {
	o = slices.Clone(o)
	for i := range o {
		o[i].Value = unmarked(o[i].Value)
	}
	return o
}

func unmarked(v any) any {
	switch v := v.(type) {
	case Block:
		return v.unmarked()
	case Object:
		return v.unmarked()
	case List:
		v = slices.Clone(v)
		for i := range v {
			v[i] = unmarked(v[i])
		}
		return v
	}
	return v
}

// Mark takes every breakpoint away and sets them as coding agents do: one on the last system block, one on the last block
// of the last message that may carry one.
func (c *Conversation) Mark(m Marker) {
	c.Unmark()
	if n := len(c.System); n > 0 && markable(&c.System[n-1]) {
		c.System[n-1].Marker = m
	}
	if len(c.Messages) == 0 {
		return
	}
	blocks := c.Messages[len(c.Messages)-1].Blocks
	for i := len(blocks) - 1; i >= 0; i-- {
		if markable(&blocks[i]) {
			blocks[i].Marker = m
			return
		}
	}
}

// markable reports whether the provider accepts a breakpoint on the block.
func markable(b *Block) bool {
	return b.Type() != "thinking" && b.Type() != "redacted_thinking" && b.Get("text") != ""
}

// GoString is the body, compact: rapid prints it when a test fails.
func (c *Conversation) GoString() string { return string(c.Compact()) }
