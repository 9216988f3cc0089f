package transcript

import (
	"math"
	"time"
)

// What the bodies of Chat Completions and Responses have in common: several members of an item say what it is, in any order, so
// an item's members are noted first and read then, in the order in which they stand.

// keyed is a member of an object: the number of its key, and where key and value stand.
type keyed struct {
	n          int
	key, value Span
}

// noted reads an object at the given depth and notes its members.
func (p *parser) noted(depth int, names func(string) int) ([]keyed, error) {
	list, known := p.ix.members[:0], seen(0)
	err := p.object(depth, func(s *scanner, key Span) error {
		n, err := known.find(s, key, names)
		if err != nil {
			return err
		}
		v, err := s.skip(depth + 1)
		list = append(list, keyed{n, key, v})
		return err
	})
	p.ix.members = list
	return list, err
}

// valueOf is the value of a member, an empty span if there is none.
func valueOf(list []keyed, n int) Span {
	for i := range list {
		if list[i].n == n {
			return list[i].value
		}
	}
	return Span{}
}

// again reads a value that was noted.
func (p *parser) again(v Span, read func() error) error {
	at := p.i
	p.i = int(v.Lo)
	err := read()
	p.i = at
	return err
}

// blank reports whether a value says nothing: null, an empty string or an empty list.
func (p *parser) blank(v Span) bool {
	switch string(v.Of(p.b)) {
	case "null", `""`, "[]", "":
		return true
	}
	return false
}

// opaque is a block of which nothing is known but its bytes.
func opaque(raw Span, msg int32, kind Kind) Block {
	return Block{Raw: raw, Msg: msg, Marker: -1, Call: -1, Result: -1, Kind: kind}
}

// add appends a block of a message, of system or of tools.
func (p *parser) add(b Block) {
	switch {
	case b.Msg == InTools:
		p.ix.tools = append(p.ix.tools, b)
	case b.Msg < 0:
		p.ix.system = append(p.ix.system, b)
	default:
		p.ix.Blocks = append(p.ix.Blocks, b)
	}
}

// count is how many blocks there are so far where one of a message stands, or of system or of tools.
func (p *parser) count(msg int32) int {
	switch {
	case msg == InTools:
		return len(p.ix.tools)
	case msg < 0:
		return len(p.ix.system)
	}
	return len(p.ix.Blocks)
}

// says reads the content of what somebody says: a string, or a list of parts.
func (p *parser) says(v Span, msg int32, depth int) error {
	return p.again(v, func() error {
		switch p.peek() {
		case '"':
			p.add(virtual(v, msg))
			return nil
		case 'n':
			return nil
		}
		return p.array(depth, func(*scanner) error {
			if err := p.room(); err != nil {
				return err
			}
			if p.peek() == '"' { // some servers take bare strings as parts
				s, err := p.str()
				p.add(virtual(s, msg))
				return err
			}
			b, err := p.block(msg, depth+1)
			if err == nil {
				p.add(b)
			}
			return err
		})
	})
}

// marks reads a breakpoint that stands on a message: it counts as one on the last block that the message has so far. first is the
// message's first one.
func (p *parser) marks(m keyed, msg int32, first int) error {
	return p.again(m.value, func() error {
		if c := p.peek(); c != '{' && c != 'n' {
			return p.deep(contentDepth)
		}
		mk, ok, err := p.marker(m.key, contentDepth)
		if n := p.count(msg) - 1; ok && n >= first {
			mk.area, mk.Seq = msg, int32(n)
			p.ix.Markers = append(p.ix.Markers, mk)
		}
		return err
	})
}

