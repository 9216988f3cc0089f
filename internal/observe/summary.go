package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/summarize"
)

// summaries are the metrics of the background summariser: tidemark's own spending.
type summaries struct {
	summarized    *prometheus.CounterVec
	summaryTokens *prometheus.CounterVec
	ownCost       *prometheus.CounterVec
}

func (r registerer) summaries(m *Metrics) {
	m.summarized = r.counterVec("summaries_total", "Summaries of old results by what became of them; refused: by the audit; dropped: never sent.", "outcome")
	m.summaryTokens = r.counterVec("summary_tokens_total", "Tokens that summarizers counted, input and output.", "model", "direction")
	m.ownCost = r.counterVec("own_cost_usd_total", "What tidemark itself spends, by the price table, for models that it knows.", "purpose")
}

// Summarized counts what one summary came to.
func (m *Metrics) Summarized(s summarize.Report) {
	m.summarized.WithLabelValues(string(s.Outcome)).Inc()
	if s.Input+s.Output == 0 {
		return
	}
	m.summaryTokens.WithLabelValues(s.Model, "input").Add(float64(s.Input))
	m.summaryTokens.WithLabelValues(s.Model, "output").Add(float64(s.Output))
	m.ownCost.WithLabelValues("summary").Add(s.Cost)
	m.net.WithLabelValues(ownRoute).Sub(s.Cost)
}
