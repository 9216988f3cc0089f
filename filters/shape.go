package filters

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Limits of what a marker tells of a result's text.
const (
	maxPeek    = 96 // characters
	maxFields  = 12
	maxRecords = 32  // records whose fields are listed
	maxShape   = 200 // bytes of field names
	maxDepth   = 64  // of JSON
)

// shape says what the text of a result is like: records and fields of JSON; of another text that stands alone, how it
// begins. It is empty for one that has nothing to show.
func shape(ix *transcript.Index, r *transcript.Result, alone bool) string {
	head := strings.TrimSpace(ix.ResultHead(r, maxPeek*utf8.UTFMax*transcript.MaxEscape))
	if head != "" && (head[0] == '{' || head[0] == '[') {
		if s := jsonShape(ix.ResultText(r)); s != "" {
			return s
		}
	}
	if !alone || head == "" {
		return ""
	}
	peek := strings.ReplaceAll(strings.Join(strings.Fields(head), " "), `"`, "'")
	short := Clip(peek, maxPeek)
	return `, starting "` + clean(short, len(short)) + `"`
}

// jsonShape is the shape of a JSON array or object, empty for any other text and for one without fields or records.
func jsonShape(text string) string {
	if !shallow(text) || !gjson.Valid(text) {
		return ""
	}
	v := gjson.Parse(text)
	var names []string
	more := false
	add := func(key, _ gjson.Result) bool {
		name := clean(key.String(), maxName)
		switch {
		case slices.Contains(names, name):
		case len(names) == maxFields:
			more = true
		default:
			names = append(names, name)
		}
		return !more
	}
	said := ", JSON"
	if v.IsArray() {
		n := 0
		v.ForEach(func(_, record gjson.Result) bool {
			if n++; n <= maxRecords && record.IsObject() {
				record.ForEach(add)
			}
			return true
		})
		said += ", " + strconv.Itoa(n) + " records"
		if n == 1 {
			said = strings.TrimSuffix(said, "s")
		}
	} else if v.ForEach(add); len(names) == 0 {
		return ""
	}
	if len(names) == 0 {
		return said
	}
	list := strings.Join(names, ", ")
	if more {
		list += ", …"
	}
	return said + " with " + clean(list, maxShape)
}

// shallow reports whether brackets nest no deeper than the body's own may, so that text made to hurt is not read as JSON.
func shallow(text string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}

// Clip returns s if it has no more than n characters, else its beginning with … in n characters.
func Clip(s string, n int) string {
	end, seen := 0, 0
	for i := range s {
		if seen == n-1 {
			end = i
		}
		if seen++; seen > n {
			return s[:end] + "…"
		}
	}
	return s
}
