package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
)

// say sends one request over a connection of its own. An address may be a socket.
func say(method, url, token, body string, c *tls.Config) (status int, text string, h http.Header, err error) {
	tr := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, strings.TrimSpace(string(b)), res.Header, err
}

// await waits until a server answers its health check.
func await(t *testing.T, a *serverconfig.Admin) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := ready(ctx, a)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// alive asks the ext_proc listener for its health, over a connection of its own.
func alive(t *testing.T, addr string, creds credentials.TransportCredentials) error {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = grpc_health_v1.NewHealthClient(c).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

// Streams and operators come in with a certificate of the right authority and not without, and a certificate that was exchanged
// counts without a restart. Probes need none.
func TestServeMutualTLS(t *testing.T) {
	server, next := accesstest.NewAuthority(t, "server"), accesstest.NewAuthority(t, "next")
	clients, others := accesstest.NewAuthority(t, "clients"), accesstest.NewAuthority(t, "others")
	dir := t.TempDir()
	cert, key := server.Issue(t, "tidemark")
	keys := access.TLS{
		CertFile: accesstest.Write(t, filepath.Join(dir, "tls.crt"), cert), KeyFile: accesstest.Write(t, filepath.Join(dir, "tls.key"), key),
		ClientCAFile: accesstest.Write(t, filepath.Join(dir, "ca.crt"), clients.PEM),
	}
	listen, err := free()
	if err != nil {
		t.Fatal(err)
	}
	admin, _ := serving(t, func(flags map[string]string) {
		flags["listen"] = listen
		for _, section := range []string{"tls", "admin.tls"} {
			flags[section+".cert_file"], flags[section+".key_file"], flags[section+".client_ca_file"] = keys.CertFile, keys.KeyFile, keys.ClientCAFile
		}
	})
	await(t, &serverconfig.Admin{Listen: admin, TLS: keys})
	expect := func(step string, by, as *accesstest.Authority, ok bool) {
		t.Helper()
		err := alive(t, listen, credentials.NewTLS(by.Client(t, as)))
		if (err == nil) != ok || err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("%s: ext_proc: %v", step, err)
		}
		code, _, _, err := say(http.MethodGet, "https://"+admin+"/v1/mode", "", "", by.Client(t, as))
		if (code == http.StatusOK) != ok {
			t.Errorf("%s: admin: %d, %v", step, code, err)
		}
	}
	expect("the right authority", server, clients, true)
	expect("no certificate", server, nil, false)
	expect("another authority", server, others, false)
	expect("another server", next, clients, false)
	if err := alive(t, listen, insecure.NewCredentials()); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text: %v", err)
	}
	if code, text, _, err := say(http.MethodGet, "https://"+admin+"/readyz", "", "", server.Client(t, nil)); code != http.StatusOK {
		t.Errorf("a probe: %d %s, %v", code, text, err)
	}
	if code, _, _, _ := say(http.MethodGet, "https://"+admin+"/metrics", "", "", server.Client(t, nil)); code != http.StatusUnauthorized {
		t.Errorf("metrics without a certificate: %d", code)
	}
	cert, key = next.Issue(t, "tidemark")
	accesstest.Write(t, keys.CertFile, cert)
	accesstest.Write(t, keys.KeyFile, key)
	accesstest.Write(t, keys.ClientCAFile, others.PEM)
	expect("rotated", next, others, true)
	expect("rotated, an old client", next, clients, false)
	await(t, &serverconfig.Admin{Listen: admin, TLS: keys}) // health knows the certificate that is in the file now
	if err := ready(t.Context(), &serverconfig.Admin{Listen: admin, TLS: access.TLS{CertFile: keys.ClientCAFile}}); err == nil {
		t.Error("health takes a server for its own that shows another certificate")
	}
}

const (
	oldToken = "0123456789abcdef-old"
	newToken = "0123456789abcdef-new"
)

