// Package telemetry tells OpenTelemetry what tidemark does: a span per request with a child per stage, and the metrics that
// Prometheus scrapes.
//
// What is exported, and where to, is said by the standard OTEL_* variables, which the SDK reads. Nothing is exported, and a
// request costs one comparison, unless OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER or an OTLP endpoint is set. An exporter that
// fails neither delays a request nor changes it: spans are queued, what the queue cannot hold is dropped, and errors are one
// log line per minute.
//
// A span belongs to the trace of Envoy's span that opened the ext_proc stream. It holds what access logs hold, under the same
// names with the prefix tidemark, and nothing else of a request: no content, no raw id of a session.
package telemetry
