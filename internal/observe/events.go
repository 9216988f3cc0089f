package observe

import (
	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// RequestEvents are the events of a request that was answered.
func RequestEvents(_ *pipeline.Request, _ *pipeline.Outcome) []event.Event { return nil }

// ResponseEvents are the events of a response.
func ResponseEvents(_ *pipeline.Request, _ *pipeline.Outcome, _ *pipeline.Observation) []event.Event {
	return nil
}
