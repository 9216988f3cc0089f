package bedrock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// message is one message of Converse. Bodies share it as long as its bytes are the same.
type message struct {
	role    string
	uses    []string // ids of toolUse blocks
	results []string // ids of toolResult blocks
	json    []byte   // in Anthropic's form
	flaw    flaw     // nil if nothing is wrong with its shape
}

// flaw is what is wrong with a message that stands at an index.
type flaw func(at int) *Error

// keptBytes bounds the messages that are kept, in bytes of bodies; beyond it all are forgotten.
const keptBytes = 32 << 20

// conversation is a body of Converse.
type conversation struct {
	values   map[string]*simkit.Node // all but the messages
	messages []*message
	list     bool
}

// readConverse puts a body of Converse into Anthropic's form.
func (s *Sim) readConverse(e endpoint, body []byte) (*asked, *Error) {
	c, err := s.parse(body)
	if err != nil {
		return nil, e.syntax()
	}
	for _, check := range []func() *Error{c.checkShape, c.checkStart, c.checkTools, c.checkPairs} {
		if f := check(); f != nil {
			return nil, f
		}
	}
	out, f := c.translate(e)
	if f == nil {
		f = e.checkBetas(out.betas)
	}
	if f == nil && !lasting(e.name) {
		f = e.checkLifetimes(out.body)
	}
	return out, f
}

// parse reads a body; the error says why it is not valid JSON.
func (s *Sim) parse(body []byte) (*conversation, error) {
	c := &conversation{values: map[string]*simkit.Node{}}
	err := simkit.Members(body, func(name string, at int) (int, error) {
		if name == "messages" && at < len(body) && body[at] == '[' {
			c.list, c.messages = true, nil
			return simkit.Elements(body, at, func(from, to int) error {
				m, err := s.message(body[from:to])
				c.messages = append(c.messages, m)
				return err
			})
		}
		end, err := simkit.Skip(body, at)
		if err == nil {
			err = simkit.Sound(body[at:end])
		}
		if err != nil {
			return 0, err
		}
		c.values[name], err = simkit.Decode(body[at:end])
		c.list = c.list && name != "messages"
		return end, err
	})
	return c, err
}

func (s *Sim) message(raw []byte) (*message, error) {
	if m := s.messages[string(raw)]; m != nil {
		return m, nil
	}
	if err := simkit.Sound(raw); err != nil {
		return nil, err
	}
	n, err := simkit.Decode(raw)
	if err != nil {
		return nil, err
	}
	if s.size += len(raw); s.size > keptBytes {
		s.messages, s.size = map[string]*message{}, len(raw)
	}
	m := newMessage(n)
	s.messages[string(raw)] = m
	return m, nil
}

func newMessage(n *simkit.Node) *message {
	m := &message{}
	content := n.Get("content")
	role, isText := n.Str("role")
	m.role = role
	switch {
	case n.Kind != '{':
		m.flaw = func(int) *Error { return serialization(n, "a Message") }
	case n.Get("role") == nil:
		m.flaw = func(at int) *Error { return missing(member("messages", at) + ".role") }
	case !isText:
		m.flaw = func(int) *Error { return serialization(n.Get("role"), "a String") }
	case m.role != "user" && m.role != "assistant":
		m.flaw = func(at int) *Error { return notOneOf(m.role, member("messages", at)+".role", "user, assistant") }
	case content == nil || content.Is("null"):
		m.flaw = func(at int) *Error { return missing(member("messages", at) + ".content") }
	case content.Kind != '[':
		m.flaw = func(int) *Error { return serialization(content, "a List") }
	case len(content.Kids) == 0:
		m.flaw = func(at int) *Error {
			return invalid("The content field in the Message object at messages.%d is empty. "+
				"Add a ContentBlock object to the content field and try again.", at)
		}
	default:
		m.blocks(content)
	}
	return m
}

// member is the path of an element in the words of Bedrock's schema, which counts from 1.
func member(path string, at int) string { return fmt.Sprintf("%s.%d.member", path, at+1) }

// blocks reads the content of a message.
func (m *message) blocks(content *simkit.Node) {
	out := &simkit.Node{Kind: '['}
	for i, kid := range content.Kids {
		list, f := block(kid, i, out)
		if f != nil {
			m.flaw = f
			return
		}
		for _, b := range list {
			switch kind, _ := b.Str("type"); kind {
			case "tool_use":
				id, _ := b.Str("id")
				m.uses = append(m.uses, id)
			case "tool_result":
				id, _ := b.Str("tool_use_id")
				m.results = append(m.results, id)
			}
		}
		out.Kids = append(out.Kids, list...)
	}
	m.json = object("role", text(m.role), "content", out).JSON(nil)
}

