package extproc

import (
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"github.com/tidemark-dev/tidemark/internal/identity"
)

// TestRepeatedHeaders: a header that a client sends besides the gateway's, or twice, makes a tenant and a session of its own, never
// one of those that it names. No value of a header does more than narrow.
func TestRepeatedHeaders(t *testing.T) {
	of := func(s identity.Settings, header ...string) identity.Identity {
		return identity.Of(headersOf(headersMessage(filterv3.ProcessingMode_BUFFERED, false, header...)).Get, &s)
	}
	for _, name := range []string{"x-api-key", "api-key", "x-goog-api-key", "x-team"} {
		s := identity.Settings{TenantHeader: "x-team"}
		both := of(s, name, "victim", name, "mallory").Tenant
		for _, one := range []string{"victim", "mallory"} {
			if both == of(s, name, one).Tenant {
				t.Errorf("%s: both values together are the tenant %q", name, both)
			}
		}
	}
	for _, header := range [][]string{
		{"authorization", "Bearer sk-victim", "authorization", "Bearer sk-mallory"},
		{"authorization", "Bearer sk-victim,Bearer sk-mallory"},
	} {
		if got := of(identity.Settings{}, header...).Tenant; got == "key:sk-victim" || got == "key:sk-mallory" {
			t.Errorf("%v is the tenant %q", header, got)
		}
	}
	if got := of(identity.Settings{}, "x-tidemark-session", "a", "x-tidemark-session", "b").Session; got == "a" || got == "b" {
		t.Errorf("two sessions are %q", got)
	}
	for value, want := range map[string]bool{"true": true, " TRUE ": true, "false": false, "0": false, "true,false": false, "": false} {
		if got := of(identity.Settings{}, BypassHeader, value).Bypass; got != want {
			t.Errorf("%q bypasses: %v", value, got)
		}
	}
	plain := of(identity.Settings{}, "x-api-key", "k")
	for _, name := range []string{"x-tidemark-route", "x-tidemark-pipeline", "x-tidemark-tenant", "x-tidemark-mode", "x-tidemark-token"} {
		if got := of(identity.Settings{}, "x-api-key", "k", name, `{"tenant":"victim","mode":"active"}`); got != plain {
			t.Errorf("%s changes %+v to %+v", name, plain, got)
		}
	}
}
