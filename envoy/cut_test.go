package envoy_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var (
	stubIn   = regexp.MustCompile(`\[tidemark cut: [^"]*`)
	markedBy = regexp.MustCompile(`,?"cache_control":\{[^}]*\}`)
)

// messagesOf are the messages of a body, without breakpoints.
func messagesOf(body []byte) (list []string) {
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		list = append(list, markedBy.ReplaceAllString(m.Raw, ""))
	}
	return list
}

// sendAny is send where whole messages may be left out.
func (p *product) sendAny(t *testing.T, r *request) *exchange {
	t.Helper()
	x := &exchange{id: p.tick(t, r.at), sent: r.body}
	var answer []byte
	x.status, answer = p.post(t, r, x.id)
	got, ok := p.received(x.id)
	if !ok || !bytes.Equal(answer, p.provider.reply(x.id)) {
		t.Fatalf("%s: the client got status %d and %q", r.path, x.status, clip(answer))
	}
	x.out, x.usage, x.prompt = got.Body, got.Usage, got.Prompt
	return x
}

// TestCut plays a session that outgrows its budget, over both protocols: from the first cut on the provider sees the stub in the
// place of the span on every turn, also after a kill, and what it saw before is the beginning of what it sees, but for moves.
func TestCut(t *testing.T) {
	p := newProduct(t, "pipelines: {large: {pipeline: [readlifecycle, shed], components: {shed: {budget: 12000, quantum: 4000, keep_recent_turns: 3}}}}\n")
	for name, http2 := range map[string]bool{"1.1": false, "2": true} {
		t.Run(name, func(t *testing.T) {
			a, cuts, killed, stub := newAgent("cut"), 0, false, ""
			var before []string
			work(a, func() {
				r := a.request("/named/v1/messages")
				r.key, r.http2 = "sk-"+name, http2
				x := p.sendAny(t, r).ok(t)
				moved := p.line(t, x)["move"] != ""
				now, found := messagesOf(x.out), string(stubIn.Find(x.out))
				if n := len(messagesOf(x.sent)); found != "" != (len(now) < n) {
					t.Fatalf("%d of %d messages are sent, stub %q", len(now), n, found)
				}
				if !moved && (found != stub || len(now) < len(before) || !slices.Equal(before, now[:len(before)])) {
					t.Fatalf("what was sent before has changed; stub %q, before %q", found, stub)
				}
				if found != stub {
					cuts++
				}
				if !strings.HasPrefix(found, stub) {
					t.Errorf("stub %q became %q", stub, found)
				}
				before, stub = now, found
				if cuts == 1 && !killed {
					killed = true
					p.tidemark.Kill(t)
					p.tidemark.Start(t)
				}
			})
			if cuts == 0 || !killed {
				t.Error("nothing was ever cut")
			}
		})
	}
}
