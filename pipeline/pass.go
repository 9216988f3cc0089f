package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// pass is one request on its way. What stands above gate is the same for every attempt.
type pass struct {
	e      *Engine
	r      *Request
	o      *Outcome
	ix     *transcript.Index
	layout *layout
	chain  []state.Digest // digests of the body's messages
	key    state.Digest   // of the branch: the provider's key, the agent, and whether the request is bound
	id     uint64         // of the branch that this body may begin
	bound  bool           // the model binds its thinking to the exact prefix
	side   filters.Gate   // side traffic: replay only, the branch is neither made nor advanced
	last   int32          // last assistant message, -1
	price  *cache.Price   // of the model
	sess   *session
	shadow bool
	// anonymous: nobody names the session; nothing that is left out of it can be restored.
	anonymous bool
	at        time.Time // of the last stage mark

	gate        filters.Gate // why nothing new may be decided
	m           match
	b           *state.Branch // working copy
	out         *outbound
	k           int32 // cells that the provider may hold
	fresh       int32 // first message that was never forwarded
	marks       breakpoint.Plan
	held        map[int32]int32        // by result: index into b.Held
	claimed     map[int32]bool         // results that a filter wants held on
	sums        map[int32]string       // by result, of a request that wants to be explained
	kept        map[int32][]FilterGate // by result, of a request that wants to be explained
	grown       map[string]*filterMemo // by filter: what it knows of the transcript
	saved       []state.Original       // to be kept before the reply
	news        []*state.Decision      // decisions of this request
	heldNow     []state.ResultRef      // holds that begin in this request
	newCut      *state.Cut             // cut of this request
	newGone     []bool                 // by message: what it leaves out that was forwarded before
	cuts        map[*filters.Cut]cutMade
	ests        messageSizes
	wishedFor   map[int32]int          // by message: tokens that wishes would leave out
	widened     bool                   // sessions that may hold the same conversation were looked at
	must        bool                   // state must be durable before the reply
	slight      bool                   // what a cold move would leave out is not worth it
	left        int                    // bytes of the outbound with the decisions made so far
	before      []state.Digest         // prefix ids of the replay, without anything new
	scale       *scale                 // weights of the outbound
	worlds      worlds                 // what the provider holds of it
	bill        bill                   // what it adds to the ledger
	deep        map[int32]filters.Gate // by result: why it takes no part in a warm move, or causes none
	rewriteGate filters.Gate           // why no move into what the provider holds was made
	asked       map[summaryAsk]summaryAnswer
	askedFor    []summaryAsk // the keys of asked, in the order in which filters asked
	begun       []summaryAsk // those at which this request begins an attempt
}

// prepare works out what no attempt changes.
func (p *pass) prepare() {
	ix := p.ix
	ix.Roles = p.r.Config.Roles
	p.layout = newLayout(ix, p.e.hasher)
	p.chain = make([]state.Digest, len(ix.Messages))
	for i := range ix.Messages {
		p.chain[i] = ix.Messages[i].Hash
	}
	p.key = ix.Key
	if p.r.Agent != "" {
		p.key = p.e.hasher.Sum(append(append([]byte("agent "), ix.Key[:]...), p.r.Agent...))
	}
	p.id = newID()
	p.price = p.e.prices.At(strings.Clone(ix.Model), p.r.Place)
	if ix.Format.Automatic() && (ix.TopTTL == 0 || p.price.AutoTTL == cache.Unbounded) { // a retention bounds only what is bounded
		ix.TopTTL = p.price.AutoTTL
	}
	if p.price.Bound {
		p.bound = !ix.DropBlock && !p.r.Config.LegacyBinding
		if !p.bound { // the same conversation without the option is another branch, which inherits nothing
			p.key = p.e.hasher.Sum(append([]byte("unbound "), p.key[:]...))
		}
	}
	p.last = ix.LastAssistant()
	if p.r.CountTokens || p.r.Auxiliary || !ix.HasTools || ix.MaxTokens >= 0 && ix.MaxTokens <= 1 {
		p.side = filters.SideRequest
	}
	p.o.Messages, p.o.Turn, p.o.Bound = len(ix.Messages), ix.LastTurn(), p.bound
}

// requestGate is why the request as a whole decides nothing.
func (p *pass) requestGate() filters.Gate {
	switch {
	case p.side != "":
		return p.side
	case p.r.Bypass:
		return filters.Bypass
	case p.r.Config.Bad:
		return filters.BadConfig
	case p.r.Config.Mode == Shadow:
		return filters.Shadow
	case len(p.r.Config.Filters) == 0 && !p.r.Config.Levers.on():
		return filters.NoPipeline
	}
	return ""
}

// mark books the time since the last mark on a stage.
func (p *pass) mark(s Stage) {
	now := time.Now() //nolint:forbidigo // durations are measured, decisions depend on r.Now alone
	p.o.Stages[s] += now.Sub(p.at)
	p.at = now
}

