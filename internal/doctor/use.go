package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// What is enough to conclude something from.
const (
	enoughRequests = 50                 // to say that something never happens
	longShadow     = 7 * 24 * time.Hour // of mode shadow: a working week has been measured
)

// judgeUse looks at whether tidemark is used at all, and at what keeps it from doing anything.
func (d *doctor) judgeUse() {
	if word(d.server["state"]) == serverconfig.Memory {
		d.found(check.Warning, "store-memory", "/config", "state: a directory on a disk that stays", "state is memory: a restart forgets every decision, and each conversation that had one loses its cache")
	}
	d.judgeModes()
	d.judgeTap()
	requests := d.metrics.sum("requests_total")
	if requests < enoughRequests {
		return
	}
	if n := d.metrics.sum("requests_total", "outcome", "bypassed"); n > 0.1*requests {
		d.found(check.Warning, "bypass", "tidemark_requests_total"+since, "find out who sends x-tidemark-bypass: true, or take the header off before tidemark", "%.0f of %.0f requests ask to be bypassed", n, requests)
	}
	if n := d.metrics.sum("gates_total", "gate", "no_session"); n > 0.2*requests {
		d.found(check.Warning, "no-session", "tidemark_gates_total"+since, "have the client or the gateway set x-tidemark-session, name its header in session_headers, or set anonymous: prefix: docs/clients.md",
			"%.0f of %.0f requests name no session, and pass untouched", n, requests)
	}
	if n := d.metrics.sum("gates_total", "gate", "unparsed"); n > 0.1*requests {
		d.found(check.Warning, "unparsed", "tidemark_gates_total"+since, "tidemark explain on a captured body says what could not be read", "%.0f of %.0f bodies could not be read, and pass untouched", n, requests)
	}
	d.judgeIdle(requests)
}

// judgeModes looks at what the server's mode keeps from happening. Routes can only narrow it.
func (d *doctor) judgeModes() {
	started := d.metrics.sum("process_start_time_seconds")
	age := d.Now.Sub(time.Unix(int64(started), 0))
	switch mode := word(d.server["mode"]); {
	case mode == "off":
		d.found(check.Warning, "mode-off", "/config", "mode: active; until then decisions that are in force are not replayed either, and their caches are lost", "mode is off: tidemark does nothing")
	case d.metrics.sum("requests_total", "mode", "shadow") > 0 && started > 0 && age > longShadow:
		d.found(check.Warning, "shadow-long", "tidemark_requests_total, tidemark_process_start_time_seconds", "mode: active, first with rollout: 0.1",
			"requests are in mode shadow %d days after the start: it has measured enough", int(age.Hours()/24))
	}
}

// judgeTap looks at routes of which nobody tells what was billed.
func (d *doctor) judgeTap() {
	billed, off := d.metrics.by("billed_tokens_total", "route"), d.metrics.by("requests_total", "route", "mode", "off")
	dry := map[string]float64{}
	for route, n := range d.metrics.by("requests_total", "route") {
		if n-off[route] >= enoughRequests && billed[route] == 0 {
			dry[route] = n
		}
	}
	if len(dry) > 0 {
		d.found(check.Error, "tap-dry", "tidemark_billed_tokens_total"+since, "one of the taps of docs/envoy.md#what-was-billed-three-taps; with ai_protocol_manager also request_headers_to_remove: [accept-encoding]",
			"tidemark never learned what was billed on route %s: ttl: auto lifts nothing, and the brake sees nothing", oneLine([]byte(strings.Join(most(dry, 5), ", "))))
	}
}

// judgeIdle names the gates where nothing was ever left out, nor would have been in mode shadow.
func (d *doctor) judgeIdle(requests float64) {
	active := d.metrics.sum("requests_total", "mode", "active")
	done := d.metrics.sum("latches_total") + d.metrics.sum("breakpoints_total") + d.metrics.sum("replayed_tokens_total")
	if active < enoughRequests || done > 0 {
		return
	}
	gates := map[string]float64{}
	for _, x := range d.metrics["gates_total"] {
		name := x.labels["gate"]
		if f := x.labels["filter"]; f != "" {
			name = f + ": " + name
		}
		gates[name] += x.value
	}
	var why []string
	for _, g := range most(gates, 3) {
		why = append(why, fmt.Sprintf("%s (%.0f)", oneLine([]byte(g)), gates[g]))
	}
	d.found(check.Warning, "idle", "tidemark_gates_total"+since, "docs/gates.md says what each gate waits for; a cache that is never cold leaves nothing to remove, and the levers (preset lossless) may still pay",
		"of %.0f requests none was changed; the gates were most often %s", requests, strings.Join(why, ", "))
}
