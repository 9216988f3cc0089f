package gemini

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// part is one unit of a prompt: a tool, a part of the system instruction or of a content.
type part struct {
	value  simkit.Digest // what the cache sees
	tokens int
	texts  []string // every string in it

	kind      string // the member that holds its data, empty without any
	text      string
	thought   bool
	name      string // of a function
	signature string
	bare      simkit.Digest // the part without its signature
}

// dataKinds are the members of a part that hold its data; one of them is set.
var dataKinds = []string{
	"text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
}

// partNames are all members of a part.
var partNames = append([]string{"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}, dataKinds...)

// blobTokens is what an image weighs, whatever its bytes.
const blobTokens = 258

// weigh makes a part of a value that has no further meaning here.
func (p *parser) weigh(n *node, lead []byte) *part {
	x := &part{value: simkit.Sum(n.Encode(simkit.AppendText(nil, string(lead)), true))}
	chars, blobs := 0, 0
	count(n, &chars, &blobs)
	x.tokens = max(1, blobs*blobTokens+int(math.Ceil(float64(chars)/p.charsPerToken)))
	n.Each(func(n *node) {
		if n.Kind == 's' {
			x.texts = append(x.texts, n.Text)
		}
	})
	return x
}

// count counts the characters of names, strings and literals, and blobs, which have a weight of their own.
func count(n *node, chars, blobs *int) {
	if n.Kind == '{' && n.Get("mimeType") != nil && (n.Get("data") != nil || n.Get("fileUri") != nil) {
		*blobs++
		return
	}
	*chars += utf8.RuneCountInString(n.Text)
	for _, name := range n.Names {
		*chars += utf8.RuneCountInString(name)
	}
	for _, kid := range n.Kids {
		count(kid, chars, blobs)
	}
}

// newPart reads a part; lead is who says it.
func (p *parser) newPart(raw *node, lead []byte) (*part, flaw) {
	n, f := fields(raw, "Part", partNames...)
	if f != nil {
		return nil, f
	}
	kind := ""
	for i, name := range n.Names {
		if !slices.Contains(dataKinds, name) {
			continue
		}
		if kind != "" {
			return nil, func(path string) *Error {
				return refuse("Invalid value at '%s' (oneof), oneof field 'data' is already set. Cannot set '%s'", path, name)
			}
		}
		kind = name
		value, f := data(name, n.Kids[i])
		if f != nil {
			return nil, within(f, "."+snake(name))
		}
		n.Kids[i] = value
	}
	for _, f := range []flaw{
		wants(n, "text", 's', aString), wants(n, "thought", 'l', aBool), wants(n, "thoughtSignature", 's', "TYPE_BYTES"), signed(n),
	} {
		if f != nil {
			return nil, f
		}
	}
	x := p.weigh(n, lead)
	x.kind = kind
	x.text, _ = n.Str("text")
	x.thought = n.Get("thought").Is("true")
	x.signature, _ = n.Str("thoughtSignature")
	x.bare = simkit.Sum(n.Without("thoughtSignature").Encode(nil, true))
	if value := n.Get(kind); value != nil {
		x.name, _ = value.Str("name")
	}
	return x, nil
}

// signed refuses a signature that is no base64, of either alphabet.
func signed(n *node) flaw {
	text, ok := n.Str("thoughtSignature")
	if !ok {
		return nil
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	if _, err := base64.RawStdEncoding.DecodeString(plain); err == nil {
		return nil
	}
	return func(path string) *Error {
		e := refuse("Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed for \"%s\"", path, text)
		e.Field, e.Detailed = path+".thought_signature", true
		return e
	}
}

// data reads the member of a part that holds its data.
func data(kind string, n *node) (*node, flaw) {
	switch kind {
	case "functionCall":
		out, f := fields(n, "FunctionCall", "id", "name", "args", "partialArgs", "willContinue")
		if f != nil {
			return nil, f
		}
		return out, sooner(wants(out, "name", 's', aString), wants(out, "id", 's', aString), wants(out, "args", '{', aStruct))
	case "functionResponse":
		out, f := fields(n, "FunctionResponse", "id", "name", "response", "parts", "scheduling", "willContinue")
		if f != nil {
			return nil, f
		}
		if f := sooner(wants(out, "name", 's', aString), wants(out, "id", 's', aString), wants(out, "response", '{', aStruct)); f != nil {
			return nil, f
		}
		return blobs(out)
	case "inlineData":
		return fields(n, "Blob", "mimeType", "data", "displayName")
	case "fileData":
		return fields(n, "FileData", "mimeType", "fileUri", "displayName")
	}
	return n, nil
}

// blobs reads the parts of a function response.
func blobs(n *node) (*node, flaw) {
	list := elements(n.Get("parts"))
	if len(list) == 0 {
		return n, nil
	}
	out := &node{Kind: '['}
	for i, kid := range list {
		at := indexed(".parts", i)
		x, f := fields(kid, "FunctionResponsePart", "inlineData", "fileData")
		if f != nil {
			return nil, within(f, at)
		}
		for j, name := range x.Names {
			value, f := data(name, x.Kids[j])
			if f != nil {
				return nil, within(f, at+"."+snake(name))
			}
			x.Kids[j] = value
		}
		out.Kids = append(out.Kids, x)
	}
	n.Put("parts", out)
	return n, nil
}

// sooner is the first of the flaws that is one.
func sooner(list ...flaw) flaw {
	for _, f := range list {
		if f != nil {
			return f
		}
	}
	return nil
}
