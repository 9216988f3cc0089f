package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/demo"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// product is the whole of it: a real Envoy, the real program, and the simulated provider behind them.
type product struct {
	*envoytest.Env

	tidemark *envoytest.Tidemark
	provider *provider
	clients  map[bool]*http.Client // by HTTP/2

	mu  sync.Mutex
	now time.Time
	n   int
}

// Routes beside those of the shipped config, each of which tells its config in another way.
const productRoutes = `
              - {name: duplex-b, match: {prefix: /duplex/b/}, route: &up {cluster: upstream, timeout: 0s}, typed_per_filter_config: {
                  envoy.filters.http.set_metadata: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config,
                    metadata: [{metadata_namespace: tidemark, value: {pipeline: [readlifecycle, readmaturation],
                      components: {readlifecycle: {min_tokens: 200}, readmaturation: {quiesce_turns: 5, hold: always}}}}]},
                  envoy.filters.http.ext_proc: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                    overrides: {processing_mode: {request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND,
                      request_header_mode: SEND, response_header_mode: SKIP, response_trailer_mode: SKIP}}}}}
              - {name: shadow, match: {prefix: /shadow/}, route: *up, typed_per_filter_config: {envoy.filters.http.set_metadata: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config,
                  metadata: [{metadata_namespace: tidemark, value: {pipeline: [readlifecycle], mode: shadow}}]}}}
              - {name: named, match: {prefix: /named/}, route: *up, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {grpc_initial_metadata: [{key: x-tidemark-pipeline, value: large}]}}}}
              - {name: json, match: {prefix: /json/}, route: *up, typed_per_filter_config: {envoy.filters.http.ext_proc: {
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute,
                  overrides: {grpc_initial_metadata: [{key: x-tidemark-route, value: '{"components":{"readlifecycle":{"min_tokens":5000}}}'}]}}}}
`

func withProductRoutes(config string) string {
	const first = "              - name: messages\n"
	return strings.Replace(config, first, strings.TrimPrefix(productRoutes, "\n")+first, 1)
}

// start is when the sessions of the tests begin.
var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// newProduct starts everything. config is the server's.
func newProduct(t *testing.T, config string) *product {
	t.Helper()
	p := &product{provider: newProvider()}
	p.startWith(t, config, withProductRoutes)
	return p
}

// startWith starts the program, and Envoy with an edited config in front of it.
func (p *product) startWith(t *testing.T, config string, edit func(string) string) {
	t.Helper()
	p.tidemark = envoytest.NewTidemark(t, config)
	p.tidemark.SetClock(t, start)
	p.tidemark.Start(t)
	p.through(t, edit)
}

// through puts an Envoy with an edited config in front.
func (p *product) through(t *testing.T, edit func(string) string) {
	t.Helper()
	p.Env = envoytest.Start(t, envoytest.Options{Upstream: p.provider, Processor: p.tidemark.Addr, Edit: edit})
	p.clients = map[bool]*http.Client{false: envoytest.Client(t, false), true: envoytest.Client(t, true)}
}

// provider is the simulator. It keeps what it answered, by request id.
type provider struct {
	sim     *simprovider.Sim
	arrived atomic.Value // func(), told of every request before it is answered; nothing: nobody is

	mu      sync.Mutex
	replies map[string][]byte
	protos  map[string]string
}

func newProvider() *provider {
	return &provider{sim: simprovider.New(simprovider.Options{}), replies: map[string][]byte{}, protos: map[string]string{}}
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if told, ok := p.arrived.Load().(func()); ok {
		told()
	}
	reply := httptest.NewRecorder()
	demo.Provider(p.sim).ServeHTTP(reply, r)
	p.mu.Lock()
	p.replies[r.Header.Get("x-request-id")], p.protos[r.Header.Get("x-request-id")] = reply.Body.Bytes(), r.Proto
	p.mu.Unlock()
	maps.Copy(w.Header(), reply.Header())
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes()) // a client that went away is its own affair
}

// reply is the body of the answer to a request.
func (p *provider) reply(id string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replies[id]
}

// request is what a client sends.
type request struct {
	path    string
	key     string // names the tenant, and the provider's workspace
	session string
	at      time.Time
	body    []byte
	reply   string // what the model says, empty for something
	http2   bool
	header  map[string]string
}

