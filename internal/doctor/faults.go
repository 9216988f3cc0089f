package doctor

import (
	"strings"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// since is where findings about metrics come from.
const since = ", since tidemark's start"

// counted are counters that are somebody's fault as soon as they are not zero.
var counted = []struct {
	metric   string
	labels   []string
	severity check.Severity
	rule     string
	message  string // of which %.0f is the count
	fix      string
}{
	{"prefix_changes_total", []string{"declared", "false"}, check.Error, "undeclared-prefix-change", "%.0f requests lost bytes that the provider had cached without a move: a fault of tidemark's", "mode: off (PUT /v1/mode), and report it with the log and the events around it"},
	{"panics_total", nil, check.Error, "panics", "%.0f panics were contained: those requests went on as they came", "report it with the stack in the log; mode: off on the route if they go on"},
	{"mutation_ineffective_total", nil, check.Error, "mutation-ineffective", "%.0f requests shrank and were billed at their old size: something behind tidemark sends the body that it kept", "move the ext_proc filter before every filter that keeps or rewrites the body: docs/envoy.md"},
	{"config_route_errors_total", nil, check.Error, "route-config", "%.0f route configs could not be used: those routes replay only", "tidemark's log names the key and its place; tidemark check finds it before deployment"},
	{"config_loads_total", []string{"result", "error"}, check.Warning, "config-reload", "%.0f loads of the server's config failed: the last good one stays", "tidemark check the file; the log names the line"},
	{"proof_failures_total", nil, check.Warning, "proof-failures", "%.0f requests had new edits that could not be proven, so none were made: a fault of tidemark's", "report it; nothing wrong was sent"},
	{"desyncs_total", nil, check.Warning, "desync", "%.0f requests were sent as they came although a decision may stand: their cache is lost", "keep the state directory across restarts, and each session on the replica that has its state"},
	{"gates_total", []string{"gate", "store_full"}, check.Warning, "store-full", "%.0f results were left alone because the originals fill max_original_bytes", "raise max_original_bytes, or withdraw sessions that are over"},
	{"events_total", []string{"result", "dropped"}, check.Warning, "events-dropped", "%.0f events did not get into the file", "a faster disk for events.file"},
	{"events_total", []string{"result", "failed"}, check.Warning, "events-failed", "%.0f events could not be written", "look at the disk of events.file, and at the log"},
	{"misjudgements_total", nil, check.Warning, "misjudgements", "the provider refuted %.0f beliefs about its cache; tidemark has become more careful where it did", "nothing, if they are few; prices with auto_ttl where the provider keeps caches longer than it says"},
	{"brakes_total", nil, check.Warning, "brakes", "%.0f conversations stopped deciding because cache reads fell short without cause", "look at cache losses by cause on the dashboard; stickiness and filter order are the usual reasons"},
}

// judgeFaults looks at what must not happen.
func (d *doctor) judgeFaults() {
	for _, c := range counted {
		if n := d.metrics.sum(c.metric, c.labels...); n > 0 {
			d.found(c.severity, c.rule, "tidemark_"+c.metric+d.routesOf(c.metric)+since, c.fix, c.message, n)
		}
	}
	d.judgeStore()
	requests := d.metrics.sum("requests_total")
	if n := d.metrics.sum("deadline_exceeded_total"); n > fewPercent*requests {
		d.found(check.Warning, "deadline", "tidemark_deadline_exceeded_total"+since, "raise deadline, and Envoy's message_timeout above it; look at stage_duration_seconds for what takes the time",
			"%.0f of %.0f requests had no time left to decide", n, requests)
	}
	lost, won := d.metrics.sum("latches_total", "result", "lost"), d.metrics.sum("latches_total", "result", "won")
	if lost > 0.05*(won+lost) {
		d.found(check.Warning, "replicas-compete", "tidemark_latches_total"+since, "keep each session on one replica: lb_policy RING_HASH or MAGLEV by the session's header",
			"%.0f of %.0f decisions were lost to another replica", lost, won+lost)
	}
}

// routesOf names the routes on which a metric is not zero, if it has routes.
func (d *doctor) routesOf(metric string) string {
	by := d.metrics.by(metric, "route")
	delete(by, "")
	if len(by) == 0 {
		return ""
	}
	return " on route " + oneLine([]byte(strings.Join(most(by, 5), ", ")))
}

func (d *doctor) judgeStore() {
	all, bad := d.metrics.sum("store_operations_total"), map[string]float64{}
	for _, result := range []string{"error", "timeout"} {
		for op, n := range d.metrics.by("store_operations_total", "op", "result", result) {
			bad[op] += n
		}
	}
	var n float64
	for _, x := range bad {
		n += x
	}
	if n == 0 {
		return
	}
	severity := check.Warning
	if n > fewPercent*all {
		severity = check.Error
	}
	d.found(severity, "store-errors", "tidemark_store_operations_total"+since, "look at the disk of the state directory and at the log; without the store nothing new is decided",
		"%.0f of %.0f store operations failed (%s)", n, all, strings.Join(most(bad, 5), ", "))
}
