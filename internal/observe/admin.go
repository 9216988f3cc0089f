package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// probeTimeout bounds one readiness check, below the second that container probes wait by default.
const probeTimeout = 900 * time.Millisecond

// Check is one part of the service that must work before traffic is sent to it.
type Check struct {
	Name  string
	Probe func(context.Context) error // nil: it works
}

// Admin returns the admin endpoints:
//
//	/metrics           Prometheus
//	/livez, /healthz   the process runs
//	/readyz            every check passes; else 503 and a line per part that does not
//	/config            what config returns, as JSON; it must hold no secret
func (m *Metrics) Admin(config func() any, checks ...Check) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{Registry: m.Registry}))
	alive := func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(config()) // the client went away
	})
	return mux
}

// Probe reports whether a path is one of those that only say whether the service works. They are for probes that know no secret.
func Probe(path string) bool { return path == "/livez" || path == "/healthz" || path == "/readyz" }

func ready(w http.ResponseWriter, r *http.Request, checks []Check) {
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	var failing []string
	for _, c := range checks {
		if err := c.Probe(ctx); err != nil {
			failing = append(failing, fmt.Sprintf("%s: %v", c.Name, err))
		}
	}
	if len(failing) == 0 {
		say(w, http.StatusOK, "ok")
		return
	}
	say(w, http.StatusServiceUnavailable, strings.Join(failing, "\n"))
}

func say(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client went away
}
