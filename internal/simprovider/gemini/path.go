package gemini

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Methods of a model.
const (
	methodGenerate = "generateContent"
	methodStream   = "streamGenerateContent"
	methodCount    = "countTokens"
)

// endpoint is what a path says.
type endpoint struct {
	model   string
	method  string
	version string // of the API
	vertex  bool
	project string // on Vertex, empty in express mode
	name    string // of the model's resource
	sse     bool   // alt=sse: a stream of server-sent events instead of a JSON array
	key     string // API key of the query
}

var (
	geminiPath = regexp.MustCompile(`^/(v1|v1beta|v1alpha)/models/([^/:]+):(\w+)$`)
	vertexPath = regexp.MustCompile(`^/(v1|v1beta1)/((?:projects/([^/]+)/locations/[^/]+/)?publishers/google/models/([^/:]+)):(\w+)$`)
)

// endpointOf reads a path, with its query if it has one.
func endpointOf(path string) (endpoint, bool) {
	path, query, _ := strings.Cut(path, "?")
	e := endpoint{}
	if m := geminiPath.FindStringSubmatch(path); m != nil {
		e = endpoint{model: m[2], method: m[3], version: m[1], name: "models/" + m[2]}
	} else if m := vertexPath.FindStringSubmatch(path); m != nil {
		e = endpoint{model: m[4], method: m[5], version: m[1], name: m[2], vertex: true, project: m[3]}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return e, false
	}
	e.sse, e.key = values.Get("alt") == "sse", values.Get("key")
	return e, e.method == methodGenerate || e.method == methodStream || e.method == methodCount
}

// account is whose cache a request uses: a project of Vertex, or an API key.
func (e endpoint) account(h http.Header) string {
	if e.project != "" {
		return "projects/" + e.project
	}
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	if e.key != "" {
		return e.key
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}
