package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// scope names tidemark as the origin of spans and metrics.
const scope = "github.com/tidemark-dev/tidemark"

// Words of Options.Semconv and Options.Usage.
const (
	V01    = "v0.1"   // of the GenAI conventions' own releases
	Legacy = "legacy" // of semantic conventions up to 1.41
	Off    = "off"
)

// Options of [Start].
type Options struct {
	Semconv  string               // names of gen_ai attributes on spans: V01, Legacy or Off
	Usage    string               // names of gen_ai metrics of tokens: V01, Legacy or Off
	Registry *prometheus.Registry // whose metrics are exported, and where gen_ai metrics are scraped from
	Now      func() time.Time     // the clock of requests' arrival
	Log      *slog.Logger
	Version  string // of tidemark
}

// Telemetry is told what happens. Its methods are called from many goroutines and return at once.
type Telemetry struct {
	o       Options
	tracer  trace.Tracer                                         // nil: there are no spans
	open    *lru.Cache[weak.Pointer[pipeline.Outcome], *request] // it keeps no outcome, which may hold a word on every result
	usage   *usage                                               // nil: tokens are not counted
	closers []func(context.Context) error
	report  *reporter
}

// Start reads the OTEL_* variables and starts what they ask for. An option or a variable that names what is not known is an
// error; a collector that cannot be reached is none.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	for _, word := range []string{o.Semconv, o.Usage} {
		if word != V01 && word != Legacy && word != Off {
			return nil, fmt.Errorf("start telemetry: %q is none of %s, %s, %s", word, V01, Legacy, Off)
		}
	}
	t := &Telemetry{o: o, report: &reporter{log: o.Log}}
	if err := errors.Join(t.trace(ctx), t.meter(ctx)); err != nil {
		t.Close(ctx)
		return nil, fmt.Errorf("start telemetry: %w", err)
	}
	return t, nil
}

// Close ends spans that are open and sends what is queued, until ctx ends. What a collector did not take by then is lost.
func (t *Telemetry) Close(ctx context.Context) {
	if t.open != nil {
		t.open.Purge()
	}
	errs := make([]error, len(t.closers))
	var closing sync.WaitGroup
	for i, c := range t.closers { // together: where one does not answer, the other has its time
		closing.Go(func() { errs[i] = c(ctx) })
	}
	closing.Wait()
	if err := errors.Join(errs...); err != nil {
		t.o.Log.WarnContext(ctx, "telemetry not sent in full", "error", err)
	}
}

// Variables that switch a signal on: its exporter, or an endpoint to send it to.
const (
	disabledEnv = "OTEL_SDK_DISABLED"
	endpointEnv = "OTEL_EXPORTER_OTLP_ENDPOINT"
)

// wanted reports whether the environment asks for a signal: traces or metrics.
func wanted(signal string) bool {
	if strings.EqualFold(os.Getenv(disabledEnv), "true") {
		return false
	}
	signal = strings.ToUpper(signal)
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter {
	case "none":
		return false
	case "":
		return os.Getenv(endpointEnv) != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return true
}

// trace starts the tracer if the environment wants spans. The sampler is the SDK's own, by OTEL_TRACES_SAMPLER: unless told
// otherwise it does what Envoy decided for the trace.
func (t *Telemetry) trace(ctx context.Context) error {
	if !wanted("traces") {
		return nil
	}
	t.report.listen()
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("traces, by OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, t.batching()...), sdktrace.WithResource(t.resource(ctx)))
	t.closers = append(t.closers, p.Shutdown)
	t.tracer = p.Tracer(scope, trace.WithInstrumentationVersion(t.o.Version))
	t.open, err = newOpen()
	return err
}

// maxQueued bounds the queue of spans, which is made in full at the start.
const maxQueued = 1 << 20

// batching takes the SDK's defaults where the environment asks for a size that cannot be: the SDK would panic over it.
func (t *Telemetry) batching() (list []sdktrace.BatchSpanProcessorOption) {
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && (n < 1 || n > maxQueued) {
			t.report.Handle(fmt.Errorf("%s is %d, not 1 to %d: the defaults are in use", name, n, maxQueued))
			list = []sdktrace.BatchSpanProcessorOption{
				sdktrace.WithMaxQueueSize(sdktrace.DefaultMaxQueueSize), sdktrace.WithMaxExportBatchSize(sdktrace.DefaultMaxExportBatchSize),
			}
		}
	}
	return list
}

// meter starts the export of metrics if the environment wants it, and the gen_ai metrics if the options do.
func (t *Telemetry) meter(ctx context.Context) error {
	var readers []metric.Option
	if wanted("metrics") {
		t.report.listen()
		r, err := exported(ctx, t.o.Registry)
		if err != nil {
			return fmt.Errorf("metrics, by OTEL_METRICS_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL: %w", err)
		}
		readers = append(readers, metric.WithReader(r))
	}
	if t.o.Usage != Off {
		r, err := scraped(t.o.Registry)
		if err != nil {
			return fmt.Errorf("gen_ai metrics: %w", err)
		}
		readers = append(readers, metric.WithReader(r))
	}
	if len(readers) == 0 {
		return nil
	}
	p := metric.NewMeterProvider(append(readers, metric.WithResource(t.resource(ctx)))...)
	t.closers = append(t.closers, p.Shutdown)
	if t.o.Usage == Off {
		return nil
	}
	var err error
	t.usage, err = newUsage(p.Meter(scope, meterVersion(t.o.Version)), t.o.Usage)
	return err
}

// resource says who sends. The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
func (t *Telemetry) resource(ctx context.Context) *resource.Resource {
	r, err := resource.New(ctx,
		resource.WithService(), // an instance id, so that replicas do not overwrite each other's counters
		resource.WithHost(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tidemark"), attribute.String("service.version", t.o.Version)),
		resource.WithFromEnv(),
	)
	if err != nil { // a part of it may be missing
		t.report.Handle(err)
	}
	return r
}
