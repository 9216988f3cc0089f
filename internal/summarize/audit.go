package summarize

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/tidemark-dev/tidemark/pipeline/identifier"
)

// Bounds of a summary.
const (
	maxChars = 1200 // characters; 80 words were asked for
	maxLines = 12
)

// forged are marks of text that wants to be taken for something else than a summary: for markup that sets messages, calls and
// results apart, for a marker of tidemark's, or for an instruction. They are looked for in small letters, with characters that
// look like ASCII letters in other widths and styles unified.
var forged = []struct {
	reason string
	what   *regexp.Regexp
}{
	{"marker", regexp.MustCompile(`\[\s*tidemark|tokens left out of this transcript|context_restore`)},
	{"markup", regexp.MustCompile(`</?\s*(antml|system|assistant|user|human|developer|instruction|tool|function|invoke|parameter|thinking|important|admin|command|context|prompt|reminder|claude|s>)`)},
	{"markup", regexp.MustCompile(`<\||\|>|\[/?inst\]|<</?sys|\x60\x60\x60|(?m:^\s*#{1,6}\s)`)},
	{"call", regexp.MustCompile(`[{\[]\s*\\?"|"\s*:\s*["{\[]`)},
	{"turn", regexp.MustCompile(`(?m)^\W*(system|assistant|user|human|developer|tool)\s*(prompt|message|reminder|note)?\s*:`)},
	{"instruction", regexp.MustCompile(`\b(ignore|disregard|forget|override|bypass|stop following)\b.{0,60}\b(instruction|prompt|rule|guideline|message|direction|told|polic|above|previous|prior|earlier)`)},
	{"instruction", regexp.MustCompile(`\byou (must|should|shall|need|have to|are (now|to|required|an?)|will now|may now|can now)\b|\b(new|updated|real|actual|hidden|important) instructions?\b|\byour (new |real |actual )?(task|instructions?|job|goal|role|orders?) (is|are)\b`)},
	{"instruction", regexp.MustCompile(`(?m)(^|[.!?]\s+)(please\s+)?(now\s+)?(run|execute|delete|remove|install|download|send|upload|post|fetch|call|invoke|use|open|visit|write|edit|commit|push|print|reveal|reply|respond|act|pretend|do not|don't|never|always|immediately|make sure|remember to)\s`)},
}

// Audit returns why a summary of a source is refused, in a word or two that hold nothing of either; empty if it is not.
func Audit(source, summary string) (reason string) {
	switch {
	case summary == "":
		return "empty"
	case !utf8.ValidString(summary):
		return "characters"
	case utf8.RuneCountInString(summary) > maxChars || strings.Count(summary, "\n") >= maxLines:
		return "length"
	case strings.ContainsFunc(summary, strange):
		return "characters"
	}
	plain := strings.ToLower(norm.NFKC.String(summary))
	for _, f := range forged {
		if f.what.MatchString(plain) {
			return f.reason
		}
	}
	identifier.Each(summary, func(id string) {
		if !strings.Contains(source, id) {
			reason = "identifier"
		}
	})
	return reason
}

// strange reports whether a character has no place in a sentence: controls, marks that nobody sees or that turn the direction of
// writing, and what stands for undecodable bytes.
func strange(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}
