package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/internal/telemetry"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// taker is told of every event. It must return at once, and never fails.
type taker interface{ Take(e event.Event) }

// observer tells everybody who listens what the ext_proc server does. It is an [extproc.Observer].
type observer struct {
	*observe.Metrics

	log       *slog.Logger
	takers    []taker
	telemetry *telemetry.Telemetry
	now       func() time.Time // the clock of requests
}

// Answered implements [extproc.Observer].
func (o observer) Answered(r *pipeline.Request, out *pipeline.Outcome) {
	o.Request(r, out)
	observe.LogRequest(context.Background(), o.log, r, out)
	o.telemetry.Answered(r, out)
	if len(o.takers) > 0 {
		o.tell(observe.RequestEvents(r, out))
	}
}

// Observed implements [extproc.Observer].
func (o observer) Observed(r *pipeline.Request, out *pipeline.Outcome, v *pipeline.Observation) {
	o.Metrics.Observed(r, out, v)
	observe.LogObserved(context.Background(), o.log, r, out, v)
	o.telemetry.Observed(r, out, v)
	if len(o.takers) > 0 && v != nil {
		o.tell(o.ResponseEvents(r, out, v))
	}
}

func (o observer) tell(events []event.Event) {
	for _, e := range events {
		for _, t := range o.takers {
			t.Take(e)
		}
	}
}

// observer is who is told what happens.
func (s *server) observer() observer {
	return observer{Metrics: s.metrics, log: s.log, takers: s.takers, telemetry: s.telemetry, now: s.now}
}

// Summarized counts what a summary came to, and tells what was spent on it.
func (o observer) Summarized(r summarize.Report) {
	o.Metrics.Summarized(r)
	if e := observe.SpendEvent(&r, o.now()); e != nil {
		o.tell([]event.Event{e})
	}
}

// configLoaded counts an attempt to load the server's config while it runs.
func (o observer) configLoaded(hash string, err error) {
	o.ConfigLoaded(hash, err, time.Now())
	o.tell([]event.Event{observe.ConfigEvent(hash, err, o.now())})
}
