// Package identity says whose request it is and what it is for: tenant, session, agent and class from the headers, the
// wire format from path and content type.
//
// The rules are those of design §6. Whatever a client sends is material, never trusted: a session or agent id that is
// not printable ASCII of at most [MaxID] bytes counts as absent, and no value becomes a key, label or path as it is (the
// pipeline hashes them). Functions are pure and safe for concurrent use; the package imports no other part of tidemark
// but the lists of wire formats and of content codings.
//
// # Who shares what
//
// Two requests share state only if tenant and session are equal. The tenant is the credential where it can be told from one
// that will be renewed; all other requests are of one tenant, default, so that there the session's id alone keeps two users
// apart. Ids that clients make up at random do; a counter or a user's name does not, and neither does one that two users agree
// on. A route whose clients have rotating credentials sets tenant, or has a header that names it.
//
// # Sessions
//
// A session is what a client calls one, with its subagents: each of them has its own prompt, and its agent id keeps it apart
// from the others. Headers come before the body: gateways rewrite bodies, and agents that name both mean the same. What names a
// user and not a session is never read: OpenAI's user and safety_identifier would make one session of all that a user does, with
// every conversation of theirs competing for its branches.
//
// # Side traffic
//
// Auxiliary requests get what is in force and leave no trace of their own. Headers and paths tell Claude Code's class of the
// request, Codex' kind of it, and compaction by OpenAI's own endpoint. What no header tells, the body does: the engine takes a
// request without tools (titles, classifiers) or with max_tokens of at most one (quota probes) for one. Forks and compaction
// without a header go on from a conversation and are read as that: they replay its decisions, as they have to.
package identity

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
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
	Anonymous      bool     // requests whose session nobody names are told apart by how their conversation begins
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
	ClientSigned bool   // a signature or a digest of the client's covers the body
}

// Of reads the identity of a request from its headers.
func Of(h Headers, s *Settings) Identity {
	id := Identity{
		Tenant:       tenant(h, s),
		Session:      first(h, s.sessionHeaders()),
		Auxiliary:    auxiliary(h),
		Bypass:       strings.EqualFold(strings.TrimSpace(h("x-tidemark-bypass")), "true"),
		ClientSigned: !s.Resigned && signed(h),
	}
	id.Agent = agent(h, id.Session)
	return id
}

// bodyDigests are headers that say what the bytes of the body are, signed or not: RFC 9530, RFC 3230, RFC 2616.
var bodyDigests = []string{"content-digest", "repr-digest", "digest", "content-md5"}

// signed reports whether a header, or the query of a presigned request, says what the body is, so that another body is refused.
func signed(h Headers) bool {
	_, query, _ := strings.Cut(h(":path"), "?")
	return strings.HasPrefix(h("authorization"), sigV4) || strings.Contains(query, "X-Amz-Signature=") ||
		slices.ContainsFunc(bodyDigests, func(name string) bool { return h(name) != "" })
}

// DefaultSessionHeaders returns the headers that may name the session, in order. The caller owns the slice.
func DefaultSessionHeaders() []string {
	return append([]string(nil), defaultSessionHeaders...)
}

// windowHeader is Codex' id of a context window: thread:generation. Compaction begins a new generation of the same session.
const windowHeader = "x-codex-window-id"

// defaultSessionHeaders are tidemark's own header, then those of agents, then those of gateways.
var defaultSessionHeaders = []string{
	"x-tidemark-session",
	"x-claude-code-session-id",
	"session-id", "thread-id", windowHeader, // Codex
	"session_id", "conversation_id", // Codex before, Cline, Pi, OpenHands
	"x-session-id", // opencode, OpenRouter's clients
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

// agent names the subagent that speaks, by whatever tells its prompt from that of the main thread, with which it shares the
// session. Empty is the main thread.
//
// A fork of Claude Code's goes on from its parent's conversation, with the parent's prompt. Codex' parent thread says that a
// subagent speaks, but not which, as does its label; review and collab_spawn are labels, and those of other agents. A thread id
// is a subagent's only where something else names the session. Compaction speaks for the thread that it compacts.
func agent(h Headers, session string) string {
	if id := usable(h("x-claude-code-agent-id")); id != "" {
		if h("x-claude-code-agent-type") == "fork" {
			return usable(h("x-claude-code-parent-agent-id"))
		}
		return id
	}
	for _, id := range []string{usable(h("thread-id")), thread(h(windowHeader))} {
		if id != "" && id != session {
			return id
		}
	}
	label := usable(h("x-openai-subagent"))
	if label == labelCompact {
		return ""
	}
	if id := usable(h("x-codex-parent-thread-id")); id != "" {
		return id
	}
	return label
}

// labelCompact is Codex' label of a request that summarises a thread.
const labelCompact = "compact"

// auxiliary reports whether the client says that the request is no turn of the conversation. A subagent's turns are turns,
// and so is a fork's. Classes and kinds that are not known are none.
func auxiliary(h Headers) bool {
	switch h("x-claude-code-request-class") {
	case "auxiliary", "compaction":
		return true
	}
	switch h("x-claude-code-compaction") { // why, on the request that summarises
	case "auto", "manual", "reactive":
		return true
	}
	if h("x-openai-subagent") == labelCompact {
		return true
	}
	switch requestKind(h("x-codex-turn-metadata")) {
	case "compaction", "memory":
		return true
	}
	return false
}

// maxMetadata is the longest metadata that is read, in bytes: a header of Codex', which lists the folders of a workspace, or a
// metadata.user_id that is JSON.
const maxMetadata = 16 << 10

// requestKind is what Codex' metadata of a turn says of the request: turn, prewarm, compaction or memory.
func requestKind(metadata string) string {
	if metadata == "" || len(metadata) > maxMetadata || !gjson.Valid(metadata) {
		return ""
	}
	return gjson.Get(metadata, "request_kind").Str
}

func first(h Headers, names []string) string {
	for _, n := range names {
		read := usable
		if n == windowHeader {
			read = thread
		}
		if id := read(h(n)); id != "" {
			return id
		}
	}
	return ""
}

// thread is the thread of a window's id.
func thread(window string) string {
	id := usable(window)
	if at := strings.LastIndexByte(id, ':'); at > 0 {
		return usable(id[:at])
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