// result reads what answers a call: the whole item is its block.
func (p *parser) result(raw, id, content Span, depth int) error {
	ix, n := p.ix, int32(len(p.ix.Blocks))
	msg := p.answering(raw)
	r := Result{Form: NoContent, Texts: Span{uint32(len(ix.Texts)), uint32(len(ix.Texts))}}
	switch {
	case content.Len() > 2 && p.isString(content): // read once is enough for what nearly all results are
		r.Form = StringForm
	case content.Len() > 2:
		from := len(ix.Markers)
		err := p.again(content, func() (err error) {
			r, err = p.resultContent(depth)
			return err
		})
		if err != nil {
			return err
		}
		p.locate(from, msg, int(n))
	}
	r.CallID, r.Content, r.Block, r.Msg, r.Call = id, content, n, msg, -1
	b := opaque(raw, msg, ToolResult)
	b.Result = int32(len(ix.Results))
	ix.Results = append(ix.Results, r)
	ix.Blocks = append(ix.Blocks, b)
	ix.Messages[msg].Last = int32(len(ix.Blocks))
	return nil
}

// answering is the message to which an item belongs that answers a call: results that follow each other are one message, as in
// formats in which a message holds several.
func (p *parser) answering(raw Span) int32 {
	ix := p.ix
	n := int32(len(ix.Messages))
	if n > 0 && ix.Messages[n-1].answers {
		p.reopen(n-1, raw)
		return n - 1
	}
	first := int32(len(ix.Blocks))
	ix.Messages = append(ix.Messages, Message{Raw: raw, First: first, Last: first, Role: User, answers: true, parts: p.parts})
	return n
}

// reopen has a message go on with an item. One that came from a memo is another one then.
func (p *parser) reopen(msg int32, raw Span) {
	ix := p.ix
	ix.Messages[msg].Raw.Hi = raw.Hi
	ix.known.messages = min(ix.known.messages, int(msg))
}

// call notes a tool call, whose block is the whole item.
func (p *parser) call(c Call, raw Span, msg int32) {
	ix := p.ix
	c.Block, c.Msg, c.answer = int32(len(ix.Blocks)), msg, -1
	b := opaque(raw, msg, ToolUse)
	b.Call = int32(len(ix.Calls))
	ix.Calls = append(ix.Calls, c)
	ix.Blocks = append(ix.Blocks, b)
}

// openAIKey are the members that both APIs have.
const (
	oaModel = iota
	oaTools
	oaMaxTokens
	oaMaxCompletion
	oaCacheKey
	oaRetention
	oaSession
	oaMetadata
	oaList // the first number of an API's own
)

func openAIKey(name string) int {
	switch name {
	case "model":
		return oaModel
	case "tools":
		return oaTools
	case "max_tokens", "max_output_tokens":
		return oaMaxTokens
	case "max_completion_tokens":
		return oaMaxCompletion
	case "prompt_cache_key":
		return oaCacheKey
	case "prompt_cache_retention":
		return oaRetention
	case "session_id":
		return oaSession
	case "metadata":
		return oaMetadata
	}
	return unknownKey
}

// openAITop reads a member that both APIs have.
func (p *parser) openAITop(n int) error {
	ix := p.ix
	if n == oaTools {
		return p.tools()
	}
	v, err := p.skip(topDepth)
	if err != nil {
		return err
	}
	switch n {
	case oaMaxTokens, oaMaxCompletion:
		ix.MaxTokens = max(ix.MaxTokens, integer(view(v.Of(p.b))))
	case oaRetention:
		ix.TopTTL = retention(p.word(v))
	}
	if !p.isString(v) {
		return nil
	}
	switch n {
	case oaModel:
		ix.Model = ix.str(v)
	case oaCacheKey:
		ix.CacheKey = ix.str(v)
	case oaSession:
		ix.SessionID = ix.str(v)
	}
	return nil
}

// retention is the longest that a prompt may stay cached by prompt_cache_retention, 0 where it says nothing (OpenAI's page on
// prompt caching: in memory up to an hour, extended up to 24 hours). A word that is not known here has no bound.
func retention(word string) time.Duration {
	switch word {
	case "":
		return 0
	case "in_memory", "in-memory":
		return time.Hour
	case "24h":
		return 24 * time.Hour
	}
	return math.MaxInt64
}
