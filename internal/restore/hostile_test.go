package restore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// TestNobodyLearnsWhatIsThere: guessed ids and another tenant's get the same answer as what is not there, byte for byte, whatever is
// asked and whatever became of the original.
func TestNobodyLearnsWhatIsThere(t *testing.T) {
	w := newWorld(t, byKey)
	ids := w.keep("key:mine", "s", `"kept SECRET"`, `"sealed SECRET"`, quoted(strings.Repeat("large SECRET ", 100_000)))
	gone := w.keep("key:mine", "s2", `"withdrawn SECRET"`)[0]
	if err := w.store.Seal(context.Background(), ids[1], true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Withdraw(context.Background(), w.engine.SessionKey("key:mine", "s2")); err != nil {
		t.Fatal(err)
	}
	unknown := strings.Repeat("a", 24)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodPost, http.MethodDelete} {
		for _, suffix := range []string{"", "?raw=1", "?head=3", "?grep=SECRET", "?from=100000", "?bad", "/siblings", "/seal"} {
			for _, headers := range [][]string{{"x-api-key", "other"}, {}, {"x-api-key", ""}, {"x-api-key", "mine2"}, {"X-Tidemark-Tenant", "mine"}, {"Range", "bytes=0-3"}, {"If-None-Match", "*"}} {
				want := w.ask(method, w.url+"/v1/originals/"+unknown+suffix, headers...)
				for _, id := range append(ids, gone) {
					if got := w.ask(method, w.url+"/v1/originals/"+id+suffix, headers...); got.same() != want.same() {
						t.Errorf("%s %s %v: %s\nwant %s", method, suffix, headers, got.same(), want.same())
					}
				}
				if want.status < 400 {
					t.Errorf("%s %s: %d", method, suffix, want.status)
				}
			}
		}
	}
	for _, e := range w.seen.taken() {
		if e.Bytes > 0 {
			t.Errorf("event %+v", e)
		}
	}
}

// raw sends a request line and headers as they are, which no client would.
func (w *world) raw(lines ...string) (status string, body string) {
	w.tb.Helper()
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.tb.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\nConnection: close\r\n\r\n"); err != nil {
		w.tb.Fatal(err)
	}
	r := bufio.NewReader(c)
	status, _ = r.ReadString('\n')
	rest, _ := io.ReadAll(r)
	_, body, _ = strings.Cut(string(rest), "\r\n\r\n")
	return strings.TrimSpace(status), body
}

