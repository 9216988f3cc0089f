package envoy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/gen"
)

const (
	restoreTool = "context_restore"
	missing     = "0123456789abcdef01234567" // an id that nothing has
)

// What nobody may find where it does not belong. Each stands in one place of the requests.
const (
	secretKey     = "sk-secret-key-4b1f0c"
	secretOther   = "sk-secret-other-9ce27a"
	secretSession = "session-secret-17d3aa"
	secretText    = "secret-text-c05e11"
	secretToken   = "token-secret-2a6b90-0123456789abcdef"
)

var secrets = []string{secretKey, secretOther, secretSession, secretText, secretToken}

var idOf = regexp.MustCompile(` id ([0-9a-f]{24})\]`)

// forgetful is an agent whose model asks for what was left out. Its client does not know the tool for that.
type forgetful struct {
	*agent
	*product

	key   string
	http2 bool
	tool  string            // the tool that tidemark adds
	given map[string]string // what stands in the place of the client's errors, raw JSON, by call
	last  *exchange
}

func (f *forgetful) turn(t *testing.T, uses ...use) *exchange {
	t.Helper()
	if len(uses) > 0 {
		f.step(uses...)
	}
	return f.send(t, "")
}

// send sends the conversation, and demands that the provider sees what it must: the tool behind all others, what was given back, and
// else only markers that the client did not send.
func (f *forgetful) send(t *testing.T, reply string) *exchange {
	t.Helper()
	r := f.request("/named/v1/messages")
	r.key, r.session, r.http2, r.reply = f.key, secretSession, f.http2, reply
	x := f.sendAny(t, r).ok(t)
	list := gjson.GetBytes(x.out, "tools").Array()
	tool := list[len(list)-1].Raw
	if f.tool == "" {
		f.tool = tool
	}
	if gjson.Get(tool, "name").Str != restoreTool || tool != f.tool {
		t.Fatalf("the last tool is %s, it was %s", tool, f.tool)
	}
	bare := bytes.Replace(x.out, []byte(","+tool+"]"), []byte("]"), 1)
	sent, out := contents(x.sent), contents(x.out)
	for call, want := range f.given {
		if want == "" { // now it is given
			want = out[call]
			f.given[call] = want
		}
		if out[call] != want || out[call] == sent[call] {
			t.Errorf("request %s: in the place of what the client said to %s stands %.100s, want %.100s", x.id, call, out[call], want)
		}
		bare = bytes.Replace(bare, []byte(toolResult(call)+out[call]), []byte(toolResult(call)+sent[call]), 1)
	}
	var err error
	if x.shortened, x.marked, err = compare(x.sent, bare); err != nil {
		t.Errorf("request %s: %v", x.id, err)
	}
	f.last = x
	return x
}

// toolResult is how the result of a call begins in a body.
func toolResult(call string) string { return `"tool_use_id":"` + call + `","content":` }

// ask lets the model call the tool, and returns what stands in the place of the client's error on the next request, raw JSON.
func (f *forgetful) ask(t *testing.T, id string) string {
	t.Helper()
	f.calls++
	call := fmt.Sprintf("toolu_ask_%d", f.calls)
	f.step(runs(3))
	x := f.send(t, fmt.Sprintf(`[{"type":"tool_use","id":%q,"name":%q,"input":{"id":%q}}]`, call, restoreTool, id))
	if !bytes.Contains(f.provider.reply(x.id), []byte(call)) {
		t.Errorf("the model did not ask: %s", f.provider.reply(x.id))
	}
	failed := gen.Result(call, "<tool_use_error>Error: No such tool available: "+restoreTool+"</tool_use_error>")
	failed.Set("is_error", true)
	f.add("assistant", gen.Call(call, restoreTool, gen.Object{{Key: "id", Value: id}}))
	f.add("user", failed)
	f.given[call] = ""
	f.send(t, "")
	return f.given[call]
}

