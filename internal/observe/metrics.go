package observe

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/filters"
)

// Bounds of labels whose values come from outside the code.
const (
	maxRoutes = 200
	other     = "_other" // stands for every value beyond the bound
	unnamed   = "_none"  // stands for the empty value
)

// Metrics are tidemark's metrics in a registry of their own.
//
// The label route takes at most 200 values, later ones count as _other; filter, gate and cause are closed lists, model is what
// the price table lists. Session, tenant, call, path and user are never labels.
type Metrics struct {
	Registry *prometheus.Registry

	responses
	savings
	summaries
	restores
	sessions

	routes bound

	requests, gates, passed, encoded      *prometheus.CounterVec
	inbound, outbound                     *prometheus.CounterVec
	removed, replayed, shadowed, reused   *prometheus.CounterVec
	moves, breakpoints, prefixes, latches *prometheus.CounterVec
	desyncs                               prometheus.Counter
	faulty                                map[filters.Gate]prometheus.Counter // gates that are somebody's fault
	duration, stages                      *prometheus.HistogramVec
	storeOps                              *prometheus.CounterVec
	storeTime                             *prometheus.HistogramVec
	streams                               prometheus.Gauge
	streamsEnded                          *prometheus.CounterVec
	streamTime                            *prometheus.HistogramVec
	refused                               *prometheus.CounterVec
	configLoads, configErrors             *prometheus.CounterVec
	configLast                            prometheus.Gauge
	configInfo                            *prometheus.GaugeVec
}

// bound keeps the values of one label to a number; later ones become _other.
type bound struct {
	max  int
	mu   sync.RWMutex
	seen map[string]struct{}
}

func (b *bound) of(v string) string {
	if v == "" {
		return unnamed
	}
	v = strings.ToValidUTF8(v, "_")
	b.mu.RLock()
	_, ok := b.seen[v]
	full := len(b.seen) >= b.max
	b.mu.RUnlock()
	switch {
	case ok:
		return v
	case full:
		return other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.seen[v]; !ok && len(b.seen) >= b.max {
		return other
	}
	if b.seen == nil {
		b.seen = map[string]struct{}{}
	}
	b.seen[v] = struct{}{}
	return v
}

// NewMetrics returns metrics that count from zero. version is tidemark's own.
func NewMetrics(version string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), routes: bound{max: maxRoutes}}
	r := registerer{m.Registry}
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.requests(m)
	r.responses(m)
	r.savings(m)
	r.summaries(m)
	r.restores(m)
	r.sessions(m)
	r.service(m)
	info := r.gaugeVec("build_info", "Constant 1; says which build runs.", "version", "revision", "goversion")
	info.WithLabelValues(version, revision(), runtime.Version()).Set(1)
	return m
}

func revision() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// Began counts an ext_proc stream that was opened.
func (m *Metrics) Began() { m.streams.Inc() }

// Ended counts an ext_proc stream that ended after lived, with the code that it ended with.
func (m *Metrics) Ended(lived time.Duration, code codes.Code) {
	m.streams.Dec()
	m.streamsEnded.WithLabelValues(code.String()).Inc()
	m.streamTime.WithLabelValues(code.String()).Observe(lived.Seconds())
}

// Passed counts a request that was forwarded without asking the engine. reason is a word of a closed list: why a request
// is not tidemark's (package identity), or why its body could not be had (package extproc).
func (m *Metrics) Passed(reason string) { m.passed.WithLabelValues(reason).Inc() }

// Decoded counts a request whose body came in a content coding and was read. coding is a word of package coding.
func (m *Metrics) Decoded(coding string) { m.encoded.WithLabelValues(coding).Inc() }

// Refused counts a request that a listener refused before it was looked at. listener is its name, why a word of package access.
func (m *Metrics) Refused(listener, why string) { m.refused.WithLabelValues(listener, why).Inc() }

// ConfigLoaded counts an attempt to load the server's config, with its hash if it could be used.
func (m *Metrics) ConfigLoaded(hash string, err error, now time.Time) {
	if err != nil {
		m.configLoads.WithLabelValues("error").Inc()
		return
	}
	m.configLoads.WithLabelValues("ok").Inc()
	m.configLast.Set(float64(now.Unix()))
	m.configInfo.Reset()
	m.configInfo.WithLabelValues(hash).Set(1)
}

// RouteConfigFailed counts a distinct route config that could not be used. source says where it came from and is a word
// of package routeconfig.
func (m *Metrics) RouteConfigFailed(source string) { m.configErrors.WithLabelValues(source).Inc() }

// registerer makes metrics with tidemark's prefix and registers them. Names are literals of this package, so a clash is
// found by its tests.
type registerer struct{ reg prometheus.Registerer }

func (r registerer) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tidemark", Name: name, Help: help}, labels)
	r.reg.MustRegister(v)
	return v
}

func (r registerer) counter(name, help string) prometheus.Counter {
	v := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tidemark", Name: name, Help: help})
	r.reg.MustRegister(v)
	return v
}

