package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// running is a server that serves on a unix socket, with a connection to it.
type running struct {
	*recorder

	server *Server
	conn   *grpc.ClientConn
	stop   func() error // drains
}

func serve(t *testing.T, e engineFunc, o Options) *running {
	t.Helper()
	o.DrainDelay = time.Millisecond
	s, rec := newTestServer(e, o)
	addr := "unix:" + filepath.Join(t.TempDir(), "s")
	lis, err := Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	r := &running{recorder: rec, server: s, conn: conn, stop: func() error { stopped = true; cancel(); return <-served }}
	t.Cleanup(func() {
		if !stopped {
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close()
	})
	return r
}

// open starts a stream that ends with the test at the latest.
func (r *running) open(t *testing.T) (stream extprocv3.ExternalProcessor_ProcessClient, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := extprocv3.NewExternalProcessorClient(r.conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

// ask sends a message and waits for an answer.
func ask(t *testing.T, stream extprocv3.ExternalProcessor_ProcessClient, m message) *extprocv3.ProcessingResponse {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	a, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wait waits until something has been counted.
func (r *running) wait(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.count(what) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was never counted: %v", what, r.counts)
		}
	}
}

func (r *running) health(t *testing.T, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	res, err := grpc_health_v1.NewHealthClient(r.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return res.GetStatus()
}

func TestServe(t *testing.T) {
	r := serve(t, upper, Options{})
	stream, _ := r.open(t)
	ask(t, stream, headersMessage(modeBuffered, false))
	a := ask(t, stream, bodyMessage("body", true))
	if got := a.GetRequestBody().GetResponse().GetBodyMutation().GetBody(); string(got) != "BODY" {
		t.Errorf("the body became %q", got)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	r.wait(t, "ended OK")
}

func TestObservabilityModeIsNotAnswered(t *testing.T) {
	r := serve(t, upper, Options{})
	stream, _ := r.open(t)
	m := headersMessage(modeStreamed, false)
	m.ObservabilityMode = true
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if a, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("answer %v, error %v", a, err)
	}
	r.wait(t, "passed observability")
}

// A message beyond the receive limit is counted; the library ends the stream with an error by itself.
func TestMessageBeyondTheReceiveLimit(t *testing.T) {
	r := serve(t, upper, Options{MaxBody: 1})
	stream, _ := r.open(t)
	ask(t, stream, headersMessage(modeBuffered, false))
	if err := stream.Send(bodyMessage(string(bytes.Repeat([]byte("b"), minReceive)), true)); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v", err)
	}
	r.wait(t, "passed too_large")
	r.wait(t, "ended ResourceExhausted")
}

// A client that goes away in the middle of a body leaves nothing behind; TestMain looks for goroutines.
func TestCancelMidBody(t *testing.T) {
	r := serve(t, upper, Options{})
	for _, mode := range allModes {
		stream, cancel := r.open(t)
		ask(t, stream, headersMessage(mode, false))
		if mode == modeDuplex {
			if err := stream.Send(bodyMessage("half of it", false)); err != nil {
				t.Fatal(err)
			}
		}
		before := r.count("ended Canceled")
		cancel()
		for deadline := time.Now().Add(10 * time.Second); r.count("ended Canceled") == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the stream does not end: %v", mode, r.counts)
			}
		}
	}
	if n := r.count("answered decided "); n != 0 {
		t.Errorf("the engine was asked %d times about half a body", n)
	}
}

// While the server drains, readiness is gone and liveness is not; a stream that is open gets its answer.
func TestDrain(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	r := serve(t, func(ctx context.Context, q *pipeline.Request) *pipeline.Outcome {
		close(asked)
		<-answer
		return upper(ctx, q)
	}, Options{Deadline: time.Minute})
	service := extprocv3.ExternalProcessor_ServiceDesc.ServiceName
	for _, name := range []string{"", service, LivenessService} {
		if got := r.health(t, name); got != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q is %s", name, got)
		}
	}
	if !r.server.Ready() {
		t.Error("not ready")
	}

	stream, _ := r.open(t)
	ask(t, stream, headersMessage(modeBuffered, false))
	if err := stream.Send(bodyMessage("body", true)); err != nil {
		t.Fatal(err)
	}
	<-asked
	drained := make(chan error, 1)
	go func() { drained <- r.stop() }()
	for r.server.Ready() {
		time.Sleep(time.Millisecond)
	}
	status := func(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		res, err := r.server.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetStatus()
	}
	for _, name := range []string{"", service} {
		if got := status(name); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q is %s in the drain", name, got)
		}
	}
	if got := status(LivenessService); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("liveness is %s in the drain", got)
	}
	close(answer)
	a, err := stream.Recv()
	if err != nil || string(a.GetRequestBody().GetResponse().GetBodyMutation().GetBody()) != "BODY" {
		t.Errorf("answer %v, error %v", a, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A stream that does not end is cut when its time is up.
func TestDrainHasAnEnd(t *testing.T) {
	r := serve(t, upper, Options{DrainTimeout: 10 * time.Millisecond})
	stream, _ := r.open(t)
	ask(t, stream, headersMessage(modeBuffered, false))
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestServeSaysThatItCannot(t *testing.T) {
	s, _ := newTestServer(upper, Options{})
	lis, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), lis); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if s.Ready() {
		t.Error("ready")
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	stale, busy, file := filepath.Join(dir, "stale"), filepath.Join(dir, "busy"), filepath.Join(dir, "file")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as a process that is killed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := Listen(t.Context(), "unix:"+busy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()

	for addr, ok := range map[string]bool{
		"unix:" + stale: true, "unix:" + busy: false, "unix:" + file: false, "unix:" + filepath.Join(dir, "no", "s"): false,
		"127.0.0.1:0": true, "127.0.0.1:port": false, "": true,
	} {
		l, err := Listen(t.Context(), addr)
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
	if info, err := os.Stat(busy); err != nil || info.Mode().Perm() != socketMode {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file that is no socket was removed: %v", err)
	}
}
