package identity

import (
	"mime"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Reason says why a request is not tidemark's to read. The list is closed: it is a label of metrics.
type Reason string

// Reasons.
const (
	Ours           Reason = ""
	OtherMethod    Reason = "method"
	OtherPath      Reason = "path"
	OtherType      Reason = "content_type"
	EncodedContent Reason = "content_encoding"
)

// Ends of paths.
const (
	messagesPath    = "/v1/messages"
	countTokensPath = messagesPath + "/count_tokens"
)

// Wire is what path and content say of a request.
type Wire struct {
	Format      transcript.Format // UnknownFormat if Reason is set
	CountTokens bool              // it asks for the number of tokens, not for a turn
	Reason      Reason
}

// Format says which wire format a request has, or why its body is not read. path may have a query. A request without a
// content type is read: whether its body is what it should be shows soon enough.
func Format(path, method, contentType, contentEncoding string) Wire {
	path, _, _ = strings.Cut(path, "?")
	count := strings.HasSuffix(path, countTokensPath)
	switch {
	case !count && !strings.HasSuffix(path, messagesPath):
		return Wire{Reason: OtherPath}
	case method != "POST":
		return Wire{Reason: OtherMethod}
	case !isJSON(contentType):
		return Wire{Reason: OtherType}
	case contentEncoding != "" && !strings.EqualFold(contentEncoding, "identity"):
		return Wire{Reason: EncodedContent}
	}
	return Wire{Format: transcript.Anthropic, CountTokens: count}
}

func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}
