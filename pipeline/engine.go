package pipeline

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Defaults of Options.
const (
	DefaultSessions = 4096
	DefaultFlush    = time.Second
)

// Options of an Engine.
type Options struct {
	Log       *slog.Logger  // nil: nothing is logged
	Sessions  int           // sessions kept in memory; 0: DefaultSessions
	Flush     time.Duration // how late lazy writes may be; 0: DefaultFlush; negative: only by Flush and Close
	Start     time.Time     // start of the process: entries from the store count from here
	Prices    *cache.Table  // nil: cache.Prices()
	DeepProof bool          // parse every changed outbound again, not only those of moves
	Summaries Summaries     // nil: nothing is summarised
}

// Engine decides what is forwarded.
type Engine struct {
	store  state.Store
	log    *slog.Logger
	hasher *transcript.Hasher
	secret []byte
	start  time.Time
	deep   bool
	memos  *memos[state.Digest, *transcript.Memo] // what was read of bodies
	known  *memos[filterKey, *filterMemo]         // what filters know of branches
	spans  *memos[spanKey, *spanWords]            // what stands in the cuts of branches
	prices *cache.Table

	summaries Summaries

	mu       sync.Mutex
	sessions *lru.Cache[state.SessionKey, *session]
	routes   map[string]*routeState
	dirty    map[state.SessionKey]*session // with activity that the store does not have; found here even if the cache dropped it

	stop, flushed chan struct{}
}

// New returns an engine over a store. The caller closes the store after the engine.
func New(ctx context.Context, store state.Store, o Options) (*Engine, error) {
	secret, err := store.Secret(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the server's secret: %w", err)
	}
	if o.Sessions == 0 {
		o.Sessions = DefaultSessions
	}
	sessions, err := lru.New[state.SessionKey, *session](o.Sessions)
	if err != nil {
		return nil, fmt.Errorf("make the session cache: %w", err)
	}
	memos, err := newMemos[state.Digest, *transcript.Memo]()
	if err != nil {
		return nil, fmt.Errorf("make the memo cache: %w", err)
	}
	known, err := newMemos[filterKey, *filterMemo]()
	if err != nil {
		return nil, fmt.Errorf("make the filters' memo cache: %w", err)
	}
	spans, err := newMemos[spanKey, *spanWords]()
	if err != nil {
		return nil, fmt.Errorf("make the cuts' memo cache: %w", err)
	}
	if o.Prices == nil {
		o.Prices = cache.Prices()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		store: store, log: o.Log, hasher: transcript.NewHasher(sum(secret, "digest")), secret: secret, start: o.Start, deep: o.DeepProof,
		memos: memos, known: known, spans: spans, prices: o.Prices, summaries: o.Summaries, routes: map[string]*routeState{}, sessions: sessions, dirty: map[state.SessionKey]*session{}, stop: make(chan struct{}), flushed: make(chan struct{}),
	}
	if o.Flush < 0 {
		close(e.flushed)
		return e, nil
	}
	if o.Flush == 0 {
		o.Flush = DefaultFlush
	}
	go e.flusher(o.Flush)
	return e, nil
}

// Close writes what is still pending. No request may be running.
func (e *Engine) Close(ctx context.Context) error {
	close(e.stop)
	<-e.flushed
	e.Flush(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.dirty); n > 0 {
		return fmt.Errorf("activity of %d sessions could not be written", n)
	}
	return nil
}

// Active counts the sessions in memory, and their branches that had a request within an hour before now.
func (e *Engine) Active(now time.Time) (sessions, branches int) {
	e.mu.Lock()
	all := e.sessions.Values()
	e.mu.Unlock()
	for _, s := range all {
		for _, b := range s.published() {
			if now.Sub(b.Last) < time.Hour {
				branches++
			}
		}
	}
	return len(all), branches
}

// sum is the keyed hash by which secrets and ids are derived; parts are length-delimited.
func sum(secret []byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("tidemark " + label + "\x00"))
	for _, p := range parts {
		m.Write([]byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		m.Write(p)
	}
	return m.Sum(nil)
}

// gateError is a reason to go down a rung of the ladder.
type gateError struct {
	gate filters.Gate
	err  error
}

func (g *gateError) Error() string { return fmt.Sprintf("%s: %v", g.gate, g.err) }
func (g *gateError) Unwrap() error { return g.err }

func fall(gate filters.Gate, err error) error { return &gateError{gate, err} }

// gateOf is the gate that an error stands for.
func gateOf(err error) filters.Gate {
	if g, ok := errors.AsType[*gateError](err); ok {
		return g.gate
	}
	return filters.StoreUnavailable
}

// Request returns what to forward. It never fails: see the package comment. ctx bounds waiting and store access.
func (e *Engine) Request(ctx context.Context, r *Request) *Outcome {
	begun := time.Now() //nolint:forbidigo // durations are measured, decisions depend on r.Now alone
	o := &Outcome{Gates: map[FilterGate]int{}, BytesIn: len(r.Body), BytesOut: len(r.Body), Format: r.Format, Key: strconv.FormatUint(newID(), 16)}
	defer func() { o.Duration = time.Since(begun) }() //nolint:forbidigo // as above
	if r.Config.Mode == Off {
		return o.original(filters.Off)
	}
	p, gate := e.begin(r, o, begun)
	if p == nil {
		return o.original(gate)
	}
	defer p.ix.Release()
	o.Group = p.group()
	gate = p.requestGate()
	e.ladder(ctx, p, gate)
	if p.shadows(gate) {
		e.shadow(ctx, p)
	}
	return o
}

// original answers with the body as it came.
func (o *Outcome) original(gate filters.Gate) *Outcome {
	o.Level, o.Gate, o.Body, o.BytesOut = Original, gate, nil, o.BytesIn
	if gate != "" {
		o.Gates[FilterGate{Gate: gate}]++
	}
	return o
}

