package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"math"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// block is one unit of the value sequence tools → instructions → items: a tool, the instructions, a content part or an item
// without parts.
type block struct {
	value  simkit.Digest // what the prompt cache sees
	lead   []byte        // who speaks, and whatever else its item holds
	flat   []byte        // names, strings and literals, each behind one byte: what it weighs
	texts  []string      // every string in it
	tokens int
	mark   bool // it carries a breakpoint

	cuts map[cut][]simkit.Digest // of its beginnings
}

// cut names a row of beginnings of a block: the first of them, and the step to the next, in tokens.
type cut struct{ first, step int }

// imageBytes is what an image weighs, whatever its bytes: providers bill its area.
const imageBytes = 6000

// newBlock reads one block. Its members have an order if ordered.
func (p *parser) newBlock(n *simkit.Node, lead []byte, ordered bool) *block {
	if !ordered {
		n = sorted(n)
	}
	b := &block{lead: lead, flat: flatten(nil, n)}
	b.value = simkit.Sum(n.Encode(slices.Clone(lead), false))
	b.tokens = max(1, int(math.Ceil(float64(len(b.flat))/p.charsPerToken)))
	n.Each(func(n *simkit.Node) {
		if n.Kind == 's' {
			b.texts = append(b.texts, n.Text)
		}
	})
	return b
}

// sorted returns a value whose objects have their members in alphabetical order.
func sorted(n *simkit.Node) *simkit.Node {
	if len(n.Kids) == 0 {
		return n
	}
	order := make([]int, len(n.Kids))
	for i := range order {
		order[i] = i
	}
	if n.Kind == '{' {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(n.Names[a], n.Names[b]) })
	}
	out := &simkit.Node{Kind: n.Kind}
	for _, i := range order {
		if n.Kind == '{' {
			out.Names = append(out.Names, n.Names[i])
		}
		out.Kids = append(out.Kids, sorted(n.Kids[i]))
	}
	return out
}

// flatten appends what a model reads of a value: equal beginnings of texts stay equal beginnings.
func flatten(dst []byte, n *simkit.Node) []byte {
	if kind, _ := n.Str("type"); n.Kind == '{' && (kind == "image_url" || kind == "input_image") {
		sum := simkit.Sum(n.Encode(nil, true))
		name := hex.AppendEncode(nil, sum[:])
		for range imageBytes / len(name) {
			dst = append(dst, name...)
		}
		return append(dst, name[:imageBytes%len(name)]...)
	}
	if n.Kind != '{' && n.Kind != '[' {
		return append(append(dst, n.Kind), n.Text...)
	}
	for i, kid := range n.Kids {
		if n.Kind == '{' {
			dst = append(append(dst, ':'), n.Names[i]...)
		}
		dst = flatten(dst, kid)
	}
	return dst
}

// beginnings returns the digests of the beginnings of a block that are first, first+step, … tokens long and shorter than it.
func (b *block) beginnings(first, step int, charsPerToken float64) []simkit.Digest {
	key := cut{first, step}
	if list, ok := b.cuts[key]; ok || first >= b.tokens {
		return list
	}
	var list []simkit.Digest
	h, done := sha256.New(), 0
	_, _ = h.Write(append([]byte("beginning "), b.lead...)) // a hash takes everything
	for n := first; n < b.tokens; n += step {
		end := min(int(float64(n)*charsPerToken), len(b.flat))
		_, _ = h.Write(b.flat[done:end])
		done = end
		list = append(list, current(h))
	}
	if b.cuts == nil {
		b.cuts = map[cut][]simkit.Digest{}
	}
	b.cuts[key] = list
	return list
}

// current is the digest of what was written so far.
func current(h hash.Hash) simkit.Digest {
	sum := h.Sum(nil)
	return simkit.Digest(sum[:len(simkit.Digest{})])
}
