package openai

import "github.com/tidemark-dev/tidemark/internal/simprovider/simkit"

// prompt is the value sequence that the model is given: settings → tools → instructions → items.
type prompt struct {
	blocks []*block
	prefix []simkit.Digest // of the prompt through each block
	size   []int           // tokens of the prompt through each block

	steps []simkit.Digest // of the prompt's beginnings in steps of the model, the shortest first
	whole []int           // how many blocks each of them holds as a whole
	marks []int           // blocks with a breakpoint, in order
	ends  []int           // last blocks of the messages where an implicit breakpoint may stand, in order
	head  int             // last block of the developer's initial words, -1 without any
}

func (p *prompt) total() int {
	if len(p.size) == 0 {
		return 0
	}
	return p.size[len(p.size)-1]
}

// prompt returns what the model is given for a request.
func (s *Sim) prompt(r *request) *prompt {
	n := len(r.tools) + 1
	for _, it := range r.items {
		n += len(it.blocks)
	}
	p := &prompt{blocks: make([]*block, 0, n), prefix: make([]simkit.Digest, 0, n), size: make([]int, 0, n), head: -1}
	chain := simkit.Sum(simkit.AppendText(simkit.AppendText(nil, r.model), string(r.settings)))
	add := func(b *block) {
		chain = p.add(b, chain, r.facts.step, s.opts.CharsPerToken)
	}
	for _, b := range r.tools {
		add(b)
	}
	if r.instructions != nil {
		add(r.instructions)
		p.head = len(p.blocks) - 1
	}
	for i, it := range r.items {
		for _, b := range it.blocks {
			add(b)
		}
		if len(it.blocks) == 0 || !r.eligible(i) {
			continue
		}
		if r.initial(i) { // the group of developer messages has one end
			p.ends, p.head = p.ends[:0], len(p.blocks)-1
		}
		p.ends = append(p.ends, len(p.blocks)-1)
	}
	return p
}

// add appends a block and returns the digest of the prompt through it.
func (p *prompt) add(b *block, chain simkit.Digest, step int, charsPerToken float64) simkit.Digest {
	start, after := p.total(), chain.Step(b.value)
	if step > 0 {
		for _, d := range b.beginnings(step-start%step, step, charsPerToken) {
			p.steps, p.whole = append(p.steps, chain.Step(d)), append(p.whole, len(p.blocks))
		}
		if (start+b.tokens)%step == 0 {
			p.steps, p.whole = append(p.steps, after), append(p.whole, len(p.blocks)+1)
		}
	}
	if b.mark {
		p.marks = append(p.marks, len(p.blocks))
	}
	p.blocks = append(p.blocks, b)
	p.prefix = append(p.prefix, after)
	p.size = append(p.size, start+b.tokens)
	return after
}

// initial reports whether the item at i belongs to the messages of the developer that the conversation begins with.
func (r *request) initial(i int) bool {
	for _, it := range r.items[:i+1] {
		if it.role != "system" && it.role != "developer" {
			return false
		}
	}
	return true
}

// eligible reports whether an implicit breakpoint may stand behind the item at i: a message of the user, the last output of a
// run of tool outputs, or a message of the initial ones of the developer.
func (r *request) eligible(i int) bool {
	it := r.items[i]
	switch it.role {
	case "user":
		return true
	case "system", "developer":
		return r.initial(i)
	}
	return it.isOutput() && (i == len(r.items)-1 || !r.items[i+1].isOutput())
}

func (it *item) isOutput() bool {
	return it.role == "tool" || it.role == "function" || answers(it.kind)
}
