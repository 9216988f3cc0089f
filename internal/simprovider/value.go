package simprovider

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

type (
	node   = simkit.Node
	digest = simkit.Digest
)

// imageChars is what an image weighs, whatever its bytes: providers bill its area.
const imageChars = 6000

// bare returns the block without cache_control, those on the blocks of its content included.
func bare(n *node) *node {
	out := n.Without("cache_control")
	content := out.Get("content")
	if content == nil || content.Kind != '[' {
		return out
	}
	inner := &node{Kind: '['}
	for _, kid := range content.Kids {
		inner.Kids = append(inner.Kids, kid.Without("cache_control"))
	}
	out = &node{Kind: '{', Names: out.Names, Kids: slices.Clone(out.Kids)}
	out.Put("content", inner)
	return out
}

func textNode(text string) *node { return simkit.TextNode("text", text) }

// chars counts the characters of all names, strings and literals in the value.
func chars(n *node) int {
	if n.Kind == '{' {
		if kind, _ := n.Str("type"); kind == "image" {
			return imageChars
		}
	}
	total := utf8.RuneCountInString(n.Text)
	for _, name := range n.Names {
		total += utf8.RuneCountInString(name)
	}
	for _, kid := range n.Kids {
		total += chars(kid)
	}
	return total
}

// tokens is the simulator's measure of a block, at least 1.
func (s *Sim) tokens(chars int) int {
	return max(1, int(math.Ceil(float64(chars)/s.opts.CharsPerToken)))
}
