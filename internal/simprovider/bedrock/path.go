package bedrock

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// api is one of Bedrock's interfaces.
type api string

// The interfaces.
const (
	invoke   api = "invoke"
	converse api = "converse"
)

// endpoint is what a path says.
type endpoint struct {
	api    api
	stream bool
	id     string // of the model or inference profile
	name   string // what Anthropic calls the model, empty if it is none of theirs
}

// operations are the ends of paths.
var operations = map[string]endpoint{
	"invoke":                      {api: invoke},
	"invoke-with-response-stream": {api: invoke, stream: true},
	"converse":                    {api: converse},
	"converse-stream":             {api: converse, stream: true},
}

// endpointOf reads a path, escaped or not.
func endpointOf(path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, "/model/")
	at := strings.LastIndexByte(rest, '/')
	if !ok || at < 0 {
		return endpoint{}, false
	}
	e, ok := operations[rest[at+1:]]
	if !ok {
		return endpoint{}, false
	}
	id, err := url.PathUnescape(rest[:at])
	if err != nil || id == "" {
		return endpoint{}, false
	}
	e.id, e.name = id, anthropicName(id)
	return e, true
}

// identifier is the end of a model's id, or of the ARN of a model or an inference profile.
var identifier = regexp.MustCompile(`(?:^|[./])anthropic\.(claude-[a-z0-9-]+?)(?:-v\d+)?(?::\d+[a-z0-9:]*)?$`)

// anthropicName returns what Anthropic calls a model, empty for models of others.
func anthropicName(id string) string {
	m := identifier.FindStringSubmatch(id)
	if m == nil {
		return ""
	}
	return m[1]
}

// scope is the access key and the region in a signature of version 4.
var scope = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[^/]*/([^/]+)/`)

// account is whose cache a request uses: an access key in a region, or a bearer token.
func account(h http.Header) string {
	authorization := h.Get("Authorization")
	if m := scope.FindStringSubmatch(authorization); m != nil {
		return m[1] + "/" + m[2]
	}
	return strings.TrimPrefix(authorization, "Bearer ")
}
