package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/state"
)

// A request appears on the page's API of this machine, with what was decided on it.
func TestServeShowsRequests(t *testing.T) {
	e := start(t)
	e.ask(t, turn("x-claude-code-session-id", "a"), nil)
	base := "http://" + e.admin + board.Prefix
	var page board.Sessions
	var text string
	for deadline := time.Now().Add(10 * time.Second); len(page.List) == 0 && time.Now().Before(deadline); { // it is told behind the answer
		var err error
		if _, text, _, err = say(http.MethodGet, base+"sessions", "", "", nil); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
	}
	if len(page.List) != 1 || page.Totals.Requests != 1 || page.List[0].Requests != 1 {
		t.Fatalf("the page: %s", text)
	}
	_, text, _, _ = say(http.MethodGet, base+"sessions/"+page.List[0].ID, "", "", nil)
	var view board.SessionView
	if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Rows) != 1 || !view.Rows[0].Known {
		t.Fatalf("%v: %s", err, text)
	}
	if code, text, _, _ := say(http.MethodGet, base+"requests/"+view.Rows[0].Key, "", "", nil); code != http.StatusOK || !strings.Contains(text, page.List[0].ID) {
		t.Errorf("the request: %d %s", code, text)
	}
	if strings.Contains(text, `"a"`) {
		t.Error("the session's name is told")
	}
}

// Where others could reach the admin listener and nothing is asked of them, there is no page. Else its files are open, and data is
// for those who bear the token.
func TestServePage(t *testing.T) {
	admin, _ := serving(t, func(flags map[string]string) {
		flags["admin.listen"] = strings.Replace(flags["admin.listen"], "127.0.0.1", "", 1)
	})
	base := "http://127.0.0.1" + admin
	awaitURL(t, base+"/livez")
	for _, path := range []string{"/", "/ui/", board.Prefix + "sessions"} {
		if code, text, _, err := say(http.MethodGet, base+path, "", "", nil); code != http.StatusNotFound {
			t.Errorf("open to all: %s: %d %.100s, %v", path, code, text, err)
		}
	}
	token := accesstest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(oldToken))
	admin, _ = serving(t, func(flags map[string]string) {
		flags["admin.listen"], flags["admin.token_file"] = strings.Replace(flags["admin.listen"], "127.0.0.1", "", 1), token
	})
	base = "http://127.0.0.1" + admin
	awaitURL(t, base+"/livez")
	for _, c := range []struct {
		path, token string
		status      int
	}{
		{"/", "", http.StatusOK},
		{"/ui/app.js", "", http.StatusOK},
		{"/ui/../metrics", "", http.StatusNotFound},
		{"/uix", "", http.StatusUnauthorized},
		{"/ui/%2e%2e/metrics", "", http.StatusNotFound},
		{board.Prefix + "sessions", "", http.StatusUnauthorized},
		{board.Prefix + "sessions", oldToken, http.StatusOK},
		{board.Prefix + "originals/" + strings.Repeat("a", 24), oldToken, http.StatusForbidden},
		{"/metrics", oldToken, http.StatusOK},
		{"/v1/mode", oldToken, http.StatusOK},
	} {
		if code, text, _, err := say(http.MethodGet, base+c.path, c.token, "", nil); code != c.status {
			t.Errorf("with a token: %s: %d %.100s, %v", c.path, code, text, err)
		}
	}
}

// With admin.content an operator sees originals, but none that is sealed or withdrawn.
func TestServeShowsOriginals(t *testing.T) {
	dir, id := t.TempDir(), strings.Repeat("0c", 12)
	data := filepath.Join(dir, "data")
	plant(t, data, "", "", "key", &state.Original{ID: id, Content: []byte(`"line\n<b>two</b>"`), At: time.Now()})
	token := accesstest.Write(t, filepath.Join(dir, "token"), []byte(oldToken))
	admin, _ := serving(t, func(flags map[string]string) {
		flags["state"], flags["admin.token_file"] = data, token
		flags["file"] = accesstest.Write(t, filepath.Join(dir, "tidemark.yaml"), []byte("admin: {content: true}\n"))
	})
	base := "http://" + admin
	awaitURL(t, base+"/livez")
	expect := func(step, id string, status int, text string) {
		t.Helper()
		code, body, h, err := say(http.MethodGet, base+board.Prefix+"originals/"+id, oldToken, "", nil)
		if code != status || !strings.Contains(body, text) || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, %v", step, code, body, err)
		}
	}
	expect("kept", id, http.StatusOK, `"text":"line\n\u003cb\u003etwo\u003c/b\u003e"`)
	expect("unknown", strings.Repeat("0d", 12), http.StatusNotFound, "not_found")
	expect("no id", "x%2F..", http.StatusNotFound, "not_found")
	if code, _, _, err := say(http.MethodPost, base+"/v1/originals/"+id+"/seal", oldToken, "", nil); code != http.StatusNoContent {
		t.Fatalf("seal: %d, %v", code, err)
	}
	expect("sealed", id, http.StatusForbidden, "sealed")
}

// awaitURL waits until something answers.
func awaitURL(t *testing.T, url string) {
	t.Helper()
	for range 1000 {
		if code, _, _, err := say(http.MethodGet, url, "", "", nil); err == nil && code == http.StatusOK {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not answer", url)
}
