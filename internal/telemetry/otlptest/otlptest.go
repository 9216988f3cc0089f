// Package otlptest gives tests an OpenTelemetry collector that takes traces, metrics and logs over OTLP/gRPC and keeps them.
package otlptest

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// patience is how long something may take to arrive.
const patience = 20 * time.Second

// Collector runs until the test ends. What it gives back is shared and must not be changed.
type Collector struct {
	Addr string // host:port

	mu      sync.Mutex
	spans   []Span
	metrics []Metric
	logs    []Log
	arrived chan struct{} // closed and made anew at every arrival
}

// Span is a span with the resource that sent it.
type Span struct {
	*tracev1.Span

	Resource map[string]any
}

// ID is the span's id in hex.
func (s Span) ID() string { return hex.EncodeToString(s.GetSpanId()) }

// Parent is the id of the span's parent in hex, empty without one.
func (s Span) Parent() string { return hex.EncodeToString(s.GetParentSpanId()) }

// Trace is the id of the span's trace in hex.
func (s Span) Trace() string { return hex.EncodeToString(s.GetTraceId()) }

// Attributes are the span's, by name.
func (s Span) Attributes() map[string]any { return Map(s.GetAttributes()) }

// Metric is a metric as it was exported at one time.
type Metric struct {
	*metricsv1.Metric

	Resource map[string]any
	Scope    string
}

// Log is a record of a log.
type Log struct {
	*logsv1.LogRecord

	Resource map[string]any
}

// Attributes are the record's, by name.
func (l Log) Attributes() map[string]any { return Map(l.GetAttributes()) }

// Start starts a collector.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	lis, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &Collector{Addr: lis.Addr().String(), arrived: make(chan struct{})}
	s := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(s, traces{c: c})
	colmetrics.RegisterMetricsServiceServer(s, metrics{c: c})
	collogs.RegisterLogsServiceServer(s, logs{c: c})
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Spans waits until there are enough spans that fit, and returns those that do. It fails the test if they do not come.
func (c *Collector) Spans(tb testing.TB, enough int, fits func(Span) bool) []Span {
	tb.Helper()
	return await(tb, c, "spans", enough, func() []Span { return c.spans }, fits)
}

// Metrics waits until there are enough metrics that fit, one for each export, and returns those that do.
func (c *Collector) Metrics(tb testing.TB, enough int, fits func(Metric) bool) []Metric {
	tb.Helper()
	return await(tb, c, "metrics", enough, func() []Metric { return c.metrics }, fits)
}

// Logs waits until there are enough records that fit, and returns those that do.
func (c *Collector) Logs(tb testing.TB, enough int, fits func(Log) bool) []Log {
	tb.Helper()
	return await(tb, c, "log records", enough, func() []Log { return c.logs }, fits)
}

// await needs a lock around what list reads.
func await[T any](tb testing.TB, c *Collector, what string, enough int, list func() []T, fits func(T) bool) []T {
	tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		all, arrived := list(), c.arrived
		c.mu.Unlock()
		var found []T
		for _, v := range all {
			if fits(v) {
				found = append(found, v)
			}
		}
		if len(found) >= enough {
			return found
		}
		select {
		case <-arrived:
		case <-late.C:
			tb.Fatalf("%d %s of %d arrived, %d of any kind", len(found), what, enough, len(all))
		}
	}
}

// add takes in what arrived.
func (c *Collector) add(take func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	take()
	close(c.arrived)
	c.arrived = make(chan struct{})
}

type traces struct {
	coltrace.UnimplementedTraceServiceServer

	c *Collector
}

// Export implements the service.
func (s traces) Export(_ context.Context, r *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	s.c.add(func() {
		for _, rs := range r.GetResourceSpans() {
			for _, scope := range rs.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					s.c.spans = append(s.c.spans, Span{span, resource(rs.GetResource())})
				}
			}
		}
	})
	return &coltrace.ExportTraceServiceResponse{}, nil
}

type metrics struct {
	colmetrics.UnimplementedMetricsServiceServer

	c *Collector
}

// Export implements the service.
func (s metrics) Export(_ context.Context, r *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	s.c.add(func() {
		for _, rm := range r.GetResourceMetrics() {
			for _, scope := range rm.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					s.c.metrics = append(s.c.metrics, Metric{m, resource(rm.GetResource()), scope.GetScope().GetName()})
				}
			}
		}
	})
	return &colmetrics.ExportMetricsServiceResponse{}, nil
}

type logs struct {
	collogs.UnimplementedLogsServiceServer

	c *Collector
}

// Export implements the service.
func (s logs) Export(_ context.Context, r *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	s.c.add(func() {
		for _, rl := range r.GetResourceLogs() {
			for _, scope := range rl.GetScopeLogs() {
				for _, l := range scope.GetLogRecords() {
					s.c.logs = append(s.c.logs, Log{l, resource(rl.GetResource())})
				}
			}
		}
	})
	return &collogs.ExportLogsServiceResponse{}, nil
}

func resource(r *resourcev1.Resource) map[string]any { return Map(r.GetAttributes()) }

// Map is a list of attributes as Go values: string, bool, int64, float64, or a list of them; anything else is its text.
func Map(list []*commonv1.KeyValue) map[string]any {
	m := make(map[string]any, len(list))
	for _, kv := range list {
		m[kv.GetKey()] = value(kv.GetValue())
	}
	return m
}

func value(v *commonv1.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_BoolValue:
		return v.BoolValue
	case *commonv1.AnyValue_IntValue:
		return v.IntValue
	case *commonv1.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonv1.AnyValue_ArrayValue:
		var list []any
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, value(e))
		}
		return list
	}
	return v.String()
}
