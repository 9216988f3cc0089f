package gen

import (
	"fmt"
	"strings"
)

// Kinds of text.
const (
	prose = iota
	code
	log
	unicode
	control
	kinds
)

var (
	vocabulary = strings.Fields("the parser reads a span and returns an index of what it found while every cached prefix stays " +
		"as it was sent error handler request session branch token budget config server client stream buffer offset marker window")
	// shapes are lines of code as clients number them; their escapes in JSON are about as dense as in real transcripts.
	shapes = []string{
		"%6d\tfunc (p *%[2]s) %[3]s(ctx context.Context, n int) ([]byte, error) { // %[4]d\n",
		"%6d\t    if %[2]s == nil || len(%[3]s.items) > %[4]d { continue }\n",
		"%6d\t    return nil, fmt.Errorf(\"%[2]s %[3]s %[4]d: %%w\", err)\n",
		"%6d\t// The %[2]s is read before the %[3]s, because %[4]d of them may be gone by then.\n",
	}
	foreign = []string{"Zeile", "naïve", "日本語", "файл", "שלום", "🙂", "e\u0301", "𝔘", "\u2028", "\u00a0", "a/b", "<b>&amp;"}
	rough   = []string{"\t", "\"", "\\", "\x01", "\x1f", "\r\n", "\x7f", "\\u0041", "\\\"", "\u0000", "/", "\b\f"}
)

func (r *rng) word() string { return vocabulary[r.n(len(vocabulary))] }

// text makes about n bytes of text of one kind, as the seed says.
func text(kind, n int, seed uint64) string {
	var b strings.Builder
	r := rng(seed)
	for line := 1; b.Len() < n; line++ {
		switch kind {
		case code:
			fmt.Fprintf(&b, shapes[r.n(len(shapes))], line, r.word(), r.word(), r.n(1000))
		case log:
			fmt.Fprintf(&b, "2026-11-%02dT%02d:%02d:07Z INFO %s id=%08x took=%dms\n", 1+r.n(30), r.n(24), r.n(60), r.word(),
				uint32(r.next()), r.n(5000))
		case unicode:
			b.WriteString(foreign[r.n(len(foreign))] + " ")
		case control:
			b.WriteString(r.word() + rough[r.n(len(rough))])
		default:
			b.WriteString(r.word())
			b.WriteString([]string{" ", " ", " ", " ", ", ", ".\n"}[r.n(6)])
		}
	}
	return b.String()
}

// odd are strings that no text should hold and some do.
var odd = []string{
	"", " ", "\n", "\x00", Surrogate(0xd800), Surrogate(0xdfff), Surrogate(0xd83d) + "x", Surrogate(0xde42) + Surrogate(0xd83d),
	"cache_control", `{"cache_control":{"type":"ephemeral"}}`, "x-anthropic-billing-header: cc_version=2.1.332",
	"[tidemark read again later: x]", "Exit code 1\nno",
}
