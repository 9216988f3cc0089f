package transcript

// hints are words that are looked for in one pass. A window as long as the shortest of them goes over the text; how far it may
// jump is told by the two bytes at its end, mostly over all of it (Wu and Manber, 1994).
type hints struct {
	words  []string
	window int
	jump   [hintPairs]uint8 // by hintPair: 0 where a word's window may end
}

const hintPairs = 1 << 12

func hintPair(a, b byte) int { return (int(a)<<5 ^ int(b)) % hintPairs }

// newHints takes words of two bytes or more.
func newHints(words ...string) *hints {
	h := &hints{words: words, window: len(words[0])}
	for _, w := range words {
		h.window = min(h.window, len(w))
	}
	for i := range h.jump {
		h.jump[i] = uint8(h.window - 1)
	}
	for _, w := range words {
		for end := 1; end < h.window; end++ {
			p := hintPair(w[end-1], w[end])
			h.jump[p] = min(h.jump[p], uint8(h.window-1-end))
		}
	}
	return h
}

// in reports whether one of the words stands in a text.
func (h *hints) in(text string) bool {
	for end := h.window - 1; end < len(text); {
		jump := int(h.jump[hintPair(text[end-1], text[end])])
		if jump == 0 {
			if begins(h.words, text[end+1-h.window:]) != "" {
				return true
			}
			jump = 1
		}
		end += jump
	}
	return false
}
