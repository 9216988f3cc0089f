package envoy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
)

// hostile is a request that no client should send.
type hostile struct {
	change func(body []byte) []byte // of the session's next request; nil: none
	header map[string]string
	gate   string // that the access log names
	replay bool   // what is in force is replayed, else the body goes on as it came
}

// inside puts text after the opening brace of a body.
func inside(text string) func([]byte) []byte {
	return func(body []byte) []byte { return append([]byte("{"+text+","), body[1:]...) }
}

// saying adds a block of the user's to the last message.
func saying(block string) func([]byte) []byte {
	return func(body []byte) []byte {
		i := bytes.LastIndex(body, []byte("}]}],"))
		return slices.Concat(body[:i+1], []byte(","+block), body[i+1:])
	}
}

const million = 1_000_000

// refused makes the simulator refuse what it would take seconds to refuse by itself.
var refused = map[string]string{"x-sim-status": "400"}

// attacks are what must neither be answered by tidemark nor disturb the session that they belong to.
var attacks = map[string]hostile{
	"truncated":            {change: func(b []byte) []byte { return b[:len(b)/2] }, gate: "unparsed"},
	"not JSON":             {change: func([]byte) []byte { return []byte("\x00\xff<xml>") }, gate: "unparsed"},
	"null":                 {change: func([]byte) []byte { return []byte("null") }, gate: "unparsed"},
	"a key twice":          {change: inside(`"messages":[]`), gate: "unparsed"},
	"an escaped key twice": {change: inside(`"messa\u0067es":[]`), gate: "unparsed"},
	"depth 10 000":         {change: inside(`"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), gate: "unparsed"},
	"a million blocks": {
		change: saying(strings.TrimSuffix(strings.Repeat(`{"type":"text","text":""},`, million), ",")), header: refused, gate: "unparsed",
	},
	"a million empty blocks": {change: saying(strings.TrimSuffix(strings.Repeat("{},", million), ",")), gate: "unparsed"},
	"30 MB":                  {change: saying(`{"type":"text","text":"` + strings.Repeat("a lot ", 5*million) + `"}`), header: refused, gate: "raw_guard", replay: true},
	"lone surrogates":        {change: saying(`{"type":"text","text":"\ud800 \udfff \ud83d"}`), replay: true},
	"bytes that are no text": {change: saying("{\"type\":\"text\",\"text\":\"\xff\xfe\"}"), replay: true},
	"unknown blocks":         {change: saying(`{"type":"hologram","depth":[1e400,{"type":null}]},{"type":["text"]},{}`), replay: true},
	"a marker of its own":    {change: saying(`{"type":"text","text":"[tidemark modified later: all of it · id 000000000000000000000000]"}`), replay: true},
	"no session":             {header: map[string]string{"x-claude-code-session-id": ""}, gate: "no_session"},
	"a long session":         {header: map[string]string{"x-claude-code-session-id": strings.Repeat("s", 5000)}, gate: "no_session"},
	"a session of no ASCII":  {header: map[string]string{"x-claude-code-session-id": "sëssion \xff"}, gate: "no_session"},
	// An id that is odd but printable is a session as any other: it resumes what the tenant said before.
	"a session with slashes": {header: map[string]string{"x-claude-code-session-id": "../../../etc/passwd%00\\..\\"}, replay: true},
	"a session of one space": {header: map[string]string{"x-claude-code-session-id": " ", "x-session-id": "'; DROP TABLE--"}, replay: true},
	"a bypass":               {header: map[string]string{"x-tidemark-bypass": "true"}, gate: "bypass", replay: true},
	"signed by the client":   {header: map[string]string{"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/x"}, gate: "client_signed"},
}

// TestHostile sends what no client should, in both body modes, in the name of a session that has a read shortened. The client gets
// the provider's answer, the body arrives as the fallback ladder says, the access log names the gate, and the session goes on.
func TestHostile(t *testing.T) {
	p := newProduct(t, "")
	for name, w := range map[string]way{"buffered": ways["buffered/1.1"], "duplex": ways["duplex/2"]} {
		t.Run(name, func(t *testing.T) {
			v := p.outage(t, w)
			for _, name := range slices.Sorted(maps.Keys(attacks)) {
				h := attacks[name]
				r := v.request()
				r.header = h.header
				if h.change != nil {
					r.body = h.change(r.body)
				}
				x := p.send(t, r)
				if x.keepsIf(t, h.replay, v.before); t.Failed() {
					t.Fatalf("%s: status %d", name, x.status)
				}
				if gate := p.Access(t, x.id)["gate"]; gate != h.gate {
					t.Errorf("%s: the gate is %v, want %q", name, gate, h.gate)
				}
			}
			v.back(t)
		})
	}
	if n := p.tidemark.MetricWhen(t, `tidemark_gates_total{filter="",gate="unparsed"}`, envoytest.Is(16)); n != 16 {
		t.Errorf("the metric counts %.0f bodies that could not be read", n)
	}
	p.sound(t)
}

// keepsIf demands a replay, or the body as it was sent.
func (x *exchange) keepsIf(t *testing.T, replay bool, before map[string]string) {
	t.Helper()
	if replay {
		x.keeps(t, before)
	} else {
		x.untouched(t)
	}
}

// sound demands that nothing of this counts as a fault of tidemark's own, and that no stream is left open.
func (p *product) sound(t *testing.T) {
	t.Helper()
	p.streams(t, 0)
	for _, metric := range []string{"tidemark_panics_total", "tidemark_proof_failures_total", `tidemark_prefix_changes_total{declared="false"}`} {
		if n := p.tidemark.Metric(t, metric); n != 0 {
			t.Errorf("%s is %.0f", metric, n)
		}
	}
}

// streams waits until so many streams are open.
func (p *product) streams(t *testing.T, want float64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); p.tidemark.Metric(t, "tidemark_extproc_streams_inflight") != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there are never %.0f open streams", want)
		}
	}
}

// TestClientGoesAway: a client that cancels in the middle of a body leaves nothing behind, and its session goes on.
func TestClientGoesAway(t *testing.T) {
	p := newProduct(t, "")
	for _, w := range ways {
		v := p.outage(t, w)
		p.sound(t)
		ctx, cancel := context.WithCancel(t.Context())
		body, feed := io.Pipe()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL(w.path), body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-api-key", "sk-"+v.agent.name)
		r.Header.Set("x-claude-code-session-id", "session-"+v.agent.name)
		ended := make(chan error, 1)
		go func() {
			res, err := p.clients[w.http2].Do(r)
			if err == nil {
				_ = res.Body.Close()
			}
			ended <- err
		}()
		b := v.request().body
		_, _ = feed.Write(b[:len(b)-1])
		p.streams(t, 1)
		cancel()
		_ = feed.CloseWithError(context.Canceled)
		if err := <-ended; err == nil {
			t.Error("half a body was answered")
		}
		p.sound(t)
		v.back(t)
	}
}

// TestAtOnce: requests of one session that come at once, some of them forks, all carry what is in force, and a request that comes
// twice is sent in the same bytes.
func TestAtOnce(t *testing.T) {
	p := newProduct(t, "")
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			v := p.outage(t, w)
			var all [9]*exchange
			var group sync.WaitGroup
			same := v.request()
			for i := range all {
				r := *same
				if i%3 == 2 {
					r.body = saying(fmt.Sprintf(`{"type":"text","text":"Or rather %d."}`, i))(r.body)
				}
				group.Go(func() { all[i] = p.send(t, &r).ok(t).keeps(t, v.before) })
			}
			group.Wait()
			for i, x := range all {
				if i%3 != 2 && !bytes.Equal(x.out, all[0].out) {
					t.Errorf("request %d was sent in other bytes, at %d", i, differ(x.out, all[0].out))
				}
			}
			x := p.send(t, same).ok(t)
			if !bytes.Equal(x.out, all[0].out) {
				t.Errorf("the same request later was sent in other bytes, at %d", differ(x.out, all[0].out))
			}
			p.expect(t, x, "gate", "retry", "outcome", "replayed")
		})
	}
	p.sound(t)
}