// recall plays a session up to where a read is left out. It returns the id, and the text as the provider had seen it, raw JSON.
func (f *forgetful) recall(t *testing.T) (id, original string) {
	t.Helper()
	f.turn(t)
	before := f.turn(t, reads(secretText+".go", 120))
	call := f.reads[0]
	f.turn(t, edits(secretText+".go"))
	f.turn(t, runs(60))
	f.pause(cold)
	f.human("What did it say before?")
	x := f.turn(t)
	marker := x.shortened[call]
	m := idOf.FindStringSubmatch(marker)
	if m == nil {
		t.Fatalf("the read is %.200s", marker)
	}
	return m[1], contents(before.out)[call]
}

// newForgetful starts everything, with debug logs, for two tenants who have the same session and say the same.
func newForgetful(t *testing.T, more string) (p *product, one, other *forgetful) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(secretToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = newProduct(t, "log: {level: debug}\nrestore: {tenant: credential, rate: 10000, token_file: "+tokens+"}\n"+
		"pipelines: {large: {pipeline: [readlifecycle, tiered], components: {tiered: {window: 3}}, inline_restore: true}}\n"+more)
	tenant := func(key string, http2 bool) *forgetful {
		return &forgetful{agent: newAgent("same"), product: p, key: key, http2: http2, given: map[string]string{}}
	}
	return p, tenant(secretKey, false), tenant(secretOther, true)
}

