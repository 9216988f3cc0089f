package summarize

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of a summary.
const (
	maxChars = 1200 // characters; 80 words were asked for
	maxLines = 12
)

// Words of [forged].
const (
	roles  = `(system|assistant|user|human|developer|tool)`
	colons = "[:\u02f8\u0589\u05c3\u205a\u2236\u2982\ua789]"
	orders = `(run|execute|delete|remove|install|download|send|upload|post|fetch|call|invoke|use|open|visit|write|edit|commit|push|print|reveal|reply|respond|act|pretend|curl|do not|don't|never|always|immediately|make sure|remember to)\s`
	urging = `(please|kindly|now|so|then|just|next|therefore|instead)\s+`
	things = `(the|this|that|these|those|all|any|every|everything|a|an|it|them|your|my|its|now|immediately)\b`
)

// forged are marks of text that wants to be taken for something else than a summary: for markup that sets messages, calls and
// results apart, for a marker of tidemark's, or for an instruction. They are looked for in small letters without accents, with
// characters that look like ASCII letters in other widths and styles unified, and HTML's escapes resolved.
//
// Errors of systems begin like orders ("open /a: no such file"), so that behind a colon or a comma an order is one if it says
// what to do it to, or urges.
var forged = []struct {
	reason string
	what   *regexp.Regexp
}{
	{"marker", regexp.MustCompile(`\[\s*tidemark|tokens left out of this transcript|context_restore`)},
	{"markup", regexp.MustCompile(`</?\s*(antml|system|assistant|user|human|developer|instruction|tool|function|invoke|parameter|thinking|important|admin|command|context|prompt|reminder|claude|s>)`)},
	{"markup", regexp.MustCompile(`<\||\|>|\[/?inst\]|<</?sys|\x60\x60\x60|~~~|\]\(|(?m:^\s*#{1,6}\s)`)},
	{"call", regexp.MustCompile(`[{\[]\s*\\?"|"\s*:\s*["{\[]|\{\s*\\?'|'\s*:\s*['"{\[]`)},
	{"turn", regexp.MustCompile(`(?m)(^|[.!?;:]['")]*\s|。)\W*` + roles + `\s*(prompt|message|reminder|note)?[\s*_]*` + colons)},
	{"instruction", regexp.MustCompile(`\b(ignore|disregard|forget|override|bypass|stop following)\b.{0,60}\b(instruction|prompt|rule|guideline|message|direction|told|polic|above|previous|prior|earlier)`)},
	{"instruction", regexp.MustCompile(`\byou (must|should|shall|need|have to|are (now|to|required|an?)|will now|may now|can now)\b|\b(new|updated|real|actual|hidden|important) instructions?\b|\byour (new |real |actual )?(task|instructions?|job|goal|role|orders?) (is|are)\b`)},
	{"instruction", regexp.MustCompile(`\bthe (agent|assistant|ai|reader) (now |then |also )?(must|should|shall|needs to|has to|is to|ought)\b`)},
	{"instruction", regexp.MustCompile(`(?m)(^|[.!?;]['")]*\s+|。\s*)(` + urging + `)*` + orders)},
	{"instruction", regexp.MustCompile(`[:,–—]\s+((and|or|but)\s+)?((` + urging + `)+` + orders + `|` + orders + `\s*` + things + `)`)},
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
	case strings.ContainsFunc(summary, strange) || imitates(source, summary):
		return "characters"
	}
	said := plain(summary)
	for _, f := range forged {
		if f.what.MatchString(said) {
			return f.reason
		}
	}
	const name = "tidemark"
	if strings.Contains(said, name) && !strings.Contains(strings.ToLower(source), name) {
		return "marker"
	}
	if alien(source, summary) {
		return "identifier"
	}
	return ""
}

// plain is a text as [forged] reads it.
func plain(text string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(html.UnescapeString(text))))
}

// unseen are letters and signs that are drawn as nothing, and selectors of variants.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{{0x115f, 0x1160, 1}, {0x2800, 0x2800, 1}, {0x3164, 0x3164, 1}, {0xfe00, 0xfe0f, 1}, {0xffa0, 0xffa0, 1}},
	R32: []unicode.Range32{{0xe0100, 0xe01ef, 1}},
}

// strange reports whether a character has no place in a sentence: controls, marks that nobody sees or that turn the direction of
// writing, and what stands for undecodable bytes.
func strange(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unseen)
}
