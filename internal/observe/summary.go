package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/summarize"
)

// summaries are the metrics of the background summariser: tidemark's own spending.
type summaries struct {
	summarized    *prometheus.CounterVec
	summaryTokens *prometheus.CounterVec
	summaryCost   *prometheus.CounterVec
}

func (r registerer) summaries(m *Metrics) {
	m.summarized = r.counterVec("summaries_total", "Summaries of old results by what became of them; refused: by the audit; dropped: never sent.", "outcome")
	m.summaryTokens = r.counterVec("summary_tokens_total", "Tokens that summarizers counted, input and output.", "model", "direction")
	m.summaryCost = r.counterVec("summary_cost_usd_total", "Price of those tokens by the price table, for models that it knows; what tidemark itself spends.", "model")
}

// Summarized counts what one summary came to.
func (m *Metrics) Summarized(s summarize.Report) {
	m.summarized.WithLabelValues(string(s.Outcome)).Inc()
	if s.Input+s.Output == 0 {
		return
	}
	m.summaryTokens.WithLabelValues(s.Model, "input").Add(float64(s.Input))
	m.summaryTokens.WithLabelValues(s.Model, "output").Add(float64(s.Output))
	m.summaryCost.WithLabelValues(s.Model).Add(s.Cost)
}
