package identity_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/identity"
)

// user is somebody behind an address that others have too.
type user struct {
	credential, id     string // what tells him from others
	headers            headers
	userID, key, named string // of the body
}

// places put a session's id into a request.
var places = func() map[string]func(u *user) {
	m := map[string]func(u *user){
		"metadata.user_id, object": func(u *user) { u.userID = `{"device_id":"d","account_uuid":"","session_id":"` + u.id + `"}` },
		"metadata.user_id, text":   func(u *user) { u.userID = "user_0a1b_account_00-11_session_" + u.id },
		"metadata.user_id, whole":  func(u *user) { u.userID = u.id },
		"prompt_cache_key":         func(u *user) { u.key = u.id },
		"session_id":               func(u *user) { u.named = u.id },
		"x-codex-window-id":        func(u *user) { u.headers["x-codex-window-id"] = u.id + ":3" },
	}
	for _, name := range identity.DefaultSessionHeaders() {
		if m[name] == nil {
			m[name] = func(u *user) { u.headers[name] = u.id }
		}
	}
	return m
}()

// credentials put a credential that does not rotate into a request.
var credentials = map[string]func(u *user){
	"x-api-key":      func(u *user) { u.headers["x-api-key"] = u.credential },
	"api-key":        func(u *user) { u.headers["api-key"] = u.credential },
	"x-goog-api-key": func(u *user) { u.headers["x-goog-api-key"] = u.credential },
	"bearer":         func(u *user) { u.headers["authorization"] = "Bearer sk-" + u.credential },
	"query":          func(u *user) { u.headers[":path"] = "/v1beta/models/m:generateContent?key=" + u.credential },
	"SigV4": func(u *user) {
		u.headers["authorization"] = "AWS4-HMAC-SHA256 Credential=" + u.credential + "/20261130/us-east-1/bedrock/aws4_request, Signature=00"
	},
}

func names[V any](m map[string]V) []string {
	var list []string
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// pair is what a request's state is kept by.
func (u *user) pair(s *identity.Settings) [2]string {
	id := identity.Of(u.headers.get, s)
	if id.Session == "" {
		id.Session = identity.FromBody(u.userID, u.key, u.named)
	}
	return [2]string{id.Tenant, id.Session}
}

func drawUser(t *rapid.T, label string) *user {
	u := &user{headers: headers{}}
	u.credential = rapid.StringMatching(`[a-c]{1,2}`).Draw(t, label+" credential")
	u.id = rapid.StringMatching(`[a-c]{1,2}`).Draw(t, label+" session")
	credentials[rapid.SampledFrom(names(credentials)).Draw(t, label+" credential's place")](u)
	places[rapid.SampledFrom(names(places)).Draw(t, label+" session's place")](u)
	return u
}

// Two users behind one address share a session only if both credential and session's id are the same: not where one of them
// writes the other's credential in the place of a session, nor where ids are cut differently.
func TestInvariant12_NothingIsSharedByAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUser(t, "a"), drawUser(t, "b")
		pa, pb := a.pair(&identity.Settings{}), b.pair(&identity.Settings{})
		if pa[1] == "" || pb[1] == "" {
			t.Fatalf("no session in %+v or %+v", a, b)
		}
		if pa == pb && (a.credential != b.credential || a.id != b.id) {
			t.Fatalf("%+v and %+v share %q", a, b, pa)
		}
	})
}

// Users whose credentials rotate are of one tenant, and then their sessions' ids keep them apart; a tenant that the gateway
// names does so whatever their ids are.
func TestInvariant12_RotatingCredentials(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUser(t, "a"), drawUser(t, "b")
		for _, u := range []*user{a, b} {
			for _, h := range []string{"x-api-key", "api-key", "x-goog-api-key", ":path"} {
				delete(u.headers, h)
			}
			u.headers["authorization"] = "Bearer eyJ" + u.credential
			u.headers["x-team"] = u.credential
		}
		pa, pb := a.pair(&identity.Settings{}), b.pair(&identity.Settings{})
		if pa[0] != "default" || pb[0] != "default" || (pa == pb) != (a.id == b.id) {
			t.Fatalf("%q and %q", pa, pb)
		}
		named := &identity.Settings{TenantHeader: "x-team"}
		if pa, pb := a.pair(named), b.pair(named); (pa == pb) != (a.id == b.id && a.credential == b.credential) {
			t.Fatalf("%q and %q with a tenant's header", pa, pb)
		}
	})
}