// run is the whole way of one attempt, under the session's lock.
func (p *pass) run(ctx context.Context) error {
	if !p.sess.lock(ctx, patience(ctx)) {
		return p.unlocked()
	}
	defer p.sess.unlock()
	if err := p.load(ctx); err != nil {
		return err
	}
	p.mark(StageLoad)
	if err := p.branch(ctx); err != nil {
		return err
	}
	if p.b == nil { // side traffic that belongs to nothing known
		return p.send(ctx)
	}
	p.out = p.layout.replay(p.b, p.m.shared)
	p.before = p.out.ids
	p.scale = p.out.weigh()
	p.zones()
	p.holds()
	p.guard()
	p.mark(StageReplay)
	if p.gate == filters.NoPipeline {
		p.unclaimed()
	}
	if p.gate == "" && p.side == "" {
		if err := p.widen(ctx, slices.ContainsFunc(results(p), p.movable)); err != nil {
			return fall(filters.StoreUnavailable, err)
		}
		proposals, err := p.propose()
		if err != nil {
			return err
		}
		if err := p.widen(ctx, slices.ContainsFunc(proposals, wish.drops)); err != nil {
			return fall(filters.StoreUnavailable, err)
		}
		p.mark(StagePropose)
		p.plan(proposals)
		p.mark(StagePlan)
	}
	if p.side == "" {
		p.overdue()
	}
	return p.send(ctx)
}

