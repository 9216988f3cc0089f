package identity_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/identity"
)

type headers map[string]string

func (h headers) get(name string) string { return h[name] }

func TestTenant(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00"
	for _, c := range []struct {
		name    string
		headers headers
		route   identity.Settings
		want    string
	}{
		{"nothing", nil, identity.Settings{}, "default"},
		{"literal wins over all", headers{"x-api-key": "k", "x-team": "b"}, identity.Settings{Tenant: "a", TenantHeader: "x-team"}, "route:a"},
		{"header of the gateway", headers{"x-api-key": "k", "x-team": "b"}, identity.Settings{TenantHeader: "x-team"}, "header:b"},
		{"header of the gateway is missing", headers{"x-api-key": "k"}, identity.Settings{TenantHeader: "x-team"}, "key:k"},
		{"x-api-key before api-key", headers{"x-api-key": "k", "api-key": "l"}, identity.Settings{}, "key:k"},
		{"Gemini's header", headers{"x-goog-api-key": "g"}, identity.Settings{}, "key:g"},
		{"Gemini's query", headers{":path": "/v1beta/models/gemini-3-pro:generateContent?alt=sse&key=g"}, identity.Settings{}, "key:g"},
		{"a query that is not Gemini's", headers{":path": "/v1/messages?key=g"}, identity.Settings{}, "default"},
		{"api-key", headers{"api-key": "l", "authorization": "Bearer sk-m"}, identity.Settings{}, "key:l"},
		{"static bearer", headers{"authorization": "bearer  sk-m"}, identity.Settings{}, "key:sk-m"},
		{"rotating bearer", headers{"authorization": "Bearer eyJhbGciOi"}, identity.Settings{}, "default"},
		{"OAuth token, a bearer that rotates", headers{"authorization": "Bearer sk-ant-oat01-x"}, identity.Settings{}, "default"},
		{"OAuth token in the place of a key", headers{"x-api-key": "sk-ant-oat01-x", "api-key": "l"}, identity.Settings{}, "key:l"},
		{"web token of a key helper", headers{"x-api-key": "eyJhbGciOi.e30.x", "authorization": "Bearer eyJhbGciOi.e30.x"}, identity.Settings{}, "default"},
		{"basic", headers{"authorization": "Basic sk-m"}, identity.Settings{}, "default"},
		{"SigV4", headers{"authorization": signed}, identity.Settings{}, "sigv4:AKIAEXAMPLE"},
		{"SigV4, temporary credentials", headers{"authorization": strings.Replace(signed, "AKIA", "ASIA", 1)}, identity.Settings{}, "default"},
		{"SigV4 without credential", headers{"authorization": "AWS4-HMAC-SHA256 Signature=0"}, identity.Settings{}, "default"},
		{"SigV4 with half a credential", headers{"authorization": "AWS4-HMAC-SHA256 Credential=AKIA"}, identity.Settings{}, "default"},
	} {
		if got := identity.Of(c.headers.get, &c.route).Tenant; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A client cannot make itself the tenant that a route names, whatever it sends.
func TestTenantsOfDifferentKindsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"route:acme", "header:acme", "acme", "default", "sigv4:acme"})).Draw(t, "value")
		name := rapid.SampledFrom([]string{"x-api-key", "api-key", "authorization", "x-team"}).Draw(t, "header")
		got := identity.Of(headers{name: value}.get, &identity.Settings{}).Tenant
		if strings.HasPrefix(got, "route:") || strings.HasPrefix(got, "header:") {
			t.Fatalf("%s: %q gives tenant %q", name, value, got)
		}
	})
}

// Another body than the one that a digest or a presigned query speaks of is refused.
func TestBodyDigests(t *testing.T) {
	for _, h := range []headers{
		{"content-digest": "sha-256=:AA==:"},
		{"repr-digest": "sha-256=:AA==:"},
		{"digest": "SHA-256=AA=="},
		{"content-md5": "AA=="},
		{":path": "/model/m/invoke?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00"},
	} {
		if !identity.Of(h.get, &identity.Settings{}).ClientSigned || identity.Of(h.get, &identity.Settings{Resigned: true}).ClientSigned {
			t.Errorf("%v", h)
		}
	}
	if identity.Of(headers{":path": "/v1/messages?x=X-Amz-Signature"}.get, &identity.Settings{}).ClientSigned {
		t.Error("a query without a signature is one")
	}
}

func TestClientSigned(t *testing.T) {
	h := headers{"authorization": "AWS4-ECDSA-P256-SHA256 Credential=AKIA/x"}
	if !identity.Of(h.get, &identity.Settings{}).ClientSigned {
		t.Error("a signed body may change")
	}
	if identity.Of(h.get, &identity.Settings{Resigned: true}).ClientSigned {
		t.Error("the gateway signs again, and yet the body may not change")
	}
	if identity.Of(headers{"authorization": "Bearer AWS4-x"}.get, &identity.Settings{}).ClientSigned {
		t.Error("a bearer is taken for a signature")
	}
}

