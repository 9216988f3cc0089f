package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Usage is what a request is billed for, in tokens.
type Usage struct {
	Input    int `json:"input"` // not read
	Read     int `json:"read"`
	Output   int `json:"output"`
	Thoughts int `json:"thoughts"` // billed like output, and no part of it
}

// Result is the answer to one request.
type Result struct {
	Status int
	Err    *Error // nil if Status is 200

	ID     string // responseId
	Model  string
	Parts  []json.RawMessage // of the answer; a client sends them back as the content of the model
	Usage  Usage
	Prompt int       // tokens of the prompt
	Stream bool      // the path asked for a stream
	SSE    bool      // and for one of server-sent events
	Vertex bool      // the path is one of Vertex AI
	First  time.Time // when the first byte leaves

	counts bool // the path asked for the prompt's tokens alone
}

// id makes the id of the answer.
func (s *Sim) id() string { return fmt.Sprintf("sim%012d", s.requests) }

const defaultReply = `[{"text":"Understood."}]`

var errNotList = errors.New("want a list of parts")

// reply makes the answer to a request, and signs it.
func (s *Sim) reply(res *Result, r *request, path string, body []byte, h http.Header) error {
	script := h.Get(simkit.HeaderReply)
	if script == "" {
		script, _ = s.opts.Reply.Ask(path, body, h) // without an answer it is empty
	}
	if script == "" {
		script = defaultReply
	}
	n, err := simkit.Decode([]byte(script))
	if err != nil {
		return fmt.Errorf("read reply: %w", err)
	}
	if n.Kind != '[' {
		return fmt.Errorf("read reply: %w", errNotList)
	}
	answer, err := s.sign(r, n.Kids)
	if err != nil {
		return fmt.Errorf("read reply: %w", err)
	}
	for i, x := range answer.parts {
		if x.thought {
			res.Usage.Thoughts += x.tokens
		} else {
			res.Usage.Output += x.tokens
		}
		res.Parts = append(res.Parts, n.Kids[i].JSON(nil))
	}
	return nil
}

// sign signs an answer where the model does, and returns what it says. The kids are replaced by signed ones. A signature of this
// simulator's form stays: an agent may know its answers beforehand, so that two simulators can be told the same conversation.
func (s *Sim) sign(r *request, kids []*node) (*content, error) {
	said := s.parser.newContent(&node{Kind: '{', Names: []string{"parts"}, Kids: []*node{{Kind: '[', Kids: kids}}})
	if said.flaw != nil {
		return nil, said.flaw("")
	}
	at := -1
	for i, x := range said.parts {
		if x.kind == "functionCall" {
			at = i
			break
		}
		if !x.thought {
			at = i
		}
	}
	if !r.facts.signs() || at < 0 {
		return said, nil
	}
	x := said.parts[at]
	if !strings.HasPrefix(x.signature, signaturePrefix) {
		x.signature = s.newSignature()
	}
	out := kids[at].Without("thoughtSignature", "thought_signature")
	out = &node{Kind: '{', Names: append([]string(nil), out.Names...), Kids: append([]*node(nil), out.Kids...)}
	out.Put("thoughtSignature", &node{Kind: 's', Text: x.signature})
	kids[at] = out
	s.issued[x.signature] = issue{x.kind, x.bare, x.text, said.thoughts}
	return said, nil
}

// modality is a share of tokens by what they say.
type modality struct {
	Modality string `json:"modality"`
	Tokens   int    `json:"tokenCount"`
}

// wireUsage is usage as the provider writes it: numbers that are zero are left out.
type wireUsage struct {
	Prompt     int        `json:"promptTokenCount,omitempty"`
	Candidates int        `json:"candidatesTokenCount,omitempty"`
	Total      int        `json:"totalTokenCount,omitempty"`
	Cached     int        `json:"cachedContentTokenCount,omitempty"`
	PromptOf   []modality `json:"promptTokensDetails,omitempty"`
	CachedOf   []modality `json:"cacheTokensDetails,omitempty"`
	Thoughts   int        `json:"thoughtsTokenCount,omitempty"`
	Traffic    string     `json:"trafficType,omitempty"` // Vertex only
}

// usage is the usage of an answer of which so many tokens are said.
func (r *Result) usage(output, thoughts int) wireUsage {
	u := wireUsage{
		Prompt: r.Prompt, Candidates: output, Total: r.Prompt + output + thoughts, Cached: r.Usage.Read, Thoughts: thoughts,
		PromptOf: []modality{{"TEXT", r.Prompt}},
	}
	if r.Usage.Read > 0 {
		u.CachedOf = []modality{{"TEXT", r.Usage.Read}}
	}
	if r.Vertex {
		u.Traffic = "ON_DEMAND"
	}
	return u
}

// said is a content of the model.
type said struct {
	Parts []json.RawMessage `json:"parts,omitempty"`
	Role  string            `json:"role"`
}

type candidate struct {
	Content said   `json:"content"`
	Finish  string `json:"finishReason,omitempty"`
	Index   int    `json:"index"`
}

// answer is an answer, or a chunk of one, as the provider writes it.
type answer struct {
	Candidates []candidate `json:"candidates"`
	Usage      wireUsage   `json:"usageMetadata"`
	Model      string      `json:"modelVersion"`
	ID         string      `json:"responseId"`
}

func (r *Result) chunk(parts []json.RawMessage, finish string, usage wireUsage) answer {
	return answer{[]candidate{{Content: said{parts, "model"}, Finish: finish}}, usage, r.Model, r.ID}
}

// countAnswer is an answer of countTokens.
type countAnswer struct {
	Total    int        `json:"totalTokens"`
	PromptOf []modality `json:"promptTokensDetails"`
}

// JSON is the answer as the provider writes it if it is no stream, or its refusal.
func (r *Result) JSON() ([]byte, error) {
	switch {
	case r.Err != nil:
		return json.Marshal(map[string]*Error{"error": r.Err})
	case r.counts:
		return json.Marshal(countAnswer{r.Prompt, []modality{{"TEXT", r.Prompt}}})
	}
	return json.Marshal(r.chunk(r.Parts, finished, r.usage(r.Usage.Output, r.Usage.Thoughts)))
}

// finished is why every answer ends.
const finished = "STOP"