// send places the breakpoints, splices, proves and commits; then the request is noted as sent.
func (p *pass) send(ctx context.Context) error {
	if err := p.breakpoints(); err != nil {
		return err
	}
	if err := p.splice(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil && p.gate == "" {
		return fall(filters.Deadline, err)
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	p.remember()
	p.countSummaries()
	p.beginSummaries(p.note(ctx))
	p.report()
	p.mark(StageCommit)
	return nil
}

// anonymousLife is how long a session is remembered that nobody names: two of them may begin alike.
const anonymousLife = time.Hour

// load brings the session up to date. A dead store leaves what is in memory; with nothing there the branch cannot be read.
func (p *pass) load(ctx context.Context) error {
	s := p.sess
	ctx, cancel := lenient(ctx)
	defer cancel()
	err := p.e.load(ctx, s, p.r.Now)
	s.takeLate()
	if p.anonymous {
		s.forget(p.r.Now.Add(-anonymousLife))
	}
	if err == nil {
		return nil
	}
	p.e.log.WarnContext(ctx, "store not readable", "error", err, "request", p.r.ID)
	if p.gate == "" {
		p.gate = filters.StoreUnavailable
		p.o.Gate = p.gate
		p.o.Gates[FilterGate{Gate: p.gate}]++
	}
	p.o.Desync = !s.loaded && p.last >= 0
	return nil
}

// unlocked replays from the last state that a request left, without the session's lock.
func (p *pass) unlocked() error {
	branches := p.sess.published()
	p.gate = filters.Busy
	p.m = p.find(branches)
	p.out = &outbound{layout: p.layout, ids: p.layout.base}
	if p.m.branch == nil {
		if p.last >= 0 && len(branches) == 0 {
			return fall(filters.Busy, errors.New("the session's lock is held and nothing is known of it"))
		}
	} else {
		p.b = p.m.branch.Clone()
		p.unbind()
		p.out = p.layout.replay(p.b, p.m.shared)
	}
	p.holds()
	if err := p.breakpoints(); err != nil {
		return err
	}
	if err := p.splice(); err != nil {
		return err
	}
	if p.b != nil && !p.r.CountTokens {
		p.sess.addLate(lateNote{branch: p.b.ID, key: p.ix.Key, ids: p.out.ids, marks: p.cacheMarks(), at: p.r.Now})
		p.e.markDirty(p.sess)
	}
	p.o.Gate = filters.Busy
	p.o.Gates[FilterGate{Gate: filters.Busy}]++
	p.report()
	return nil
}

// branch finds the branch that the body belongs to and makes the working copy.
func (p *pass) branch(ctx context.Context) error {
	p.m = p.find(p.sess.branches)
	if p.side != "" {
		if p.m.branch != nil {
			p.b = p.m.branch.Clone()
			p.unbind()
		}
		return nil
	}
	if p.m.kind == KindNew && p.last >= 0 {
		if err := p.adopt(ctx); err != nil {
			return err
		}
	}
	if p.m.kind == KindRekey && p.shrunk(p.m.branch) {
		p.m.kind = KindFork
	}
	switch p.m.kind {
	case KindNew, KindFork:
		if !p.sess.room(p.r.Now) {
			return p.full()
		}
		p.b = p.fork()
	default:
		p.b = p.m.branch.Clone()
		p.b.Key = p.key
	}
	p.o.Kind = p.m.kind
	if p.bound && p.m.kind != KindContinue && p.m.kind != KindRetry || p.m.kind == KindFork && p.shrunk(p.b) {
		p.b.InForce, p.b.Held, p.b.Cut = nil, nil, nil
	}
	if p.m.kind != KindRetry {
		p.misplaced()
	}
	if p.m.kind == KindRetry && p.gate == "" {
		p.gate, p.o.Gate = filters.Retry, filters.Retry
		p.o.Gates[FilterGate{Gate: filters.Retry}]++
	}
	p.must = carries(p.b) && (p.b.Version == 0 || p.m.kind == KindFork || p.m.kind == KindRekey)
	p.assume()
	return nil
}

// adopt takes over what other sessions of the tenant know of the same conversation: clients resume under a new session id,
// and the provider's cache knows no sessions.
func (p *pass) adopt(ctx context.Context) error {
	others, _, err := p.e.related(ctx, p.sess.key, p.chain, p.r.Now)
	if err != nil && p.gate == "" {
		return fall(filters.StoreUnavailable, err)
	}
	for _, o := range others {
		if !p.sess.room(p.r.Now) {
			break
		}
		b := o.Clone()
		// Nothing of it is stored under this session, and what becomes of it here is no longer what becomes of it there.
		b.ID, b.Parent, b.Version, b.Commit = newID(), o.ID, 0, 0
		b.Ledger = b.Ledger.Fork()
		p.sess.put(b)
		p.sess.dirty[b.ID] = true
	}
	p.m = p.find(p.sess.branches)
	return nil
}

// misplaced takes decisions off the working copy that name their result by its place, in a history that is another one now: what
// stands in that place from here on is another result, though it may say the same.
func (p *pass) misplaced() {
	p.b.InForce = slices.DeleteFunc(p.b.InForce, func(d state.Decision) bool {
		if !p.ix.Format.Unnamed(d.Ref.Call) || d.Msg < p.m.shared {
			return false
		}
		_, stands := p.layout.find(d.Ref, p.m.shared)
		return !stands
	})
}

// shrunk reports whether what is in force on a branch could make a prompt of the body that is too small to be cached, where nothing
// cached is lost without it: the client has made a short conversation of a long one.
func (p *pass) shrunk(b *state.Branch) bool {
	return carries(b) && !slices.ContainsFunc(b.Entries, func(e cache.Entry) bool { return p.live(&e) }) && p.layout.replay(b, p.m.shared).size() < minLeft
}

// unbind takes what is in force off the working copy where a bound model did not see it.
func (p *pass) unbind() {
	if p.bound && p.b.Key != p.key {
		p.b.InForce, p.b.Held, p.b.Cut = nil, nil, nil
	}
}

// full answers when every branch of the session is alive: replay, and nothing is remembered.
func (p *pass) full() error {
	p.side, p.gate = filters.TooManyBranches, filters.TooManyBranches
	p.o.Gate = p.gate
	p.o.Gates[FilterGate{Gate: p.gate}]++
	if p.m.branch == nil || p.bound {
		return fall(filters.TooManyBranches, errors.New("every branch of the session is alive"))
	}
	p.b = p.m.branch.Clone()
	return nil
}

// unknownRewrites are the warm moves of a branch whose history nobody remembers: what cannot be read counts as spent.
const unknownRewrites = 1 << 20

// fork makes the branch of this body: a copy of the one that it forks from, cut at the last message in common.
func (p *pass) fork() *state.Branch {
	b := &state.Branch{ID: p.id, Key: p.key}
	from := p.m.branch
	if from == nil {
		if p.last >= 0 { // what happened before is not known
			b.Ledger.Rewrites = unknownRewrites
		}
		return b
	}
	c := from.Clone()
	c.ID, c.Version, c.Parent, c.Key, c.Requests, c.Moves = b.ID, 0, from.ID, p.key, 0, 0
	c.Ledger = from.Ledger.Fork()
	p.o.Parent = from.ID
	n := p.m.shared
	c.Chain = c.Chain[:n]
	c.Entries = cache.Clip(from.Entries, n)
	held := c.Held[:0]
	for _, h := range from.Held {
		if r, ok := p.layout.find(h.Ref, n); ok && p.ix.Results[r].Msg < n {
			held = append(held, h)
		}
	}
	c.Held = held
	return c
}

// assume adds the span that must be expected to be cached where history was forwarded by somebody else.
func (p *pass) assume() {
	if p.last < 0 {
		return
	}
	if p.m.branch == nil || p.unseen(p.sess.branches) && p.last >= p.m.shared {
		p.b.Entries = cache.Assume(p.b.Entries, p.last, p.assumedTTL(), p.r.Now)
	}
}

// newID is a random branch id, never 0.
func newID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails on a supported platform
	return binary.LittleEndian.Uint64(b[:]) | 1
}
