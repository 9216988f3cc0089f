package doctor

import (
	"bytes"
	"fmt"
	"maps"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// samples are the metrics of a process, by name without the prefix tidemark_.
type samples map[string][]sample

// sample is one series. A histogram counts as the number of what it observed.
type sample struct {
	labels map[string]string
	value  float64
}

// parseSamples reads Prometheus' text format.
func parseSamples(text []byte) (samples, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out := samples{}
	for name, f := range families {
		name = trimPrefix(name)
		for _, m := range f.GetMetric() {
			labels := make(map[string]string, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[name] = append(out[name], sample{labels, value(m)})
		}
	}
	return out, nil
}

func trimPrefix(name string) string {
	const prefix = "tidemark_"
	if len(name) > len(prefix) && name[:len(prefix)] == prefix {
		return name[len(prefix):]
	}
	return name
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetUntyped().GetValue()
}

// sum adds the series of a metric whose labels have the given values: name, value, name, value.
func (s samples) sum(name string, labels ...string) (total float64) {
	for _, x := range s[name] {
		if x.has(labels) {
			total += x.value
		}
	}
	return total
}

// by adds the series of a metric with the given values of labels, by the value of another label.
func (s samples) by(name, label string, labels ...string) map[string]float64 {
	out := map[string]float64{}
	for _, x := range s[name] {
		if x.has(labels) {
			out[x.labels[label]] += x.value
		}
	}
	return out
}

func (x *sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if x.labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// most returns the keys of the greatest values, at most n of them, greatest first.
func most(values map[string]float64, n int) (keys []string) {
	left := maps.Clone(values)
	for len(keys) < n {
		best := ""
		for k, v := range left {
			if v > 0 && (best == "" || v > left[best] || v == left[best] && k < best) {
				best = k
			}
		}
		if best == "" {
			return keys
		}
		keys = append(keys, best)
		delete(left, best)
	}
	return keys
}
