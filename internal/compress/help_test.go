package compress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fataler is a test of either kind.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// full has the filters that change what lies far back, and the one that would move breakpoints if it could.
func full(t fataler) *pipeline.Config {
	t.Helper()
	rl, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		t.Fatal(err)
	}
	mc := readmaturation.Default()
	mc.Hold = "always"
	rm, err := readmaturation.New(mc)
	if err != nil {
		t.Fatal(err)
	}
	td, err := tiered.New(tiered.Default())
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Config{
		Name: "full", Filters: []filters.Filter{rl, rm, td}, Diagnostics: 1, Inline: true,
		Levers: pipeline.Levers{TTL: pipeline.HourTTL, Place: true, Regret: 1},
	}
}

// notes is an observer that counts.
type notes struct {
	mu                          sync.Mutex
	passed                      []string
	answered, decoded, observed int
	billed                      *pipeline.Observation
	route                       string
}

func (n *notes) Passed(reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.passed = append(n.passed, reason)
}

func (n *notes) Answered(r *pipeline.Request, o *pipeline.Outcome) {
	_ = o.Class()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answered++
	n.route = r.Route
}

func (n *notes) Decoded(string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decoded++
}

func (n *notes) Observed(_ *pipeline.Request, _ *pipeline.Outcome, v *pipeline.Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.observed++
	n.billed = v
}

// door is a running server on the loopback.
type door struct {
	notes

	t      fataler
	url    string
	now    atomic.Int64
	engine compress.Engine
	config *pipeline.Config
	who    identity.Settings
}

var epoch = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// open starts a server over an engine of its own. change may change the options.
func open(t fataler, store state.Store, c *pipeline.Config, change ...func(*compress.Options)) *door {
	t.Helper()
	d := &door{t: t, config: c}
	d.now.Store(epoch.UnixNano())
	if store == nil {
		store = memory.New()
	}
	e, err := pipeline.New(context.Background(), store, pipeline.Options{Flush: -1, Start: epoch, DeepProof: true})
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	o := compress.Options{
		Engine: e, Observer: &d.notes, Deadline: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Now: d.clock,
		Route: func(string) (*pipeline.Config, *identity.Settings) { return d.config, &d.who },
	}
	for _, f := range change {
		f(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.url = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	door := compress.New(o)
	go func() {
		err := access.NewServer(access.Options{Name: "compress", Handler: door, Log: o.Log}).Serve(ctx, l, 5*time.Second)
		door.Wait()
		done <- err
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	return d
}

func (d *door) clock() time.Time      { return time.Unix(0, d.now.Load()).UTC() }
func (d *door) pause(p time.Duration) { d.now.Add(int64(p)) }
func (d *door) words() (reasons []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(reasons, d.passed...)
}

// eventually waits for what is said after an answer has been sent.
func (d *door) eventually(what string, is func() bool) {
	d.t.Helper()
	for range 500 {
		d.mu.Lock()
		ok := is()
		d.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.t.Fatalf("not so: %s", what)
}

// post sends a body, with headers in pairs.
func (d *door) post(path string, body []byte, headers ...string) (status int, answer gjson.Result, h http.Header) {
	d.t.Helper()
	req, err := http.NewRequest(http.MethodPost, d.url+path, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(text) > 0 && !json.Valid(text) {
		d.t.Fatalf("status %d, no JSON: %.200s", res.StatusCode, text)
	}
	return res.StatusCode, gjson.ParseBytes(text), res.Header
}

// compress sends a request that must be answered.
func (d *door) compress(body string, headers ...string) gjson.Result {
	d.t.Helper()
	status, answer, _ := d.post("/v1/compress", []byte(body), headers...)
	if status != http.StatusOK {
		d.t.Fatalf("status %d: %s", status, answer.Raw)
	}
	return answer
}
