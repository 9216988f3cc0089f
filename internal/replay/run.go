package replay

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// Policy is one way to treat a session.
type Policy struct {
	Name     string
	Config   *pipeline.Config
	Identity identity.Settings
}

// Options of a run.
type Options struct {
	Policies []Policy
	Bodies   string // folder that bodies before and after are written to; empty: none are. Several policies have one folder each in it
	Provider Provider
}

// Turn is one request in figures.
type Turn struct {
	At         time.Time
	Sent, Paid *pipeline.Usage // as it came, and as it was forwarded; nil if refused
	Removed    int             // tokens that the prompt is smaller by
	Move       string          // kind of the move, empty without one
}

// Run plays a recording under every policy, each in an engine and against a simulated provider of its own, and returns a
// report for each. The recording is changed: see Calibration.
func Run(ctx context.Context, rec *Recording, o Options) ([]*Report, error) {
	base, err := passThrough(ctx, rec, &o)
	if err != nil {
		return nil, err
	}
	reports := make([]*Report, 0, len(o.Policies))
	for i := range o.Policies {
		root := o.Bodies
		if root != "" && len(o.Policies) > 1 {
			root = filepath.Join(root, folder(o.Policies[i].Name))
		}
		r, err := play(ctx, base, &o.Policies[i], root, o.Provider)
		if err != nil {
			return nil, fmt.Errorf("replay %s: %w", rec.Name, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// base is what the policies of one session are compared with: the same session with every body as it came.
type base struct {
	rec         *Recording
	calibration Calibration
	sent        []*pipeline.Usage // by request, nil if it was refused or is not billed
	tokens      []int             // by request: o200k tokens of the body
	bill        bill.Bill
	recorded    *Agreement
	story       *story
	count       *counter
	model       string
	automatic   bool // the provider caches by itself
}

// passThrough plays the session without an engine.
func passThrough(ctx context.Context, rec *Recording, o *Options) (*base, error) {
	b := &base{
		rec: rec, calibration: calibrate(rec), story: newStory(), count: newCounter(),
		sent: make([]*pipeline.Usage, len(rec.Requests)), tokens: make([]int, len(rec.Requests)),
	}
	p := newProvider(b.calibration.CharsPerToken, o.Provider)
	var known Agreement
	var recorded, modelled bill.Bill
	for n := range rec.Requests {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("replay %s: %w", rec.Name, err)
		}
		r := &rec.Requests[n]
		body := r.Body()
		b.story.read(n, r, body)
		b.tokens[n] = b.count.body(body)
		if r.counts() {
			continue
		}
		res := p.call(r, body)
		b.model = cmp.Or(b.model, res.Model)
		b.automatic = b.automatic || openAI(r.wire.Format)
		tariff := r.tariff(res.Model)
		units, usd := tariff.price(res.Usage)
		b.bill.Add(res.Usage, units, usd)
		b.sent[n] = res.Usage
		if r.Recorded != nil && res.Usage != nil {
			modelled.Add(res.Usage, units, usd)
			units, usd = tariff.price(r.Recorded)
			recorded.Add(r.Recorded, units, usd)
		}
	}
	if recorded.Units > 0 {
		known = Agreement{Requests: recorded.Requests, Units: recorded.Units, Modelled: modelled.Units}
		known.Error, known.ReadGap = modelled.Over(&recorded)-1, modelled.ReadShare()-recorded.ReadShare()
		b.recorded = &known
	}
	return b, nil
}

// player plays a session under one policy.
type player struct {
	*base
	policy   *Policy
	world    Provider
	engine   *pipeline.Engine
	provider *provider
	out      *bundle
	rep      *Report
	moves    ledger
	reuse    *reuse
}

func play(ctx context.Context, b *base, policy *Policy, root string, world Provider) (*Report, error) {
	store := memory.New()
	defer store.Close() //nolint:errcheck // nothing outlives the run
	engine, err := newEngine(ctx, store, world)
	if err != nil {
		return nil, err
	}
	out, err := newBundle(root, b.rec.Name)
	if err != nil {
		return nil, err
	}
	defer out.close() //nolint:errcheck // a second close after the one below
	p := &player{
		base: b, policy: policy, world: world, engine: engine, provider: newProvider(b.calibration.CharsPerToken, world), out: out,
		rep: newReport(b.rec.Name, policy.Name), reuse: newReuse(b.story),
	}
	for n := range b.rec.Requests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.request(ctx, n); err != nil {
			return nil, err
		}
	}
	if err := engine.Close(ctx); err != nil {
		return nil, fmt.Errorf("close engine: %w", err)
	}
	p.finish()
	return p.rep, out.close()
}

// newEngine returns an engine that proves every outbound by reading it again.
func newEngine(ctx context.Context, store state.Store, p Provider) (*pipeline.Engine, error) {
	prices, err := p.prices()
	if err != nil {
		return nil, fmt.Errorf("set up prices: %w", err)
	}
	e, err := pipeline.New(ctx, store, pipeline.Options{Flush: -1, DeepProof: true, Prices: prices})
	if err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}
	return e, nil
}

// request plays one request and its response.
func (p *player) request(ctx context.Context, n int) error {
	r := &p.rec.Requests[n]
	body := r.Body()
	o := p.engine.Request(ctx, request(r, body, p.policy))
	after := body
	if o.Body != nil {
		after = o.Body
	}
	p.rep.decided(o)
	p.rep.TokensIn += p.tokens[n]
	p.rep.TokensOut += p.tokens[n]
	if o.Body != nil {
		p.rep.TokensOut += p.count.body(after) - p.tokens[n]
	}
	if err := p.out.write(n, r, body, o); err != nil {
		return err
	}
	before := p.reuse.sent[r.Lineage]
	p.reuse.turn(n, r, o, after)
	if r.counts() {
		return nil
	}
	kept := 0
	if o.Move != nil {
		kept = p.provider.cached(r, undone(body, after, before, o))
	}
	res := p.provider.call(r, after)
	seen := p.engine.Observe(ctx, o, res)
	p.rep.observed(seen)
	tariff := r.tariff(res.Model)
	units, usd := tariff.price(res.Usage)
	p.rep.Bill.Add(res.Usage, units, usd)
	t := Turn{At: r.At, Sent: p.sent[n], Paid: res.Usage}
	if t.Sent != nil && t.Paid != nil {
		t.Removed = t.Sent.Prompt() - t.Paid.Prompt()
		p.rep.compared.policy.Add(t.Paid, units, usd)
		units, usd = tariff.price(t.Sent)
		p.rep.compared.passThrough.Add(t.Sent, units, usd)
	}
	if o.Move != nil {
		t.Move = o.Move.Kind
	}
	p.rep.Turns = append(p.rep.Turns, t)
	p.moves.turn(n, r, o, after, &t, tariff, kept, seen.MoveForecast)
	if res.Usage != nil {
		p.reuse.paid(tariff, res.Usage)
	}
	return nil
}

// finish fills in what is known at the end.
func (p *player) finish() {
	r := p.rep
	r.Model, r.PassThrough, r.Recorded, r.Calibration = p.model, p.bill, p.recorded, &p.calibration
	if p.automatic {
		if as := billedAs(p.model); as != p.model {
			r.BilledAs = as
		}
		r.Unbounded = p.world.AutoTTL == 0 && cache.Prices().Lookup(p.model).AutoTTL == cache.Unbounded
	}
	r.MoveList, r.Reuse = p.moves.all, p.reuse.result
	r.ratios()
}

// counts reports whether the request asks for a count of tokens, which costs nothing.
func (r *Request) counts() bool { return r.wire.CountTokens }

// request is what the adapter would have made of the recorded request.
func request(r *Request, body []byte, p *Policy) *pipeline.Request {
	id := identity.Of(func(name string) string { return r.Header.Get(name) }, &p.Identity)
	wire := &r.wire
	return &pipeline.Request{
		Format: wire.Format, Body: body, Tenant: id.Tenant, Session: id.Session, Agent: id.Agent, Now: r.At, Config: p.Config,
		Model: wire.Model, CountTokens: wire.CountTokens, Auxiliary: id.Auxiliary || wire.Auxiliary, Bypass: id.Bypass, ClientSigned: id.ClientSigned,
		Anonymous: p.Identity.Anonymous, Unsure: wire.Unsure,
	}
}
