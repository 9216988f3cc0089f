package doctor

import (
	"math"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// fewPercent is the share above which now and then becomes too often.
const fewPercent = 0.01

// judgeStats looks at the counters of Envoy's ext_proc filters.
func (d *doctor) judgeStats(text string) {
	stats := extProcStats(text)
	started := stats["streams_started"]
	share := func(n float64) float64 { return n / math.Max(1, started) }
	const where = "/stats, since Envoy's start"
	if n := stats["failure_mode_allowed"]; n > 0 {
		severity := check.Warning
		if share(n) > fewPercent {
			severity = check.Error
		}
		d.found(severity, "fail-open", where, "message_timeout above tidemark's deadline, circuit_breakers above the default 1024, and a look at why tidemark was down",
			"%.0f of %.0f streams failed open: those requests went on without tidemark, and lost the provider's cache where a decision stood", n, started)
	}
	if n := stats["message_timeouts"]; n > 0 {
		d.found(check.Warning, "timeouts", where, "message_timeout: 5s; on slow machines a smaller deadline of tidemark's", "%.0f messages of %.0f streams timed out", n, started)
	}
	if n := stats["rejected_header_mutations"]; n > 0 {
		d.found(check.Warning, "rejected-mutations", where, "no mutation_rules on the ext_proc filter that forbid content-length or x-tidemark-*", "Envoy rejected %.0f header changes of tidemark's", n)
	}
}

// extProcStats adds up Envoy's counters of ext_proc filters by their last word. Where some are said to be tidemark's, by their
// stat_prefix, others don't count.
func extProcStats(text string) map[string]float64 {
	all, ours := map[string]float64{}, map[string]float64{}
	for line := range strings.Lines(text) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), ": ")
		at := strings.Index(name, ".ext_proc.")
		v, err := strconv.ParseFloat(number, 64)
		if !ok || at < 0 || err != nil {
			continue
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		all[last] += v
		if strings.Contains(name[at:], "tidemark") {
			ours[last] += v
		}
	}
	if len(ours) > 0 {
		return ours
	}
	return all
}
