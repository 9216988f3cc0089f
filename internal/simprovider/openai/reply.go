package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Usage is what a request is billed for, in tokens.
type Usage struct {
	Input     int `json:"input"` // neither read nor written
	Read      int `json:"read"`
	Write     int `json:"write"` // of models that charge for it
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"` // part of the output
}

// Result is the answer to one request.
type Result struct {
	Status int
	Err    *Error // nil if Status is 200

	ID      string
	Model   string
	Output  []json.RawMessage // of Responses the items, of Chat the message; a client sends them back
	Stop    string            // finish_reason of Chat
	Usage   Usage
	Prompt  int       // tokens of the prompt
	Stream  bool      // the request asked for a stream
	First   time.Time // when the first byte leaves
	Created int64     // seconds since 1970

	api    api
	tally  bool
	stored bool
}

// Answers of a model that nobody told what to say.
const (
	defaultMessage = `{"content":"Understood."}`
	defaultItems   = `[{"type":"message","content":"Understood."}]`
	defaultCompact = `[{"type":"compaction"}]`
)

var (
	errNotList   = errors.New("want a list of output items")
	errNotObject = errors.New("want a message")
)

// reply makes the answer to a request, and seals the reasoning in it. It returns its items and the tokens of reasoning.
func (s *Sim) reply(res *Result, r *request, body []byte, h http.Header) ([]*item, int, error) {
	res.stored = r.store
	if r.api == chat {
		res.Stop = "stop"
	}
	if r.prewarm {
		if r.api == chat {
			res.Output = []json.RawMessage{json.RawMessage(`{"role":"assistant","content":""}`)}
		}
		return nil, 0, nil
	}
	n, err := simkit.Decode([]byte(s.script(r, body, h)))
	if err != nil {
		return nil, 0, fmt.Errorf("read reply: %w", err)
	}
	if r.api == chat {
		answer, err := s.replyMessage(res, n)
		return answer, 0, err
	}
	if n.Kind != '[' {
		return nil, 0, fmt.Errorf("read reply: %w", errNotList)
	}
	if r.api == compact {
		for _, it := range r.items {
			if it.role == "user" && it.raw != nil {
				res.Output = append(res.Output, it.raw)
			}
		}
	}
	answer := make([]*item, 0, len(n.Kids))
	reasoning := 0
	for i, kid := range n.Kids {
		kid = s.complete(kid, i)
		it, err := s.parser.item(responses, kid.JSON(nil))
		if err == nil && it.flaw != nil {
			err = it.flaw.at(indexed("output", i))
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read reply: %w", err)
		}
		answer = append(answer, it)
		shown := kid
		if it.kind == "reasoning" {
			reasoning += it.blocks[0].tokens
			if !r.sealed {
				shown = kid.Without("encrypted_content")
			}
		}
		res.Output = append(res.Output, shown.JSON(nil))
	}
	s.seal(r, answer)
	return answer, reasoning, nil
}

// script returns what the model is told to say.
func (s *Sim) script(r *request, body []byte, h http.Header) string {
	if text := h.Get(simkit.HeaderReply); text != "" {
		return text
	}
	if r.api == compact {
		return defaultCompact
	}
	if content, ok := s.opts.Reply.Ask(r.path, body, h); ok {
		return content
	}
	switch n := len(r.items); {
	case r.api == chat:
		return defaultMessage
	case n > 0 && r.items[n-1].kind == "compaction_trigger":
		return defaultCompact
	}
	return defaultItems
}

