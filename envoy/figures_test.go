package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/replay"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
)

// sessionVariable names a recorded session of an Anthropic client, a file as tidemark replay takes it, that is played instead of the made-up one.
const sessionVariable = "TIDEMARK_SESSION"

// billed is what the provider answers to one request, and when it is asked.
type billed struct {
	body                               []byte
	model                              string
	at                                 time.Time
	input, read, write5m, write1h, out int
}

// prompt is the whole prompt.
func (b *billed) prompt() int { return b.input + b.read + b.write5m + b.write1h }

// units is the price of the input as the referee reckons: in uncached tokens, with the published multipliers of Anthropic's cache.
func (b *billed) units() float64 {
	return float64(b.input) + 0.1*float64(b.read) + 1.25*float64(b.write5m) + 2*float64(b.write1h)
}

// usd is the price of the request at so many USD per million tokens of input. A token of output costs five of input.
func (b *billed) usd(price float64) float64 { return (b.units() + 5*float64(b.out)) * price / 1e6 }

// answer is what the provider says.
func (b *billed) answer() []byte {
	return fmt.Appendf(nil, `{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn",`+
		`"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d},"output_tokens":%d}}`,
		b.model, b.input, b.write5m+b.write1h, b.read, b.write5m, b.write1h, b.out)
}

// prices of input in USD per million tokens, published by the provider.
var inputPrices = map[string]float64{"claude-sonnet-4-6": 3, "claude-opus-4-8": 5, "claude-opus-4-7": 5, "claude-opus-4-6": 5, "claude-opus-4-5": 5, "claude-sonnet-4-5": 3, "claude-haiku-4-5": 1}

// madeUp is a session of an agent, billed as a provider would that got its bodies as they are.
func madeUp(t *testing.T) (all []billed) {
	t.Helper()
	a, sim := newAgent("figures"), simprovider.New(simprovider.Options{})
	work(a, func() {
		body := a.body()
		r := sim.Call(body, http.Header{"X-Api-Key": {"k"}}, a.at)
		if r.Status != http.StatusOK {
			t.Fatalf("refused: %v", r.Err)
		}
		u := r.Usage
		all = append(all, billed{body, "claude-sonnet-4-6", a.at, u.Input, u.Read, u.Write5m, u.Write1h, 10 + len(all)})
	})
	return all
}

// recorded is a recorded session with the usage of its recording.
func recorded(t *testing.T, path string) (all []billed) {
	t.Helper()
	rec, err := replay.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rec.Requests {
		q := &rec.Requests[i]
		u := q.Recorded
		if u == nil {
			continue
		}
		body := q.Body()
		var head struct{ Model string }
		if err := json.Unmarshal(body, &head); err != nil {
			t.Fatal(err)
		}
		all = append(all, billed{body, head.Model, q.At, u.Input, u.Read, u.Write5m, u.Write1h, u.Output})
	}
	if len(all) == 0 {
		t.Fatalf("%s says nothing of usage", path)
	}
	return all
}

// known is a provider whose answers are known beforehand.
type known struct {
	mu  sync.Mutex
	got map[string]int // bytes of the body, by request id
	all map[string]*billed
}

func (k *known) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.all[r.Header.Get("x-request-id")]
	if err != nil || b == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	k.got[r.Header.Get("x-request-id")] = len(body)
	w.Header().Set("content-type", "application/json")
	_, _ = w.Write(b.answer())
}

// figures is a played session, and what every surface is compared with.
type figures struct {
	*testing.T
	*product

	all      []billed
	provider *known
	file     string // of events
	sum      billed
	usd      float64 // of all
	bytesIn  int
	bytesOut int
}

func (f *figures) id(i int) string { return fmt.Sprintf("figure-%d", i) }

// equal compares one figure of a surface: counts exactly, USD to a millionth of a cent for every request.
func (f *figures) equal(surface string, got any, want float64) {
	f.Helper()
	n, ok := got.(float64)
	if !ok || math.Abs(n-want) > 1e-8*float64(len(f.all)) {
		f.Errorf("%s: %v, want %v", surface, got, want)
	}
}

