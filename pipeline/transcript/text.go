package transcript

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// unquote returns the text inside a valid string literal. Without escapes it is raw itself. A lone surrogate becomes
// U+FFFD: the text is for looking at; what is forwarded or hashed is always the raw span.
func unquote(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return view(appendUnquoted(make([]byte, 0, len(raw)), raw))
}

// appendUnquoted appends the text inside a valid string literal.
func appendUnquoted(out []byte, raw string) []byte {
	for {
		i := strings.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:i]...)
		out, raw = unescape(out, raw[i:])
	}
}

// opening is the text of the first n bytes, or a few less, of what stands inside a valid string literal.
func opening(raw string, n int) string {
	if len(raw) > n {
		end := 0
		for end < n {
			i := strings.IndexByte(raw[end:n], '\\')
			if i < 0 {
				end = n
				break
			}
			esc := escapeLen(raw[end+i:])
			if end += i; end+esc > n {
				break
			}
			end += esc
		}
		raw = raw[:end]
	}
	return unquote(raw)
}

var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends what the escape at the start of raw stands for and returns the rest.
func unescape(out []byte, raw string) (text []byte, rest string) {
	if raw[1] != 'u' {
		return append(out, simple[raw[1]]), raw[2:]
	}
	r := hexRune(raw)
	if utf16.IsSurrogate(r) {
		if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			if pair := utf16.DecodeRune(r, hexRune(raw[6:])); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), raw[12:]
			}
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(out, r), raw[6:]
}

func hexRune(raw string) rune {
	n, err := strconv.ParseUint(raw[2:6], 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// short are the control characters that have an escape of two bytes.
var short = [' ']byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends text as a JSON string literal: nothing is escaped that JSON does not demand, and bytes that are no
// UTF-8 become U+FFFD.
func AppendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' && short[r] != 0:
			dst = append(dst, '\\', short[r])
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// ResultText is the text of a result: its string, or its text blocks joined by line feeds. It may alias the body. It is worked out
// once.
func (ix *Index) ResultText(r *Result) string {
	n := ix.Blocks[r.Block].Result
	if text, ok := ix.texts[n]; ok {
		return text
	}
	text := ix.resultText(r)
	if ix.texts == nil {
		ix.texts = map[int32]string{}
	}
	ix.texts[n] = text
	return text
}

func (ix *Index) resultText(r *Result) string {
	switch r.Form {
	case NoContent, StrangeForm:
	case StringForm:
		return ix.str(r.Content)
	case TextForm, MixedForm:
		parts := ix.Texts[r.Texts.Lo:r.Texts.Hi]
		if len(parts) == 1 {
			return ix.str(parts[0])
		}
		words := make([]string, len(parts))
		for i, p := range parts {
			words[i] = ix.str(p)
		}
		return strings.Join(words, "\n")
	}
	return ""
}

// ResultTokens is Est of a result's text. It is worked out once.
func (ix *Index) ResultTokens(result int32) int {
	for len(ix.tokens) < len(ix.Results) {
		ix.tokens = append(ix.tokens, -1)
	}
	if ix.tokens[result] < 0 {
		ix.tokens[result] = int32(ix.estResult(&ix.Results[result]))
	}
	return int(ix.tokens[result])
}

// estResult is Est of ResultText. The text is not copied to find it.
func (ix *Index) estResult(r *Result) int {
	var e estimate
	switch r.Form {
	case NoContent, StrangeForm:
	case StringForm:
		e.addRaw(view(ix.Body[r.Content.Lo+1 : r.Content.Hi-1]))
	case TextForm, MixedForm:
		for i, p := range ix.Texts[r.Texts.Lo:r.Texts.Hi] {
			if i > 0 {
				e.add("\n")
			}
			e.addRaw(view(ix.Body[p.Lo+1 : p.Hi-1]))
		}
	}
	return e.tokens()
}

// bytesPerToken is more than a token of ordinary text has, escapes included.
const bytesPerToken = 12

// Reaches reports whether Est of a result's text is at least n. It looks at the beginning alone where that is enough.
func (ix *Index) Reaches(r *Result, n int) bool {
	if ix.ResultSize(r) < n { // no token is under a byte
		return false
	}
	if first, ok := ix.textAt(r, false); ok {
		raw := view(ix.Body[first.Lo+1 : first.Hi-1])
		for _, bytes := range [...]int{n * bytesPerToken / 2, n * bytesPerToken} { // half of it is mostly enough
			if len(raw) > bytes && Est(opening(raw, bytes)) >= n {
				return true
			}
		}
	}
	return ix.ResultTokens(ix.Blocks[r.Block].Result) >= n
}

// Longer reports whether ResultText has more than n bytes. No text is copied to find it, but where its size is close.
func (ix *Index) Longer(r *Result, n int) bool {
	return ix.ResultSize(r)-1 > n*MaxEscape || len(ix.ResultText(r)) > n
}

// MaxEscape is how many bytes of a literal stand for one byte of text at most: \u and four digits.
const MaxEscape = 6

// ResultSize is the length of ResultText in bytes of UTF-8, at most; no text is copied to find it.
func (ix *Index) ResultSize(r *Result) int {
	if r.Form == StringForm {
		return r.Content.Len() - 2
	}
	n := 0
	for _, p := range ix.Texts[r.Texts.Lo:r.Texts.Hi] {
		n += p.Len() - 1
	}
	return n
}

// Replacement is the JSON value that stands for a result's content when its text becomes text: a string for a string, a
// list of one text block for a list.
func (ix *Index) Replacement(r *Result, text string) []byte {
	if r.Form == StringForm {
		return AppendQuoted(make([]byte, 0, len(text)+16), text)
	}
	open, end := ix.Format.TextBlock()
	out := append(append(make([]byte, 0, len(text)+48), '['), open...)
	return append(append(AppendQuoted(out, text), end...), ']')
}

// IsReplacement reports whether a JSON value is what Replacement makes for the result of a text that is not empty.
func (ix *Index) IsReplacement(r *Result, value []byte) bool {
	switch r.Form {
	case StringForm:
	case TextForm:
		var opens, closes bool
		open, end := ix.Format.TextBlock()
		value, opens = bytes.CutPrefix(value, []byte("["+open))
		value, closes = bytes.CutSuffix(value, []byte(end+"]"))
		if !opens || !closes {
			return false
		}
	default:
		return false
	}
	return IsText(value)
}

// IsText reports whether a JSON value is a string that is not empty.
func IsText(value []byte) bool {
	return len(value) > 2 && value[0] == '"' && value[len(value)-1] == '"' && gjson.ValidBytes(value)
}

// TextBlock is what stands before and behind the string literal of a text block that the user or a tool says.
func (f Format) TextBlock() (open, end string) {
	switch f {
	case Responses:
		return `{"type":"input_text","text":`, "}"
	case Converse, Gemini:
		return `{"text":`, "}"
	default:
		return `{"type":"text","text":`, "}"
	}
}
