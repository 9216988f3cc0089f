package identity

import (
	"mime"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Reason says why a request is not tidemark's to read. The list is closed: it is a label of metrics.
type Reason string

// Reasons.
const (
	Ours           Reason = ""
	OtherMethod    Reason = "method"
	OtherPath      Reason = "path"
	OtherModel     Reason = "model"   // a model of a vendor whose bodies have a shape of their own
	Wrapped        Reason = "wrapped" // the body holds another body: Code Assist, Bedrock's count-tokens
	OtherType      Reason = "content_type"
	EncodedContent Reason = "content_encoding"
)

// Reasons returns every reason but Ours, in the order of the docs. The caller owns the slice.
func Reasons() []Reason {
	return []Reason{OtherPath, OtherMethod, OtherType, EncodedContent, OtherModel, Wrapped}
}

// Wire is what path and content say of a request.
type Wire struct {
	Format      transcript.Format // UnknownFormat if Reason is set
	Model       string            // from the path, decoded; empty: the body names it
	Place       cache.Place       // where the model is served, as far as the path tells; gateways that look like providers do not
	CountTokens bool              // it asks for the number of tokens, not for a turn
	Auxiliary   bool              // it shares the prefix of a conversation and is no turn of it: compaction
	// Unsure is set if the path hides whose model it is: the body is Anthropic's only if it has anthropic_version.
	Unsure bool
	Reason Reason
}

// Format says which wire format a request has, or why its body is not read. path may have a query. A request without a
// content type is read: whether its body is what it should be shows soon enough.
func Format(path, method, contentType, contentEncoding string) Wire {
	w := pathOf(path)
	_, legible := coding.Of(contentEncoding)
	switch {
	case w.Reason != Ours:
	case method != "POST":
		w.Reason = OtherMethod
	case !isJSON(contentType):
		w.Reason = OtherType
	case !legible:
		w.Reason = EncodedContent
	}
	if w.Reason != Ours {
		return Wire{Reason: w.Reason}
	}
	return w
}

func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.EqualFold(t, "application/json")
}
