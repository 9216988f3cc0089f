package telemetry

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// exported is the reader that the environment asks for. It exports the registry's metrics under the names that Prometheus
// scrapes, so that both ways show the same figures.
func exported(ctx context.Context, registry *prometheus.Registry) (sdkmetric.Reader, error) {
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) {
		return bridge.NewMetricProducer(bridge.WithGatherer(without(registry, scrapedPrefix))), nil
	})
	return autoexport.NewMetricReader(ctx)
}

// scrapedPrefix begins the names that gen_ai metrics have in Prometheus.
const scrapedPrefix = "gen_ai_"

// scraped is a reader that puts the gen_ai metrics into the registry.
func scraped(registry *prometheus.Registry) (sdkmetric.Reader, error) {
	return otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
}

// without gathers what does not begin with prefix: gen_ai metrics are exported as what they are, not once more from the registry.
func without(g prometheus.Gatherer, prefix string) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return strings.HasPrefix(f.GetName(), prefix) }), err
	})
}

func meterVersion(v string) metric.MeterOption { return metric.WithInstrumentationVersion(v) }

// buckets are those of the conventions for tokens of one call: powers of four.
var buckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}

// usage counts tokens as gen_ai metrics of one generation of the conventions; instruments of the other are nil.
type usage struct {
	input, output, read, written metric.Int64Counter
	inputPerCall, outputPerCall  metric.Int64Histogram
	perCall                      metric.Int64Histogram // legacy: both directions in one
}

// newUsage makes the instruments of a generation.
func newUsage(m metric.Meter, generation string) (*usage, error) {
	k := kit{meter: m}
	u := &usage{}
	if generation == Legacy {
		u.perCall = k.histogram("gen_ai.client.token.usage", "Tokens of one call, the whole prompt as input.")
		return u, k.err
	}
	u.input = k.counter("usage.input_tokens", "Tokens of prompts, cached ones included.")
	u.output = k.counter("usage.output_tokens", "Tokens of answers.")
	u.read = k.counter("usage.cache_read.input_tokens", "Tokens of prompts that were read from the provider's cache.")
	u.written = k.counter("usage.cache_write.input_tokens", "Tokens of prompts that were written to the provider's cache.")
	u.inputPerCall = k.histogram("gen_ai.client.inference.operation.input_tokens", "Tokens of one prompt, cached ones included.")
	u.outputPerCall = k.histogram("gen_ai.client.inference.operation.output_tokens", "Tokens of one answer.")
	return u, k.err
}

// kit makes instruments and keeps the first error.
type kit struct {
	meter metric.Meter
	err   error
}

func (k *kit) counter(name, text string) metric.Int64Counter {
	c, err := k.meter.Int64Counter("gen_ai.client.inference."+name, metric.WithUnit("{token}"), metric.WithDescription(text))
	k.keep(err)
	return c
}

func (k *kit) histogram(name, text string) metric.Int64Histogram {
	h, err := k.meter.Int64Histogram(name, metric.WithUnit("{token}"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
	k.keep(err)
	return h
}

func (k *kit) keep(err error) {
	if k.err == nil {
		k.err = err
	}
}

// count counts what was billed for a request, if the provider said it.
func (u *usage) count(r *pipeline.Request, v *pipeline.Observation) {
	if v.Usage == nil || r.CountTokens {
		return
	}
	ctx, b := context.Background(), v.Usage.Billed()
	common := []attribute.KeyValue{attribute.String("gen_ai.operation.name", operation(r.Format)), attribute.String("gen_ai.provider.name", cmp.Or(provider(r), "_other"))}
	if m := model(v.Model); m != "" {
		common = append(common, attribute.String("gen_ai.request.model", m))
	}
	if u.perCall != nil {
		for kind, n := range map[string]int{"input": b.Prompt(), "output": b.Output} {
			u.perCall.Record(ctx, int64(n), metric.WithAttributes(append(slices.Clone(common), attribute.String("gen_ai.token.type", kind))...))
		}
		return
	}
	of := metric.WithAttributeSet(attribute.NewSet(common...))
	u.inputPerCall.Record(ctx, int64(b.Prompt()), of)
	u.outputPerCall.Record(ctx, int64(b.Output), of)
	// What of the tokens was text and what images, providers do not say in full.
	of = metric.WithAttributeSet(attribute.NewSet(append(slices.Clone(common), attribute.String("gen_ai.token.modality", "unknown"))...))
	u.input.Add(ctx, int64(b.Prompt()), of)
	u.output.Add(ctx, int64(b.Output), of)
	if b.Read > 0 {
		u.read.Add(ctx, int64(b.Read), of)
	}
	if n := b.Write5m + b.Write1h; n > 0 {
		u.written.Add(ctx, int64(n), of)
	}
}
