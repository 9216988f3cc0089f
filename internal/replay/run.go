package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// Options of a run.
type Options struct {
	Config   *pipeline.Config
	Identity identity.Settings
	Bodies   string // folder that bodies before and after are written to; empty: none are
}

// Report is what became of one session.
type Report struct {
	Session      string         `json:"session"`
	Requests     int            `json:"requests"`
	TokensIn     int            `json:"tokens_in"`  // o200k tokens of all bodies as they came
	TokensOut    int            `json:"tokens_out"` // and as they were forwarded
	BytesIn      int            `json:"bytes_in"`
	BytesOut     int            `json:"bytes_out"`
	Decisions    map[string]int `json:"decisions"` // by filter
	Holds        int            `json:"holds"`
	Matured      int            `json:"matured"`
	Gates        map[string]int `json:"gates"` // by filter.gate; a request's own gate has no filter
	Moves        int            `json:"moves"`
	MovedTokens  int            `json:"moved_tokens"`
	Undeclared   int            `json:"undeclared"`
	Desyncs      int            `json:"desyncs"`
	EngineMicros int64          `json:"engine_us"` // time inside the engine, all requests together
}

// turn is what one request did, as an independent judge reads it.
type turn struct {
	N       int     `json:"n"`
	At      string  `json:"at"`
	Format  string  `json:"format"`
	Lineage string  `json:"lineage"`
	In      string  `json:"in"`
	Out     *string `json:"out"`
	Move    *move   `json:"move"`
	Events  []event `json:"events"`
}

type move struct {
	FromMessage int32  `json:"from_message"`
	Reason      string `json:"reason"`
}

type event struct {
	Event   string `json:"event"`
	Filter  string `json:"filter"`
	Verdict string `json:"verdict,omitempty"`
	Tool    string `json:"tool,omitempty"`
	ID      string `json:"id,omitempty"`
	Message int32  `json:"message"`
	Tokens  int    `json:"tokens"`
}

// Run sends a recording through an engine of its own.
func Run(ctx context.Context, rec *Recording, o Options) (*Report, error) {
	store := memory.New()
	defer store.Close() //nolint:errcheck // nothing outlives the run
	engine, err := pipeline.New(ctx, store, pipeline.Options{Flush: -1, DeepProof: true})
	if err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}
	out, err := newBundle(o.Bodies, rec.Name)
	if err != nil {
		return nil, err
	}
	defer out.close() //nolint:errcheck // a second close after the one below
	rep := &Report{Session: rec.Name, Decisions: map[string]int{}, Gates: map[string]int{}}
	count := newCounter()
	for n := range rec.Requests {
		r := &rec.Requests[n]
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("replay %s: %w", rec.Name, err)
		}
		oc := engine.Request(ctx, request(r, &o))
		after := r.Body
		if oc.Body != nil {
			after = oc.Body
		}
		rep.add(oc)
		rep.TokensIn += count.body(r.Body)
		rep.TokensOut += count.body(after)
		if err := out.write(n, r, oc); err != nil {
			return nil, err
		}
	}
	if err := engine.Close(ctx); err != nil {
		return nil, fmt.Errorf("close engine: %w", err)
	}
	return rep, out.close()
}

// request is what the adapter would have made of the recorded request.
func request(r *Request, o *Options) *pipeline.Request {
	id := identity.Of(func(name string) string { return r.Header.Get(name) }, &o.Identity)
	wire := identity.Format(r.Path, r.Method, r.Header.Get("content-type"), r.Header.Get("content-encoding"))
	return &pipeline.Request{
		Format: wire.Format, Body: r.Body, Tenant: id.Tenant, Session: id.Session, Agent: id.Agent, Now: r.At, Config: o.Config,
		CountTokens: wire.CountTokens, Auxiliary: id.Auxiliary, Bypass: id.Bypass, ClientSigned: id.ClientSigned,
	}
}

func (r *Report) add(o *pipeline.Outcome) {
	r.Requests++
	r.BytesIn += o.BytesIn
	r.BytesOut += o.BytesOut
	r.EngineMicros += o.Duration.Microseconds()
	for _, d := range o.New {
		switch {
		case d.Hold:
			r.Holds++
			continue
		case d.Matured:
			r.Matured++
		}
		r.Decisions[d.Filter]++
	}
	for g, n := range o.Gates {
		r.Gates[gateName(g.Filter, g.Gate)] += n
	}
	if o.Move != nil {
		r.Moves++
		r.MovedTokens += o.Move.Tokens
	}
	if o.Undeclared {
		r.Undeclared++
	}
	if o.Desync {
		r.Desyncs++
	}
}

func gateName(filter string, gate filters.Gate) string {
	if filter == "" {
		return string(gate)
	}
	return filter + "." + string(gate)
}

// record is the judge's line of one request.
func record(n int, r *Request, o *pipeline.Outcome) *turn {
	t := &turn{N: n, At: r.At.UTC().Format(time.RFC3339Nano), Format: o.Format.String(), Lineage: r.Lineage, Events: []event{}}
	if o.Move != nil {
		t.Move = &move{FromMessage: o.Move.From, Reason: o.Move.Kind}
	}
	for _, d := range o.New {
		e := event{Event: "decision", Filter: d.Filter, Verdict: d.Verdict, Tool: d.Tool, ID: d.ID, Message: d.Msg, Tokens: d.Tokens - d.MarkerTokens}
		if d.Hold {
			e.Event, e.Tokens = "hold", 0
		}
		t.Events = append(t.Events, e)
	}
	return t
}

// Sum adds up reports.
func Sum(reports []*Report) *Report {
	t := &Report{Session: fmt.Sprintf("%d sessions", len(reports)), Decisions: map[string]int{}, Gates: map[string]int{}}
	for _, r := range reports {
		t.Requests += r.Requests
		t.TokensIn += r.TokensIn
		t.TokensOut += r.TokensOut
		t.BytesIn += r.BytesIn
		t.BytesOut += r.BytesOut
		t.Holds += r.Holds
		t.Matured += r.Matured
		t.Moves += r.Moves
		t.MovedTokens += r.MovedTokens
		t.Undeclared += r.Undeclared
		t.Desyncs += r.Desyncs
		t.EngineMicros += r.EngineMicros
		for k, n := range r.Decisions {
			t.Decisions[k] += n
		}
		for k, n := range r.Gates {
			t.Gates[k] += n
		}
	}
	return t
}
