package observe

import "github.com/prometheus/client_golang/prometheus"

// restores are metrics of originals that were asked for.
type restores struct {
	restored       *prometheus.CounterVec
	restoredTokens *prometheus.CounterVec
}

func (r registerer) restores(m *Metrics) {
	m.restored = r.counterVec("restores_total", "Attempts to get an original back, by way (http, mcp, inline) and what came of it.", "path", "result")
	m.restoredTokens = r.counterVec("restored_tokens_total", "Tokens of originals that were given back, by the filter that had left them out.", "path", "filter")
}

// Restored counts an attempt to get an original back. path and result are words of package restore, or the way inline; filter is whose
// decision had left out what was given back, tokens an estimate of that.
func (m *Metrics) Restored(path, result, filter string, tokens int) {
	m.restored.WithLabelValues(path, result).Inc()
	if tokens > 0 {
		m.restoredTokens.WithLabelValues(path, filter).Add(float64(tokens))
	}
}
