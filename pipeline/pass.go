package pipeline

import (
	"context"
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
	was         *undisturbed           // before a move into what it holds
	bill        bill                   // what it adds to the ledger
	deep        map[int32]filters.Gate // by result: why it takes no part in a warm move, or causes none
	rewriteGate filters.Gate           // why no move into what the provider holds was made
	tool        *string                // see restoreTool
	strict      bool                   // nothing is given back either
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
	p.o.Messages, p.o.Turn, p.o.Bound, p.o.Model = len(ix.Messages), ix.LastTurn(), p.bound, p.price.Name
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
	case p.heldOut():
		return filters.Holdout
	case !p.drawn("rollout", 1-p.r.Config.Withheld):
		return filters.Rollout
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
	p.replay()
	if err := p.shrink(ctx); err != nil && p.gate == "" {
		return fall(filters.StoreUnavailable, err)
	}
	p.holds()
	p.guard()
	p.giveBack(ctx)
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
	if err := ctx.Err(); err != nil && (p.gate == "" || p.decidedNow()) {
		return fall(filters.Deadline, err)
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	p.o.Again = p.usedAgain()
	p.remember()
	p.countSummaries()
	p.beginSummaries(p.note(ctx))
	p.report()
	p.mark(StageCommit)
	return nil
}

// replay makes the outbound that the branch has without anything new, and finds what the provider may hold of it.
func (p *pass) replay() {
	p.out = p.layout.replay(p.b, p.m.shared)
	p.before = p.out.ids
	p.scale = p.out.weigh()
	p.zones()
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
