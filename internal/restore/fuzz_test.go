package restore_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzPath: whatever path and query are, content comes only for the one right id, and nothing breaks.
func FuzzPath(f *testing.F) {
	w := newWorld(f, byKey)
	id := w.keep("key:mine", "s", `"SECRET text\nof two lines"`)[0]
	for _, s := range []string{"/v1/originals/" + id + "?grep=S", "/v1/originals/" + id + "?from=2", "/v1/sessions/s/originals", "/v1/originals/" + id + "/siblings", "/mcp", "/v1/sessions/%2e%2e", "/v1/originals/" + id + "?raw=1&raw=2"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, path string, mine bool) {
		w.tb = t
		u, err := url.Parse(path)
		if err != nil || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
			t.Skip("no path")
		}
		key := map[bool]string{true: "mine", false: "other"}[mine]
		r := w.ask(http.MethodGet, w.url+u.EscapedPath()+"?"+u.RawQuery, "x-api-key", key)
		own := mine && u.EscapedPath() == "/v1/originals/"+id
		switch {
		case r.status >= 500:
			t.Fatalf("status %d", r.status)
		case !own && strings.Contains(r.body, "SECRET"):
			t.Fatalf("content for %q", path)
		case own && r.status != http.StatusOK && r.status != http.StatusBadRequest && r.status != http.StatusRequestedRangeNotSatisfiable:
			t.Fatalf("status %d", r.status)
		case !mine && strings.Contains(r.body, id):
			t.Fatal("another tenant is told of an id")
		}
	})
}

// FuzzMCP: whatever is posted, nothing breaks, and without the id nothing is given back.
func FuzzMCP(f *testing.F) {
	w := newWorld(f, nil)
	id := w.keep("t", "s", `"SECRET"`)[0]
	for _, args := range []string{`{"id":"` + id + `"}`, `{"id":"x"}`, `{}`, `[]`, `"`, `{"id":"` + id + `","grep":"("}`} {
		f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_restore","arguments":` + args + `}}`)
	}
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	f.Add(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	f.Add(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	f.Add(`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`)
	f.Fuzz(func(t *testing.T, body string) {
		w.tb = t
		status, answer := w.post(body)
		if status >= 500 || strings.Contains(answer, "SECRET") && !strings.Contains(body, id) {
			t.Fatalf("%d %s", status, short(answer))
		}
	})
}
