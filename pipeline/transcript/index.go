package transcript

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Digest is a keyed 128-bit hash.
type Digest = [16]byte

// Parts are the digests of what a prompt stands on.
type Parts struct{ Model, Tools, System Digest }

// Limits of what is read; beyond them the body is forwarded as it came.
const (
	MaxDepth  = 64
	MaxBlocks = 50_000 // blocks of the body; also messages, elements of results, and breakpoints
	MaxBytes  = 64 << 20
)

// ErrFormat says that no reader exists for the format.
var ErrFormat = errors.New("transcript: unknown format")

// Format is a wire format.
type Format uint8

// Wire formats.
const (
	UnknownFormat Format = iota
	Anthropic            // Anthropic Messages, also in Bedrock's InvokeModel and Vertex's rawPredict
	Chat                 // OpenAI Chat Completions
	Responses            // OpenAI Responses
	Converse             // Bedrock Converse
	Gemini               // Gemini generateContent
)

var formatNames = [...]string{"unknown", "anthropic.messages", "openai.chat", "openai.responses", "bedrock.converse", "gemini.generate"}

func (f Format) String() string {
	if int(f) >= len(formatNames) {
		return formatNames[UnknownFormat]
	}
	return formatNames[f]
}

// Automatic reports whether the provider caches prompts by itself: the whole prompt is then one entry, and no breakpoint says
// where it ends.
func (f Format) Automatic() bool { return f == Chat || f == Responses || f == Gemini }

// Span is a range of bytes of the body, Lo inclusive, Hi exclusive.
type Span struct{ Lo, Hi uint32 }

// Len is the number of bytes.
func (s Span) Len() int { return int(s.Hi - s.Lo) }

// Of returns the bytes of the span, without copying.
func (s Span) Of(body []byte) []byte { return body[s.Lo:s.Hi:s.Hi] }

// Areas of a body in the provider's order; messages count from 0.
const (
	InTools  int32 = -2
	InSystem int32 = -1
)

// Kind is what a block is, as far as anything depends on it.
type Kind uint8

// Kinds of blocks.
const (
	Other Kind = iota // anything that is never touched: images, documents, compaction, server tools, unknown types
	Tool              // an entry of tools
	Text
	ToolUse
	ToolResult
	Thinking // also redacted thinking
)

// Block is one unit of the provider's cache: an entry of tools, a system block or a content block of a message.
type Block struct {
	Raw      Span // the whole value; of string content the string literal
	Text     Span // string literal of a text block
	Msg      int32
	Marker   int32 // index into Index.Markers, -1 without one
	Call     int32 // index into Index.Calls, -1 if it is none
	Result   int32 // index into Index.Results, -1 if it is none
	Kind     Kind
	Virtual  bool // string content of a message or of system: no object that could carry a marker
	Plain    bool // a text block with no members but type, text and a marker
	Empty    bool // an empty text
	Billing  bool // volatile attribution block: the provider does not cache by it
	Deferred bool // a tool that is no part of the prompt until a tool_reference names it (defer_loading)
	null     bool // it has a cache_control that is null, so that no other can be added
	Hash     Digest
}

// Counts reports whether the block takes part in the chain and in prefix ids. Thinking blocks do not: clients and
// providers drop them from older turns, and then what the provider holds is still the same prefix. Nor do the volatile
// attribution block and deferred tools, which the provider leaves out of the prompt.
func (b *Block) Counts() bool { return b.Kind != Thinking && !b.Billing && !b.Deferred }

// Markable reports whether a breakpoint may be put on the block, or stands there.
func (b *Block) Markable() bool {
	return b.Kind != Thinking && !b.Virtual && !b.Empty && !b.Deferred && !b.null
}

// Role is who speaks in a message.
type Role uint8

// Roles of messages.
const (
	OtherRole Role = iota // mid-conversation system messages and the like
	User
	Assistant
)

// Message is one message of the transcript.
type Message struct {
	Raw         Span  // of several on the wire that are one message here: from the first to the last
	Content     Span  // empty without one of its own
	First, Last int32 // its blocks are Index.Blocks[First:Last]
	Extra       bool  // it has members besides role and content
	Turn        int32 // number of assistant turns through this message
	Role        Role
	Hash        Digest
	role        Span
	parts       int32 // elements of result lists before it
	answers     bool  // it is a run of results, each a message of its own on the wire
}

// Call is a tool call.
type Call struct {
	ID, Name, Input Span // string literals, and the arguments as a JSON value; empty if there are none. See Index.InputText
	Block, Msg      int32
	Turn            int32
	answer          int32 // index of the first result that answers it, -1 without one
}

