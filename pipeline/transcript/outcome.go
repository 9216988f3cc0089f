package transcript

import (
	"strings"

	"github.com/tidwall/gjson"
)

var outcomeNames = [...]string{"succeeded", "failed", "unknown"}

func (o Outcome) String() string { return outcomeNames[o] }

// judged is an outcome that was told already: one more than its number, 0 before that.
type judged uint8

// How much of a result is looked at to tell its outcome, from either end, as it stands: an escape takes up to six bytes.
const (
	headBytes = 640
	tailBytes = 640
)

// flagged reports whether results say in the format that their call failed, if it did.
func (f Format) flagged() bool { return f == Anthropic || f == Converse }

// ResultOutcome is what is known of the call that a result answers. In formats that flag failures, what is not known to have
// failed succeeded. In others it is unknown, unless the client's envelope or a text that it is known to write says more.
func (ix *Index) ResultOutcome(r *Result) Outcome {
	if r.IsError {
		return Failed
	}
	if r.Call < 0 || r.Ambiguous {
		return ix.judge(r, func() ToolRole { return OtherTool })
	}
	if o := ix.factsAt(r.Call).outcome; o > 0 {
		return Outcome(o - 1)
	}
	o := ix.judge(r, func() ToolRole { return ix.CallFacts(r.Call).Role })
	ix.factsAt(r.Call).outcome = judged(o) + 1
	return o
}

// judge tells the outcome of a result that is not flagged.
func (ix *Index) judge(r *Result, role func() ToolRole) Outcome {
	a := answer{head: ix.head(r), tail: ix.tail(r, tailBytes), whole: func() string { return ix.ResultText(r) }}
	o, _ := a.judge(ix.Format, role)
	return o
}

// What says an outcome, where no text does.
const (
	noFlag = "the format has an error flag, and it is not set"
	byNone = "nothing known says how it went"
)

// answer is the text of a result, as far as it is looked at.
type answer struct {
	head, tail string // no white space before or behind
	whole      func() string
}

// answerOf looks at a text that lies there as a whole.
func answerOf(text string) answer {
	return answer{
		head: strings.TrimLeft(text[:min(len(text), headBytes)], space), tail: strings.TrimRight(text[max(0, len(text)-tailBytes):], space),
		whole: func() string { return text },
	}
}

const space = " \t\r\n"

// judge tells the outcome of a call whose result is not flagged. The role is asked for only where it matters.
func (a *answer) judge(format Format, role func() ToolRole) (Outcome, string) {
	if p := a.refused(); p != "" {
		return Failed, "refused: " + p
	}
	switch code, by := a.exit(); {
	case by == "":
	case code == running:
		return Unknown, by
	case code != 0:
		return Failed, by
	default:
		return Succeeded, by
	}
	wrong := begins(errorTexts, a.head)
	if format.flagged() && (wrong == "" || !role().Changes()) { // there are clients that never set the flag
		return Succeeded, noFlag
	}
	if o, ok := a.operations(); ok {
		return o, "Cline: success of each operation"
	}
	switch r := role(); {
	case r.Changes():
		if p := done.find(a.head); p != "" {
			return Succeeded, "done: " + p
		}
	case r == Read:
		if p := shown.find(a.head); p != "" {
			return Succeeded, "shown: " + p
		}
		if numbered(a.head) {
			return Succeeded, "shown: numbered lines"
		}
		if cutBehind(a.tail) != "" {
			return Succeeded, "shown: " + cutBehind(a.tail)
		}
	case r == Shell:
		return Unknown, byNone // a program may print anything
	default:
	}
	if wrong != "" {
		return Failed, "error text: " + wrong
	}
	return Unknown, byNone
}

// operations reads the results of Cline's own tools, which are JSON: one operation, or a list, each with its success.
func (a *answer) operations() (o Outcome, ok bool) {
	if !strings.HasPrefix(a.head, `{"query":`) && !strings.HasPrefix(a.head, `[{"query":`) {
		return Unknown, false
	}
	text := a.whole()
	if !isJSON(text) {
		return Unknown, false
	}
	v := gjson.Parse(text)
	list := []gjson.Result{v}
	if v.IsArray() {
		list = v.Array()
	}
	o = Succeeded
	for _, each := range list {
		switch each.Get("success").Type {
		case gjson.True:
		case gjson.False:
			return Failed, true
		default:
			o = Unknown
		}
	}
	return o, true
}