func (r registerer) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tidemark", Name: name, Help: help})
	r.reg.MustRegister(v)
	return v
}

func (r registerer) gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tidemark", Name: name, Help: help}, labels)
	r.reg.MustRegister(v)
	return v
}

func (r registerer) histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "tidemark", Name: name, Help: help, Buckets: buckets}, labels)
	r.reg.MustRegister(v)
	return v
}

// Buckets of durations: a request takes 0.25 ms to 1 s, a stream up to minutes.
var (
	requestBuckets = prometheus.ExponentialBuckets(0.00025, 2, 13)
	streamBuckets  = prometheus.ExponentialBuckets(0.001, 4, 10)
)

func (r registerer) requests(m *Metrics) {
	m.requests = r.counterVec("requests_total", "Request bodies by what became of them; error: original sent where a decision may be in force.", "route", "format", "mode", "outcome")
	m.gates = r.counterVec("gates_total", "Named reasons why nothing was done, by result (filter set) or by request (filter empty).", "filter", "gate")
	m.passed = r.counterVec("passed_total", "Requests that were forwarded without asking the engine.", "reason")
	m.encoded = r.counterVec("encoded_requests_total", "Requests whose body came in a content coding and was read.", "coding")
	m.inbound = r.counterVec("inbound_bytes_total", "Size of request bodies as clients sent them.", "route", "format")
	m.outbound = r.counterVec("outbound_bytes_total", "Size of request bodies as they were forwarded.", "route", "format")
	m.removed = r.counterVec("removed_tokens_total", "Tokens left out, net of markers, counted once at first removal.", "route", "filter", "basis")
	m.reused = r.counterVec("reused_tokens_total", "Tokens that were left out and needed again: read or run again, restored, or (of a cut) used by the model where they stand nowhere else.", "filter", "kind")
	m.replayed = r.counterVec("replayed_tokens_total", "Tokens not sent again because an earlier decision stands; never added to removed tokens.", "route")
	m.shadowed = r.counterVec("shadow_removed_tokens_total", "Tokens that mode active would have left out at first removal, on routes in mode shadow.", "route", "filter", "basis")
	m.moves = r.counterVec("moves_total", "Moments at which covered bytes changed by intent.", "kind")
	m.breakpoints = r.counterVec("breakpoints_total", "Changes to cache breakpoints.", "route", "action")
	m.prefixes = r.counterVec("prefix_changes_total", "Outbounds that lost bytes of a live cache entry; declared=\"false\" must stay 0.", "declared")
	for _, declared := range []string{"true", "false"} { // alerts look at the first one too
		m.prefixes.WithLabelValues(declared)
	}
	m.latches = r.counterVec("latches_total", "Decisions that were stored, lost to another replica, or replayed.", "result")
	m.desyncs = r.counter("desyncs_total", "Requests for which something may be in force that could not be replayed.")
	m.faulty = map[filters.Gate]prometheus.Counter{
		filters.Deadline:    r.counter("deadline_exceeded_total", "Requests without time left to decide."),
		filters.ProofFailed: r.counter("proof_failures_total", "Requests whose new edits could not be proven."),
		filters.Panic:       r.counter("panics_total", "Contained panics; must stay 0."),
		filters.Conflict:    m.latches.WithLabelValues("lost"),
	}
	m.duration = r.histogramVec("processing_duration_seconds", "Time that tidemark took.", requestBuckets, "phase", "outcome")
	m.stages = r.histogramVec("stage_duration_seconds", "Time by part of a request's way.", requestBuckets, "stage")
}

func (r registerer) service(m *Metrics) {
	m.storeOps = r.counterVec("store_operations_total", "Operations of the state store.", "backend", "op", "result")
	m.storeTime = r.histogramVec("store_operation_duration_seconds", "Duration of operations of the state store.", requestBuckets, "backend", "op")
	m.streams = r.gauge("extproc_streams_inflight", "ext_proc streams that are open.")
	m.streamsEnded = r.counterVec("extproc_streams_total", "ext_proc streams that ended, by gRPC code; Canceled is normal.", "code")
	m.streamTime = r.histogramVec("extproc_stream_duration_seconds", "Duration of ext_proc streams.", streamBuckets, "code")
	m.refused = r.counterVec("refused_requests_total", "Requests that a listener besides ext_proc refused before they were looked at.", "listener", "reason")
	m.configLoads = r.counterVec("config_loads_total", "Attempts to load the server's config; after an error the last good one stays.", "result")
	m.configLoads.WithLabelValues("error")
	m.configErrors = r.counterVec("config_route_errors_total", "Distinct route configs that could not be used, by where they came from; such routes replay only.", "reason")
	m.configLast = r.gauge("config_last_success_timestamp_seconds", "When the server's config was last loaded.")
	m.configInfo = r.gaugeVec("config_info", "Constant 1; names the server's config in use by its hash.", "hash")
}
