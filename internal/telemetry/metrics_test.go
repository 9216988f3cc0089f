package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// totals are a metric's values, or a histogram's sums, by what tells its series apart.
func totals(m otlptest.Metric, by string) map[any]float64 {
	all := map[any]float64{}
	for _, p := range m.GetSum().GetDataPoints() {
		all[otlptest.Map(p.GetAttributes())[by]] += p.GetAsDouble() + float64(p.GetAsInt())
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		all[otlptest.Map(p.GetAttributes())[by]] += p.GetSum()
	}
	return all
}

// latestOf are the totals of each metric in the last export that has it.
func latestOf(list []otlptest.Metric, by string) map[string]map[any]float64 {
	all := map[string]map[any]float64{}
	for _, m := range list {
		all[m.GetName()] = totals(m, by)
	}
	return all
}

// What is exported are the figures that are scraped, and gen_ai metrics are exported under their own names only.
func TestBothWaysShowTheSame(t *testing.T) {
	c := toCollector(t, "TRACES_EXPORTER", "none")
	w := start(t, Off, V01)
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_requests_total", Help: "Requests."}, []string{"outcome"})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tidemark_seconds", Help: "Time.", Buckets: []float64{1, 2}})
	w.registry.MustRegister(counter, histogram)
	counter.WithLabelValues("moved").Add(3)
	counter.WithLabelValues("error").Add(1)
	histogram.Observe(1.5)
	r, o, v := example()
	w.Observed(r, o, v)
	w.close(t)

	got := latestOf(c.Metrics(t, 8, any1), "outcome")
	want := map[string]map[any]float64{"tidemark_requests_total": {"moved": 3, "error": 1}, "tidemark_seconds": {nil: 1.5}}
	for name, n := range map[string]float64{
		"usage.input_tokens": 4312, "usage.output_tokens": 50, "usage.cache_read.input_tokens": 4000,
		"usage.cache_write.input_tokens": 300, "operation.input_tokens": 4312, "operation.output_tokens": 50,
	} {
		want["gen_ai.client.inference."+name] = map[any]float64{nil: n}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// scrape is what Prometheus sees of a counter or of a histogram's sum, by its labels.
func scrape(t *testing.T, r *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			all[labels(m)] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return all
}

func labels(m *dto.Metric) string {
	var words []string
	for _, l := range m.GetLabel() {
		words = append(words, strings.TrimPrefix(l.GetName(), "gen_ai_")+"="+l.GetValue())
	}
	return strings.Join(words, ",")
}

// Tokens are counted under the names of a generation, also where nothing is exported, and not at all unless asked for.
func TestUsage(t *testing.T) {
	const model = "operation_name=chat,provider_name=anthropic,request_model=claude-opus-5"
	for generation, want := range map[string]map[string]map[string]float64{
		Off: {},
		V01: {
			"gen_ai_client_inference_usage_input_tokens_total":             {model + ",token_modality=unknown": 2 * 4312},
			"gen_ai_client_inference_usage_output_tokens_total":            {model + ",token_modality=unknown": 2 * 50},
			"gen_ai_client_inference_usage_cache_read_input_tokens_total":  {model + ",token_modality=unknown": 2 * 4000},
			"gen_ai_client_inference_usage_cache_write_input_tokens_total": {model + ",token_modality=unknown": 2 * 300},
			"gen_ai_client_inference_operation_input_tokens":               {model: 2 * 4312},
			"gen_ai_client_inference_operation_output_tokens":              {model: 2 * 50},
		},
		Legacy: {"gen_ai_client_token_usage": {model + ",token_type=input": 2 * 4312, model + ",token_type=output": 2 * 50}},
	} {
		t.Run(generation, func(t *testing.T) {
			environment(t)
			w := start(t, Off, generation)
			for range 2 {
				r, o, v := example()
				w.Answered(r, o)
				w.Observed(r, o, v)
			}
			r, o, v := example()
			v.Usage = nil // a response that nobody saw
			w.Observed(r, o, v)
			r.CountTokens, v.Usage = true, &pipeline.Usage{Input: 1}
			w.Observed(r, o, v)
			families, err := w.registry.Gather()
			if err != nil || len(families) != len(want) {
				t.Errorf("%d metrics, %v", len(families), err)
			}
			for name, values := range want {
				if d := cmp.Diff(values, scrape(t, w.registry, name)); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
			if problems, err := testutil.GatherAndLint(w.registry); len(problems) != 0 || err != nil {
				t.Errorf("%v, %v", problems, err)
			}
			w.close(t)
		})
	}
}

// A model that is not in the price table has no name here: clients choose names.
func TestUsageOfUnknownModels(t *testing.T) {
	environment(t)
	w := start(t, Off, Legacy)
	r, o, v := example()
	r.Format, v.Model = transcript.UnknownFormat, "_other"
	w.Observed(r, o, v)
	want := map[string]float64{"operation_name=chat,provider_name=_other,token_type=input": 4312, "operation_name=chat,provider_name=_other,token_type=output": 50}
	if d := cmp.Diff(want, scrape(t, w.registry, "gen_ai_client_token_usage")); d != "" {
		t.Error(d)
	}
	w.close(t)
}

// What was billed in all counts, where one response took several prompts.
func TestUsageOfSeveralPrompts(t *testing.T) {
	c := toCollector(t)
	w := start(t, V01, V01)
	r, o, v := example()
	v.Usage = &pipeline.Usage{Input: 1, Output: 1, Bill: &pipeline.Usage{Input: 10, Read: 20, Output: 5}}
	w.Answered(r, o)
	w.clock.set(arrival.Add(time.Second))
	w.Observed(r, o, v)
	w.close(t)
	if n := scrapeSent(t, c, "gen_ai.client.inference.usage.input_tokens"); n != 30 {
		t.Errorf("%v tokens of prompts", n)
	}
	if n := parent(t, c.Spans(t, 8, any1)).Attributes()["gen_ai.usage.input_tokens"]; n != int64(30) {
		t.Errorf("%v tokens of prompts on the span", n)
	}
}

func scrapeSent(t *testing.T, c *otlptest.Collector, name string) float64 {
	t.Helper()
	found := c.Metrics(t, 1, func(m otlptest.Metric) bool { return m.GetName() == name })
	return totals(found[len(found)-1], "")[nil]
}
