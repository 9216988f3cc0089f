package extproc

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Gates of the closed list that arise here.
const (
	gatePanic    = "panic"
	gateDeadline = "deadline"
)

// decide asks the engine. The call has a goroutine of its own, so that neither an engine that hangs nor one that panics
// keeps Envoy waiting; what it says too late is dropped.
func (s *Server) decide(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
	ctx, cancel := context.WithTimeout(ctx, s.o.Deadline)
	defer cancel()
	late := time.NewTimer(s.o.Deadline + grace)
	defer late.Stop()

	said := make(chan *pipeline.Outcome, 1)
	s.calls.Go(func() { said <- s.ask(ctx, r) })
	select {
	case o := <-said:
		return o
	case <-late.C:
		s.calls.Go(func() { (<-said).Dropped(context.WithoutCancel(ctx)) }) // the original goes: nothing of it was seen
		o := lost(r)
		o.Gate = gateDeadline
		return o
	}
}

// ask is the engine's call, with its panics contained.
func (s *Server) ask(ctx context.Context, r *pipeline.Request) (o *pipeline.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("decide", v)
			o = lost(r)
		}
	}()
	return s.o.Engine.Request(ctx, r)
}

// lost is the outcome of a panic, here or in the engine: the original goes on, and what may be in force on the branch is not
// replayed.
func lost(r *pipeline.Request) *pipeline.Outcome {
	return &pipeline.Outcome{
		Level: pipeline.Original, Gate: gatePanic, Desync: true,
		Format: r.Format, BytesIn: len(r.Body), BytesOut: len(r.Body),
	}
}