// TestRestore: what was left out comes back byte for byte in all three ways, to the tenant whose it is and to nobody else, and what
// came back inline stands in the transcript for good. Nothing of any of it is to be found in logs, metrics or the state directory.
func TestRestore(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(strings.Repeat("c7", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, one, other := newForgetful(t, "encryption_key_file: "+keys+"\n")
	id, original := one.recall(t)
	foreign, _ := other.recall(t)
	if id == foreign {
		t.Fatal("two tenants have one id")
	}
	t.Run("inline", func(t *testing.T) { one.inline(t, id, original) })
	t.Run("http", func(t *testing.T) { p.http(t, id, original) })
	t.Run("mcp", func(t *testing.T) { p.mcp(t, id, original) })
	t.Run("tenants", func(t *testing.T) { p.apart(t, other, id, foreign) })
	t.Run("operators", func(t *testing.T) { one.operated(t, id) })
	for _, way := range []string{"http", "mcp", "inline"} {
		for _, result := range []string{"ok", "miss", "sealed", "withdrawn"} {
			if got := p.tidemark.MetricWhen(t, fmt.Sprintf("tidemark_restores_total{path=%q,result=%q}", way, result), envoytest.AtLeast(1)); got == 0 {
				t.Errorf("no %s by %s is counted", result, way)
			}
		}
	}
	p.Access(t, other.last.id)
	said := map[string]string{
		"/metrics": p.tidemark.Ask(t, "/metrics"), "/config": p.tidemark.Ask(t, "/config"), "the access log": p.AccessLog(), "Envoy's log": p.Log(),
	}
	p.tidemark.Stop(t)
	said["the log"] = p.tidemark.Log()
	if !strings.Contains(said["the log"], "level=DEBUG") || !strings.Contains(said["the access log"], `"outcome":"moved"`) {
		t.Error("the logs do not say enough to prove anything")
	}
	for name, text := range said {
		for _, secret := range append([]string{id[:7], foreign[:7]}, secrets...) {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", name, secret)
			}
		}
	}
	for _, secret := range append([]string{id, foreign}, secrets...) {
		if in := stored(t, p.tidemark.State, secret); in != "" {
			t.Errorf("%s holds %s", in, secret)
		}
	}
}

// TestRestoreState is what makes the search of TestRestore worth something: without a key to encrypt by, it finds what it looks for.
func TestRestoreState(t *testing.T) {
	p, one, _ := newForgetful(t, "")
	id, _ := one.recall(t)
	p.tidemark.Stop(t)
	for _, text := range []string{id, secretText} {
		if stored(t, p.tidemark.State, text) == "" {
			t.Errorf("no file of the state directory holds %s", text)
		}
	}
	for _, secret := range []string{secretKey, secretSession, secretToken} {
		if in := stored(t, p.tidemark.State, secret); in != "" {
			t.Errorf("%s holds %s", in, secret)
		}
	}
}

// stored is the first file below a directory that holds a text.
func stored(t *testing.T, dir, text string) (in string) {
	t.Helper()
	files := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || in != "" {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		if bytes.Contains(b, []byte(text)) || strings.Contains(path, text) {
			in = path
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
	return in
}

// inline demands that the original takes the place of the client's error, and stays there when other results are left out, and when
// the program was killed.
func (f *forgetful) inline(t *testing.T, id, original string) {
	t.Helper()
	if got := f.ask(t, id); got != original {
		t.Fatalf("given back %.200s, want %.200s", got, original)
	}
	f.turn(t, runs(50))
	f.tidemark.Kill(t)
	f.tidemark.Start(t)
	before := len(f.turn(t, runs(60)).shortened)
	f.turn(t, runs(70), runs(40))
	f.pause(cold)
	f.human("Go on.")
	if x := f.turn(t); len(x.shortened) <= before {
		t.Errorf("%d results are left out, before %d", len(x.shortened), before)
	}
	f.tidemark.Stop(t)
	f.tidemark.Start(t)
	if got := f.ask(t, id); got != original {
		t.Errorf("given back after two starts: %.200s", got)
	}
}

// restored is what the restore listener says to a request.
type restored struct {
	status int
	header http.Header
	text   string
}

// get asks the restore listener for a path, as a tenant.
func (p *product) get(t *testing.T, method, path, key string, header ...string) (a restored) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.tidemark.Restore+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Authorization", "Bearer "+secretToken)
	r.Header.Set("x-api-key", key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Header.Del("Date")
	return restored{res.StatusCode, res.Header, string(b)}
}

// http demands the text that the provider saw, and parts of it.
func (p *product) http(t *testing.T, id, original string) {
	t.Helper()
	text := unquote(t, original)
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 100 || !strings.Contains(text, secretText) {
		t.Fatalf("the original is %.200q", text)
	}
	path := "/v1/originals/" + id
	whole := p.get(t, http.MethodGet, path, secretKey)
	if sha256.Sum256([]byte(whole.text)) != sha256.Sum256([]byte(text)) || whole.status != http.StatusOK {
		t.Fatalf("status %d, %.200q", whole.status, whole.text)
	}
	sum := sha256.Sum256([]byte(original))
	if tag := whole.header.Get("Etag"); tag != `"`+hex.EncodeToString(sum[:])+`"` {
		t.Errorf("the ETag is %s", tag)
	}
	grep := fmt.Sprintf("7:%s8:%s", lines[6], lines[7])
	for query, want := range map[string]string{
		"?raw=1": original, "?head=3": strings.Join(lines[:3], ""), "?from=10&to=12": strings.Join(lines[9:12], ""),
		"?tail=2": text[strings.LastIndex(text, lines[len(lines)-2]):], "?grep=step_%5B67%5D%5C%28": grep, "?offset=300&max_bytes=1000000": text[300:],
	} {
		if a := p.get(t, http.MethodGet, path+query, secretKey); a.status != http.StatusOK || a.text != want {
			t.Errorf("%s: status %d, %.300q, want %.300q", query, a.status, a.text, want)
		}
	}
	if a := p.get(t, http.MethodGet, path, secretKey, "Range", "bytes=100-299"); a.status != http.StatusPartialContent || a.text != text[100:300] {
		t.Errorf("a range: status %d, %q", a.status, a.text)
	}
	if a := p.get(t, http.MethodHead, path, secretKey); a.status != http.StatusOK || a.header.Get("Content-Length") != fmt.Sprint(len(text)) {
		t.Errorf("HEAD: %+v", a)
	}
	if a := p.get(t, http.MethodGet, path, secretKey, "Authorization", "Bearer wrong"); a.status != http.StatusUnauthorized || strings.Contains(a.text, secretText) {
		t.Errorf("with a wrong token: %+v", a)
	}
}

// bearing adds headers to all requests of a client.
type bearing map[string]string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range b {
		r.Header.Set(name, value)
	}
	r.Close = true
	return http.DefaultTransport.RoundTrip(r)
}

// call lets the SDK's client call a tool of the MCP server, as a tenant.
func (p *product) call(t *testing.T, key, tool, id string) (text string, failed bool) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + p.tidemark.Restore + "/mcp", HTTPClient: &http.Client{Transport: bearing{"Authorization": "Bearer " + secretToken, "x-api-key": key}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"id": id}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Content {
		text += c.(*mcp.TextContent).Text
	}
	return text, r.IsError
}

func (p *product) mcp(t *testing.T, id, original string) {
	t.Helper()
	if text, failed := p.call(t, secretKey, restoreTool, id); failed || text != unquote(t, original) {
		t.Errorf("given back %.200q", text)
	}
	if text, failed := p.call(t, secretKey, "context_spans", id); failed || !strings.Contains(text, "id "+id+" · Read of /src/"+secretText+".go") {
		t.Errorf("the session has %.300q", text)
	}
}

// apart demands that a tenant learns nothing of another's id: it gets what it gets for one that nothing has.
func (p *product) apart(t *testing.T, other *forgetful, id, own string) {
	t.Helper()
	if a := p.get(t, http.MethodGet, "/v1/originals/"+own, secretOther); a.status != http.StatusOK {
		t.Errorf("its own: %+v", a)
	}
	same := func(what, foreign, none string) {
		t.Helper()
		if foreign != none || foreign == "" || strings.Contains(foreign, secretText) {
			t.Errorf("%s: %.300q of another tenant's, %.300q of nobody's", what, foreign, none)
		}
	}
	for _, key := range []string{secretOther, "sk-unknown", ""} {
		for _, rest := range []string{"", "?raw=1", "?head=1", "?head=x", "/siblings", "/seal"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
				ask := func(id string) string {
					return fmt.Sprint(p.get(t, method, "/v1/originals/"+id+rest, key, "Range", "bytes=0-9", "If-None-Match", "*"))
				}
				same(method+" "+rest, ask(id), ask(missing))
			}
		}
		for _, tool := range []string{restoreTool, "context_spans"} {
			foreign, failed := p.call(t, key, tool, id)
			none, _ := p.call(t, key, tool, missing)
			if !failed {
				t.Errorf("%s did not fail", tool)
			}
			same(tool, foreign, none)
		}
	}
	same("inline", other.ask(t, id), other.ask(t, missing))
	list := p.get(t, http.MethodGet, "/v1/sessions/"+secretSession+"/originals", secretOther)
	if list.status != http.StatusOK || !strings.Contains(list.text, own) || strings.Contains(list.text, id) {
		t.Errorf("the session of the same name: %+v", list)
	}
}

