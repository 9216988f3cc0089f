package identity

import (
	"net/url"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Marks of credentials.
const (
	sigV4 = "AWS4-" // AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256
	// staticBearer starts keys that stand until somebody withdraws them.
	staticBearer = "sk-"
	// rotatingBearer starts Anthropic's OAuth access tokens, which clients renew within a day.
	rotatingBearer = "sk-ant-oat"
	// webToken starts JSON Web Tokens (RFC 7519), all of which end within hours: clients fetch keys by a helper and gateways take them
	// for API keys.
	webToken = "eyJ"
	// temporaryKey starts the ids of temporary AWS credentials, which are renewed within hours.
	temporaryKey = "ASIA"
)

// tenant returns the material of the tenant's key: what the route says, else a credential that does not rotate, else one
// tenant for all. A credential that rotates would give a conversation another key in its midst, and what is in force
// there would be lost.
func tenant(h Headers, s *Settings) string {
	if s.Tenant != "" {
		return "route:" + s.Tenant
	}
	if s.TenantHeader != "" {
		if v := h(s.TenantHeader); v != "" {
			return "header:" + v
		}
	}
	for _, name := range []string{"x-api-key", "api-key", "x-goog-api-key"} {
		if v := h(name); v != "" && !strings.HasPrefix(v, rotatingBearer) && !strings.HasPrefix(v, webToken) {
			return "key:" + v
		}
	}
	if v := queryKey(h(":path")); v != "" {
		return "key:" + v
	}
	auth := h("authorization")
	if v, ok := bearer(auth); ok && strings.HasPrefix(v, staticBearer) && !strings.HasPrefix(v, rotatingBearer) {
		return "key:" + v
	}
	if v := accessKeyID(auth); v != "" && !strings.HasPrefix(v, temporaryKey) {
		return "sigv4:" + v
	}
	return "default"
}

// queryKey is the API key in the query of a path of Gemini's, which takes it there too.
func queryKey(path string) string {
	route, query, ok := strings.Cut(path, "?")
	if !ok || pathOf(route).Format != transcript.Gemini {
		return ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return values.Get("key")
}

func bearer(auth string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(auth, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "bearer")
}

// accessKeyID returns the access key id of a SigV4 header: AWS4-HMAC-SHA256 Credential=<id>/<date>/…, SignedHeaders=….
func accessKeyID(auth string) string {
	if !strings.HasPrefix(auth, sigV4) {
		return ""
	}
	_, rest, ok := strings.Cut(auth, "Credential=")
	if !ok {
		return ""
	}
	id, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return id
}