// A listener with a token lets in who bears one of the file, as the file is at that moment.
func TestServeTokens(t *testing.T) {
	token := accesstest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(oldToken))
	restore, err := free()
	if err != nil {
		t.Fatal(err)
	}
	admin, _ := serving(t, func(flags map[string]string) {
		flags["admin.token_file"], flags["restore.token_file"], flags["restore.listen"] = token, token, restore
	})
	await(t, &serverconfig.Admin{Listen: admin})
	expect := func(step, token string, want int) {
		t.Helper()
		for _, url := range []string{"http://" + admin + "/metrics", "http://" + admin + "/config", "http://" + admin + "/v1/mode"} {
			if code, text, _, err := say(http.MethodGet, url, token, "", nil); code != want {
				t.Errorf("%s: %s: %d %s, %v", step, url, code, text, err)
			}
		}
		code, text, _, err := say(http.MethodGet, "http://"+restore+"/v1/originals/0123456789abcdef01234567", token, "", nil)
		if (code == http.StatusUnauthorized) != (want == http.StatusUnauthorized) {
			t.Errorf("%s: restore: %d %s, %v", step, code, text, err)
		}
	}
	expect("the token", oldToken, http.StatusOK)
	expect("none", "", http.StatusUnauthorized)
	expect("one that is not there yet", newToken, http.StatusUnauthorized)
	accesstest.Write(t, token, []byte(oldToken+"\n"+newToken))
	expect("the old one of two", oldToken, http.StatusOK)
	expect("the new one of two", newToken, http.StatusOK)
	accesstest.Write(t, token, []byte(newToken))
	expect("the old one, taken away", oldToken, http.StatusUnauthorized)
	expect("the new one alone", newToken, http.StatusOK)
	_, metrics, _, _ := say(http.MethodGet, "http://"+admin+"/metrics", newToken, "", nil)
	for _, line := range []string{
		`tidemark_refused_requests_total{listener="admin",reason="unauthorized"} 9`, `tidemark_refused_requests_total{listener="restore",reason="unauthorized"} 3`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

// A client that asks too often is told when to come again.
func TestServeLimitsRates(t *testing.T) {
	restore, err := free()
	if err != nil {
		t.Fatal(err)
	}
	admin, _ := serving(t, func(flags map[string]string) { flags["restore.listen"], flags["restore.rate"] = restore, "0.01" })
	await(t, &serverconfig.Admin{Listen: admin})
	url := "http://" + restore + "/v1/originals/0123456789abcdef01234567"
	first, _, _, err := say(http.MethodGet, url, "", "", nil)
	second, text, h, err2 := say(http.MethodGet, url, "", "", nil)
	if first != http.StatusNotFound || second != http.StatusTooManyRequests || h.Get("Retry-After") == "" || err != nil || err2 != nil {
		t.Errorf("%d, then %d %s %v; %v, %v", first, second, text, h, err, err2)
	}
	if _, metrics, _, _ := say(http.MethodGet, "http://"+admin+"/metrics", "", "", nil); !strings.Contains(metrics, `tidemark_refused_requests_total{listener="restore",reason="rate_limited"} 1`) {
		t.Error("the refusal was not counted")
	}
}

// An original that was kept before a restart comes back on the restore listener, is refused once an operator has sealed it and gone
// once its session was withdrawn. On disk it is encrypted, and no log or metric holds it or its id.
func TestServeRestores(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	secret := accesstest.Write(t, filepath.Join(dir, "secret"), []byte(strings.Repeat(oldToken, 2)))
	keys := accesstest.Write(t, filepath.Join(dir, "keys"), []byte(strings.Repeat("0123456789abcdef", 4)))
	const id, planted = "0123456789abcdef01234567", "planted-content-of-a-tool"
	plant(t, data, secret, keys, "key:sk-test", &state.Original{ID: id, Call: "c", Tool: "Read", Content: []byte(`"` + planted + `"`), At: time.Now(), Filter: "tiered", About: "Read a.go"})
	restore, err := free()
	if err != nil {
		t.Fatal(err)
	}
	admin, _ := serving(t, func(flags map[string]string) {
		flags["state"], flags["secret_file"], flags["encryption_key_file"] = data, secret, keys
		flags["restore.listen"], flags["restore.tenant"] = restore, "credential"
	})
	await(t, &serverconfig.Admin{Listen: admin})
	get := func(credential string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+restore+"/v1/originals/"+id, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", credential)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	operate := func(method, path string, want int) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", "sk-test")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s %s: %d", method, path, res.StatusCode)
		}
	}
	if code, text := get("sk-test"); code != http.StatusOK || text != planted {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get("sk-of-another"); code != http.StatusNotFound || strings.Contains(text, planted) {
		t.Errorf("another tenant: %d %s", code, text)
	}
	operate(http.MethodPost, "/v1/originals/"+id+"/seal", http.StatusNoContent)
	if code, text := get("sk-test"); code != http.StatusForbidden || strings.Contains(text, planted) {
		t.Errorf("sealed: %d %s", code, text)
	}
	operate(http.MethodGet, "/v1/sessions/a%2F..%2Fb/originals", http.StatusOK)
	operate(http.MethodDelete, "/v1/sessions/a%2F..%2Fb", http.StatusOK)
	if code, _ := get("sk-test"); code != http.StatusGone {
		t.Errorf("withdrawn: %d", code)
	}
	_, metrics, _, _ := say(http.MethodGet, "http://"+admin+"/metrics", "", "", nil)
	for _, line := range []string{`tidemark_restores_total{path="http",result="ok"} 1`, `tidemark_restores_total{path="http",result="sealed"} 1`, `tidemark_restored_tokens_total{filter="tiered",path="http"}`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	for _, s := range []string{id, planted, "sk-test"} {
		if strings.Contains(metrics, s) {
			t.Errorf("metrics hold %s", s)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	err = filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), planted) {
			t.Errorf("%s holds the original", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// plant puts an original of a session into a store that no server has open.
func plant(t *testing.T, data, secretFile, keyFile, tenant string, o *state.Original) {
	t.Helper()
	store, err := openStore(&serverconfig.Config{State: data, SecretFile: secretFile, KeyFile: keyFile}, observe.NewMetrics(""))
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.New(t.Context(), store, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Session, o.SHA256, o.Size = e.SessionKey(tenant, "a/../b"), sha256.Sum256(o.Content), len(o.Content)
	if _, err := store.Commit(t.Context(), o.Session, &state.Branch{ID: 1, Last: o.At}, []state.Original{*o}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Close(t.Context()), store.Close()); err != nil {
		t.Fatal(err)
	}
}

// Modes are narrowed while the server runs: for all or for a route, never beyond what the config allows.
func TestServeModes(t *testing.T) {
	e := start(t, func(flags map[string]string) { flags["mode"] = "shadow" })
	put := func(body string) (int, string) {
		t.Helper()
		code, text, _, err := say(http.MethodPut, "http://"+e.admin+"/v1/mode", "", body, nil)
		if err != nil {
			t.Fatal(err)
		}
		return code, text
	}
	session := 0
	expect := func(step, route, mode string) {
		t.Helper()
		session++
		e.route = route
		if got := e.ask(t, turn("x-claude-code-session-id", step), nil); got["mode"] != mode {
			t.Errorf("%s: mode %v of %s, want %s", step, got["mode"], route, mode)
		}
	}
	expect("at first", "a", "shadow")
	for _, c := range []struct{ step, body, a, b string }{
		{"off for one", `{"mode":"off","route":"a"}`, "off", "shadow"},
		{"off for all", `{"mode":"off"}`, "off", "off"},
		{"back for the one", `{"mode":"active","route":"a"}`, "off", "off"},
		{"back for all", `{"mode":"active"}`, "shadow", "shadow"},
	} {
		if code, text := put(c.body); code != http.StatusOK || !strings.Contains(text, `"config":"shadow"`) || !strings.Contains(text, "until this process ends") {
			t.Errorf("%s: %d %s", c.step, code, text)
		}
		expect(c.step, "a", c.a)
		expect(c.step, "b", c.b)
	}
	for _, body := range []string{``, `{}`, `{"mode":"loud"}`, `{"mode":"off","rout":"a"}`, `{"mode":"off"} {}`, `[]`, `{"mode":"off","route":""}`, `{"mode":"off","route":"` + strings.Repeat("x", 300) + `"}`} {
		if code, text := put(body); code != http.StatusBadRequest || strings.Contains(text, "xxx") {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if code, text, _, _ := say(http.MethodGet, "http://"+e.admin+"/v1/mode", "", "", nil); code != http.StatusOK || !strings.Contains(text, `"mode":"shadow","config":"shadow","set":"active","routes":{}`) {
		t.Errorf("%d %s", code, text)
	}
}

func TestSwitchesAreBounded(t *testing.T) {
	var s switches
	for i := range maxNarrowed {
		if err := s.set(strings.Repeat("r", 1+i%7)+string(rune(0x4e00+i)), 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.set("one more", 2); err == nil {
		t.Error("there is no bound")
	}
	if err := s.set("r"+string(rune(0x4e00)), 0); err != nil || len(s.routes) != maxNarrowed-1 {
		t.Errorf("%d routes, %v", len(s.routes), err)
	}
}

// On an address that others reach, operators' endpoints are not there without a credential; what was open before still is.
func TestServeOperatorsNeedACredential(t *testing.T) {
	for _, c := range []struct {
		host, token string
		want        int
	}{{"0.0.0.0", "", http.StatusNotFound}, {"0.0.0.0", oldToken, http.StatusOK}, {"127.0.0.1", "", http.StatusOK}} {
		admin, _ := serving(t, func(flags map[string]string) {
			flags["admin.listen"] = strings.Replace(flags["admin.listen"], "127.0.0.1", c.host, 1)
			if c.token != "" {
				flags["admin.token_file"] = accesstest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(c.token))
			}
		})
		admin = strings.Replace(admin, "0.0.0.0", "127.0.0.1", 1)
		await(t, &serverconfig.Admin{Listen: admin})
		if code, text, _, err := say(http.MethodGet, "http://"+admin+"/v1/mode", c.token, "", nil); code != c.want {
			t.Errorf("%+v: %d %s, %v", c, code, text, err)
		}
		if code, text, _, err := say(http.MethodGet, "http://"+admin+"/metrics", c.token, "", nil); code != http.StatusOK {
			t.Errorf("%+v: %d %s, %v", c, code, text, err)
		}
	}
}

// Routes that the config turns off are off as soon as the file says so.
func TestServeTakesOverOffRoutes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(file, []byte("off_routes: [b]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := start(t, func(flags map[string]string) { flags["file"] = file })
	mode := func(route string) any {
		t.Helper()
		e.route = route
		return e.ask(t, turn(), nil)["mode"]
	}
	if a, b := mode("a"), mode("b"); a != "active" || b != "off" {
		t.Errorf("%v, %v", a, b)
	}
	accesstest.Write(t, file, []byte("off_routes: [a]\n"))
	for mode("a") != "off" {
		time.Sleep(10 * time.Millisecond)
	}
	if b := mode("b"); b != "active" {
		t.Errorf("b is %v", b)
	}
}

func TestTenantOf(t *testing.T) {
	if tenantOf("id") != nil {
		t.Error("an id is not enough")
	}
	for _, c := range []struct{ by, name, value, want string }{
		{"credential", "X-Api-Key", "sk-ant-api03-x", "key:sk-ant-api03-x"},
		{"credential", "Authorization", "Bearer sk-x", "key:sk-x"},
		{"credential", "Authorization", "Bearer sk-ant-oat01-rotates", ""},
		{"credential", "X-Team", "blue", ""},
		{"header:X-Team", "X-Team", "blue", "header:blue"},
		{"header:x-team", "X-Team", "", ""},
		{"header:x-team", "X-Api-Key", "sk-x", ""},
	} {
		r, err := http.NewRequest(http.MethodGet, "/v1/originals/x?key=sk-y", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(c.name, c.value)
		if got, ok := tenantOf(c.by)(r); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%+v: %q, %v", c, got, ok)
		}
	}
}

// FuzzPutMode: whatever is asked, a mode is set only if it is a known word, and answers quote nothing.
func FuzzPutMode(f *testing.F) {
	for _, body := range []string{`{"mode":"off"}`, `{"mode":"shadow","route":"planted"}`, `{"mode":"planted"}`, `{"mode":"off"}x`, `[`, `null`, `{"MODE":"off"}`} {
		f.Add(body)
	}
	l, err := serverconfig.Load(serverconfig.Sources{Filters: knownFilters()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := &server{log: slog.New(slog.DiscardHandler), admission: &admission{}}
		s.admission.use(l)
		w := httptest.NewRecorder()
		s.putMode(w, httptest.NewRequest(http.MethodPut, "/v1/mode", strings.NewReader(body)))
		k := &s.admission.switches
		switch {
		case w.Code == http.StatusOK && json.Valid([]byte(body)):
		case w.Code != http.StatusBadRequest, k.all != 0, len(k.routes) > 0, strings.Contains(w.Body.String(), "planted"):
			t.Errorf("%q: %d %s, %v %v", body, w.Code, w.Body, k.all, k.routes)
		}
	})
}