// ladder tries to decide, then to replay, then gives the original.
func (e *Engine) ladder(ctx context.Context, p *pass, gate filters.Gate) {
	for attempt := 0; ; attempt++ {
		q := *p
		q.gate, q.strict = gate, attempt == 2
		err := q.attempt(ctx)
		if err == nil {
			if gate != "" {
				p.o.Gate = gate
				p.o.Gates[FilterGate{Gate: gate}]++
			}
			return
		}
		last := attempt == 2 || attempt == 1 && len(p.o.Restored) == 0 // else what was to be given back is left out once more
		p.o.reset()
		down := gateOf(err)
		e.log.WarnContext(ctx, "fell down the ladder", "gate", string(down), "attempt", attempt, "request", p.r.ID, "error", err)
		if last || down == filters.TooManyBranches {
			p.o.Desync = len(p.ix.Messages) > 1 && down != filters.TooManyBranches
			p.o.original(down)
			return
		}
		gate = down
	}
}

// reset takes back what an attempt that failed has written.
func (o *Outcome) reset() {
	o.Body, o.Level, o.BytesOut, o.New, o.Restored, o.Move, o.Held, o.Replays, o.Tokens, o.Cut, o.Reused = nil, Original, o.BytesIn, nil, nil, nil, 0, 0, 0, 0, nil
	o.sent, o.Applied, o.Again, o.Explain, o.Sizes, o.Prefix, o.N = nil, nil, nil, nil, Sizes{}, "", 0
	o.Breakpoints, o.Undeclared, o.Branch, o.Parent = BreakpointChanges{}, false, 0, 0
	o.Gate, o.Desync, o.Kind, o.Cache = "", false, KindNone, CacheFirst
	clear(o.Gates)
}

// panicked says what a panic was without its words, which may quote a body: a fault of the runtime's is told in its own.
func panicked(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

// attempt is one try. A panic in it is contained: the state that it worked on was a copy.
func (p *pass) attempt(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.e.log.ErrorContext(ctx, "panic", "value", panicked(v), "stack", string(debug.Stack()), "request", p.r.ID)
			err = fall(filters.Panic, errors.New("panic"))
		}
	}()
	return p.run(ctx)
}

// shadow plays the request in a namespace of its own and keeps what would have been done.
func (e *Engine) shadow(ctx context.Context, p *pass) {
	q := *p
	o := &Outcome{Gates: map[FilterGate]int{}, BytesIn: p.o.BytesIn, BytesOut: p.o.BytesIn, Format: p.o.Format, Messages: p.o.Messages, Turn: p.o.Turn}
	q.o, q.shadow = o, true
	var key state.SessionKey
	copy(key.Tenant[:], sum(e.secret, "shadow", q.sess.key.Tenant[:]))
	key.Session = q.sess.key.Session
	q.sess = e.session(key)
	e.ladder(ctx, &q, "")
	p.o.Shadow = o
}

// begin reads the body and finds its session. Without a pass the gate says why the original goes.
func (e *Engine) begin(r *Request, o *Outcome, begun time.Time) (*pass, filters.Gate) {
	if r.ClientSigned {
		return nil, filters.ClientSigned
	}
	p, gate := e.read(r, o, begun)
	if p == nil {
		return nil, gate
	}
	key, named := p.named()
	switch {
	case p.ix.Delta:
		gate = filters.DeltaBody
	case r.Unsure && !p.ix.Versioned:
		gate = filters.Unparsed
	case !named:
		gate = filters.NoSession
	default:
		p.sess = e.session(key)
		o.Session, o.Tenant = hex.EncodeToString(key.Session[:8]), hex.EncodeToString(key.Tenant[:8])
		return p, ""
	}
	p.ix.Release()
	return nil, gate
}

// SessionKey is the key of a session by the material of its tenant and the id that names it.
func (e *Engine) SessionKey(tenant, session string) (key state.SessionKey) {
	copy(key.Tenant[:], sum(e.secret, "tenant", []byte(tenant)))
	copy(key.Session[:], sum(e.secret, "session", key.Tenant[:], []byte(session)))
	return key
}

// named finds the session of a request: as a header or the body names it, or, where the route wants that, as its conversation
// begins. One message does not tell conversations apart: all of a project may begin with the same one.
func (p *pass) named() (key state.SessionKey, ok bool) {
	e, r := p.e, p.r
	copy(key.Tenant[:], sum(e.secret, "tenant", []byte(r.Tenant)))
	id := cmp.Or(r.Session, identity.FromBody(p.ix.UserID, p.ix.CacheKey, p.ix.SessionID))
	switch {
	case id != "":
		key = e.SessionKey(r.Tenant, id)
	case r.Anonymous && len(p.chain) > 1:
		p.anonymous = true
		copy(key.Session[:], sum(e.secret, "anonymous session", key.Tenant[:], p.chain[0][:], p.chain[1][:]))
	default:
		return key, false
	}
	return key, true
}

// read parses and hashes the body; a fault of the reader's own counts as a body that cannot be read.
func (e *Engine) read(r *Request, o *Outcome, begun time.Time) (p *pass, gate filters.Gate) {
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("panic", "value", panicked(v), "stack", string(debug.Stack()), "request", r.ID)
			p, gate = nil, filters.Panic
		}
	}()
	ix, err := e.parse(r)
	if err != nil {
		e.log.Debug("body not read", "error", err, "request", r.ID)
		return nil, filters.Unparsed
	}
	p = &pass{e: e, r: r, o: o, ix: ix, at: begun}
	p.prepare()
	p.mark(StageParse)
	return p, ""
}
