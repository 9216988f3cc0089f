package restore_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

// TestOperatorTenant: each kind of tenant that requests can have can be named.
func TestOperatorTenant(t *testing.T) {
	for _, c := range []struct {
		name, value, want string
	}{
		{"X-Tidemark-Tenant", "acme", "route:acme"},
		{"X-Tidemark-Tenant", "route:acme", "route:acme"},
		{"X-Tidemark-Tenant", "header:acme", "header:acme"},
		{"X-Tidemark-Tenant", "sigv4:AKIAEXAMPLE", "sigv4:AKIAEXAMPLE"},
		{"X-Tidemark-Tenant", "default", "route:default"},
		{"X-Api-Key", "sk-ant-api03-x", "key:sk-ant-api03-x"},
		{"Api-Key", "azure", "key:azure"},
		{"X-Goog-Api-Key", "google", "key:google"},
		{"X-Api-Key", "sk-ant-oat01-rotates", "default"},
		{"Authorization", "Bearer sk-operator", "default"},
		{"Other", "x", "default"},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set(c.name, c.value)
		if got, ok := restore.OperatorTenant(r); got != c.want || !ok {
			t.Errorf("%s: %s is %q, %v, want %q", c.name, c.value, got, ok, c.want)
		}
	}
	r := &http.Request{Header: http.Header{"X-Tidemark-Tenant": {"a", "b"}}}
	if got, ok := restore.OperatorTenant(r); ok {
		t.Errorf("two tenants are %q", got)
	}
}

func TestOperator(t *testing.T) {
	w := newWorld(t, nil)
	const session = "user/7 of ~all?"
	escaped := "/v1/sessions/user%2F7%20of%20~all%3F"
	mine := w.keep("route:acme", session, `"one"`, `"two"`)
	other := w.keep("route:other", session, `"three"`)
	tenant := []string{"X-Tidemark-Tenant", "acme"}

	list := w.ask(http.MethodGet, w.admin+escaped+"/originals", tenant...)
	if list.status != http.StatusOK || !strings.Contains(list.body, mine[0]) || !strings.Contains(list.body, mine[1]) || strings.Contains(list.body, other[0]) {
		t.Errorf("list %+v", list)
	}
	w.ask(http.MethodGet, w.admin+"/v1/sessions/unknown/originals", tenant...).want(t, http.StatusOK, "{\"spans\":[]}\n")
	w.ask(http.MethodDelete, w.admin+escaped).want(t, http.StatusOK, "{\"withdrawn\":0}\n") // of the tenant default
	w.get(mine[0], "").want(t, http.StatusOK, "one")

	w.ask(http.MethodPost, w.admin+"/v1/originals/"+mine[0]+"/seal").want(t, http.StatusNoContent, "")
	w.get(mine[0], "").want(t, http.StatusForbidden, part.Sealed+"\n")
	w.ask(http.MethodDelete, w.admin+escaped, tenant...).want(t, http.StatusOK, "{\"withdrawn\":2}\n")
	w.ask(http.MethodDelete, w.admin+escaped, tenant...).want(t, http.StatusOK, "{\"withdrawn\":0}\n")
	for _, id := range mine {
		w.get(id, "").want(t, http.StatusGone, part.Withdrawn+"\n")
		w.ask(http.MethodPost, w.admin+"/v1/originals/"+id+"/seal").want(t, http.StatusGone, part.Withdrawn+"\n")
	}
	if list := w.ask(http.MethodGet, w.admin+escaped+"/originals", tenant...); strings.Count(list.body, `"fate":"withdrawn"`) != 2 {
		t.Errorf("list %+v", list)
	}
	w.get(other[0], "").want(t, http.StatusOK, "three")
	w.ask(http.MethodPost, w.admin+"/v1/originals/"+strings.Repeat("0", 24)+"/seal").want(t, http.StatusNotFound, part.Missing+"\n")
	if text := w.log.String(); strings.Contains(text, "user/7") || strings.Contains(text, "acme") || strings.Contains(text, mine[0]) {
		t.Errorf("logs %s", text)
	}
}

// TestOperatorCannotRead: the admin listener has no way to content, and the restore listener none to seals.
func TestOperatorCannotRead(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"SECRET"`)[0]
	for _, path := range []string{"/v1/originals/" + id, "/v1/originals/" + id + "/siblings", "/v1/originals/" + id + "?raw=1", "/mcp", "/v1/originals"} {
		w.ask(http.MethodGet, w.admin+path).want(t, http.StatusNotFound, part.Missing+"\n")
	}
	w.ask(http.MethodPost, w.url+"/v1/originals/"+id+"/seal").want(t, http.StatusNotFound, part.Missing+"\n")
	w.get(id, "").want(t, http.StatusOK, "SECRET")
}

// TestOwnSessions: where the tenant is known, it may list and withdraw what is its own, and without it nothing is there.
func TestOwnSessions(t *testing.T) {
	w := newWorld(t, byKey)
	mine, other := w.keep("key:mine", "s", `"one"`), w.keep("key:other", "s", `"two"`)
	own := []string{"x-api-key", "mine"}
	list := w.ask(http.MethodGet, w.url+"/v1/sessions/s/originals", own...)
	if list.status != http.StatusOK || !strings.Contains(list.body, mine[0]) || strings.Contains(list.body, other[0]) {
		t.Errorf("list %+v", list)
	}
	w.ask(http.MethodDelete, w.url+"/v1/sessions/s").want(t, http.StatusNotFound, part.Missing+"\n")
	w.ask(http.MethodDelete, w.url+"/v1/sessions/s", own...).want(t, http.StatusOK, "{\"withdrawn\":1}\n")
	w.get(mine[0], "", own...).want(t, http.StatusGone, part.Withdrawn+"\n")
	w.get(other[0], "", "x-api-key", "other").want(t, http.StatusOK, "two")

	open := newWorld(t, nil)
	open.keep("key:mine", "s", `"one"`)
	open.ask(http.MethodDelete, open.url+"/v1/sessions/s", own...).want(t, http.StatusNotFound, part.Missing+"\n")
	open.ask(http.MethodGet, open.url+"/v1/sessions/s/originals", own...).want(t, http.StatusNotFound, part.Missing+"\n")
}