func TestSession(t *testing.T) {
	for _, c := range []struct {
		headers headers
		list    []string
		want    string
	}{
		{nil, nil, ""},
		{headers{"x-session-id": "b", "x-claude-code-session-id": "a"}, nil, "a"},
		{headers{"x-session-id": "b", "x-tidemark-session": " t "}, nil, "t"},
		{headers{"agent-session-id": "c", "x-litellm-session-id": "d"}, nil, "d"},
		{headers{"x-session-id": "b", "x-mine": "m"}, []string{"x-mine"}, "m"},
		{headers{"x-session-id": "b"}, []string{}, ""},
		{headers{"x-session-id": "b", "x-tidemark-session": "a\nb"}, nil, "b"},
		{headers{"x-session-id": "b", "x-tidemark-session": strings.Repeat("x", identity.MaxID+1)}, nil, "b"},
		{headers{"x-session-id": strings.Repeat("x", identity.MaxID)}, nil, strings.Repeat("x", identity.MaxID)},
		{headers{"x-codex-window-id": "t:0"}, nil, "t"},
		{headers{"x-codex-window-id": "t:u:17"}, nil, "t:u"},
		{headers{"x-codex-window-id": "t", "x-session-id": "b"}, nil, "b"},
		{headers{"x-codex-window-id": ":1"}, nil, ""},
		{headers{"x-codex-window-id": "t:3"}, []string{"x-codex-window-id"}, "t"},
		{headers{"session-id": "s", "thread-id": "t", "x-codex-window-id": "t:3"}, nil, "s"},
		{headers{"session_id": "s"}, nil, "s"},
		{headers{"x-client-request-id": "r", "x-parent-session-id": "p", "x-codex-parent-thread-id": "q", "x-claude-code-prompt-id": "i"}, nil, ""},
	} {
		if got := identity.Of(c.headers.get, &identity.Settings{SessionHeaders: c.list}).Session; got != c.want {
			t.Errorf("%v: got %q, want %q", c.headers, got, c.want)
		}
	}
}