// replyMessage makes the answer of Chat out of a message.
func (s *Sim) replyMessage(res *Result, n *simkit.Node) ([]*item, error) {
	if n.Kind != '{' {
		return nil, fmt.Errorf("read reply: %w", errNotObject)
	}
	m := object(member{"role", text("assistant")}, member{"content", null()}, member{"refusal", null()})
	for i, name := range n.Names {
		m.Put(name, n.Kids[i])
	}
	if calls := n.Get("tool_calls"); calls != nil && calls.Kind == '[' {
		list := &simkit.Node{Kind: '['}
		for i, call := range calls.Kids {
			kind := "function"
			if call.Get("custom") != nil {
				kind = "custom"
			}
			full := object(member{"id", text(fmt.Sprintf("%s_%d", s.id("call"), i))}, member{"type", text(kind)})
			for j, name := range call.Names {
				full.Put(name, call.Kids[j])
			}
			list.Kids = append(list.Kids, full)
		}
		m.Put("tool_calls", list)
		res.Stop = "tool_calls"
	}
	it, err := s.parser.item(chat, m.JSON(nil))
	if err == nil && it.flaw != nil {
		err = it.flaw.at("message")
	}
	if err != nil {
		return nil, fmt.Errorf("read reply: %w", err)
	}
	res.Output = []json.RawMessage{m.JSON(nil)}
	return []*item{it}, nil
}

// prefixes are how ids of output items begin, by kind; others begin with "item".
var prefixes = map[string]string{
	"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "local_shell_call": "lsh",
	"shell_call": "sh", "apply_patch_call": "apc", "web_search_call": "ws", "compaction": "cmp",
}

// complete returns a scripted item with what only the provider can give: ids, a state, and encrypted content. Encrypted content
// of this simulator's form stays: an agent may know its answers beforehand.
func (s *Sim) complete(n *simkit.Node, i int) *simkit.Node {
	kind, _ := n.Str("type")
	prefix := prefixes[kind]
	if prefix == "" {
		prefix = "item"
	}
	out := object(member{"id", text(fmt.Sprintf("%s_%d", s.id(prefix), i))})
	_, isCall := answerOf[kind]
	switch {
	case kind == "message":
		out.Put("status", text("completed"))
		out.Put("role", text("assistant"))
	case isCall:
		out.Put("status", text("completed"))
		out.Put("call_id", text(fmt.Sprintf("%s_%d", s.id("call"), i)))
	case kind == "reasoning":
		out.Put("summary", &simkit.Node{Kind: '['})
	}
	for j, name := range n.Names {
		out.Put(name, n.Kids[j])
	}
	if content := n.Get("content"); kind == "message" && content != nil && content.Kind == 's' {
		part := simkit.TextNode("output_text", content.Text)
		part.Put("annotations", &simkit.Node{Kind: '['})
		out.Put("content", &simkit.Node{Kind: '[', Kids: []*simkit.Node{part}})
	}
	if kind == "reasoning" || kind == "compaction" {
		if own, _ := n.Str("encrypted_content"); !strings.HasPrefix(own, sealPrefix) {
			out.Put("encrypted_content", text(fmt.Sprintf("%s%d.%d", sealPrefix, s.requests, i)))
		}
	}
	return out
}

// seal remembers what was issued, and which items belong together.
func (s *Sim) seal(r *request, answer []*item) {
	latest := ""
	for i, it := range answer {
		if it.kind != "reasoning" && it.sealed == "" {
			if latest != "" && it.id != "" {
				s.needs[it.id] = latest
			}
			continue
		}
		from := issue{account: r.account, id: it.id}
		if it.kind == "reasoning" {
			latest = it.id
			if next := slices.IndexFunc(answer[i:], func(it *item) bool { return it.kind != "reasoning" }); next >= 0 {
				from.next = answer[i+next]
			}
		}
		s.issued[it.sealed] = from
	}
}

func text(s string) *simkit.Node { return &simkit.Node{Kind: 's', Text: s} }

func null() *simkit.Node { return &simkit.Node{Kind: 'l', Text: "null"} }

// member is one member of an object.
type member struct {
	name  string
	value *simkit.Node
}

func object(members ...member) *simkit.Node {
	n := &simkit.Node{Kind: '{'}
	for _, m := range members {
		n.Put(m.name, m.value)
	}
	return n
}
