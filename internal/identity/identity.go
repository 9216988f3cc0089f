// Package identity says whose request it is and what it is for: tenant, session, agent and class from the headers, the
// wire format from path and content type.
//
// The rules are those of design §6. Whatever a client sends is material, never trusted: a session or agent id that is
// not printable ASCII of at most [MaxID] bytes counts as absent, and no value becomes a key, label or path as it is (the
// pipeline hashes them). Functions are pure and safe for concurrent use; the package imports no other part of tidemark
// but the list of wire formats.
package identity

import (
	"strings"
)

// MaxID is the longest session or agent id that is accepted, in bytes.
const MaxID = 256

// Headers returns the first value of a request header by its lower-case name, "" without one.
type Headers func(name string) string

// Settings are what a route's config says about identity. The zero value is the default.
type Settings struct {
	Tenant         string   // the tenant's name; wins over everything the request carries
	TenantHeader   string   // lower-case name of a header that the gateway sets to the tenant's name
	SessionHeaders []string // lower-case names, first that is there wins; nil: DefaultSessionHeaders
	Resigned       bool     // the gateway signs the request again, so a body that the client signed may change
}

// Identity is what the pipeline needs to know of a request besides its body.
type Identity struct {
	// Tenant is the material of the tenant's key. It starts with the kind of the material, so that no value of one kind
	// (a key that a client made up) equals one of another (a name that the route gives). It is a secret: hash it, do not
	// log it.
	Tenant       string
	Session      string // empty: no header names it, the body may
	Agent        string // empty in the main thread
	Auxiliary    bool   // the request's class says auxiliary or compaction
	Bypass       bool   // x-tidemark-bypass: true
	ClientSigned bool   // the client's signature covers the body
}

// Of reads the identity of a request from its headers.
func Of(h Headers, s *Settings) Identity {
	id := Identity{
		Tenant:       tenant(h, s),
		Session:      first(h, s.sessionHeaders()),
		Auxiliary:    auxiliary(h),
		Bypass:       strings.EqualFold(strings.TrimSpace(h("x-tidemark-bypass")), "true"),
		ClientSigned: !s.Resigned && strings.HasPrefix(h("authorization"), sigV4),
	}
	id.Agent = agent(h, id.Session)
	return id
}

// DefaultSessionHeaders returns the headers that may name the session, in order. The caller owns the slice.
func DefaultSessionHeaders() []string {
	return append([]string(nil), defaultSessionHeaders...)
}

// defaultSessionHeaders are tidemark's own header, then those of agents, then those of gateways.
var defaultSessionHeaders = []string{
	"x-tidemark-session",
	"x-claude-code-session-id",
	"session-id", "thread-id", // Codex CLI
	"x-session-id",
	"x-session-affinity",
	"x-opencode-session",
	"x-litellm-session-id",
	"x-dynamo-session-id",
	"agent-session-id", // Envoy AI Gateway
	"x-task-id",        // Cline
}

func (s *Settings) sessionHeaders() []string {
	if s.SessionHeaders == nil {
		return defaultSessionHeaders
	}
	return s.SessionHeaders
}

// agent names the subagent that speaks. Subagents share the session of the main thread; a thread id is one only where
// something else names the session.
func agent(h Headers, session string) string {
	if id := usable(h("x-claude-code-agent-id")); id != "" {
		return id
	}
	if id := usable(h("thread-id")); id != "" && id != session {
		return id
	}
	return usable(h("x-codex-parent-thread-id"))
}

// auxiliary reports whether the client says that the request is no turn of the conversation.
func auxiliary(h Headers) bool {
	switch h("x-claude-code-request-class") {
	case "auxiliary", "compaction":
		return true
	}
	return h("x-openai-subagent") == "compact"
}

func first(h Headers, names []string) string {
	for _, n := range names {
		if id := usable(h(n)); id != "" {
			return id
		}
	}
	return ""
}

// usable returns an id without the space around it, or "" if it is none that is accepted.
func usable(id string) string {
	id = strings.TrimSpace(id)
	if len(id) > MaxID {
		return ""
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return ""
		}
	}
	return id
}
