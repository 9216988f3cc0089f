package envoy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// What the toy engine does, by the header of this name.
const (
	toyHeader = "x-toy"
	toyUpper  = "upper"  // as long as before
	toyMark   = "mark"   // so is this, and fast
	toyHalf   = "half"   // shorter
	toyTwice  = "twice"  // longer
	toyConfig = "config" // the route's config in place of the body
	toySlow   = "slow"   // upper, a moment later
	toyPanic  = "panic"
	toyAdmit  = "admit" // a panic before the body
	toyHang   = "hang"  // returns long after its context ended
)

// toy is an engine whose changes are easy to see.
type toy struct{}

func (toy) Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
	o := &pipeline.Outcome{BytesIn: len(r.Body), Format: r.Format, Session: "5e55", Duration: time.Millisecond}
	switch r.Session {
	case toyUpper:
		o.Body = bytes.ToUpper(r.Body)
	case toyMark:
		o.Body = mark(r.Body)
	case toySlow:
		time.Sleep(100 * time.Millisecond)
		o.Body = bytes.ToUpper(r.Body)
	case toyHalf:
		o.Body = r.Body[:len(r.Body)/2]
	case toyTwice:
		o.Body = bytes.Repeat(r.Body, 2)
	case toyConfig:
		o.Body = []byte(r.Config.Name)
	case toyPanic:
		panic("the secret content of a body")
	case toyHang:
		<-ctx.Done()
		time.Sleep(400 * time.Millisecond)
	}
	o.BytesOut = o.BytesIn
	if o.Body != nil {
		o.BytesOut, o.Level = len(o.Body), pipeline.Decided
		o.New = []pipeline.DecisionMade{{Filter: "toy", Tokens: 30, MarkerTokens: 10}}
	}
	return o
}

// Observe takes the response at its word.
func (toy) Observe(_ context.Context, _ *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	return &pipeline.Observation{Usage: r.Usage, Model: r.Model}
}

// mark changes both ends of a body.
func mark(b []byte) []byte {
	b = bytes.Clone(b)
	b[0], b[len(b)-1] = 'X', 'Y'
	return b
}

// admitToy takes what goes to .../messages. The whole config of the route becomes its name.
func admitToy(h *extproc.Head) (*pipeline.Request, string) {
	get := h.Headers.Get
	wire := identity.Format(get(":path"), get(":method"), get("content-type"), get("content-encoding"))
	if wire.Reason != identity.Ours {
		return nil, string(wire.Reason)
	}
	if get(toyHeader) == toyAdmit {
		panic("the secret content of a header")
	}
	name := "json " + h.Config.JSON
	switch {
	case h.Config.Metadata != nil:
		b, err := json.Marshal(h.Config.Metadata.AsMap())
		if err != nil {
			return nil, "metadata"
		}
		name = "metadata " + string(b)
	case h.Config.Pipeline != "":
		name = "pipeline " + h.Config.Pipeline
	}
	return &pipeline.Request{
		Format: wire.Format, Session: get(toyHeader), Route: h.Config.Route, Config: &pipeline.Config{Name: name},
	}, ""
}

// recorder counts what the server tells.
type recorder struct {
	mu     sync.Mutex
	counts map[string]int
	open   int
}

func newRecorder() *recorder { return &recorder{counts: map[string]int{}} }

func (r *recorder) add(what string, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
	r.open += open
}

func (r *recorder) Began() { r.add("began", 1) }

func (r *recorder) Ended(_ time.Duration, code codes.Code) { r.add("ended "+code.String(), -1) }

func (r *recorder) Passed(why string) { r.add("passed "+why, 0) }

func (r *recorder) Decoded(coding string) { r.add("decoded "+coding, 0) }

func (r *recorder) Answered(_ *pipeline.Request, o *pipeline.Outcome) {
	r.add("answered "+o.Class()+" "+string(o.Gate), 0)
}