// counts compares tokens and cost of a surface that names them as the page does.
func (f *figures) counts(surface string, observed map[string]any, b *billed, usd float64) {
	f.Helper()
	for name, want := range map[string]int{"input": b.input, "cache_read": b.read, "cache_write_5m": b.write5m, "cache_write_1h": b.write1h, "output": b.out} {
		f.equal(surface+" "+name, observed[name], float64(want))
	}
	f.equal(surface+" cost_usd", observed["cost_usd"], usd)
}

// TestFigures plays a session whose usage is known through a real Envoy and compares every figure of every surface with it, by an
// arithmetic of its own: access log, event file, metrics, the page's API, the terminal view, replay of the events, traces and metrics
// of OpenTelemetry.
func TestFigures(t *testing.T) {
	f := &figures{T: t, file: filepath.Join(t.TempDir(), "events.jsonl"), provider: &known{got: map[string]int{}, all: map[string]*billed{}}}
	if path := os.Getenv(sessionVariable); path != "" {
		f.all = recorded(t, path)
	} else {
		f.all = madeUp(t)
	}
	collector := otlptest.Start(t)
	exportTo(t, collector.Addr)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10000")
	p := &product{}
	p.tidemark = envoytest.NewTidemark(t, fmt.Sprintf("events: {file: %q}\notel: {usage: v0.1}\ndefault: {pipeline: default}\n", f.file))
	p.tidemark.SetClock(t, f.all[0].at)
	p.tidemark.Start(t)
	p.Env = envoytest.Start(t, envoytest.Options{Upstream: f.provider, Processor: p.tidemark.Addr})
	p.clients = map[bool]*http.Client{false: envoytest.Client(t, false)}
	f.product = p
	f.play()
	f.accessLog()
	f.told()
	f.metrics()
	f.page()
	f.terminal()
	f.telemetry(collector)
	p.tidemark.Stop(t)
	f.events()
	f.replayed()
}

func (f *figures) play() {
	for i := range f.all {
		b := &f.all[i]
		id := f.id(i)
		f.provider.mu.Lock()
		f.provider.all[id] = b
		f.provider.mu.Unlock()
		f.tidemark.SetClock(f.T, b.at)
		req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.URL(streamedPath), bytes.NewReader(b.body))
		if err != nil {
			f.Fatal(err)
		}
		req.Header.Set("content-type", "application/json")
		req.Header.Set("x-api-key", "sk-figures")
		req.Header.Set("x-claude-code-session-id", "session-figures")
		req.Header.Set("x-request-id", id)
		res, err := f.clients[false].Do(req)
		if err != nil {
			f.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !bytes.Equal(answer, b.answer()) {
			f.Fatalf("request %d: status %d, %q, %v", i, res.StatusCode, answer, err)
		}
		f.Access(f.T, id) // so that what it was billed is known before the next one
		f.sum.input += b.input
		f.sum.read += b.read
		f.sum.write5m += b.write5m
		f.sum.write1h += b.write1h
		f.sum.out += b.out
		f.usd += b.usd(inputPrices[b.model])
		f.bytesIn += len(b.body)
		f.bytesOut += f.provider.got[id]
	}
	if f.usd == 0 {
		f.Fatalf("the price of %s is not known here", f.all[0].model)
	}
}

// accessLog compares the lines of Envoy's log. One that Envoy would have had to wait for beyond what a stream may be delayed says nothing of the
// answer; on a busy machine there may be one in fifty of them.
func (f *figures) accessLog() {
	late := 0
	for i := range f.all {
		b, line := &f.all[i], f.Access(f.T, f.id(i))
		if line["input_tokens"] == nil {
			late++
			continue
		}
		for name, want := range map[string]int{
			"input_tokens": b.input, "cache_read_tokens": b.read, "cache_write_tokens": b.write5m + b.write1h, "output_tokens": b.out,
			"bytes_in": len(b.body), "bytes_out": f.provider.got[f.id(i)],
		} {
			f.equal(fmt.Sprintf("access log of %d, %s", i, name), line[name], float64(want))
		}
		f.equal(fmt.Sprintf("access log of %d, cost", i), line["cost_usd"], b.usd(inputPrices[b.model]))
	}
	if late > 1+len(f.all)/50 {
		f.Errorf("%d of %d lines say nothing of the answer", late, len(f.all))
	}
}

