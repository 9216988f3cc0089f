package main

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/internal/telemetry"
)

// flushing is how long the collector has to take what is left when the server ends.
const flushing = 2 * time.Second

// startTelemetry starts what the OTEL_* variables ask for. stop sends what is left.
func (s *server) startTelemetry(ctx context.Context) (stop func(), err error) {
	s.telemetry, err = telemetry.Start(ctx, telemetry.Options{
		Semconv: s.config.OTel.Semconv, Usage: s.config.OTel.Usage, Registry: s.metrics.Registry, Now: s.now, Log: s.log, Version: version(),
	})
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushing)
		defer cancel()
		s.telemetry.Close(last)
	}, nil
}
