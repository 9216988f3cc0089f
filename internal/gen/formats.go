package gen

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Format is a wire format; its value is the name that pipeline/transcript gives it.
type Format string

// Wire formats.
const (
	Anthropic Format = "anthropic.messages"
	Chat      Format = "openai.chat"
	Responses Format = "openai.responses"
	Converse  Format = "bedrock.converse"
	Gemini    Format = "gemini.generate"
)

// Formats are all of them.
var Formats = []Format{Anthropic, Chat, Responses, Converse, Gemini}

// As writes the conversation as a body of the format, as its seeds say.
func (c *Conversation) As(f Format) []byte { return c.write(f, styleOf) }

// CompactAs writes the conversation as a body of the format like Compact.
func (c *Conversation) CompactAs(f Format) []byte {
	return c.write(f, func(uint64) style { return style{} })
}

// Delta writes a Responses body that goes on from a stored response: of the messages it holds those from the given on.
func (c *Conversation) Delta(from int, previous string) []byte {
	w := &writer{of: styleOf, explicit: c.Dialect.Explicit}
	w.object(c.responses(from, previous), NoMarker, styleOf(c.Seed))
	return w.out
}

func (c *Conversation) write(f Format, of func(uint64) style) []byte {
	w := &writer{of: of, points: f == Converse, explicit: c.Dialect.Explicit && (f == Chat || f == Responses)}
	switch s := of(c.Seed); f {
	case Chat:
		w.object(c.chat(), NoMarker, s)
	case Responses:
		w.object(c.responses(0, ""), NoMarker, s)
	case Converse:
		w.object(c.converse(), NoMarker, s)
	case Gemini:
		w.object(c.gemini(), NoMarker, s)
	default:
		w.object(c.anthropic(), c.TopMarker, s)
	}
	return w.out
}

// marker is the breakpoint of a block, where the dialect writes one.
func (c *Conversation) marker(b *Block, f Format) Marker {
	if c.Dialect.Explicit || c.Dialect.CacheControl && f == Chat {
		return b.Marker
	}
	return NoMarker
}

// markLast sets the breakpoint of the last of several parts, if there is one to set.
func markLast(parts List, m Marker) {
	if b, ok := parts[len(parts)-1].(Block); ok && m != NoMarker {
		b.Marker = m
		parts[len(parts)-1] = b
	}
}

// item is an object that is written by a seed of its own.
func item(seed uint64, members ...Member) seeded {
	return seeded{&Block{Members: members, Seed: seed}}
}

func (s seeded) add(members ...Member) { s.b.Members = append(s.b.Members, members...) }

// extra are the further members of the body without those that only Anthropic or only another format knows.
func (c *Conversation) extra(without ...string) (o Object) {
next:
	for _, m := range c.Extra {
		for _, key := range without {
			if m.Key == key {
				continue next
			}
		}
		o = append(o, m)
	}
	return o
}

// session is what the client calls its session, empty without a name.
func (c *Conversation) session() string {
	for _, m := range c.Extra {
		if o, ok := m.Value.(Object); ok && m.Key == "metadata" {
			return (&Block{Members: o}).str("user_id")
		}
	}
	return ""
}

// str is a member that is a string, empty if it is none.
func (b *Block) str(key string) string {
	s, ok := b.Get(key).(string)
	if !ok {
		return ""
	}
	return s
}

// said is the text of a text block; false for anything else.
func (b *Block) said() (string, bool) {
	s, ok := b.Get("text").(string)
	return s, ok && b.Type() == "text"
}

// thought is the text and the signature of a thinking block, also of a redacted one; false for anything else.
func (b *Block) thought() (text, signature string, ok bool) {
	switch b.Type() {
	case "thinking":
		return b.str("thinking"), b.str("signature"), true
	case "redacted_thinking":
		return "", b.str("data"), true
	}
	return "", "", false
}

// picture is the kind and the data of an image; false for anything else.
func (b *Block) picture() (mime, data string, ok bool) {
	source, ok := b.Get("source").(Object)
	if !ok || b.Type() != "image" {
		return "", "", false
	}
	s := &Block{Members: source}
	return s.str("media_type"), s.str("data"), true
}

// answer is the content of a result: its texts and images, and whether they stand in a list.
func (b *Block) answer() (parts []Block, list bool) {
	switch v := b.Get("content").(type) {
	case string:
		return []Block{Text(v)}, false
	case List:
		for _, e := range v {
			p, ok := e.(Block)
			if o, is := e.(Object); is {
				p, ok = Block{Members: o}, true
			}
			_, text := p.said()
			if _, _, image := p.picture(); ok && (text || image) {
				parts = append(parts, p)
			}
		}
		return parts, true
	}
	return nil, false
}

// answerText is all text of a result.
func (b *Block) answerText() string {
	var s strings.Builder
	parts, _ := b.answer()
	for i := range parts {
		text, _ := parts[i].said()
		s.WriteString(text)
	}
	return s.String()
}

// failed reports whether a result has the error flag.
func (b *Block) failed() bool { return b.Get("is_error") == true }

// offered is a tool of the client; false for what the provider runs and what is not yet part of the prompt.
func (b *Block) offered() (name string, ok bool) {
	return b.str("name"), b.Type() == "" && b.str("name") != "" && b.Get("defer_loading") != true
}

// describe are the members of a tool that all formats know, the schema by the given key, without one if that is empty.
func (b *Block) describe(schema string) Object {
	o := Object{{"name", b.str("name")}}
	if d := b.Get("description"); d != nil {
		o = append(o, Member{"description", d})
	}
	if s := b.Get("input_schema"); s != nil && schema != "" {
		o = append(o, Member{schema, s})
	}
	return o
}

// billing reports whether a system block is the attribution that only Anthropic's own clients send.
func (b *Block) billing() bool {
	s, _ := b.said()
	return strings.HasPrefix(s, "x-anthropic-billing-header:")
}

// prompt are the system blocks as texts, with their seeds and breakpoints.
func (c *Conversation) prompt() (texts []Block) {
	for i := range c.System {
		b := &c.System[i]
		if s, ok := b.said(); ok && !b.billing() {
			texts = append(texts, Block{Members: Text(s).Members, Marker: b.Marker, Seed: b.Seed})
		}
	}
	return texts
}

// mark is a short name made of text: the same for the same text, wherever it stands.
func mark(prefix, text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return prefix + strconv.FormatUint(h.Sum64(), 16)
}
