package simprovider

import (
	"fmt"
	"strings"
)

// maxMarks is the most cache_control that one body may carry.
const maxMarks = 4

// check refuses what the provider refuses of a body that has the right shape.
func (r *request) check() *Error {
	for _, rule := range []func() *Error{r.checkRoles, r.checkMarks, r.checkTexts, r.checkPairs, r.checkEnd} {
		if f := rule(); f != nil {
			return f
		}
	}
	return nil
}

func (r *request) checkRoles() *Error {
	for i, m := range r.messages {
		switch m.role {
		case "user", "assistant":
		case "system":
			if !r.facts.system {
				return refuse(`messages: Unexpected role "system". The Messages API accepts a top-level ` +
					"`system` parameter, not \"system\" as an input message role.")
			}
		default:
			return refuse("messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
	}
	if r.messages[0].role != "user" {
		return refuse(`messages: first message must use the "user" role`)
	}
	return nil
}

// marks visits every cache_control in the provider's order, with the path of the block that carries it. Those on the blocks
// of a result's content come before the result's own.
func (r *request) marks(visit func(path string, m *mark, b *block) bool) {
	each := func(area string, blocks []*block) bool {
		for _, b := range blocks {
			for i := range b.nested {
				if m := &b.nested[i]; !visit(area+m.path, m, b) {
					return false
				}
			}
			if m := b.mark; m != nil && !visit(area+m.path, m, b) {
				return false
			}
		}
		return true
	}
	if !each("", r.tools) || !each("", r.system) {
		return
	}
	for i, m := range r.messages {
		if !m.marked() {
			continue
		}
		if !each(fmt.Sprintf("messages.%d", i), m.blocks) {
			return
		}
	}
	if r.auto != nil {
		visit("", r.auto, nil)
	}
}

func (m *message) marked() bool {
	for _, b := range m.blocks {
		if b.mark != nil || len(b.nested) > 0 {
			return true
		}
	}
	return false
}

// checkMarks holds the law on breakpoints: their number, the order of their lifetimes, and where they may stand.
func (r *request) checkMarks() *Error {
	count, shorts := 0, 0
	var fault *Error
	r.marks(func(path string, m *mark, b *block) bool {
		count++
		if m.ttl == long && shorts > 0 && fault == nil {
			fault = refuse("%s: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "+
				"Note that blocks are processed in the following order: tools, system, messages.",
				strings.TrimPrefix(path+".cache_control.ttl", "."))
		}
		if m.ttl == short {
			shorts++
		}
		if b != nil && b.empty && fault == nil {
			fault = refuse("%s%s: cache_control cannot be set for empty text blocks", path, m.tag)
		}
		return true
	})
	if count > maxMarks {
		return refuse("A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, count)
	}
	if fault != nil {
		return fault
	}
	if _, b := r.lastMarkable(); r.auto != nil && b != nil && b.mark != nil && b.mark.ttl != r.auto.ttl {
		return refuse("cache_control: the last block already has a cache_control with a different ttl")
	}
	return nil
}

// place is where a block stands: the index of its message and its place in it.
type place struct{ msg, at int }

// Areas of a prompt in the place of a message's index.
const (
	inTools  = -2
	inSystem = -1
)

func (p place) String() string { return fmt.Sprintf("messages.%d.content.%d", p.msg, p.at) }

// lastMarkable is the block that automatic caching puts its breakpoint on, nil if there is none.
func (r *request) lastMarkable() (place, *block) {
	var where place
	var last *block
	r.each(func(b *block, at place) {
		if b.markable() {
			where, last = at, b
		}
	})
	return where, last
}

// each visits the blocks of the prompt in order. One block may stand in several places.
func (r *request) each(visit func(b *block, at place)) {
	for i, b := range r.tools {
		if !b.deferred {
			visit(b, place{inTools, i})
		}
	}
	for i, b := range r.system {
		if !b.billing {
			visit(b, place{inSystem, i})
		}
	}
	for n, m := range r.messages {
		for i, b := range m.blocks {
			visit(b, place{n, i})
		}
	}
}

// checkTexts refuses empty messages and texts; only a final assistant message may be empty.
func (r *request) checkTexts() *Error {
	for _, b := range r.system {
		if f := b.checkText("system"); f != nil {
			return f
		}
	}
	for i, m := range r.messages {
		if len(m.blocks) == 0 && (i < len(r.messages)-1 || m.role != "assistant") {
			return refuse("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for _, b := range m.blocks {
			if f := b.checkText("messages"); f != nil {
				return f
			}
		}
	}
	return nil
}

func (b *block) checkText(area string) *Error {
	switch {
	case b.empty, b.hollow:
		return refuse("%s: text content blocks must be non-empty", area)
	case b.space:
		return refuse("%s: text content blocks must contain non-whitespace text", area)
	}
	return nil
}

// checkEnd refuses a conversation that ends with an assistant message where the model does not take a prefill.
func (r *request) checkEnd() *Error {
	last := r.messages[0]
	for _, m := range r.messages {
		if m.role != "system" {
			last = m
		}
	}
	if last.role != "assistant" {
		return nil
	}
	if !r.facts.prefill {
		return refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if n := len(last.blocks); n > 0 && last.blocks[n-1].trails {
		return refuse("messages: final assistant content cannot end with trailing whitespace")
	}
	return nil
}

// call is a tool_use that waits for its result.
type call struct {
	id       string
	msg      int
	answered bool
}

// pairs walks the conversation turn by turn: neighbours of one role are one turn, and role "system" stands between turns
// without parting them.
type pairs struct {
	seen  map[string]bool // every tool_use id so far
	open  map[string]int  // id → place in calls
	calls []call          // of the last assistant turn
	role  string
	mixed bool // the user turn has a block that is no result
}

func (r *request) checkPairs() *Error {
	p := &pairs{seen: map[string]bool{}, open: map[string]int{}}
	for i, m := range r.messages {
		if m.role == "system" {
			continue
		}
		if m.role != p.role {
			if f := p.turn(m.role); f != nil {
				return f
			}
		}
		for at, b := range m.blocks {
			var f *Error
			if m.role == "assistant" {
				f = p.assistant(i, at, b)
			} else {
				f = p.user(i, at, b)
			}
			if f != nil {
				return f
			}
		}
	}
	return p.unanswered()
}

func (p *pairs) turn(role string) *Error {
	p.role, p.mixed = role, false
	if role != "assistant" {
		return nil
	}
	f := p.unanswered()
	p.calls = p.calls[:0]
	clear(p.open)
	return f
}

func (p *pairs) unanswered() *Error {
	var ids []string
	at := 0
	for _, c := range p.calls {
		if !c.answered {
			if ids == nil {
				at = c.msg
			}
			ids = append(ids, c.id)
		}
	}
	if ids == nil {
		return nil
	}
	return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", at, strings.Join(ids, ", "))
}

func (p *pairs) assistant(msg, at int, b *block) *Error {
	switch b.kind {
	case "tool_result":
		return refuse("messages.%d: `tool_result` blocks can only be in `user` messages", msg)
	case "tool_use":
		if p.seen[b.id] {
			return refuse("messages.%d.content.%d: `tool_use` ids must be unique", msg, at)
		}
		p.seen[b.id], p.open[b.id] = true, len(p.calls)
		p.calls = append(p.calls, call{id: b.id, msg: msg})
	}
	return nil
}

func (p *pairs) user(msg, at int, b *block) *Error {
	switch b.kind {
	case "tool_use":
		return refuse("messages.%d: `tool_use` blocks can only be in `assistant` messages", msg)
	case "tool_result":
	default:
		p.mixed = true
		return nil
	}
	i, known := p.open[b.id]
	switch {
	case !known:
		return refuse("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
			"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", msg, at, b.id)
	case p.calls[i].answered:
		return refuse("messages.%d.content.%d: each tool_use must have a single result. "+
			"Found multiple `tool_result` blocks with id: %s", msg, at, b.id)
	case p.mixed: // results come first: one that follows other content does not count
		return p.unanswered()
	}
	p.calls[i].answered = true
	return nil
}