func (r *recorder) Observed(_ *pipeline.Request, _ *pipeline.Outcome, v *pipeline.Observation) {
	switch {
	case v == nil:
		r.add("observed nothing", 0)
	case v.Usage == nil:
		r.add("observed unknown", 0)
	default:
		r.add(fmt.Sprintf("observed %+v", *v.Usage), 0)
	}
}

func (r *recorder) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// wait waits until as many have been counted.
func (r *recorder) wait(t *testing.T, what string, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.count(what) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was counted %d times, want %d; all: %v", what, r.count(what), n, r.counts)
		}
	}
}

// idle waits until no stream is open.
func (r *recorder) idle(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		open := r.open
		r.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are still open", open)
		}
	}
}

// seen is what the upstream says of a request.
type seen struct {
	Method, Path, Proto string
	Length              int    // bytes of the body that came
	ContentLength       int64  // as the headers said, -1 if they did not
	Sum                 string // of the body
	Trailer             string
	Bypass              string
	Body                string // if it is short
}

// earlyHeader names the channel that is closed when the first byte of the body has come to the upstream.
const earlyHeader = "x-early"

// echoUpstream answers with what it saw.
type echoUpstream struct{ early sync.Map }

func (u *echoUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := u.early.Load(r.Header.Get(earlyHeader)); ok {
		first := make([]byte, 1)
		n, err := io.ReadFull(r.Body, first)
		if err == nil {
			close(c.(chan struct{}))
		}
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(first[:n]), r.Body))
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	s := seen{
		Method: r.Method, Path: r.URL.RequestURI(), Proto: r.Proto, Length: len(b), ContentLength: r.ContentLength, Sum: sum(b),
		Trailer: r.Trailer.Get("x-sum"), Bypass: r.Header.Get("x-tidemark-bypass"),
	}
	if len(b) < 1<<16 {
		s.Body = string(b)
	}
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(s) //nolint:errchkjson // the client may have gone
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// world is an Envoy with the toy engine behind it.
type world struct {
	*envoytest.Env

	upstream *echoUpstream
	recorder *recorder
}

// shippedDeadline is below the 5 s of message_timeout.
const shippedDeadline = 2 * time.Second

// newWorld starts a world in which Envoy must find nothing wrong with tidemark, and in which no stream stays open.
func newWorld(t *testing.T, o extproc.Options, edit func(string) string) *world {
	t.Helper()
	w := startWorld(t, o, edit)
	t.Cleanup(func() {
		w.recorder.idle(t)
		w.healthy(t)
	})
	return w
}

// healthy demands that Envoy found nothing wrong with tidemark.
func (w *world) healthy(t *testing.T) {
	t.Helper()
	for _, stat := range []string{"streams_failed", "spurious_msgs_received", "rejected_header_mutations", "message_timeouts"} {
		if n, err := w.Process.Stat(context.Background(), "http.ingress.ext_proc.tidemark."+stat); n != 0 || err != nil {
			t.Errorf("Envoy counted %d %s, %v", n, stat, err)
		}
	}
}

func startWorld(t *testing.T, o extproc.Options, edit func(string) string) *world {
	t.Helper()
	w := &world{upstream: &echoUpstream{}, recorder: newRecorder()}
	o.Admit, o.Result, o.Account, o.Observer = admitToy, observe.Result, observe.Account, w.recorder
	if o.Engine == nil {
		o.Engine = toy{}
	}
	if o.Deadline == 0 {
		o.Deadline = shippedDeadline
	}
	w.Env = envoytest.Start(t, envoytest.Options{Upstream: w.upstream, Server: &o, Edit: edit})
	return w
}

// request makes a JSON POST; header has names and values in turn.
func (w *world) request(t *testing.T, path string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL(path), body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("content-type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// do sends a request and returns what the upstream saw of it.
func do(t *testing.T, c *http.Client, r *http.Request) seen {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	s, err := read(res)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(res *http.Response) (s seen, err error) {
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return s, fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return s, fmt.Errorf("status %d: %s", res.StatusCode, b)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read the upstream's answer %q: %w", b, err)
	}
	return s, nil
}
