package envoy_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
)

// Limits of the server's own: whatever is beyond them goes on as it came, without Envoy's help.
func TestLimits(t *testing.T) {
	const maxBody = 100_000
	w := newWorld(t, extproc.Options{Deadline: 200 * time.Millisecond, MaxBody: maxBody}, nil)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			path, c := way.path, envoytest.Client(t, way.http2)
			for name, q := range map[string]struct {
				toy           string
				size          int
				outcome, gate any
			}{
				"late":       {toyHang, 1000, "error", "deadline"},
				"large":      {toyUpper, maxBody + 1, extproc.Untouched, extproc.TooLarge},
				"largest":    {"", maxBody, "identity", ""},
				"very large": {toyUpper, 5 << 20, extproc.Untouched, extproc.TooLarge},
			} {
				id, body := t.Name()+name, bytes.Repeat([]byte("l"), q.size)
				got := do(t, c, w.request(t, path, bytes.NewReader(body), toyHeader, q.toy, "x-request-id", id))
				line := w.Access(t, id)
				if got.Sum != sum(body) || line["outcome"] != q.outcome || line["gate"] != q.gate {
					t.Errorf("%s: the upstream saw %d bytes, the access log says %v", name, got.Length, line)
				}
			}
		})
	}
}

// broken is a processor that fails in the way that the request asks for, at the message it asks for.
type broken struct {
	extprocv3.UnimplementedExternalProcessorServer

	listener *cuttable
}

func (b *broken) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	how := ""
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		at := "body"
		answer := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}}
		if h := m.GetRequestHeaders(); h != nil {
			at = "headers"
			for _, v := range h.GetHeaders().GetHeaders() {
				if v.GetKey() == toyHeader {
					how = string(v.GetRawValue())
				}
			}
			answer = &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}}
		}
		switch how {
		case "hang at " + at:
			<-stream.Context().Done()
			return nil
		case "error at " + at:
			return status.Error(codes.Internal, "broken")
		case "crash at " + at:
			b.listener.cut()
			return nil
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// cuttable is a listener whose connections can be cut as a crash cuts them.
type cuttable struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (l *cuttable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *cuttable) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// What the server cannot help, failure_mode_allow does: in BUFFERED mode Envoy still has the body.
func TestFailOpen(t *testing.T) {
	lis, err := extproc.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{listener: &cuttable{Listener: lis}}
	g := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(g, b)
	served := make(chan error, 1)
	go func() { served <- g.Serve(b.listener) }()
	defer g.Stop()

	w := &world{upstream: &echoUpstream{}}
	w.Env = envoytest.Start(t, envoytest.Options{
		Upstream: w.upstream, Processor: lis.Addr().String(),
		Edit: func(config string) string {
			return strings.Replace(config, "message_timeout: 5s", "message_timeout: 0.3s", 1)
		},
	})
	body := bytes.Repeat([]byte("o"), 100_000)
	pass := func(how string) {
		t.Helper()
		for _, http2 := range []bool{false, true} {
			if got := do(t, envoytest.Client(t, http2), w.request(t, "/v1/messages", bytes.NewReader(body), toyHeader, how)); got.Sum != sum(body) {
				t.Errorf("%s: the upstream saw %d bytes", how, got.Length)
			}
		}
	}
	failures := 0
	for _, how := range []string{
		"hang at headers", "hang at body", "error at headers", "error at body", "crash at headers", "crash at body", "nothing", "down",
	} {
		if how == "down" {
			g.Stop()
			if err := <-served; err != nil {
				t.Fatal(err)
			}
		}
		pass(how)
		if how != "nothing" {
			failures += 2
		}
		if n := w.Stat(t, "http.ingress.ext_proc.tidemark.failure_mode_allowed"); n != int64(failures) {
			t.Errorf("after %q Envoy has let %d failures pass, want %d", how, n, failures)
		}
	}
}

// A shutdown in the middle of traffic loses no request: those in flight are finished, later ones pass.
func TestDrain(t *testing.T) {
	w := startWorld(t, extproc.Options{DrainDelay: 100 * time.Millisecond}, nil)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	results := map[string]int{}
	for i := range 8 {
		clients.Go(func() {
			c := envoytest.Client(t, i%2 == 0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				what := send(c, w.request(t, "/v1/messages", strings.NewReader("body"), toyHeader, toySlow))
				mu.Lock()
				results[what]++
				mu.Unlock()
			}
		})
	}
	w.recorder.wait(t, "answered fresh ", 16)
	inFlight := make(chan string, 1)
	began := w.recorder.count("began")
	go func() {
		r := w.request(t, "/v1/messages", strings.NewReader("body"), toyHeader, toySlow)
		inFlight <- send(envoytest.Client(t, true), r)
	}()
	w.recorder.wait(t, "began", began+8) // all of them are behind the last answer
	if err := w.Drain(); err != nil {
		t.Error(err)
	}
	time.Sleep(100 * time.Millisecond) // some more requests, past a server that is gone
	close(stop)
	clients.Wait()
	if got := <-inFlight; got != "BODY" {
		t.Errorf("a request in flight came to %q", got)
	}
	if results["BODY"] == 0 || results["body"] == 0 || len(results) != 2 {
		t.Errorf("requests came to %v", results)
	}
}

// send sends a request and returns the body as the upstream saw it, or what went wrong.
func send(c *http.Client, r *http.Request) string {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	res, err := c.Do(r.WithContext(ctx))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	s, err := read(res)
	if err != nil {
		return err.Error()
	}
	return s.Body
}