// exchange is a request and what became of it.
type exchange struct {
	id        string
	sent      []byte
	out       []byte // as the provider saw it
	status    int
	proto     string // of the request as the provider saw it
	usage     simprovider.Usage
	prompt    int
	cost      float64
	shortened map[string]string // contents that stand for others, JSON, by call id
	marked    bool              // breakpoints stand where the client did not put them
}

// uncached is how many tokens of the prompt were not read from the cache.
func (x *exchange) uncached() int { return x.prompt - x.usage.Read }

// cached is how many tokens of the prompt the provider holds after the request.
func (x *exchange) cached() int { return x.usage.Read + x.usage.Write5m + x.usage.Write1h }

// send sends a request at its time. Whatever it is, the client must get the provider's answer, and nothing but results and
// breakpoints may have changed on the way; else the test fails, and send returns what there is.
func (p *product) send(t *testing.T, r *request) *exchange {
	t.Helper()
	x := &exchange{id: p.tick(t, r.at), sent: r.body}
	var answer []byte
	x.status, answer = p.post(t, r, x.id)
	if reply := p.provider.reply(x.id); !bytes.Equal(answer, reply) {
		t.Errorf("%s: the client got status %d and %q, the provider answered %q", r.path, x.status, clip(answer), clip(reply))
		return x
	}
	p.receipt(t, x)
	return x
}

// attempt is send at a moment at which tidemark goes away. Where Envoy has given the body away it cannot let the request pass: then
// the client gets a 500. It returns nil if the provider did not get the whole body.
func (p *product) attempt(t *testing.T, r *request) *exchange {
	t.Helper()
	x := &exchange{id: p.tick(t, r.at), sent: r.body}
	var answer []byte
	x.status, answer = p.post(t, r, x.id)
	if x.status != http.StatusInternalServerError && !bytes.Equal(answer, p.provider.reply(x.id)) {
		t.Errorf("%s: the client got status %d and %q", r.path, x.status, clip(answer))
	}
	if _, ok := p.received(x.id); !ok {
		return nil
	}
	p.receipt(t, x)
	return x
}

// post sends a request and returns the answer, status 0 if there is none.
func (p *product) post(t *testing.T, r *request, id string) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(r.path), bytes.NewReader(r.body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	for k, v := range map[string]string{
		"content-type": "application/json", "x-api-key": r.key, "x-claude-code-session-id": r.session, "x-request-id": id,
		"x-sim-now": r.at.Format(time.RFC3339Nano), "x-sim-reply": r.reply,
	} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	res, err := p.clients[r.http2].Do(req)
	if err != nil {
		t.Errorf("%s: %v", r.path, err)
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	if answer, err = io.ReadAll(res.Body); err != nil {
		t.Errorf("%s: %v", r.path, err)
	}
	return res.StatusCode, answer
}

// tick sets the clock and returns the id of the next request.
func (p *product) tick(t *testing.T, at time.Time) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !at.Equal(p.now) {
		p.now = at
		p.tidemark.SetClock(t, at)
	}
	p.n++
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), p.n)
}

// received is what the provider saw of a request.
func (p *product) received(id string) (simprovider.Received, bool) {
	all := p.provider.sim.Requests()
	i := slices.IndexFunc(all, func(r simprovider.Received) bool { return r.Header.Get("x-request-id") == id })
	if i < 0 {
		return simprovider.Received{}, false
	}
	return all[i], true
}

// receipt fills in what the provider saw of a request.
func (p *product) receipt(t *testing.T, x *exchange) {
	t.Helper()
	r, ok := p.received(x.id)
	if !ok {
		t.Errorf("the provider saw nothing of request %s", x.id)
		return
	}
	p.provider.mu.Lock()
	x.proto = p.provider.protos[x.id]
	p.provider.mu.Unlock()
	x.out, x.usage, x.prompt, x.cost = r.Body, r.Usage, r.Prompt, p.provider.sim.Cost(r)
	var err error
	if x.shortened, x.marked, err = compare(x.sent, x.out); err != nil {
		t.Errorf("request %s: %v", x.id, err)
	}
}

// ok demands that the provider accepted the request.
func (x *exchange) ok(t *testing.T) *exchange {
	t.Helper()
	if x.status != http.StatusOK {
		t.Errorf("request %s: status %d", x.id, x.status)
	}
	return x
}

// untouched demands that the provider saw the body as it was sent.
func (x *exchange) untouched(t *testing.T) *exchange {
	t.Helper()
	if !bytes.Equal(x.out, x.sent) {
		t.Errorf("request %s: the provider saw %d bytes of which %d were sent, first difference at %d", x.id, len(x.out), len(x.sent), differ(x.out, x.sent))
	}
	return x
}

