package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Usage is what a request is billed for, in tokens.
type Usage struct {
	Input   int // neither read nor written: what follows the last breakpoint
	Read    int
	Write5m int
	Write1h int
	Output  int
}

// Result is the answer to one request.
type Result struct {
	Status int
	Err    *Error // nil if Status is 200

	ID              string
	Model           string
	Content         []json.RawMessage // blocks; a client sends them back as the assistant's turn
	StopReason      string
	Usage           Usage
	Prompt          int // tokens of the prompt
	Transformations []Transformation
	Diagnosed       bool       // the request asked for a diagnosis
	Miss            *CacheMiss // what the diagnosis found; nil if nothing was missed
	Stream          bool       // the request asked for a stream
	First           time.Time  // when the first byte leaves
}

// reply is what the model says.
type reply struct {
	content []json.RawMessage
	stop    string
	tokens  int
}

const defaultReply = `[{"type":"text","text":"Understood."}]`

// script is what the model is told to say, empty if nobody tells it.
func (s *Sim) script(path string, body []byte, h http.Header) string {
	if text := h.Get(simkit.HeaderReply); text != "" {
		return text
	}
	content, _ := s.opts.Reply.Ask(path, body, h) // without an answer it is empty
	return content
}

// reply makes the answer to a prompt out of a script, and signs the thinking in it.
func (s *Sim) reply(r *request, p *prompt, script string) (*reply, error) {
	out := &reply{stop: "end_turn"}
	if r.none {
		out.stop = "max_tokens"
		return out, nil
	}
	if script == "" {
		script = defaultReply
	}
	n, err := s.parser.value([]byte(script))
	if err != nil {
		return nil, fmt.Errorf("read reply: %w", err)
	}
	if n.Kind != '[' {
		return nil, fmt.Errorf("read reply: %s", notList)
	}
	who := leadOf("assistant", &node{Kind: '{'})
	bound, thought := p.bound, slices.Clip(p.thought)
	opens := false
	for i, kid := range n.Kids {
		kid = s.complete(kid, i)
		b, f := newContent(kid, who, strconv.Itoa(i))
		if f != nil {
			return nil, fmt.Errorf("read reply: %s: %s", f.path, f.text)
		}
		switch {
		case b.thinks():
			opens = opens || i == 0
			s.issued[b.signature] = issue{r.model, b.thought, bound, thought}
			thought = append(slices.Clip(thought), b.meaning)
		case r.facts.bound:
			bound = bound.Step(b.meaning)
		}
		if b.kind == "tool_use" {
			out.stop = "tool_use"
			if opens {
				s.opened[b.id] = true
			}
		}
		out.tokens += s.tokens(b.chars)
		out.content = append(out.content, kid.JSON(nil))
	}
	return out, nil
}

// complete returns a scripted block with what only the provider can give: a signature, and an id for a tool_use without one.
// A signature of this simulator's form stays: an agent may know its answers beforehand, so that two simulators can be told
// the same conversation.
func (s *Sim) complete(n *node, i int) *node {
	set := func(name, value string) *node {
		out := &node{Kind: '{', Names: slices.Clone(n.Names), Kids: slices.Clone(n.Kids)}
		out.Put(name, &node{Kind: 's', Text: value})
		return out
	}
	signed := map[string]string{"thinking": "signature", "redacted_thinking": "data"}
	kind, _ := n.Str("type")
	if name := signed[kind]; name != "" {
		if own, _ := n.Str(name); !strings.HasPrefix(own, signaturePrefix) {
			return set(name, fmt.Sprintf("%s%d.%d", signaturePrefix, s.requests, i))
		}
	}
	if _, ok := n.Str("id"); !ok && kind == "tool_use" {
		return set("id", fmt.Sprintf("toolu_sim%012d_%d", s.requests, i))
	}
	return n
}

// wireUsage is usage as the provider writes it.
type wireUsage struct {
	Input    int `json:"input_tokens"`
	Creation int `json:"cache_creation_input_tokens"`
	Read     int `json:"cache_read_input_tokens"`
	Split    struct {
		Short int `json:"ephemeral_5m_input_tokens"`
		Long  int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Output int `json:"output_tokens"`
}

func (u Usage) wire() wireUsage {
	w := wireUsage{Input: u.Input, Creation: u.Write5m + u.Write1h, Read: u.Read, Output: u.Output}
	w.Split.Short, w.Split.Long = u.Write5m, u.Write1h
	return w
}

// MarshalJSON writes the usage in the provider's shape.
func (u Usage) MarshalJSON() ([]byte, error) { return json.Marshal(u.wire()) }

// UnmarshalJSON reads the usage of an answer.
func (u *Usage) UnmarshalJSON(b []byte) error {
	var w wireUsage
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	*u = Usage{w.Input, w.Read, w.Split.Short, w.Split.Long, w.Output}
	return nil
}

// wireMessage is an answer as the provider writes it.
type wireMessage struct {
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	Role            string            `json:"role"`
	Model           string            `json:"model"`
	Content         []json.RawMessage `json:"content"`
	StopReason      *string           `json:"stop_reason"`
	StopSequence    *string           `json:"stop_sequence"`
	Usage           wireUsage         `json:"usage"`
	Transformations []Transformation  `json:"input_transformations,omitempty"`
	Diagnostics     json.RawMessage   `json:"diagnostics,omitempty"`
}

// JSON is the answer as the provider writes it.
func (r *Result) JSON() ([]byte, error) { return json.Marshal(r.wire()) }

func (r *Result) wire() wireMessage {
	content := r.Content
	if content == nil {
		content = []json.RawMessage{}
	}
	return wireMessage{
		ID: r.ID, Type: "message", Role: "assistant", Model: r.Model, Content: content, StopReason: &r.StopReason,
		Usage: r.Usage.wire(), Transformations: r.Transformations, Diagnostics: r.diagnostics(),
	}
}

// diagnostics is the member of that name: missing if the request did not ask, null if nothing was missed.
func (r *Result) diagnostics() json.RawMessage {
	if !r.Diagnosed {
		return nil
	}
	if r.Miss == nil {
		return json.RawMessage("null")
	}
	b, err := json.Marshal(map[string]*CacheMiss{"cache_miss_reason": r.Miss})
	if err != nil { // a miss always marshals; null keeps the document valid
		return json.RawMessage("null")
	}
	return b
}
