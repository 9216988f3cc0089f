package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Usage is what a request is billed for, in tokens.
type Usage = simprovider.Usage

// Result is the answer to one request.
type Result struct {
	Status int
	Err    *Error // nil if Status is 200

	ID              string // of the request
	Model           string // as the path names it
	Content         []json.RawMessage
	StopReason      string
	Usage           Usage
	Prompt          int // tokens of the prompt
	Transformations []simprovider.Transformation
	Stream          bool      // the path asked for a stream
	First           time.Time // when the first byte leaves

	api   api
	inner simprovider.Result
}

// id makes the id of the request.
func (s *Sim) id() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.requests) }

// script is what the model is told to say, in Anthropic's form; empty if nobody tells it.
func (s *Sim) script(e endpoint, path string, body []byte, h http.Header) (string, *Error) {
	script := h.Get(simkit.HeaderReply)
	if script == "" {
		script, _ = s.opts.Reply.Ask(path, body, h) // without an answer it is empty
	}
	if script == "" || e.api == invoke {
		return script, nil
	}
	n, err := simkit.Decode([]byte(script))
	if err != nil {
		return "", invalid("%s: %v", simkit.HeaderReply, err)
	}
	if n.Kind != '[' {
		return "", invalid("%s: want a list of content blocks", simkit.HeaderReply)
	}
	out := &node{Kind: '['}
	for i, kid := range n.Kids {
		if use := kid.Get("toolUse"); use != nil && use.Kind == '{' && use.Get("toolUseId") == nil {
			full := object("toolUseId", text(fmt.Sprintf("tooluse_sim%012d_%d", s.requests, i)))
			for j, name := range use.Names {
				full.Put(name, use.Kids[j])
			}
			kid = object("toolUse", full)
		}
		list, f := block(kid, i, out)
		if f != nil {
			return "", invalid("%s: %s", simkit.HeaderReply, f(0).Message)
		}
		out.Kids = append(out.Kids, list...)
	}
	return string(out.JSON(nil)), nil
}

// converseBlocks puts the content of an answer into the form of Converse.
func converseBlocks(content []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(content))
	for _, raw := range content {
		n, err := simkit.Decode(raw)
		if err != nil {
			continue // it was decoded before
		}
		out = append(out, converseBlock(n).JSON(nil))
	}
	return out
}

func converseBlock(n *node) *node {
	kind, _ := n.Str("type")
	switch kind {
	case "tool_use":
		return object("toolUse", object("toolUseId", n.Get("id"), "name", n.Get("name"), "input", n.Get("input")))
	case "thinking":
		return object("reasoningContent", object("reasoningText", object("text", n.Get("thinking"), "signature", n.Get("signature"))))
	case "redacted_thinking":
		data, _ := n.Str("data")
		return object("reasoningContent", object("redactedContent", text(base64.StdEncoding.EncodeToString([]byte(data)))))
	}
	if said := n.Get("text"); kind == "text" && said != nil {
		return object("text", said)
	}
	return n
}

// wireUsage is usage as Converse writes it.
type wireUsage struct {
	Input   int           `json:"inputTokens"`
	Output  int           `json:"outputTokens"`
	Total   int           `json:"totalTokens"`
	Read    int           `json:"cacheReadInputTokens"`
	Write   int           `json:"cacheWriteInputTokens"`
	Details []cacheDetail `json:"cacheDetails,omitempty"`
}

// cacheDetail is what was written for one lifetime.
type cacheDetail struct {
	TTL    string `json:"ttl"`
	Tokens int    `json:"inputTokens"`
}

func wired(u Usage) wireUsage {
	w := wireUsage{Input: u.Input, Output: u.Output, Read: u.Read, Write: u.Write5m + u.Write1h}
	w.Total = w.Input + w.Output + w.Read + w.Write
	if u.Write1h > 0 {
		w.Details = append(w.Details, cacheDetail{"1h", u.Write1h})
	}
	if u.Write5m > 0 {
		w.Details = append(w.Details, cacheDetail{"5m", u.Write5m})
	}
	return w
}

// metrics are how long a request of Converse took, in milliseconds.
type metrics struct {
	Latency int64 `json:"latencyMs"`
}

// converseAnswer is an answer of Converse as Bedrock writes it.
type converseAnswer struct {
	Output struct {
		Message struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason string    `json:"stopReason"`
	Usage      wireUsage `json:"usage"`
	Metrics    metrics   `json:"metrics"`
}

// JSON is the answer as Bedrock writes it, or its refusal.
func (r *Result) JSON() ([]byte, error) {
	switch {
	case r.Err != nil:
		return json.Marshal(r.Err)
	case r.api == invoke:
		return r.inner.JSON()
	}
	a := converseAnswer{StopReason: r.StopReason, Usage: wired(r.Usage), Metrics: metrics{latency}}
	a.Output.Message.Role, a.Output.Message.Content = "assistant", r.Content
	return json.Marshal(a)
}

// latency is what every answer is said to have taken, in milliseconds.
const latency = 1000
