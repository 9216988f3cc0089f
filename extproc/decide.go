package extproc

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Gates of the closed list that arise here.
const (
	gatePanic    = "panic"
	gateDeadline = "deadline"
)

// word is what the server says of one body.
type word struct {
	request *pipeline.Request // as the engine saw it
	outcome *pipeline.Outcome // nil: the engine was not asked
	body    []byte            // what to forward, in the coding that the body came in; nil: the body as it came
	why     string            // why the engine was not asked
}

// maxDecoding is how many bytes all bodies together may be decoded to at the same time. A body of a megabyte in zstd takes a tenth
// of it for some milliseconds; what does not fit waits, no longer than its deadline.
const maxDecoding = 512 << 20

// decide asks the engine about a body as it was sent. The call has a goroutine of its own, so that neither an engine that hangs
// nor one that panics keeps Envoy waiting; what it says too late is dropped. Decoding and encoding are part of the call.
func (s *Server) decide(ctx context.Context, r *pipeline.Request, sent []byte, c coding.Coding) word {
	ctx, cancel := context.WithTimeout(ctx, s.o.Deadline)
	defer cancel()
	late := time.NewTimer(s.o.Deadline + grace)
	defer late.Stop()

	said := make(chan word, 1)
	s.calls.Go(func() { said <- s.ask(ctx, r, sent, c) })
	select {
	case w := <-said:
		return w
	case <-late.C:
		s.calls.Go(func() { s.drop(ctx, <-said) }) // the original goes: nothing of it was seen
		return tooLate(r, sent)
	}
}

// ask is the engine's call, with its panics contained.
func (s *Server) ask(ctx context.Context, r *pipeline.Request, sent []byte, c coding.Coding) (w word) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("decide", v)
			s.drop(ctx, w)
			w = word{request: r, outcome: lost(r, sent)}
		}
	}()
	if c != coding.Identity { // many bombs at once must not fill memory
		room := int64(coding.Allowance(len(sent)))
		if s.decoding.Acquire(ctx, room) != nil {
			return tooLate(r, sent)
		}
		defer s.decoding.Release(room)
	}
	decoded, err := c.Decode(ctx, sent)
	switch {
	case err != nil && ctx.Err() != nil:
		return tooLate(r, sent)
	case errors.Is(err, coding.ErrLimit):
		return word{request: r, why: EncodedLimit}
	case err != nil:
		return word{request: r, why: EncodedInvalid}
	}
	q := *r
	q.Body = decoded
	w.request, w.outcome = &q, s.o.Engine.Request(ctx, &q)
	if w.outcome.Body == nil {
		return w
	}
	if w.body, err = c.Encode(w.outcome.Body); err != nil {
		s.o.Log.ErrorContext(ctx, "changed body not encoded", "error", err)
		s.drop(ctx, w)
		return word{request: r, outcome: lost(r, sent)}
	}
	return w
}

// drop takes back what an answer that is not sent has committed.
func (s *Server) drop(ctx context.Context, w word) {
	if w.outcome != nil {
		s.contain(func() { w.outcome.Dropped(context.WithoutCancel(ctx)) })
	}
}

// tooLate is the word on a body for which there was no time.
func tooLate(r *pipeline.Request, sent []byte) word {
	o := lost(r, sent)
	o.Gate = gateDeadline
	return word{request: r, outcome: o}
}

// lost is the outcome of a panic, here or in the engine: the original goes on, and what may be in force on the branch is not
// replayed.
func lost(r *pipeline.Request, sent []byte) *pipeline.Outcome {
	return &pipeline.Outcome{
		Level: pipeline.Original, Gate: gatePanic, Desync: true,
		Format: r.Format, BytesIn: len(sent), BytesOut: len(sent),
	}
}