func TestEveryDefaultHeaderNamesTheSession(t *testing.T) {
	for _, name := range identity.DefaultSessionHeaders() {
		if got := identity.Of(headers{name: "s:0"}.get, &identity.Settings{}).Session; strings.TrimSuffix(got, ":0") != "s" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// Whatever stands in the headers, ids are short and printable.
func TestIDsAreValidated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := headers{}
		for _, name := range append(identity.DefaultSessionHeaders(), "x-claude-code-agent-id", "x-codex-parent-thread-id") {
			h[name] = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,300}`)).Draw(t, name)
		}
		id := identity.Of(h.get, &identity.Settings{})
		for _, s := range []string{id.Session, id.Agent, identity.FromBody(h["session-id"], "", "")} {
			if len(s) > identity.MaxID || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) || s != strings.TrimSpace(s) {
				t.Fatalf("%q is accepted", s)
			}
		}
	})
}

func TestAgentAndClass(t *testing.T) {
	for _, c := range []struct {
		headers   headers
		agent     string
		auxiliary bool
	}{
		{headers{"x-claude-code-session-id": "s"}, "", false},
		{headers{"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a", "x-claude-code-request-class": "subagent"}, "a", false},
		{headers{"session-id": "s", "thread-id": "s"}, "", false},
		{headers{"session-id": "s", "thread-id": "t"}, "t", false},
		{headers{"thread-id": "t"}, "", false},
		{headers{"session-id": "s", "x-codex-parent-thread-id": "p"}, "p", false},
		{headers{"x-claude-code-request-class": "main"}, "", false},
		{headers{"x-claude-code-request-class": "auxiliary"}, "", true},
		{headers{"x-claude-code-request-class": "compaction"}, "", true},
		{headers{"x-openai-subagent": "compact"}, "", true},
		{headers{"x-openai-subagent": "review"}, "review", false},
		{headers{"session-id": "s", "x-codex-window-id": "t:2"}, "t", false},
		{headers{"x-codex-window-id": "t:2"}, "", false},
		{headers{"session-id": "s", "thread-id": "c", "x-codex-parent-thread-id": "s", "x-openai-subagent": "collab_spawn"}, "c", false},
		{headers{"session-id": "s", "thread-id": "s", "x-openai-subagent": "compact", "x-codex-parent-thread-id": "p"}, "", true},
		{headers{"session-id": "s", "thread-id": "c", "x-openai-subagent": "compact"}, "c", true},
		{headers{"session-id": "s", "x-openai-subagent": "memory_consolidation"}, "memory_consolidation", false},
		{headers{"x-claude-code-agent-id": "a", "x-claude-code-agent-type": "fork"}, "", false},
		{headers{"x-claude-code-agent-id": "b", "x-claude-code-agent-type": "fork", "x-claude-code-parent-agent-id": "a"}, "a", false},
		{headers{"x-claude-code-agent-id": "b", "x-claude-code-agent-type": "Explore", "x-claude-code-parent-agent-id": "a"}, "b", false},
		{headers{"x-claude-code-request-class": "workflow"}, "", false},
		{headers{"x-claude-code-request-class": "repl_main_thread"}, "", false},
		{headers{"x-claude-code-compaction": "auto"}, "", true},
		{headers{"x-claude-code-compaction": "reactive"}, "", true},
		{headers{"x-claude-code-compaction": "0"}, "", false},
		{headers{"x-claude-code-context-compacted": "auto"}, "", false},
		{headers{"x-codex-turn-metadata": `{"request_kind":"turn"}`}, "", false},
		{headers{"x-codex-turn-metadata": `{"request_kind":"prewarm"}`}, "", false},
		{headers{"x-codex-turn-metadata": `{"session_id":"s","request_kind":"compaction","compaction":{"trigger":"auto"}}`}, "", true},
		{headers{"x-codex-turn-metadata": `{"request_kind":"memory"}`}, "", true},
		{headers{"x-codex-turn-metadata": `{"request_kind":"compaction"`}, "", false},
		{headers{"x-codex-turn-metadata": `{"request_kind":7}`}, "", false},
	} {
		id := identity.Of(c.headers.get, &identity.Settings{})
		if id.Agent != c.agent || id.Auxiliary != c.auxiliary {
			t.Errorf("%v: agent %q, auxiliary %t", c.headers, id.Agent, id.Auxiliary)
		}
	}
}

func TestBypassOnlyByTrue(t *testing.T) {
	for value, want := range map[string]bool{"": false, "true": true, "True\t": true, "1": false, "false": false, "true,true": false} {
		if got := identity.Of(headers{"x-tidemark-bypass": value}.get, &identity.Settings{}).Bypass; got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}

func TestFromBodysUserID(t *testing.T) {
	long := strings.Repeat("x", identity.MaxID+1)
	for id, want := range map[string]string{
		"": "",
		`{"device_id":"d","account_uuid":"","session_id":"00000001-0000-4000-8000-000000000001"}`: "00000001-0000-4000-8000-000000000001",
		`{"device_id":"d"}`:                   `{"device_id":"d"}`,
		`{"session_id":7}`:                    `{"session_id":7}`,
		`{"session_id":"a\nb"}`:               "",
		`{"session_id":"` + long + `"}`:       "",
		`{"session_id":"a"`:                   `{"session_id":"a"`,
		"user_0a1b_account_00-11_session_s-1": "s-1",
		"user_0a1b_account__session_s-1":      "s-1",
		"user_x_session_a_session_b":          "b",
		"user_x_session_":                     "user_x_session_",
		"user_x_session_" + long:              "",
		"someone@example.com":                 "someone@example.com",
		"a\x00b":                              "",
		long:                                  "",
		`{"a":` + strings.Repeat("[", 12<<20): "",
		`{"session_id":"s","a":"` + strings.Repeat("a", 1<<20) + `"}`: "", // no client's
	} {
		if got := identity.FromBody(id, "", ""); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}

func TestFromBody(t *testing.T) {
	const claude = `{"device_id":"d","account_uuid":"","session_id":"c"}`
	for _, c := range []struct{ userID, cacheKey, sessionID, want string }{
		{"", "", "", ""},
		{claude, "k", "s", "c"},
		{"user_h_account__session_c", "k", "s", "c"},
		{"someone", "k", "s", "s"},
		{"someone", "k", "", "k"},
		{"someone", "", "", "someone"},
		{"", "k", "a\nb", "k"},
		{`{"session_id":"a\nb"}`, "k", "", "k"}, // what names a session that is not usable is no user
		{`{"session_id":"a\nb"}`, "", "", ""},
	} {
		if got := identity.FromBody(c.userID, c.cacheKey, c.sessionID); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func FuzzFromBody(f *testing.F) {
	f.Add(`{"session_id":"a"}`, "k", "")
	f.Add("user_0a1b_account_00-11_session_s-1", "", "s")
	f.Fuzz(func(t *testing.T, userID, cacheKey, sessionID string) {
		s := identity.FromBody(userID, cacheKey, sessionID)
		if len(s) > identity.MaxID || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is accepted", s)
		}
	})
}