// told waits for the account of the last answer, which its client does not wait for. The page is told last.
func (f *figures) told() {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if n, _ := at(f.asked("sessions"), "totals", "observed")["answers"].(float64); int(n) >= len(f.all) {
			return
		}
	}
}

func (f *figures) metrics() {
	for tier, want := range map[string]int{"input": f.sum.input, "cache_read": f.sum.read, "cache_write_5m": f.sum.write5m, "cache_write_1h": f.sum.write1h, "output": f.sum.out} {
		got := 0.0
		for line := range strings.Lines(f.tidemark.Ask(f.T, "/metrics")) {
			if strings.HasPrefix(line, "tidemark_billed_tokens_total{") && strings.Contains(line, fmt.Sprintf("tier=%q", tier)) {
				var n float64
				if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
					f.Fatal(err)
				}
				got += n
			}
		}
		f.equal("metric billed_tokens_total of "+tier, got, float64(want))
	}
	f.equal("metric cost_usd_total", f.tidemark.Metric(f.T, `tidemark_cost_usd_total{basis="observed"`), f.usd)
	f.equal("metric inbound_bytes_total", f.tidemark.Metric(f.T, "tidemark_inbound_bytes_total"), float64(f.bytesIn))
	f.equal("metric outbound_bytes_total", f.tidemark.Metric(f.T, "tidemark_outbound_bytes_total"), float64(f.bytesOut))
	f.equal("metric requests_total", f.tidemark.Metric(f.T, "tidemark_requests_total"), float64(len(f.all)))
	f.equal("metric prefix_changes_total", f.tidemark.Metric(f.T, `tidemark_prefix_changes_total{declared="false"}`), 0)
}

// asked is what the page's API says at a path.
func (f *figures) asked(path string) (v map[string]any) {
	f.Helper()
	if err := json.Unmarshal([]byte(f.tidemark.Ask(f.T, "/v1/board/"+path)), &v); err != nil {
		f.Fatal(err)
	}
	return v
}

// at is a member of a member.
func at(v map[string]any, names ...string) map[string]any {
	for _, name := range names {
		v, _ = v[name].(map[string]any)
	}
	return v
}

func (f *figures) page() {
	all := f.asked("sessions")
	f.counts("the page's totals", at(all, "totals", "observed"), &f.sum, f.usd)
	list, _ := all["list"].([]any)
	if len(list) != 1 {
		f.Fatalf("the page lists %d sessions", len(list))
	}
	session, _ := list[0].(map[string]any)
	f.counts("the page's session", at(session, "observed"), &f.sum, f.usd)
	view := f.asked("sessions/" + fmt.Sprint(session["id"]))
	net, rows := 0.0, 0
	lineages, _ := view["lineages"].([]any)
	for _, l := range lineages {
		lineage, _ := l.(map[string]any)
		of := f.asked("sessions/" + fmt.Sprint(session["id"]) + "?lineage=" + fmt.Sprint(lineage["id"]))
		requests, _ := of["requests"].([]any)
		for _, r := range requests {
			row, _ := r.(map[string]any)
			one := f.asked("requests/" + fmt.Sprint(row["key"]))
			var i int
			if _, err := fmt.Sscanf(fmt.Sprint(one["request_id"]), "figure-%d", &i); err != nil {
				f.Fatal(err)
			}
			b := &f.all[i]
			f.counts(fmt.Sprintf("the page's request %d", i), at(row, "observed"), b, b.usd(inputPrices[b.model]))
			f.equal(fmt.Sprintf("the page's request %d, bytes_out", i), row["bytes_out"], float64(f.provider.got[f.id(i)]))
			n, _ := at(row, "modelled")["net_usd"].(float64)
			net += n
			rows++
		}
	}
	if rows != len(f.all) {
		f.Errorf("the page shows %d of %d requests", rows, len(f.all))
	}
	f.equal("the page's net", at(all, "totals", "modelled")["net_usd"], net)
	f.equal("metric net_saved_usd", f.tidemark.Metric(f.T, "tidemark_net_saved_usd{"), net)
	f.Logf("%d requests, %.1f units of input and %d tokens of output, $%.4f observed, net $%.4f", rows, f.sum.units(), f.sum.out, f.usd, net)
}

