package filters

import (
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Transcript stands in a proposal in the place of a result: the proposal is about the transcript as a whole.
const Transcript int32 = -1

// Cut is a span of whole exchanges that is left out of the transcript.
type Cut struct {
	// Head is the last message before the span, which the stub is added to, and Next the first one behind it that stays for sure.
	// Next opens an exchange and makes a call, so that it is like no other message.
	Head, Next int32
	// KeepHuman keeps what humans said in the span, with what they answered.
	KeepHuman bool
}

// Stub is the text that stands for a span:
//
//	[tidemark <verb>: <n> exchanges with <n> tool results · <n> tokens left out of this transcript · id <24 hex>] <how to get it back>
//	<extra>
//
// Where a span grows, each part has its own line: earlier ones are never changed. gone says which messages go now.
func (p *Proposal) Stub(ix *transcript.Index, gone []bool, tokens int, back Back) string {
	var b strings.Builder
	b.WriteString("[tidemark " + p.Verb + ": " + Spanned(ix, gone))
	b.WriteString(leftOut(tokens, back) + back.how())
	if p.Extra != "" {
		b.WriteString("\n" + p.Extra)
	}
	return b.String()
}

// Spanned counts the exchanges and results of a span.
func Spanned(ix *transcript.Index, gone []bool) string {
	exchanges, results := 0, 0
	for m := range ix.Messages {
		if gone[m] && ix.Messages[m].Role == transcript.Assistant && (m == 0 || ix.Messages[m-1].Role != transcript.Assistant) {
			exchanges++
		}
	}
	for i := range ix.Results {
		if gone[ix.Results[i].Msg] {
			results++
		}
	}
	text := count(exchanges, "exchange")
	if results > 0 {
		text += " with " + count(results, "tool result")
	}
	return text
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
