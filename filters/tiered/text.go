package tiered

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// maxArguments is how many characters of a call's arguments a result keeps at tier 1.
const maxArguments = 100

// gap stands in an excerpt for what is left out.
const gap = "\n…\n"

// excerpt is the head and the tail of a text in at most n characters, a quarter of them the tail's, cut between characters.
// all reports that the text has no more than n itself.
func excerpt(text string, n int) (short string, all bool) {
	if len(text) <= n || len(text) <= n*utf8.UTFMax && utf8.RuneCountInString(text) <= n {
		return "", true
	}
	tail := n / 4
	head := n - tail - utf8.RuneCountInString(gap)
	if head <= 0 {
		return "", false
	}
	lo, hi := 0, len(text)
	for range head {
		_, size := utf8.DecodeRuneInString(text[lo:])
		lo += size
	}
	for range tail {
		_, size := utf8.DecodeLastRuneInString(text[:hi])
		hi -= size
	}
	return text[:lo] + gap + text[hi:], false
}

// facts is what tier 1 keeps of a result: tool, arguments, size, lines and outcome, in one line.
func facts(ix *transcript.Index, r *transcript.Result) string {
	c := &ix.Calls[r.Call]
	input := ix.InputText(c)
	raw := strings.ToValidUTF8(input[:min(len(input), (maxArguments+1)*utf8.UTFMax)], "")
	text := ix.ResultText(r)
	lines := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") {
		lines++
	}
	outcome := "ok"
	if ix.ResultOutcome(r) != transcript.Succeeded {
		outcome = "outcome unknown"
	}
	return ix.ToolName(c) + " " + filters.Clip(strings.Join(strings.Fields(raw), " "), maxArguments) +
		" · " + strconv.Itoa(len(text)) + " bytes · " + strconv.Itoa(lines) + " lines · " + outcome
}

// observes reports whether a result shows the state of a page. A page that was fetched by its address is a document, which a
// later one does not replace.
func observes(ix *transcript.Index, r *transcript.Result) bool {
	return r.Call >= 0 && ix.CallFacts(r.Call).Role == transcript.Browser && ix.ResultOutcome(r) != transcript.Failed &&
		!strings.Contains(strings.ToLower(ix.ToolName(&ix.Calls[r.Call])), "fetch")
}
