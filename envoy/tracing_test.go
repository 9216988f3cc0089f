package envoy_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
)

type spy struct {
	extprocv3.UnimplementedExternalProcessorServer
	t *testing.T
}

func (s *spy) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	for k, v := range md { fmt.Println("MD", k, fmt.Sprintf("%q", v)) }
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if h := m.GetRequestHeaders(); h != nil {
			for _, v := range h.GetHeaders().GetHeaders() {
				if strings.Contains(v.GetKey(), "trace") {
					fmt.Println("H", v.GetKey(), string(v.GetRawValue()))
				}
			}
			_ = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}})
		}
		if m.GetRequestBody() != nil {
			time.Sleep(20 * time.Millisecond)
			_ = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}})
		}
		if m.GetResponseTrailers() != nil {
			_ = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}})
		}
	}
}

func TestTraceSpy(t *testing.T) {
	col := otlptest.Start(t)
	host, port, _ := net.SplitHostPort(col.Addr)
	lis, _ := net.Listen("tcp", "127.0.0.1:0")
	g := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(g, &spy{t: t})
	go g.Serve(lis)
	t.Cleanup(g.Stop)
	e := envoytest.Start(t, envoytest.Options{Upstream: &biller{}, Processor: lis.Addr().String(), Edit: func(c string) string {
		c = strings.Replace(c, "          access_log:\n", `          tracing:
            random_sampling: {value: 100}
            spawn_upstream_span: true
            provider:
              name: envoy.tracers.opentelemetry
              typed_config:
                "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                grpc_service: {envoy_grpc: {cluster_name: collector}, timeout: 1s}
                service_name: envoy
          access_log:
`, 1)
		c = strings.Replace(c, "              message_timeout: 5s\n", "              message_timeout: 5s\n              emit_client_span: false\n", 1)
		c = strings.Replace(c, "  clusters:\n", fmt.Sprintf(`  clusters:
  - name: collector
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: collector
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]
`, host, port), 1)
		return c
	}})
	for _, tp := range []string{"", "00-11111111111111111111111111111111-2222222222222222-01", "00-11111111111111111111111111111111-3333333333333333-00"} {
		c := envoytest.Client(t, false)
		w := world{Env: e}
		r := w.request(t, metadataPath, strings.NewReader(`{"model":"x"}`), "traceparent", tp)
		if tp == "" {
			r.Header.Del("traceparent")
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	for _, s := range col.Spans(t, 6, func(otlptest.Span) bool { return true }) {
		fmt.Println(s.GetName(), s.GetKind(), "trace", s.Trace(), "id", s.ID(), "parent", s.Parent(), s.GetFlags(), s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano(), s.Attributes()["http.url"], s.Attributes()["upstream_cluster"], s.GetStartTimeUnixNano())
	}
}
