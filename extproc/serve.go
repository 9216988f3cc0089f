package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// LivenessService is the name under which gRPC health says that the process lives. It stays SERVING while the server drains;
// "" and the ext_proc service say whether new streams are welcome.
const LivenessService = "liveness"

const (
	streamWindow = 4 << 20   // bytes; most bodies arrive without waiting for a window update
	connWindow   = 16 << 20  // bytes; several such streams at once
	ioBuffer     = 256 << 10 // bytes; fewer system calls for large bodies
	minReceive   = 33 << 20  // bytes; the least that the receive limit may be
	envelope     = 1 << 20   // bytes of a message besides the body: headers, attributes, metadata
)

// errBusy says that the engine is still in use after the drain.
var errBusy = errors.New("drain: an engine call did not end")

func newHealth() *health.Server {
	h := health.NewServer()
	setReady(h, false)
	h.SetServingStatus(LivenessService, grpc_health_v1.HealthCheckResponse_SERVING)
	return h
}

func setReady(h *health.Server, ready bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	h.SetServingStatus("", status)
	h.SetServingStatus(extprocv3.ExternalProcessor_ServiceDesc.ServiceName, status)
}

func (s *Server) setReady(ready bool) {
	s.ready.Store(ready)
	setReady(s.health, ready)
}

// Ready reports whether new streams are welcome: Serve runs and does not drain.
func (s *Server) Ready() bool { return s.ready.Load() }

// Serve serves lis until ctx ends, then drains: readiness is taken back, DrainDelay passes so that Envoy's health checks see
// it, streams have DrainTimeout to end, and what is left is cut. When it returns nil, no engine call runs. It is called once.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	g := grpc.NewServer(s.grpcOptions()...)
	extprocv3.RegisterExternalProcessorServer(g, s)
	grpc_health_v1.RegisterHealthServer(g, s.health)

	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	s.setReady(true)
	defer s.setReady(false)
	select {
	case err := <-served:
		return fmt.Errorf("serve ext_proc: %w", err)
	case <-ctx.Done():
	}
	s.setReady(false)
	time.Sleep(s.o.DrainDelay)
	stopWithin(g, s.o.DrainTimeout)
	if err := <-served; err != nil {
		return fmt.Errorf("serve ext_proc: %w", err)
	}
	return s.waitForCalls()
}

func (s *Server) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(s.o.Credentials), // nil is plain text
		grpc.MaxRecvMsgSize(max(s.o.MaxBody+envelope, minReceive)),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		// Envoy may be told to ping idle connections; without this it would be sent away for it.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		// The end of Stop is the end of all streams, so that only engine calls can be left.
		grpc.WaitForHandlers(true),
	}
}

// stopWithin lets streams end and cuts those that do not.
func stopWithin(g *grpc.Server, timeout time.Duration) {
	stopped := make(chan struct{})
	go func() { g.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(timeout):
		g.Stop()
		<-stopped
	}
}

// waitForCalls waits for engine calls that their streams gave up. Their contexts have ended.
func (s *Server) waitForCalls() error {
	ended := make(chan struct{})
	go func() { s.calls.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-time.After(s.o.Deadline + time.Second):
		return errBusy
	}
}
