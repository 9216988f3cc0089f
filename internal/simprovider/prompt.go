package simprovider

import (
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// prompt is the value sequence that the model is given: tools → system → messages, without what is dropped from it.
type prompt struct {
	blocks   []*block
	values   []digest // of each block, with the deferred tools that it brings in
	prefix   []digest // of the prompt through each block
	size     []int    // tokens of the prompt through each block
	position []int    // of each block: a run of tool_use, or of tool_result, is one position
	marks    []point  // breakpoints, in order
	tools    int      // blocks of tools
	system   int      // blocks of system

	bound   digest   // content through the last block as signatures bind to it: thinking is not part of it
	thought []digest // the thinking blocks in the prompt
	changes []Transformation
}

// point is a breakpoint of a prompt.
type point struct {
	at  int // the block that carries it
	ttl time.Duration
}

// Transformation says what became of a thinking block whose signature does not fit, in the provider's words.
type Transformation struct {
	Type   string `json:"type"`
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (p *prompt) total() int {
	if len(p.size) == 0 {
		return 0
	}
	return p.size[len(p.size)-1]
}

// builder lines up a prompt. Signatures are checked on the way, as a block that is dropped changes all that follows.
type builder struct {
	*prompt
	sim      *Sim
	r        *request
	chain    digest
	area     int // message of the last block, or its area
	deferred map[string]*block
	auto     place // where automatic caching puts its breakpoint
	latest   int   // first message of the latest assistant turn
	dropping bool
	fault    *Error
}

// prompt returns what the model is given for a request.
func (s *Sim) prompt(r *request) (*prompt, *Error) {
	n := len(r.tools) + len(r.system)
	for _, m := range r.messages {
		n += len(m.blocks)
	}
	p := &prompt{
		blocks: make([]*block, 0, n), values: make([]digest, 0, n), prefix: make([]digest, 0, n), size: make([]int, 0, n),
		position: make([]int, 0, n),
	}
	b := &builder{prompt: p, sim: s, r: r, area: inTools, latest: r.latestAssistant(), deferred: map[string]*block{}}
	b.chain = simkit.Sum([]byte("model " + r.model))
	for _, t := range r.tools {
		if t.deferred {
			b.deferred[t.id] = t
		}
	}
	if r.auto != nil {
		b.auto, _ = r.lastMarkable()
	}
	r.each(func(x *block, at place) {
		if b.fault == nil && (!x.thinks() || b.keeps(x, at)) {
			b.add(x, at)
		}
	})
	return b.prompt, b.fault
}

func (b *builder) add(x *block, at place) {
	if b.area < inSystem && at.msg >= inSystem && len(b.r.head) > 0 {
		b.chain = b.chain.Step(simkit.Sum(b.r.head))
	}
	if b.area < 0 && at.msg >= 0 && len(b.r.tail) > 0 {
		b.chain = b.chain.Step(simkit.Sum(b.r.tail))
	}
	b.area = at.msg
	size, position := 0, 0
	if n := len(b.blocks); n > 0 {
		size, position = b.size[n-1], b.position[n-1]
		runs := !b.sim.opts.Platform.EachBlock && (x.kind == "tool_use" || x.kind == "tool_result")
		if !runs || b.blocks[n-1].kind != x.kind {
			position++
		}
	}
	b.extend(x)
	value := x.value
	size += b.sim.tokens(x.chars)
	for _, name := range x.refs { // a tool that was deferred enters the prompt where it is named
		if t := b.deferred[name]; t != nil {
			b.extend(t)
			value = value.Step(t.value)
			size += b.sim.tokens(t.chars)
			delete(b.deferred, name)
		}
	}
	switch at.msg {
	case inTools:
		b.tools++
	case inSystem:
		b.system++
	}
	switch {
	case x.mark != nil:
		b.marks = append(b.marks, point{len(b.blocks), x.mark.ttl})
	case b.r.auto != nil && at == b.auto:
		b.marks = append(b.marks, point{len(b.blocks), b.r.auto.ttl})
	}
	b.blocks = append(b.blocks, x)
	b.values = append(b.values, value)
	b.prefix = append(b.prefix, b.chain)
	b.size = append(b.size, size)
	b.position = append(b.position, position)
}

func (b *builder) extend(x *block) {
	b.chain = b.chain.Step(x.value)
	if !b.r.facts.bound {
		return
	}
	if x.thinks() {
		b.thought = append(b.thought, x.meaning)
	} else {
		b.bound = b.bound.Step(x.meaning)
	}
}

// latestAssistant is the index of the first message of the latest assistant turn; without one it is past the end.
func (r *request) latestAssistant() int {
	at := len(r.messages)
	for i, m := range slices.Backward(r.messages) {
		switch {
		case m.role == "assistant":
			at = i
		case m.role == "user" && at < len(r.messages):
			return at
		}
	}
	return at
}

// signaturePrefix marks signatures that this simulator issued. Others are taken as they are.
const signaturePrefix = "tidemark-sim."

// issue is what the simulator knows about a signature that it issued.
type issue struct {
	model   string
	thought digest   // the block without its signature
	bound   digest   // content of the prompt that produced it
	before  []digest // thinking blocks that stood before it
}

// keeps checks the signature of a thinking block and reports whether the block stays in the prompt.
func (b *builder) keeps(x *block, at place) bool {
	i, issued := b.sim.issued[x.signature]
	fits := !b.dropping && (!issued || b.fits(i))
	switch {
	case !issued && strings.HasPrefix(x.signature, signaturePrefix):
		return b.refuse("%s: Invalid `signature` in `%s` block", at, x.kind)
	case issued && i.thought != x.thought && at.msg >= b.latest:
		return b.refuse("%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "+
			"These blocks must remain as they were in the original response.", at)
	case issued && i.thought != x.thought:
		return b.refuse("%s: Invalid `signature` in `%s` block", at, x.kind)
	case !b.r.facts.bound:
		return true
	case issued && i.model != b.r.model:
		b.change("thinking_dropped", "model_binding_mismatch", at)
		return false
	case fits:
		return true
	case b.r.dropBlock:
		b.dropping = true
		b.change("thinking_dropped", "prefix_binding_mismatch", at)
		return false
	case b.sim.opts.OldAccount && !b.r.facts.everyAccount && !b.r.asks:
		b.change("thinking_mismatch_allowed", "prefix_binding_mismatch", at)
		return true
	}
	return b.refuse("%s: Invalid `signature` in `%s` block. The block is bound to a different conversation. "+
		"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".", at, x.kind)
}

func (b *builder) refuse(format string, args ...any) bool {
	b.fault = refuse(format, args...)
	return false
}

// fits reports whether the prompt so far is what the provider received when it issued the signature. Thinking may have been
// removed from the start: what is left must be the end of what stood there.
func (b *builder) fits(i issue) bool {
	n := len(i.before) - len(b.thought)
	return n >= 0 && i.bound == b.bound && slices.Equal(i.before[n:], b.thought)
}

func (b *builder) change(kind, reason string, at place) {
	b.changes = append(b.changes, Transformation{kind, at.String(), reason})
}

// checkOpening refuses an assistant message inside a tool loop that began with thinking and lost it, where the model wants it.
func (s *Sim) checkOpening(r *request) *Error {
	at := r.latestAssistant()
	if !r.facts.opens || r.thinking != "enabled" || at == len(r.messages) || len(r.messages[at].blocks) == 0 {
		return nil
	}
	first := r.messages[at].blocks[0]
	if first.thinks() {
		return nil
	}
	for _, b := range r.messages[at].blocks {
		if b.kind == "tool_use" && s.opened[b.id] {
			return refuse("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. "+
				"When `thinking` is enabled, a final `assistant` message must start with a thinking block", at, first.kind)
		}
	}
	return nil
}
