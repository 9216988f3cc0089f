package filters

import (
	"regexp"
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

// Back is how a model gets an original back: by an id, and by the tool that takes it. The id is empty where the original is not
// kept, the tool where the request has none.
type Back struct{ ID, Tool string }

// Marker is the text that stands for a result:
//
//	[tidemark <verb>: <what> · <n> tokens left out of this transcript · id <24 hex>] <how to get it back>
//	<extra>
//
// It tells facts only: that the transcript was shortened, not that the content is no longer needed. Of the ways to get it back
// those are named that there are. In a client's body it is text like any other, but that a result which is one, as a whole, is not
// shortened again: see [IsMarker].
func Marker(ix *transcript.Index, p *Proposal, tokens int, back Back) string {
	r := &ix.Results[p.Result]
	var b strings.Builder
	b.WriteString("[tidemark " + p.Verb + ": " + what(ix, r, p.Extra == ""))
	b.WriteString(leftOut(tokens, back))
	switch p.Hint {
	case ReRead:
		b.WriteString(" The file itself is unchanged by this; read it again if its content is needed.")
	case ReRun:
		b.WriteString(" Run the tool again if its output is needed.")
	case NoHint:
	}
	b.WriteString(back.how())
	if p.Extra != "" {
		b.WriteString("\n" + p.Extra)
	}
	return b.String()
}

// leftOut ends the first sentence of a marker.
func leftOut(tokens int, back Back) string {
	text := " · " + strconv.Itoa(transcript.Round2(tokens)) + " tokens" + leftOutWords
	if back.ID != "" {
		text += " · id " + back.ID
	}
	return text + "]"
}

const leftOutWords = " left out of this transcript"

// how says how the tool gives the original back, empty without one.
func (b Back) how() string {
	if b.ID == "" || b.Tool == "" {
		return ""
	}
	return " " + b.Tool + " gives it back by this id, as it was."
}

// maxMarked is the size of the largest result that may count as a marker, in bytes: markers hold an excerpt or a summary at most.
const maxMarked = 4096

var marker = regexp.MustCompile(`^\[tidemark [a-z ]+: [^\[\]\n]* · \d+ tokens` + leftOutWords + `(?: · id [0-9a-f]{24})?\]`)

// IsMarker reports whether the text of a result is a marker as a whole: a client sends back what it was told to keep. What an
// output says further down, or a user or the model says anywhere, is none.
func IsMarker(ix *transcript.Index, r *transcript.Result) bool {
	return ix.ResultSize(r) <= maxMarked && marker.MatchString(ix.ResultHead(r, maxMarked))
}

// About says what a result was, in the words of its marker, without quoting it: operators see it, who may not read content, and so
// does whoever asks what else there is of what is sealed.
func About(ix *transcript.Index, r *transcript.Result) string { return what(ix, r, false) }

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