// checkShape refuses what Bedrock's schema refuses.
func (c *conversation) checkShape() *Error {
	if n := c.values["messages"]; n != nil && !c.list && !n.Is("null") {
		return serialization(n, "a List")
	}
	for i, m := range c.messages {
		if m.flaw != nil {
			return m.flaw(i)
		}
	}
	return nil
}

// checkStart refuses a conversation that does not begin with the user, or in which one speaks twice.
func (c *conversation) checkStart() *Error {
	if len(c.messages) == 0 || c.messages[0].role != "user" {
		return invalid("A conversation must start with a user message. Try again with a conversation that starts with a user message.")
	}
	for i, m := range c.messages[1:] {
		if m.role == c.messages[i].role {
			return invalid("A conversation must alternate between user and assistant roles. " +
				"Make sure the conversation alternates between user and assistant roles and try again.")
		}
	}
	return nil
}

// checkTools wants tools where a conversation used some.
func (c *conversation) checkTools() *Error {
	config := c.values["toolConfig"]
	if config != nil && !config.Is("null") {
		return nil
	}
	for _, m := range c.messages {
		if len(m.uses)+len(m.results) > 0 {
			return invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
		}
	}
	return nil
}

// checkPairs wants a result for every call, in the next message. Calls of the last message are left to the model.
func (c *conversation) checkPairs() *Error {
	var open []string
	for i, m := range c.messages {
		at := fmt.Sprintf("messages.%d.content", i)
		if twice := repeated(m.uses); twice != nil {
			return invalid("The toolUse blocks at %s contain duplicate Ids: %s", at, strings.Join(twice, ", "))
		}
		if twice := repeated(m.results); twice != nil {
			return invalid("The toolResult blocks at %s contain duplicate Ids: %s", at, strings.Join(twice, ", "))
		}
		if m.role == "user" {
			if len(m.results) > len(open) {
				return invalid("The number of toolResult blocks at %s exceeds the number of toolUse blocks of previous turn.", at)
			}
			left := slices.DeleteFunc(open, func(id string) bool { return slices.Contains(m.results, id) })
			if len(left) > 0 {
				return invalid("Expected toolResult blocks at %s for the following Ids: %s", at, strings.Join(left, ", "))
			}
		}
		open = nil
		if m.role == "assistant" {
			open = slices.Clone(m.uses)
		}
	}
	return nil
}

// repeated returns the ids that stand more than once.
func repeated(ids []string) (twice []string) {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) && !slices.Contains(twice, id) {
			twice = append(twice, id)
		}
	}
	return twice
}

// defaultMaxTokens is what a request without maxTokens may answer.
const defaultMaxTokens = "4096"

// translate puts a body into Anthropic's form.
func (c *conversation) translate(e endpoint) (*asked, *Error) {
	out := &asked{}
	body := object("model", text(e.name), "max_tokens", &simkit.Node{Kind: 'n', Text: defaultMaxTokens})
	if config := c.values["inferenceConfig"]; config != nil && config.Get("maxTokens") != nil {
		body.Put("max_tokens", config.Get("maxTokens"))
	}
	for _, put := range []func(*simkit.Node) *Error{c.putTools, c.putSystem} {
		if f := put(body); f != nil {
			return nil, f
		}
	}
	if f := c.putMore(e, body, out); f != nil {
		return nil, f
	}
	raw := body.JSON(nil)
	raw = append(raw[:len(raw)-1], `,"messages":[`...)
	for i, m := range c.messages {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, m.json...)
	}
	raw = append(raw, `]}`...)
	out.body = raw
	return out, nil
}

// putMore adds what Bedrock hands on to the model as it is.
func (c *conversation) putMore(e endpoint, body *simkit.Node, out *asked) *Error {
	more := c.values["additionalModelRequestFields"]
	if more == nil || more.Is("null") {
		return nil
	}
	if more.Kind != '{' {
		return e.refuse("additionalModelRequestFields: Input should be an object")
	}
	for i, name := range more.Names {
		switch {
		case name == "anthropic_beta":
			if json.Unmarshal(more.Kids[i].JSON(nil), &out.betas) != nil {
				return e.refuse("anthropic_beta: Input should be a valid list")
			}
		case slices.Contains(foreign, name), name == "messages", body.Get(name) != nil:
			return e.refuse("%s%s", name, notPermitted)
		default:
			body.Put(name, more.Kids[i])
		}
	}
	return nil
}