// TestPathTricks: only the one way of writing a path leads anywhere.
func TestPathTricks(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"SECRET"`)[0]
	for _, path := range []string{
		"/v1/originals/" + strings.ToUpper(id), "/v1/originals/" + id + "/", "/v1/originals//" + id, "//v1/originals/" + id, "/v1//originals/" + id, "/v1/originals/./" + id,
		"/v1/originals/x/../" + id, "/v1/originals/../originals/" + id, "/v1/originals%2f" + id, "/v1%2Foriginals/" + id, "/v1/originals/%" + fmt.Sprintf("%x", id[0]) + id[1:],
		"/v1/originals/" + id + "%00", "/v1/originals/%00" + id, "/v1/originals/" + id + "%20", "/v1/originals/" + id + ";x=1", "/v1/originals/" + id + "/..", "/v1/originals/" + id + "/siblings/",
		"/v1/originals/" + id + "/siblings/x", "/v1/originals/" + id + "/seal", "/V1/originals/" + id, "/v1/Originals/" + id, "/v1/originals/" + id[:23], "/v1/originals/" + id + "0",
		"/v1/originals/" + id[:23] + "%EF%BC%91", "/v1/originals/" + strings.Repeat("a", 60_000), "/v1/originals/", "/v1/originals", "/v1/", "/", "/v1/sessions/s", "/v1/sessions/s/originals",
		"/mcp/", "/MCP", "/%6dcp", "/v1/originals/%2e%2e/" + id, `/v1/originals/..\` + id,
	} {
		status, body := w.raw("GET "+path+" HTTP/1.1", "Host: localhost")
		if status != "HTTP/1.1 404 Not Found" || body != part.Missing+"\n" {
			t.Errorf("%.80s: %s %q", path, status, short(body))
		}
	}
	for _, line := range []string{"OPTIONS * HTTP/1.1", "GET * HTTP/1.1", "CONNECT " + id + ":443 HTTP/1.1", "GET http://localhost/v1//originals/" + id + " HTTP/1.1", "GET /v1/originals/\x00" + id + " HTTP/1.1", "GET /v1/originals/%zz HTTP/1.1"} {
		if status, body := w.raw(line, "Host: localhost"); strings.Contains(body, "SECRET") || strings.HasPrefix(status, "HTTP/1.1 5") {
			t.Errorf("%q: %s", line, status)
		}
	}
}

// TestOtherSites: pages of other sites, by name or by a name that was made to point here, are not answered.
func TestOtherSites(t *testing.T) {
	w := newWorld(t, byKey)
	id := w.keep("key:mine", "s", `"SECRET"`)[0]
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "[2001:db8::1]", "0.0.0.0"} {
		for _, line := range []string{"GET /v1/originals/" + id, "POST /mcp", "DELETE /v1/sessions/s"} {
			if status, _ := w.raw(line+" HTTP/1.1", "Host: "+host, "X-Api-Key: mine", "Content-Length: 0"); status != "HTTP/1.1 403 Forbidden" {
				t.Errorf("%s: %s: %s", host, line, status)
			}
		}
	}
	for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
		if r := w.ask(http.MethodDelete, w.url+"/v1/sessions/s", append(headers, "x-api-key", "mine")...); r.status != http.StatusForbidden {
			t.Errorf("%v: %d", headers, r.status)
		}
		if r := w.ask(http.MethodPost, w.admin+"/v1/originals/"+id+"/seal", headers...); r.status != http.StatusForbidden {
			t.Errorf("%v: seal %d", headers, r.status)
		}
		if r := w.ask(http.MethodPost, w.url+"/mcp", headers...); r.status != http.StatusForbidden {
			t.Errorf("%v: mcp %d", headers, r.status)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1", "127.8.8.8:1", "[::1]:90"} {
		if status, body := w.raw("GET /v1/originals/"+id+" HTTP/1.1", "Host: "+host, "X-Api-Key: mine"); status != "HTTP/1.1 200 OK" || body != "SECRET" {
			t.Errorf("%s: %s", host, status)
		}
	}
	for name := range w.get(id, "", "x-api-key", "mine", "Origin", "https://evil.example").header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("%s is set", name)
		}
	}
}

// TestManyRanges: a list of ranges costs no more than the whole.
func TestManyRanges(t *testing.T) {
	w := newWorld(t, nil)
	text := strings.Repeat("0123456789", 1000)
	id := w.keep("t", "s", quoted(text))[0]
	many := "bytes=" + strings.Repeat("0-0,", 5000) + "1-1"
	w.get(id, "", "Range", many).want(t, http.StatusOK, text)
	w.get(id, "", "Range", "bytes=0-1", "Range", "bytes=3-4").want(t, http.StatusOK, text)
	if r := w.get(id, "", "Range", "bytes=0-1,4-5"); r.status != http.StatusPartialContent || len(r.body) > 1000 {
		t.Errorf("two ranges: %d, %d bytes", r.status, len(r.body))
	}
	for _, odd := range []string{"bytes=-", "lines=1-2", "bytes=5-1", "bytes=99999999999999999999-", "bytes=a-b", "bytes=0-1,x"} {
		if r := w.get(id, "", "Range", odd); r.status != http.StatusRequestedRangeNotSatisfiable && r.status != http.StatusOK {
			t.Errorf("%s: %d", odd, r.status)
		}
	}
}

// TestSlowReaders: readers that take nothing leave room for small originals and hold a bounded number of large ones.
func TestSlowReaders(t *testing.T) {
	w := newWorld(t, nil)
	ids := w.keep("t", "s", quoted(strings.Repeat("large ", 3<<20)), `"small"`)
	var conns []net.Conn
	for range 16 {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/originals/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", ids[0])
		if status, err := bufio.NewReader(c).ReadString('\n'); err != nil || status != "HTTP/1.1 200 OK\r\n" { // it is under way, and held
			t.Fatal(status, err)
		}
		conns = append(conns, c)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				w.get(ids[1], "").want(t, http.StatusOK, "small")
			}
			for range 2 {
				if r := w.get(ids[0], "?head=1"); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
					t.Errorf("one more: %d", r.status)
				}
			}
		})
	}
	wg.Wait()
	for _, c := range conns {
		_ = c.Close()
	}
	for range 500 { // what was held is let go when the server sees that nobody reads
		if r := w.get(ids[0], "?head=1", "Range", "bytes=0-4"); r.status == http.StatusPartialContent {
			return
		}
	}
	t.Error("what is held is not let go")
}

// TestMCPGarbage: whatever is posted is answered, and gets nothing.
func TestMCPGarbage(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"SECRET"`)[0]
	one := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_restore","arguments":{"id":"` + id + `"}}}`
	for _, body := range []string{
		"", "{", "null", "[]", "1", `"x"`, "\x00", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 50_000), `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_restore","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope","arguments":{"id":"` + id + `"}}}`, `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`,
		"[" + strings.Repeat(one+",", 500) + one + "]", " \n[" + one + "]", strings.Replace(one, "{", `{"pad":"`+strings.Repeat("x", 300<<10)+`",`, 1),
	} {
		status, answer := w.post(body)
		if strings.Contains(answer, "SECRET") || status >= 500 || status == 0 {
			t.Errorf("%.60q: %d %s", body, status, short(answer))
		}
	}
	if status, answer := w.post(one); status != http.StatusOK || !strings.Contains(answer, "SECRET") {
		t.Errorf("%d %s", status, answer)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodTrace} {
		if r := w.ask(method, w.url+"/mcp", "Accept", "text/event-stream"); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: %d", method, r.status)
		}
	}
}