// Outcome is what is known of a call's success.
type Outcome uint8

// Outcomes.
const (
	Succeeded Outcome = iota
	Failed
	Unknown
)

// Form is the shape of a result's content.
type Form uint8

// Forms of result content.
const (
	NoContent   Form = iota // absent, null or empty: nothing to replace
	StringForm              // one string
	TextForm                // a list of text blocks
	MixedForm               // a list with something that is no text
	StrangeForm             // anything else
)

// Result is the tool result that answers a call.
type Result struct {
	CallID       Span // string literal, empty without one; see Index.CallID
	Content      Span // JSON value; empty span without one
	Texts        Span // range of Index.Texts: its text literals
	Block, Msg   int32
	Call         int32 // index of the call that it answers, the nearest before it with its id; -1 if there is none
	Turn         int32 // turn of that call, 0 if there is none
	Form         Form
	IsError      bool
	NestedMarker bool // a cache_control inside the content
	Ambiguous    bool // its call id stands more than once in the body, or which call it answers is not certain
	name         Span // of the tool, where the result names it
	own          Span // the id that it came with, where no call has it and the order joined it to one
}

// Marker is one cache_control, or one cachePoint of Bedrock Converse. That one is an element of its own, which is then the member,
// and it counts as one on the block before it.
type Marker struct {
	Member Span // the member, key to value
	Cut    Span // the member and one adjoining comma
	Value  Span
	Seq    int32 // sequence number of the block that carries it; of a nested one, of the block around it
	Nested bool  // it stands inside a block, not on it
	TTL    time.Duration
	TTLVal Span // the ttl value inside, empty without one
	area   int32
}

// Top is what the body says besides tools, system and messages. Strings alias the body.
type Top struct {
	Model     string        // empty where the path names it
	UserID    string        // metadata.user_id
	CacheKey  string        // prompt_cache_key
	SessionID string        // session_id
	TopMarker bool          // caching is automatic: by a top-level cache_control, which counts as one of the four, or always
	TopTTL    time.Duration // and what it asks for, 0 if it does not say
	DropBlock bool          // the request asks the provider to drop thinking whose prefix changed
	Delta     bool          // history is not, or will not be, in the body
	MaxTokens int64         // -1 without one

	Diagnostics bool // the body has a member diagnostics, whatever its value
	Versioned   bool // it has a member anthropic_version, as bodies of Anthropic's on other platforms do,
	Bedrock     bool // and that is Bedrock's
}

// clone is a copy that does not alias the body.
func (t *Top) clone() Top {
	c := *t
	for _, s := range []*string{&c.Model, &c.UserID, &c.CacheKey, &c.SessionID} {
		*s = strings.Clone(*s)
	}
	return c
}

// size is about how many bytes its strings hold.
func (t *Top) size() int { return len(t.Model) + len(t.UserID) + len(t.CacheKey) + len(t.SessionID) }

// Index is where everything lies in one body.
type Index struct {
	Body     []byte
	Format   Format
	Head     []Block // tools, then system
	Blocks   []Block // of the messages
	Messages []Message
	Calls    []Call
	Results  []Result
	Texts    []Span     // string literals of the text parts of list results
	Markers  []Marker   // in the provider's order: tools, system, messages
	Roles    *RoleTable // what the route says of tools, before what is built in; set it before facts are asked for
	Key      Digest     // model, system and tools; set by Digest
	Parts    Parts      // the same, each for itself; set by Digest
	Top

	HasTools bool
	End      uint32 // where the brace stands that closes the body

	cuts    []Span // every cache_control with its comma, null ones too, in the order of the body
	facts   []CallFacts
	texts   map[int32]string // by result: those that were asked for
	tokens  []int32          // by result: Est of its text, -1 before it was asked for
	heads   []string         // by result: how its text begins, empty before it was asked for
	ids     map[string]int32 // calls by id, while they are joined
	dup     map[string]struct{}
	pairs   pairing
	scratch []byte
	tools   []Block
	system  []Block
	open    preface
	known   known
	members []keyed
	first   [2]int // of Responses: where instructions stand in system, from and to
	from    *Memo  // that it was read on from
}

var pool = sync.Pool{New: func() any { return new(Index) }}

// Parse reads a body of the given format. The error says what could not be placed, never what stood there.
func Parse(body []byte, format Format) (*Index, error) { return read(body, format, nil) }

