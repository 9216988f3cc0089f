package simprovider

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Error is a refusal in the provider's shape.
type Error struct {
	Status  int    `json:"-"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// refuse is a 400.
func refuse(format string, args ...any) *Error {
	return &Error{Status: 400, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// at makes a refusal of a flaw in the part at path.
func (f *flaw) at(path string) *Error {
	return refuse("%s: %s", strings.TrimPrefix(path+f.path, "."), f.text)
}

// request is a body of the right shape.
type request struct {
	model    string
	facts    model
	stream   bool
	thinking string // its type, empty without it
	tools    []*block
	system   []*block
	messages []*message
	auto     *mark  // automatic caching: the breakpoint of the top level
	head     []byte // parameters that a cached system prompt depends on
	tail     []byte // parameters that cached messages depend on
	rest     []byte // further parameters that a diagnosis compares
	none     bool   // max_tokens is 0: only the cache is written
	thread   *thread
	diagnose diagnosis

	dropBlock bool // thinking that is bound to another prefix is to be dropped
	asks      bool // the request says what is to happen with such thinking
}

// Betas that this simulator knows.
const (
	betaBinding = "thinking-binding-controls-2026-08-01"
	betaScope   = "prompt-caching-scope-2026-01-05"
	betaThreads = "message-threads-2026-08-12"
)

const billingPrefix = "x-anthropic-billing-header:"

func isBilling(n *node) bool {
	text, _ := n.Str("text")
	return strings.HasPrefix(text, billingPrefix)
}

// shape checks the shape of a body. counting: of a count_tokens request, which needs no max_tokens.
func shape(b *body, beta func(string) bool, counting bool) (*request, *Error) {
	r := &request{messages: b.messages}
	for _, check := range []func(*body) *Error{
		func(b *body) *Error { return r.readModel(b, counting) },
		func(b *body) *Error { return r.readThinking(b, beta) },
		func(b *body) *Error { return r.readCaching(b) },
		r.readDiagnostics,
		r.readMessages,
		func(b *body) *Error { return r.checkBetas(b, beta) },
	} {
		if f := check(b); f != nil {
			return nil, f
		}
	}
	r.parameters(b)
	return r, nil
}

func (r *request) readModel(b *body, counting bool) *Error {
	top := &node{Kind: '{'}
	for _, name := range []string{"model", "max_tokens", "stream"} {
		if v := b.values[name]; v != nil {
			top.Put(name, v)
		}
	}
	if f := requires(top, "", "model", 's'); f != nil {
		return f.at("")
	}
	r.model, _ = top.Str("model")
	if limit := top.Get("max_tokens"); limit != nil {
		n, err := strconv.ParseFloat(limit.Text, 64) // 1.0 is an integer to the provider
		if limit.Kind != 'n' || err != nil || n != math.Trunc(n) {
			return refuse("max_tokens: Input should be a valid integer")
		}
		r.none = n == 0
		if n < 0 || r.none && top.Get("stream").Is("true") {
			return refuse("max_tokens: Input should be greater than or equal to 1")
		}
	} else if !counting {
		return refuse("max_tokens: %s", required)
	}
	r.stream = top.Get("stream").Is("true")
	facts, known := lookup(r.model)
	if !known {
		return &Error{Status: 404, Type: "not_found_error", Message: "model: " + r.model}
	}
	r.facts = facts
	return nil
}

func (r *request) readThinking(b *body, beta func(string) bool) *Error {
	thinking := b.values["thinking"]
	if thinking == nil {
		return nil
	}
	kind, ok := thinking.Str("type")
	if !ok {
		return refuse("thinking: Unable to extract tag using discriminator 'type'")
	}
	r.thinking = kind
	binding := thinking.Get("block_binding")
	if binding == nil {
		return nil
	}
	path := "thinking." + kind + ".block_binding"
	if !beta(betaBinding) {
		return refuse("%s: %s", path, extra)
	}
	behavior, ok := binding.Str("prefix_mismatch_behavior")
	if r.asks = ok; !ok {
		return nil
	}
	if behavior != "error" && behavior != "drop_block" {
		return refuse("%s.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'", path)
	}
	r.dropBlock = behavior == "drop_block"
	return nil
}

func (r *request) readCaching(b *body) *Error {
	mk, f := newMark(b.values["cache_control"], "", "")
	if f != nil {
		return f.at("")
	}
	r.auto = mk
	for _, h := range []*head{b.tools, b.system} {
		if h != nil && h.fault != nil {
			return h.fault
		}
	}
	if b.tools != nil {
		r.tools = b.tools.blocks
	}
	if b.system != nil {
		r.system = b.system.blocks
	}
	return nil
}

func (r *request) readMessages(b *body) *Error {
	switch {
	case b.values["messages"] != nil && !b.list:
		return refuse("messages: %s", notList)
	case !b.list:
		return refuse("messages: %s", required)
	case len(b.messages) == 0:
		return refuse("messages: at least one message is required")
	}
	for i, m := range b.messages {
		if m.flaw != nil {
			return m.flaw.at(fmt.Sprintf("messages.%d", i))
		}
	}
	return nil
}

// checkBetas refuses members of cache_control that need a beta which the request does not name.
func (r *request) checkBetas(_ *body, beta func(string) bool) *Error {
	if beta(betaScope) {
		return nil
	}
	var fault *Error
	r.marks(func(path string, m *mark, _ *block) bool {
		if m.scope {
			fault = refuse("%s%s.cache_control.ephemeral.scope: %s", path, m.tag, extra)
		}
		return fault == nil
	})
	return fault
}

// parameters collects what a cached prefix depends on besides the values of the prefix. What does not change the prompt is
// left out: how thinking is shown, and what becomes of thinking that is bound to another prefix.
func (r *request) parameters(b *body) {
	add := func(dst *[]byte, name string, n *node) {
		if n != nil {
			*dst = n.Encode(simkit.AppendText(*dst, name), true)
		}
	}
	add(&r.head, "speed", b.values["speed"])
	add(&r.rest, "context_management", b.values["context_management"])
	add(&r.rest, "output_format", b.values["output_format"])
	if choice := b.values["tool_choice"]; choice != nil {
		if kind, _ := choice.Str("type"); kind != "auto" || len(choice.Names) > 1 {
			add(&r.tail, "tool_choice", choice)
		}
	}
	if thinking := b.values["thinking"]; thinking != nil {
		add(&r.tail, "thinking", thinking.Without("display", "block_binding"))
	}
	add(&r.tail, "output_config", b.values["output_config"])
	for _, m := range r.messages {
		for _, block := range m.blocks {
			if block.image {
				add(&r.tail, "images", &node{Kind: 'l', Text: "true"})
				return
			}
		}
	}
}
