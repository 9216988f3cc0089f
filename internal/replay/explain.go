package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// Explanation is everything about one request of a session.
type Explanation struct {
	Session, Policy string
	N, Requests     int
	At              time.Time
	Outcome         *pipeline.Outcome // its Explain is filled in
	Observation     *pipeline.Observation
	Usage           *pipeline.Usage // as the simulated provider bills it, nil if it refused or was not asked
	Refusal         int             // HTTP status of a refusal
	Held            int             // tokens of the outbound that the simulated cache held when the request came
	Markers         []Marker        // of the outbound
}

// Marker is one breakpoint of a body.
type Marker struct {
	Place string // tools, system, or messages[n]; with nested where it stands inside a block
	TTL   time.Duration
}

// Explain plays a session up to request n, counted from 0, and says what was done there and why.
func Explain(ctx context.Context, rec *Recording, policy *Policy, n int, world Provider) (*Explanation, error) {
	if n < 0 || n >= len(rec.Requests) {
		return nil, fmt.Errorf("%s has requests 0 to %d, not %d", rec.Name, len(rec.Requests)-1, n)
	}
	store := memory.New()
	defer store.Close() //nolint:errcheck // nothing outlives the run
	engine, err := newEngine(ctx, store, world)
	if err != nil {
		return nil, err
	}
	c := calibrate(rec)
	p := newProvider(c.CharsPerToken, world)
	x := &Explanation{Session: rec.Name, Policy: policy.Name, N: n, Requests: len(rec.Requests), At: rec.Requests[n].At}
	for i := range n + 1 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("replay %s: %w", rec.Name, err)
		}
		r := &rec.Requests[i]
		body := r.Body()
		q := request(r, body, policy)
		if i == n {
			q.Explain = pipeline.ExplainAll
		}
		o := engine.Request(ctx, q)
		if o.Body != nil {
			body = o.Body
		}
		if i == n {
			x.Outcome, x.Markers, x.Held, x.Observation = o, markersOf(body, o.Format), p.cached(r, body), &pipeline.Observation{}
		}
		if r.counts() {
			continue
		}
		res := p.call(r, body)
		seen := engine.Observe(ctx, o, res)
		if i == n {
			x.Observation, x.Usage = seen, res.Usage
			if res.Usage == nil {
				x.Refusal = res.Status
			}
		}
	}
	if err := engine.Close(ctx); err != nil {
		return nil, fmt.Errorf("close engine: %w", err)
	}
	return x, nil
}

// markersOf lists the breakpoints of a body in order; none of a body that cannot be read.
func markersOf(body []byte, format transcript.Format) (all []Marker) {
	ix, err := transcript.Parse(body, format)
	if err != nil {
		return nil
	}
	defer ix.Release()
	for i := range ix.Markers {
		m := &ix.Markers[i]
		place := "system"
		switch b := ix.Seq(m.Seq); {
		case b.Msg == transcript.InTools:
			place = "tools"
		case b.Msg >= 0:
			place = fmt.Sprintf("messages[%d]", b.Msg)
		}
		if m.Nested {
			place += " nested"
		}
		all = append(all, Marker{place, m.TTL})
	}
	return all
}