func read(body []byte, format Format, m *Memo) (*Index, error) {
	if int(format) >= len(dialects) || dialects[format].message == nil {
		return nil, ErrFormat
	}
	if len(body) > MaxBytes {
		return nil, fmt.Errorf("body of %d bytes is over the limit", len(body))
	}
	ix := pool.Get().(*Index)
	ix.reset(body, format)
	if err := readBody(ix, m); err != nil {
		ix.Release()
		return nil, err
	}
	return ix, nil
}

func (ix *Index) reset(body []byte, format Format) {
	*ix = Index{
		Body: body, Format: format, Top: Top{MaxTokens: -1, TopMarker: format.Automatic()},
		Head: ix.Head[:0], Blocks: ix.Blocks[:0], Messages: ix.Messages[:0], Calls: ix.Calls[:0], Results: ix.Results[:0],
		Texts: ix.Texts[:0], Markers: ix.Markers[:0], cuts: ix.cuts[:0], facts: ix.facts[:0], tokens: ix.tokens[:0], ids: ix.ids, dup: ix.dup,
		scratch: ix.scratch[:0], tools: ix.tools[:0], system: ix.system[:0],
		members: ix.members[:0], pairs: ix.pairs,
	}
	if ix.ids == nil {
		ix.ids, ix.dup, ix.pairs.byName = map[string]int32{}, map[string]struct{}{}, map[string]int32{}
	}
}

// maxKept bounds what a hostile body may leave in the pool or in a memo, in elements of each list and in kilobytes of scratch.
const maxKept = 8192

func (ix *Index) large() bool {
	return maxKept < max(cap(ix.Blocks), cap(ix.Head), cap(ix.Messages), cap(ix.Texts), cap(ix.Markers), cap(ix.cuts), cap(ix.pairs.next), cap(ix.scratch)>>10)
}

// Release gives the index back, once. Nothing of it may be used afterwards; strings that it returned live as long as the
// body.
func (ix *Index) Release() {
	if ix.Body == nil {
		return // a second time, which would let two requests share it
	}
	if ix.large() {
		return
	}
	clear(ix.ids)
	clear(ix.dup)
	clear(ix.facts)
	ix.pairs.clear()
	ix.reset(nil, UnknownFormat)
	pool.Put(ix)
}

// Len is the number of blocks of the whole body.
func (ix *Index) Len() int { return len(ix.Head) + len(ix.Blocks) }

// Seq returns the nth block in the provider's order: tools, system, messages.
func (ix *Index) Seq(n int32) *Block {
	if int(n) < len(ix.Head) {
		return &ix.Head[n]
	}
	return &ix.Blocks[int(n)-len(ix.Head)]
}

// SeqOf is the sequence number of a block of the messages.
func (ix *Index) SeqOf(block int32) int32 { return block + int32(len(ix.Head)) }

// LastAssistant is the number of the last assistant message, -1 without one.
func (ix *Index) LastAssistant() int32 {
	for i, m := range slices.Backward(ix.Messages) {
		if m.Role == Assistant {
			return int32(i)
		}
	}
	return -1
}

// LastTurn is the number of assistant turns.
func (ix *Index) LastTurn() int32 {
	return ix.Messages[len(ix.Messages)-1].Turn
}

// str returns the text of a string literal. It aliases the body if nothing is escaped.
func (ix *Index) str(s Span) string {
	return unquote(view(ix.Body[s.Lo+1 : s.Hi-1]))
}

// view is a string that aliases bytes of the body.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// CallID is the id of the call that a result answers, or what stands in its place where there is none: the number of the result,
// which no other one of the body has and which it keeps when the body grows. It may alias the body.
func (ix *Index) CallID(r *Result) string {
	if r.CallID.Len() == 0 {
		return unnamed + strconv.Itoa(int(ix.Blocks[r.Block].Result))
	}
	return ix.str(r.CallID)
}

// Unnamed reports whether an id stands in the place of one that is not there: then it says where a result stands, not which it is.
func (f Format) Unnamed(id string) bool { return f == Gemini && strings.HasPrefix(id, unnamed) }

// InputText is what a call's arguments are: a JSON object, or what a tool takes as text. Formats that write arguments as a string
// are read as what it holds. It may alias the body.
func (ix *Index) InputText(c *Call) string {
	raw := view(c.Input.Of(ix.Body))
	if ix.Format != Chat && ix.Format != Responses || len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	return unquote(raw[1 : len(raw)-1])
}

// ToolName is the name of the tool that a call names. It aliases the body.
func (ix *Index) ToolName(c *Call) string { return ix.str(c.Name) }
