package telemetry

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"golang.org/x/time/rate"
)

// reporter logs what goes wrong in the SDK, one line per minute. It is an [otel.ErrorHandler].
type reporter struct {
	log  *slog.Logger
	some rate.Sometimes
	kept atomic.Int64 // errors since the last line
}

// quiet is the time between two lines.
const quiet = time.Minute

// listen makes the reporter the one that the SDK tells, of which a process has one.
func (r *reporter) listen() {
	r.some.First, r.some.Interval = 1, quiet
	otel.SetErrorHandler(r)
	otel.SetLogger(funcr.New(func(_, text string) { r.Handle(errors.New(text)) }, funcr.Options{})) // errors and no more
}

// Handle implements [otel.ErrorHandler].
func (r *reporter) Handle(err error) {
	r.kept.Add(1)
	r.some.Do(func() { r.log.Warn("telemetry", "error", err, "errors", r.kept.Swap(0)) })
}
