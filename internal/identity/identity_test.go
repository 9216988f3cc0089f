package identity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
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
		{"api-key", headers{"api-key": "l", "authorization": "Bearer sk-m"}, identity.Settings{}, "key:l"},
		{"static bearer", headers{"authorization": "bearer  sk-m"}, identity.Settings{}, "key:sk-m"},
		{"rotating bearer", headers{"authorization": "Bearer eyJhbGciOi"}, identity.Settings{}, "default"},
		{"OAuth token, a bearer that rotates", headers{"authorization": "Bearer sk-ant-oat01-x"}, identity.Settings{}, "default"},
		{"OAuth token in the place of a key", headers{"x-api-key": "sk-ant-oat01-x", "api-key": "l"}, identity.Settings{}, "key:l"},
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
	} {
		if got := identity.Of(c.headers.get, &identity.Settings{SessionHeaders: c.list}).Session; got != c.want {
			t.Errorf("%v: got %q, want %q", c.headers, got, c.want)
		}
	}
}

func TestEveryDefaultHeaderNamesTheSession(t *testing.T) {
	for _, name := range identity.DefaultSessionHeaders() {
		if got := identity.Of(headers{name: "s"}.get, &identity.Settings{}).Session; got != "s" {
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
		for _, s := range []string{id.Session, id.Agent, identity.FromUserID(h["session-id"])} {
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
		{headers{"x-openai-subagent": "review"}, "", false},
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

func TestFormat(t *testing.T) {
	ours := identity.Wire{Format: transcript.Anthropic}
	count := identity.Wire{Format: transcript.Anthropic, CountTokens: true}
	not := func(r identity.Reason) identity.Wire { return identity.Wire{Reason: r} }
	for _, c := range []struct {
		path, method, contentType, encoding string
		want                                identity.Wire
	}{
		{"/v1/messages", "POST", "application/json", "", ours},
		{"/v1/messages?beta=true", "POST", "application/json; charset=utf-8", "identity", ours},
		{"/team/anthropic/v1/messages", "POST", "Application/JSON", "", ours},
		{"/v1/messages", "POST", "", "", ours},
		{"/v1/messages/count_tokens?beta=true", "POST", "application/json", "", count},
		{"/v1/messages/batches", "POST", "application/json", "", not(identity.OtherPath)},
		{"/v1/xmessages", "POST", "application/json", "", not(identity.OtherPath)},
		{"/v1/models?x=/v1/messages", "POST", "application/json", "", not(identity.OtherPath)},
		{"", "POST", "application/json", "", not(identity.OtherPath)},
		{"/v1/messages", "GET", "application/json", "", not(identity.OtherMethod)},
		{"/v1/messages", "POST", "text/plain", "", not(identity.OtherType)},
		{"/v1/messages", "POST", "application/json;;", "", not(identity.OtherType)},
		{"/v1/messages", "POST", "application/json", "gzip", not(identity.EncodedContent)},
	} {
		if diff := cmp.Diff(c.want, identity.Format(c.path, c.method, c.contentType, c.encoding)); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
	}
}

func TestFromUserID(t *testing.T) {
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
	} {
		if got := identity.FromUserID(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}

func FuzzFromUserID(f *testing.F) {
	f.Add(`{"session_id":"a"}`)
	f.Add("user_0a1b_account_00-11_session_s-1")
	f.Fuzz(func(t *testing.T, id string) {
		s := identity.FromUserID(id)
		if len(s) > identity.MaxID || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is accepted", s)
		}
	})
}
