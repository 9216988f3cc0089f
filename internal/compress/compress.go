package compress

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// grace is how long after the deadline an engine that works its way back is still waited for.
const grace = 25 * time.Millisecond

var errOutbound = errors.New("more than the list has changed")

// compress answers POST /v1/compress.
func (s *Server) compress(w http.ResponseWriter, r *http.Request) {
	now := s.o.Now()
	body, c, ok := s.body(w, r)
	if !ok {
		return
	}
	a, err := read(body)
	if err != nil {
		s.fail(w, http.StatusBadRequest, typeInvalid, err.Error())
		return
	}
	if a.why != "" {
		s.o.Observer.Passed(a.why)
		_ = answer(w, a, a.list, nil, &about{Outcome: untouched, Gate: a.why, Format: a.format.String()}) // a gateway that went away is its own affair
		return
	}
	q := s.request(r, a, now)
	var at int
	q.Body, at = a.body()
	out := s.decide(r.Context(), q)
	list, err := s.returned(q, out, a, at)
	if err != nil {
		s.o.Log.ErrorContext(r.Context(), "outbound is not returned", "error", err, "request", q.ID)
		s.drop(r.Context(), out)
		out = lost(q, filters.ProofFailed)
	}
	s.reply(w, r, a, list, q, out, c)
}

// returned is the list of the outbound.
func (s *Server) returned(q *pipeline.Request, out *pipeline.Outcome, a *asked, at int) (string, error) {
	if out.Body == nil {
		return a.list, nil
	}
	list, ok := listOf(out.Body, q.Body, at)
	if !ok {
		return a.list, errOutbound
	}
	return list, nil
}

// reply answers with a list, and keeps the outcome for the day on which the gateway tells of the provider's answer. What did not
// reach the gateway was not forwarded.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, a *asked, list string, q *pipeline.Request, out *pipeline.Outcome, c coding.Coding) {
	id, kept := newID(), *q
	kept.Body = nil
	if out.Body != nil {
		out.Body = []byte{} // there was one
	}
	s.o.Observer.Answered(&kept, out) // before the answer: who has it finds it counted
	if c != coding.Identity {
		s.o.Observer.Decoded(c.String())
	}
	err := r.Context().Err()
	if err == nil {
		s.sent.put(id, &kept, out) // from the answer on, word of it may come
		err = answer(w, a, list, out, describe(id, out))
	}
	if err != nil {
		s.sent.forget(id)
		s.drop(r.Context(), out)
	}
}

// request is what the engine needs to know besides the body. The levers are off and no tool is offered: the breakpoints and the
// tools are the gateway's, as is whatever it adds to the request.
func (s *Server) request(r *http.Request, a *asked, now time.Time) *pipeline.Request {
	config, settings := s.o.Route(r.Header.Get(PipelineHeader))
	c := *config
	c.Levers, c.Diagnostics, c.Inline = pipeline.Levers{}, 0, false
	id := identity.Of(headers(r), settings)
	q := &pipeline.Request{
		ID: r.Header.Get("X-Request-Id"), Route: RouteName, Format: a.format, Now: now, Config: &c, Unbridged: true,
		Tenant: id.Tenant, Session: id.Session, Agent: id.Agent, Auxiliary: id.Auxiliary, Bypass: id.Bypass, ClientSigned: id.ClientSigned,
		Anonymous: settings.Anonymous,
	}
	if q.Session == "" {
		q.Session = a.session
	}
	return q
}

// headers are the headers by which tenant and session are told. A token that opened this door is no longer among them: it is
// nobody's credential, and state that hung on it would be lost when it changes.
func headers(r *http.Request) identity.Headers {
	return func(name string) string { return strings.Join(r.Header.Values(name), ",") }
}

// decide asks the engine. The call has a goroutine of its own, so that neither an engine that hangs nor one that panics keeps the
// gateway waiting; what it says too late is dropped.
func (s *Server) decide(ctx context.Context, q *pipeline.Request) *pipeline.Outcome {
	bounded, cancel := context.WithTimeout(ctx, s.o.Deadline)
	defer cancel()
	late := time.NewTimer(s.o.Deadline + grace)
	defer late.Stop()
	said := make(chan *pipeline.Outcome, 1)
	s.calls.Go(func() { said <- s.ask(bounded, q) })
	select {
	case out := <-said:
		return out
	case <-late.C:
		s.calls.Go(func() { s.drop(ctx, <-said) })
		return lost(q, filters.Deadline)
	}
}

// ask is the engine's call, with its panics contained.
func (s *Server) ask(ctx context.Context, q *pipeline.Request) (out *pipeline.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("decide", v)
			out = lost(q, filters.Panic)
		}
	}()
	return s.o.Engine.Request(ctx, q)
}

// drop takes back what an outcome that is not forwarded has committed.
func (s *Server) drop(ctx context.Context, out *pipeline.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("drop", v)
		}
	}()
	out.Dropped(context.WithoutCancel(ctx))
}

// lost is the outcome of a request that goes back as it came although something may be in force on its branch.
func lost(q *pipeline.Request, gate filters.Gate) *pipeline.Outcome {
	return &pipeline.Outcome{
		Level: pipeline.Original, Gate: gate, Desync: true, Format: q.Format, BytesIn: len(q.Body), BytesOut: len(q.Body),
	}
}
