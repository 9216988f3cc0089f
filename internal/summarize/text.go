package summarize

import (
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// gap stands for what is left out of the middle of a text.
const gap = "\n[…]\n"

// fit cuts a text to so many estimated tokens: three quarters of what is left are its head, the rest its tail.
func fit(text string, tokens int) (short string, cut bool) {
	short = text
	for {
		est := transcript.Est(short)
		if est <= tokens || len(short) <= len(gap) {
			return short, len(short) < len(text)
		}
		n := min(len(short)-1, len(short)*tokens/est*19/20) // the estimate is not even over a text
		short = ends(text, n)
	}
}

// ends is head and tail of a text in at most n bytes, cut between characters; the text itself if it has no more.
func ends(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n = max(0, n-len(gap))
	head, tail := n-n/4, len(text)-n/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}