func (f *figures) terminal() {
	out, err := exec.CommandContext(f.Context(), envoytest.Program(f.T), "top", "--once", "--admin", "http://"+f.tidemark.Admin).CombinedOutput()
	for _, want := range []string{fmt.Sprintf("%d answers of %d requests", len(f.all), len(f.all)), fmt.Sprintf("$%.2f", f.usd)} {
		if err != nil || !strings.Contains(string(out), want) {
			f.Errorf("top does not say %q, %v:\n%s", want, err, out)
		}
	}
}

// telemetry compares spans one by one, and the sums of usage counters.
func (f *figures) telemetry(c *otlptest.Collector) {
	for i := range f.all {
		b := &f.all[i]
		spans := c.Spans(f.T, 1, func(s otlptest.Span) bool { return s.Attributes()["tidemark.request_id"] == f.id(i) })
		attributes := spans[0].Attributes()
		for name, want := range map[string]int{ // input holds what was read and written, by the convention
			"gen_ai.usage.input_tokens": b.prompt(), "gen_ai.usage.output_tokens": b.out, "gen_ai.usage.cache_read.input_tokens": b.read,
			"gen_ai.usage.cache_write.input_tokens": b.write5m + b.write1h,
		} {
			if got, _ := attributes[name].(int64); got != int64(want) {
				f.Errorf("span of %d: %s is %v, want %d", i, name, attributes[name], want)
			}
		}
	}
	for name, want := range map[string]int{
		"gen_ai.client.inference.usage.input_tokens": f.sum.prompt(), "gen_ai.client.inference.usage.output_tokens": f.sum.out,
		"gen_ai.client.inference.usage.cache_read.input_tokens": f.sum.read, "gen_ai.client.inference.usage.cache_write.input_tokens": f.sum.write5m + f.sum.write1h,
		"tidemark_cost_usd_total": -1,
	} {
		c.Metrics(f.T, 1, func(m otlptest.Metric) bool {
			if m.GetName() != name {
				return false
			}
			sum, usd := 0.0, 0.0
			for _, d := range m.GetSum().GetDataPoints() {
				n := d.GetAsDouble() + float64(d.GetAsInt())
				if sum += n; otlptest.Map(d.GetAttributes())["basis"] == "observed" {
					usd += n
				}
			}
			return sum == float64(want) || want < 0 && math.Abs(usd-f.usd) < 1e-8*float64(len(f.all))
		})
	}
}

func (f *figures) events() {
	seen := 0
	for _, e := range eventsOf(f.T, f.file) {
		var i int
		if _, err := fmt.Sscanf(fmt.Sprint(e["request_id"]), "figure-%d", &i); err != nil {
			continue // of the server
		}
		b := &f.all[i]
		switch e["event"] {
		case "usage":
			seen++
			f.counts(fmt.Sprintf("usage event of %d", i), at(e, "observed"), b, b.usd(inputPrices[b.model]))
		case "request":
			f.equal(fmt.Sprintf("request event of %d, bytes_in", i), e["bytes_in"], float64(len(b.body)))
			f.equal(fmt.Sprintf("request event of %d, bytes_out", i), e["bytes_out"], float64(f.provider.got[f.id(i)]))
		}
	}
	if seen != len(f.all) {
		f.Errorf("%d usage events of %d requests", seen, len(f.all))
	}
}

func (f *figures) replayed() {
	out, err := exec.CommandContext(f.Context(), envoytest.Program(f.T), "replay", "--json", "-", f.file).Output()
	if err != nil {
		f.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		f.Fatal(err)
	}
	f.counts("replay of the events", at(v, "total", "observed"), &f.sum, f.usd)
	f.equal("replay of the events, bytes_out", at(v, "total")["bytes_out"], float64(f.bytesOut))
}