// post sends a body to the MCP server.
func (w *world) post(body string) (status int, answer string) {
	w.tb.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+"/mcp", strings.NewReader(body))
	if err != nil {
		w.tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		w.tb.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// TestNoSecretIsLogged plants secrets in all that comes in and looks for them in what is logged and in errors.
func TestNoSecretIsLogged(t *testing.T) {
	w := newWorld(t, byKey)
	const content, session, credential, pattern = "PLANTED-content", "PLANTED-session", "PLANTED-credential", "PLANTED-pattern("
	id := w.keep("key:"+credential, session, quoted(content))[0]
	var errors strings.Builder
	for round := range 2 {
		for _, path := range []string{
			"/v1/originals/" + id, "/v1/originals/" + id + "?grep=" + pattern, "/v1/originals/" + id + "?head=PLANTED", "/v1/originals/" + id + "?PLANTED=1", "/v1/originals/" + id + "?from=99",
			"/v1/originals/" + id + "/siblings", "/v1/sessions/" + session + "/originals", "/v1/originals/PLANTED", "/PLANTED",
		} {
			for _, key := range []string{credential, "PLANTED-other"} {
				if r := w.ask(http.MethodGet, w.url+path, "x-api-key", key, "User-Agent", "PLANTED-agent"); r.status != http.StatusOK {
					errors.WriteString(r.same())
				}
			}
		}
		for _, args := range []string{`{"id":"` + id + `","grep":"` + pattern + `"}`, `{"id":"PLANTED"}`, `{"id":"` + id + `","head":"PLANTED"}`, `"PLANTED`} {
			_, answer := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_restore","arguments":` + args + `}}`)
			errors.WriteString(answer)
		}
		w.ask(http.MethodPost, w.admin+"/v1/originals/"+id+"/seal")
		w.ask(http.MethodDelete, w.admin+"/v1/originals/"+id+"/seal")
		w.ask(http.MethodDelete, w.admin+"/v1/sessions/"+session, "x-api-key", credential)
		if round == 0 {
			w.version = 100
			w.keep("key:"+credential, session, quoted(content+"2"))
			_ = w.store.Close()
		}
	}
	logged := w.log.String()
	if !strings.Contains(logged, "session withdrawn") || !strings.Contains(logged, id[:6]) || !strings.Contains(logged, "ERROR") {
		t.Errorf("logs lack what they should say: %s", logged)
	}
	for what, text := range map[string]string{"logs": logged, "errors": errors.String()} {
		if i := strings.Index(text, "PLANTED"); i >= 0 || strings.Contains(text, id) {
			t.Errorf("%s: …%s", what, short(text[max(0, i-80):]))
		}
	}
}

// reads counts the originals that are read.
type reads struct {
	restore.Store
	n atomic.Int32
}

func (r *reads) Original(ctx context.Context, id string) (*state.Original, error) {
	r.n.Add(1)
	return r.Store.Original(ctx, id)
}

// TestNothingIsReadForOthers: of what another tenant asks for not a byte is read, by whatever way, so that no time is told by it and
// nothing counts as used. Neither is it for a list.
func TestNothingIsReadForOthers(t *testing.T) {
	w := newWorld(t, byKey)
	id := w.keep("key:mine", "s", quoted(strings.Repeat("large SECRET ", 100_000)))[0]
	store := &reads{Store: w.store}
	s := restore.New(restore.Options{Store: store, Session: w.engine.SessionKey, Tenant: byKey, Observer: w.seen, Log: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	call := func(key string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_restore","arguments":{"id":"` + id + `"}}}`
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"x-api-key": key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	at := server.URL + "/v1/originals/" + id
	for _, url := range []string{at, at + "?raw=1", at + "?grep=SECRET", at + "/siblings"} {
		if got := w.ask(http.MethodGet, url, "x-api-key", "other"); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", url, got.status)
		}
	}
	if got := call("other"); strings.Contains(got, "SECRET") || !strings.Contains(got, part.Missing) {
		t.Errorf("MCP: %s", short(got))
	}
	if got := w.ask(http.MethodGet, at+"/siblings", "x-api-key", "mine"); got.status != http.StatusOK {
		t.Errorf("siblings: %d", got.status)
	}
	if n := store.n.Load(); n != 0 {
		t.Errorf("%d originals were read", n)
	}
	if got := w.ask(http.MethodGet, at+"?head=1", "x-api-key", "mine"); got.status != http.StatusOK || !strings.Contains(call("mine"), "SECRET") {
		t.Errorf("the owner: %d", got.status)
	}
	if n := store.n.Load(); n != 2 {
		t.Errorf("%d originals were read", n)
	}
}
