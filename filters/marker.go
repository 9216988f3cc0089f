package filters

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// MarkerMode says what becomes of the original.
type MarkerMode string

// Marker modes.
const (
	Full    MarkerMode = "full"    // kept, restorable by the marker's id
	Summary MarkerMode = "summary" // marker without id: lossy, and declared so
	Meter   MarkerMode = "off"     // nothing is replaced, the gate meter_only counts what would have been
)

// Hint says how the content can be had again without tidemark.
type Hint uint8

// Hints.
const (
	NoHint Hint = iota
	ReRead      // read the file again
	ReRun       // run the tool again
)

// Limits of what a marker tells of a call.
const (
	maxPath = 200
	maxName = 64
)

// Marker is the text that stands for a result:
//
//	[tidemark <verb>: <what> · <n> tokens left out of this transcript · id <24 hex>] <how to get it back>
//	<extra>
//
// It tells facts only: that the transcript was shortened, not that the content is no longer needed. A marker in a
// client's body is just text and exempts nothing.
func Marker(ix *transcript.Index, p *Proposal, tokens int, id string) string {
	r := &ix.Results[p.Result]
	var b strings.Builder
	b.WriteString("[tidemark " + p.Verb + ": " + what(ix, r, p.Extra == ""))
	b.WriteString(" · " + strconv.Itoa(transcript.Round2(tokens)) + " tokens left out of this transcript")
	if id != "" {
		b.WriteString(" · id " + id)
	}
	b.WriteByte(']')
	switch p.Hint {
	case ReRead:
		b.WriteString(" The file itself is unchanged by this; read it again if its content is needed.")
	case ReRun:
		b.WriteString(" Run the tool again if its output is needed.")
	case NoHint:
	}
	if p.Extra != "" {
		b.WriteString("\n" + p.Extra)
	}
	return b.String()
}

// what names tool, path and range of the call. Of a call that names no file it says what the result was like.
func what(ix *transcript.Index, r *transcript.Result, alone bool) string {
	c := &ix.Calls[r.Call]
	f := ix.CallFacts(r.Call)
	text := clean(ix.ToolName(c), maxName)
	path, rng := f.Path, f.Range.String()
	if path == "" && len(f.Shell) == 1 {
		path, rng = f.Shell[0].Path, f.Shell[0].Range.From // the command itself says which part
	}
	if path != "" {
		text += " of " + clean(path, maxPath)
	}
	if rng = plain.Replace(rng); rng != "" {
		text += " (" + clean(rng, maxName) + ")"
	}
	if path == "" {
		text += shape(ix, r, alone)
	}
	return text
}

// plain takes the brackets and quotes off ranges that clients send as lists.
var plain = strings.NewReplacer("[", "", "]", "", `"`, "")

// clean makes foreign text fit for a marker: one line, no brackets, at most n bytes.
func clean(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '[' || r == ']':
			return '_'
		case !unicode.IsPrint(r):
			return '_'
		}
		return r
	}, s)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}