// keeps demands that what stood shortened before does so with the same bytes.
func (x *exchange) keeps(t *testing.T, before map[string]string) *exchange {
	t.Helper()
	for call, content := range before {
		if x.shortened[call] != content {
			t.Errorf("request %s: result %s stood for %s, now it is %q", x.id, call, content, x.shortened[call])
		}
	}
	return x
}

// line is the request's line in the access log.
func (p *product) line(t *testing.T, x *exchange) map[string]any {
	t.Helper()
	return p.Access(t, x.id)
}

// expect demands fields of the request's line in the access log, given as names and values in turn.
func (p *product) expect(t *testing.T, x *exchange, fields ...any) {
	t.Helper()
	line := p.line(t, x)
	for i := 0; i < len(fields); i += 2 {
		if got := line[fields[i].(string)]; got != fields[i+1] {
			t.Errorf("request %s: %s is %v, want %v, in %v", x.id, fields[i], got, fields[i+1], line)
		}
	}
}

// compare finds which results stand shortened in an outbound, and whether breakpoints moved. Anything else that differs is an
// error. The judge is encoding/json, and bytes where no breakpoint moved.
func compare(sent, out []byte) (shortened map[string]string, marked bool, err error) {
	if bytes.Equal(sent, out) {
		return nil, false, nil
	}
	a, err := decode(sent)
	if err != nil {
		return nil, false, fmt.Errorf("a body that is no JSON was changed: %w", err)
	}
	b, err := decode(out)
	if err != nil {
		return nil, false, fmt.Errorf("the outbound is no JSON: %w", err)
	}
	d := difference{calls: map[string]bool{}}
	if err := d.walk("", a, b); err != nil {
		return nil, false, err
	}
	shortened = map[string]string{}
	restored, before, after := out, contents(sent), contents(out)
	for call := range d.calls {
		shortened[call] = after[call]
		restored = bytes.Replace(restored, []byte(after[call]), []byte(before[call]), 1) // a marker names its id, so it stands once
	}
	if !d.marks && !bytes.Equal(restored, sent) {
		return shortened, false, fmt.Errorf("bytes outside of results differ, at %d", differ(restored, sent))
	}
	return shortened, d.marks, nil
}

func decode(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return v, d.Decode(&v)
}

// difference is what may differ between two bodies.
type difference struct {
	calls map[string]bool // ids of calls whose results differ
	marks bool            // a cache_control differs
}

func (d *difference) walk(path string, a, b any) error {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		return d.object(path, a, b)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			if err := d.walk(fmt.Sprintf("%s.%d", path, i), a[i], b[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("%s differs", path)
	}
	return nil
}

func (d *difference) object(path string, a, b map[string]any) error {
	keys := map[string]bool{}
	for _, o := range []map[string]any{a, b} {
		for k := range o {
			keys[k] = true
		}
	}
	for k := range keys {
		va, inA := a[k]
		vb, inB := b[k]
		switch {
		case k == "cache_control":
			d.marks = d.marks || !reflect.DeepEqual(va, vb)
		case inA != inB:
			return fmt.Errorf("%s.%s is in one only", path, k)
		case k == "content" && a["type"] == "tool_result" && !reflect.DeepEqual(va, vb):
			if !isMarker(vb) {
				return fmt.Errorf("%s.content is not the client's and no marker", path)
			}
			d.calls[fmt.Sprint(a["tool_use_id"])] = true
		default:
			if err := d.walk(path+"."+k, va, vb); err != nil {
				return err
			}
		}
	}
	return nil
}

// isMarker reports whether content is a marker: a string, or a list of one text block.
func isMarker(content any) bool {
	if list, ok := content.([]any); ok && len(list) == 1 {
		if block, ok := list[0].(map[string]any); ok {
			content = block["text"]
		}
	}
	text, ok := content.(string)
	return ok && strings.HasPrefix(text, "[tidemark ")
}

// contents are the contents of a body's results, raw JSON, by call id.
func contents(body []byte) map[string]string {
	all := map[string]string{}
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		for _, b := range m.Get("content").Array() {
			if id := b.Get("tool_use_id"); id.Exists() {
				all[id.String()] = b.Get("content").Raw
			}
		}
	}
	return all
}

// differ is the first place at which two texts differ.
func differ(a, b []byte) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }

func unquote(t *testing.T, raw string) (s string) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Errorf("read %s: %v", raw, err)
	}
	return s
}