// operated demands that what operators seal or withdraw is given back by no way, and that the transcript stays what it was: send
// demands that of what was given back before.
func (f *forgetful) operated(t *testing.T, id string) {
	t.Helper()
	operate := func(method, path string, want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.tidemark.Admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		r.Header.Set("x-api-key", f.key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if b, err := io.ReadAll(res.Body); err != nil || !regexp.MustCompile(want).MatchString(fmt.Sprint(res.StatusCode, " ", string(b))) {
			t.Errorf("%s %s: status %d, %s, %v", method, path, res.StatusCode, b, err)
		}
	}
	refused := func(status int, word string) {
		t.Helper()
		if a := f.get(t, http.MethodGet, "/v1/originals/"+id, f.key); a.status != status || !strings.Contains(a.text, word) {
			t.Errorf("by HTTP: %+v", a)
		}
		if text, failed := f.call(t, f.key, restoreTool, id); !failed || !strings.Contains(text, word) {
			t.Errorf("by MCP: %.200q", text)
		}
		if text := f.ask(t, id); !strings.Contains(text, word) || strings.Contains(text, secretText) {
			t.Errorf("inline: %.200q", text)
		}
	}
	shortened := f.last.shortened
	operate(http.MethodPost, "/v1/originals/"+id+"/seal", "^204 $")
	refused(http.StatusForbidden, "sealed")
	operate(http.MethodDelete, "/v1/originals/"+id+"/seal", "^204 $")
	operate(http.MethodDelete, "/v1/sessions/"+secretSession, `^200 {"withdrawn": ?[1-9]`)
	refused(http.StatusGone, "withdrawn")
	f.turn(t, runs(5)).keeps(t, shortened)
}
