package envoy_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"testing"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/coding"
)

// wires keeps the bodies that arrive at the provider as they come over the wire, by request id.
type wires struct {
	*provider

	bodies map[string][]byte
	coded  map[string]string
}

func (w *wires) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && r.ContentLength != int64(len(body)) {
		http.Error(rw, "the body is not what its headers say", http.StatusBadRequest)
		return
	}
	id := r.Header.Get("x-request-id")
	w.mu.Lock()
	w.bodies[id], w.coded[id] = body, r.Header.Get("content-encoding")
	w.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.provider.ServeHTTP(rw, r)
}

// of is the body of a request as it came over the wire, and its content-encoding.
func (w *wires) of(id string) (body []byte, coded string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bodies[id], w.coded[id]
}

// sendEncoded is send for a body in a coding.
func (p *product) sendEncoded(t *testing.T, r *request, c coding.Coding) (x *exchange, encoded []byte) {
	t.Helper()
	encoded, err := c.Encode(r.body)
	if err != nil {
		t.Fatal(err)
	}
	q := *r
	q.body, q.header = encoded, map[string]string{"content-encoding": c.String()}
	maps.Copy(q.header, r.header)
	x = &exchange{id: p.tick(t, r.at), sent: r.body}
	var answer []byte
	x.status, answer = p.post(t, &q, x.id)
	if !bytes.Equal(answer, p.provider.reply(x.id)) {
		t.Fatalf("%v on %s: the client got status %d and %q", c, r.path, x.status, clip(answer))
	}
	p.receipt(t, x)
	return x.ok(t), encoded
}

// shortWork is a short session: a read that an edit outdates, a pause in which the provider forgets it, and two turns more.
func shortWork(a *agent, each func()) {
	each()
	for _, uses := range [][]use{{reads("limit.go", 120)}, {reads("clock.go", 60), runs(20)}, {edits("limit.go")}} {
		a.step(uses...)
		each()
	}
	a.pause(cold)
	for range 3 {
		a.step(runs(15))
		each()
	}
}

// TestEncoded plays a session in each coding and in both body modes, beside the same session without one. The provider must get
// the same coding and read the same bodies from it, those that nothing changed to the last byte of what the client sent; where one
// was changed, content-length is that of what goes on.
func TestEncoded(t *testing.T) {
	const config = "default: {pipeline: [readlifecycle], components: {readlifecycle: {min_tokens: 100}}}\n"
	p := newProduct(t, config)
	up := &wires{p.provider, map[string][]byte{}, map[string]string{}}
	p.Env = envoytest.Start(t, envoytest.Options{Upstream: up, Processor: p.tidemark.Addr, Edit: withProductRoutes})
	for mode, path := range map[string]string{"buffered": "/v1/messages", "duplex": "/duplex/v1/messages"} {
		for _, c := range []coding.Coding{coding.Gzip, coding.Brotli, coding.Zstd} {
			t.Run(mode+"/"+c.String(), func(t *testing.T) {
				same, changed := 0, 0
				a := newAgent("encoded-" + mode + c.String())
				shortWork(a, func() {
					r := a.request(path)
					r.http2 = c == coding.Zstd // as Codex does
					x, encoded := p.sendEncoded(t, r, c)
					wire, coded := up.of(x.id)
					if coded != c.String() {
						t.Fatalf("the provider is told %q", coded)
					}
					if bytes.Equal(x.out, x.sent) {
						same++
						if !bytes.Equal(wire, encoded) {
							t.Fatalf("request %s: nothing changed, and yet other bytes go on", x.id)
						}
						return
					}
					changed++
					if plain, err := c.Decode(t.Context(), wire); err != nil || !bytes.Equal(plain, x.out) {
						t.Fatalf("request %s: the wire is not what the provider read: %v", x.id, err)
					}
					if len(x.shortened) == 0 && !x.marked {
						t.Fatalf("request %s: changed, and nothing is different", x.id)
					}
				})
				if same == 0 || changed == 0 {
					t.Errorf("%d requests went on as they came, %d were changed", same, changed)
				}
			})
		}
	}
	for _, c := range []string{"gzip", "br", "zstd"} {
		if n := p.tidemark.MetricWhen(t, `tidemark_encoded_requests_total{coding="`+c+`"}`, envoytest.AtLeast(1)); n == 0 {
			t.Errorf("no request in %s is counted", c)
		}
	}
}

// TestEncodedInDoubt: what cannot be read without doubt reaches the provider as it was sent, in both body modes.
func TestEncodedInDoubt(t *testing.T) {
	p := newProduct(t, "")
	up := &wires{p.provider, map[string][]byte{}, map[string]string{}}
	p.Env = envoytest.Start(t, envoytest.Options{Upstream: up, Processor: p.tidemark.Addr, Edit: withProductRoutes})
	zip, err := coding.Gzip.Encode(newAgent("doubt").body())
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := coding.Zstd.Encode(make([]byte, 80<<20))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		encoding, gate string
		body           []byte
	}{
		"two codings":    {"gzip, zstd", "content_encoding", zip},
		"deflate":        {"deflate", "content_encoding", zip},
		"another coding": {"br", "encoded_invalid", zip},
		"cut off":        {"gzip", "encoded_invalid", zip[:len(zip)/2]},
		"one byte more":  {"gzip", "encoded_invalid", append(bytes.Clone(zip), '\n')},
		"bomb":           {"zstd", "encoded_limit", bomb},
	} {
		for _, path := range []string{"/v1/messages", "/duplex/v1/messages"} {
			a := newAgent("doubt")
			r := a.request(path)
			r.body, r.header = c.body, map[string]string{"content-encoding": c.encoding}
			id := p.tick(t, r.at)
			p.post(t, r, id)
			if wire, coded := up.of(id); coded != c.encoding || !bytes.Equal(wire, c.body) {
				t.Errorf("%s on %s: the provider got %d bytes of %d in %q", name, path, len(wire), len(c.body), coded)
			}
			if line := p.Access(t, id); line["gate"] != c.gate {
				t.Errorf("%s on %s: gate %v, want %s", name, path, line["gate"], c.gate)
			}
		}
	}
}