// IsStub reports whether a client answered a re-read by a reference to what it sent before, or has put one in the place of what
// it sent. A stub is no read.
func (ix *Index) IsStub(r *Result) bool { return isStub(ix.head(r)) }

func isStub(head string) bool {
	return begins(stubs, head) != "" || strings.HasPrefix(head, "[File ") && strings.Contains(head, " unchanged since last read ")
}

// IsCut reports whether the client left out a part of what a result's call asked for, and said so. What is there does not cover
// the part that the call asked for: it takes the place of nothing, while what asked for the same and got all of it takes its.
func (ix *Index) IsCut(r *Result) bool {
	a := answer{head: ix.head(r), tail: ix.tail(r, tailBytes), whole: func() string {
		if raw := view(r.Content.Of(ix.Body)); !cutHints.in(raw) && !strings.Contains(raw, `\u00`) { // else a letter may be escaped
			return ""
		}
		return ix.ResultText(r)
	}}
	return a.cut(r.Call >= 0 && ix.CallFacts(r.Call).Range.ends()) != ""
}

// cut is the notice by which a client says that it left something out, empty without one. limited says that the call itself named
// an end, so that lines behind it are no loss.
func (a *answer) cut(limited bool) string {
	p := begins(cutHeads, a.head)
	if p == "" && !limited {
		if p = begins(rangeHeads, a.head); p == "" {
			p = cutBehind(a.tail)
		}
	}
	if p != "" {
		return p
	}
	return noticeIn(a.whole())
}

// head is the beginning of a result's text, without white space before it.
// It is worked out once.
func (ix *Index) head(r *Result) string {
	if len(ix.heads) != len(ix.Results) {
		ix.heads = make([]string, len(ix.Results))
	}
	h := &ix.heads[ix.Blocks[r.Block].Result]
	if *h == "" {
		*h = strings.TrimLeft(ix.ResultHead(r, headBytes), space)
	}
	return *h
}

// tail is the end of a result's text, of its last block if there are several: what the last n bytes stand for in the body,
// without white space behind it.
func (ix *Index) tail(r *Result, n int) string {
	s, ok := ix.textAt(r, true)
	if !ok {
		return ""
	}
	return strings.TrimRight(ending(view(ix.Body[s.Lo+1:s.Hi-1]), n), space)
}

// ResultHead is the beginning of a result's text, of its first block if there are several: what the first n bytes stand
// for in the body, where an escape takes up to six. It may alias the body, and costs no more for a long text than for a
// short one.
func (ix *Index) ResultHead(r *Result, n int) string {
	s, ok := ix.textAt(r, false)
	if !ok {
		return ""
	}
	return opening(view(ix.Body[s.Lo+1:s.Hi-1]), n)
}

// textAt is the first string literal of a result's text, or the last.
func (ix *Index) textAt(r *Result, last bool) (s Span, ok bool) {
	switch {
	case r.Form == StringForm:
		return r.Content, true
	case r.Form != TextForm && r.Form != MixedForm || r.Texts.Len() == 0:
		return s, false
	case last:
		return ix.Texts[r.Texts.Hi-1], true
	}
	return ix.Texts[r.Texts.Lo], true
}

// ending is the text of the last n bytes, or a few less, of what stands inside a valid string literal.
func ending(raw string, n int) string {
	at := max(0, len(raw)-n)
	for lo := max(0, at-5); lo < at; lo++ { // an escape that begins before and ends behind
		if raw[lo] != '\\' {
			continue
		}
		before := lo
		for before > 0 && raw[before-1] == '\\' {
			before--
		}
		if (lo-before)%2 == 1 {
			continue // it is what the one before stands for
		}
		if end := lo + escapeLen(raw[lo:]); end > at {
			at = end
			break
		}
	}
	return unquote(raw[at:])
}
