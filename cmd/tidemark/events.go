package main

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/event/file"
)

// recordEvents lets events be written to the config's file, if it names one, until stop is called.
func (s *server) recordEvents() (stop func()) {
	c := &s.config.Events
	if c.File == "" {
		return func() {}
	}
	sink := file.New(file.Options{
		Path: c.File, MaxBytes: int64(c.MaxBytes), Keep: c.Keep, Paths: c.Paths, Now: s.now, Log: s.log,
		Count: func(r file.Result, n int) { s.metrics.Events(string(r), n) },
	})
	s.takers = append(s.takers, sink)
	return func() {
		last, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		if err := sink.Close(last); err != nil {
			s.log.Error("events are lost", "error", err)
		}
	}
}
