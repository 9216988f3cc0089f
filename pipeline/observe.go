package pipeline

import (
	"context"
	"math"
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// Thresholds of what counts as a difference, in tokens. Providers count a little differently from request to request.
const (
	clearly   = 2000 // a read this far above what was expected refutes a belief
	worthy    = 4000 // an expectation below this says nothing of a branch
	maxMisses = 2    // answers in a row with less than half of what was expected, after which a branch is braked
	minLoss   = 1024
	maxUnread = 2 // requests with placed breakpoints in a row that read nothing, after which none are placed
)

// Observe takes in what became of a forwarded request: entries become certain, beliefs are confirmed or refuted, and what was
// billed is compared with what was expected. It is called once for an outcome, after the response has ended; usage that is told
// again is not taken in again. A response that nobody saw leaves what was believed. It never fails and never returns nil.
func (e *Engine) Observe(ctx context.Context, o *Outcome, r *Response) *Observation {
	ob := &Observation{Usage: r.Usage, Model: "_other"}
	t := o.sent
	if t == nil {
		if r.Usage != nil {
			price := e.prices.Lookup(r.Model)
			ob.Model, ob.Cost = price.Name, cost(price, r.Usage.Billed())
			ob.Baseline, ob.Provider = ob.Cost, discount(price, r.Usage.Billed())
		}
		return ob
	}
	ob.Model = t.price.Name
	t.refused(r)
	if t.levers {
		t.e.route(t.route).answer(r.Status)
	}
	if r.Status >= 400 && !t.told.Swap(true) {
		e.take(ctx, t, func(s *session, b *state.Branch) {
			t.unbilled(&b.Ledger)
			s.unbilled(b, t)
		})
	}
	if r.Usage == nil || r.Status/100 != 2 {
		return ob
	}
	if t.told.Swap(true) {
		ob.Usage = nil
		return ob
	}
	if r.Unclear || t.summed(r.Usage) {
		ob.Cost = cost(t.price, r.Usage.Billed())
		ob.Baseline, ob.Provider = ob.Cost, discount(t.price, r.Usage.Billed())
		return ob
	}
	r = &Response{Status: r.Status, Usage: t.split(r.Usage), Message: r.Message, Model: r.Model, Miss: r.Miss, After: r.After}
	ob.Usage = r.Usage
	t.judge(ob, r)
	u := r.Usage
	e.take(ctx, t, func(_ *session, b *state.Branch) {
		b.Entries = cache.Confirm(b.Entries, t.key, t.marks, t.met,
			cache.Billed{Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Minimum: t.price.Minimum, Automatic: t.whole(u), Step: t.price.Step}, t.at)
		if t.main {
			t.learn(&b.Ledger, r, ob)
			t.answered(b, r)
		}
	})
	return ob
}

// whole is the whole prompt where the provider caches by itself, else 0.
func (t *sent) whole(u *Usage) int {
	if !t.automatic {
		return 0
	}
	return u.Prompt()
}

// take changes the branch that the request belongs to, if it is still there.
func (e *Engine) take(ctx context.Context, t *sent, change func(*session, *state.Branch)) {
	if t.branch == 0 {
		return
	}
	s := e.current(t.sess)
	if !s.lock(ctx, settleTimeout) {
		e.log.WarnContext(ctx, "usage not taken in", "error", "the session is busy")
		return
	}
	defer s.unlock()
	b := s.branch(t.branch)
	if b == nil {
		return
	}
	c := b.Clone()
	change(s, c)
	s.put(c)
	s.dirty[c.ID] = true
	e.markDirty(s)
}

// summed reports whether merged usage is far more than the prompt can be: with server tools Envoy adds up several samplings of
// one request, and what it adds up says nothing of one prompt.
func (t *sent) summed(u *Usage) bool {
	return u.Merged && t.prior > 0 && float64(u.Prompt()) > 1.5*t.count(t.worlds.total)
}

// split tells one-hour writes from five-minute ones where nobody did, by the breakpoints: what lies between the hit and the last
// one that asks for an hour is written for an hour.
func (t *sent) split(u *Usage) *Usage {
	through := u.Read + u.Write5m
	switch {
	case u.Merged && t.automatic: // lifetimes have no price of their own there
		s := *u
		s.Merged = false
		return &s
	case !u.Merged || t.worlds.tail == 0:
		return u
	}
	long := int32(0)
	for _, m := range t.marks {
		if m.TTL >= cache.Long {
			long = max(long, m.Weight)
		}
	}
	s := *u
	s.Write1h = min(max(0, int(float64(through)*float64(long)/float64(t.worlds.tail))-u.Read), u.Write5m)
	s.Write5m, s.Merged = u.Write5m-s.Write1h, false
	return &s
}

// judge compares the provider's numbers with what was expected.
func (t *sent) judge(ob *Observation, r *Response) {
	u := r.Usage
	ob.Cost = cost(t.price, u.Billed())
	ob.Provider = discount(t.price, u.Billed())
	b := t.baseline(u)
	ob.Baseline = cost(t.price, b) + ob.Cost - cost(t.price, u)
	account := t.account(u, b, ob.Baseline-ob.Cost)
	ob.Account = &account
	ob.Expected = t.worlds.certain.tokens
	ob.Loss = t.loss(u)
	if cause, ok := missCauses[r.Miss]; ok && ob.Loss != nil && t.move == nil {
		ob.Loss.Cause, ob.Loss.Filter, ob.Loss.Diagnostics = cause, "", true
	}
	route := t.e.route(t.route)
	if ob.ColdMisjudged = t.wasWarm(u.Read); ob.ColdMisjudged {
		route.refute(cold, t.sess.key)
	}
	if t.move != nil {
		ob.Move, ob.Moved = t.move, t.moved
		ob.MoveForecast = t.move.Sum.Gain * t.price.Rates(u.Prompt()).Input / 1e6
	}
	safe, certain := t.worlds.safe.tokens, t.worlds.certain.tokens
	switch {
	case !t.bill.leans || certain <= safe+clearly:
	case u.Read+max(clearly, certain/20) < certain:
		ob.LiftMisjudged = true
		route.refute(lift, t.sess.key)
	case certain > t.worlds.short.tokens+clearly: // else it may have been another entry that was read
		route.confirm()
	}
	ob.Ineffective = t.ineffective(u)
}

// wasWarm reports whether an entry was read that was believed to have lapsed: the read is as long as one of those, by the
// provider's own count.
func (t *sent) wasWarm(read int) bool {
	if t.automatic { // any beginning is found, in steps: what was read need not be as long as an entry
		return t.left >= 0 && len(t.beyond) > 0 && read > t.left+max(clearly, t.left/5)+t.price.Step
	}
	return t.left >= 0 && read > t.left+clearly && slices.ContainsFunc(t.beyond, func(n int32) bool {
		return math.Abs(float64(int(n)-read)) <= float64(n)/100
	})
}

// count is how many tokens a weight is.
func (t *sent) count(weight int32) float64 { return float64(weight) * t.ratio }

// learn writes what the response says of the branch into its ledger.
func (t *sent) learn(l *state.Ledger, r *Response, ob *Observation) {
	u := r.Usage
	if t.worlds.total > 0 && !ob.Ineffective {
		l.Ratio = float64(u.Prompt()) / float64(t.worlds.total)
	}
	l.Read = int32(min(max(t.whole(u), u.Read+u.Write5m+u.Write1h), math.MaxInt32))
	t.settle(l, u)
	if ob.LiftMisjudged {
		l.Unlifted++
	}
	t.placedRead(l, u)
	switch expected := ob.Expected; {
	case expected < worthy || !t.brake:
	case u.Read*2 >= expected:
		l.Misses = 0
	case t.move == nil && t.left < 0 && !t.lapsed && !t.worlds.lapsed && t.change == nil:
		if l.Misses++; l.Misses >= maxMisses && !l.Braked {
			l.Braked, ob.Braked = true, true
		}
	}
}

// placedRead has placing stand down on a branch where what it wrote goes unread.
func (t *sent) placedRead(l *state.Ledger, u *Usage) {
	switch {
	case !t.placed || t.first:
	case u.Read > 0:
		l.Unread = 0
	default:
		if l.Unread++; l.Unread >= maxUnread {
			l.Marked = true
		}
	}
}

// ineffective reports whether the provider was billed for the body as it came although a smaller one was forwarded: a filter
// that stands behind tidemark writes it anew.
func (t *sent) ineffective(u *Usage) bool {
	out, in := t.count(t.worlds.total), t.count(t.in)
	if t.prior == 0 || in-out < clearly || in < out*1.1 {
		return false
	}
	got := float64(u.Prompt())
	return math.Abs(got-in) < (in-out)/4
}

// cost is the price of a request in USD.
func cost(p *cache.Price, u *Usage) float64 {
	r := p.Rates(u.Prompt())
	return (float64(u.Input)*r.Input + float64(u.Read)*r.Read + float64(u.Write5m)*r.Write5m + float64(u.Write1h)*r.Write1h +
		float64(u.Output)*r.Output) / 1e6
}

// discount is what the cache saved of a request in USD: what was read at the price of input, less what it cost.
func discount(p *cache.Price, u *Usage) float64 {
	r := p.Rates(u.Prompt())
	return float64(u.Read) * (r.Input - r.Read) / 1e6
}

// missCauses are the provider's own words for why it missed.
var missCauses = map[string]Cause{
	"model_changed": CauseClientModel, "system_changed": CauseClientSystem, "tools_changed": CauseClientTools,
	"messages_changed": CauseClientHistory,
}

// loss is what the request paid for again, with its one cause.
func (t *sent) loss(u *Usage) *Loss {
	if !t.main {
		return nil
	}
	if t.first {
		if n := u.Write5m + u.Write1h; n > 0 {
			return &Loss{Cause: CauseFirst, Tokens: n}
		}
		return nil
	}
	had := t.prior
	if most := int(t.count(t.worlds.tail) * 1.02); most > 0 { // a rewind has less to read
		had = min(had, most)
	}
	lost := min(had, u.Prompt()) - u.Read
	if lost < max(minLoss, t.price.Step, had/20) {
		return nil
	}
	switch {
	case t.change != nil && !t.worlds.lapsed: // if that had lapsed which it left alone, so had all behind it
		l := *t.change
		l.Tokens = lost
		return &l
	case t.left >= 0 || t.worlds.lapsed || t.lapsed:
		return &Loss{Cause: CauseTTL, Tokens: lost}
	case t.worlds.known.cell > 0:
		return &Loss{Cause: CauseProvider, Tokens: lost}
	}
	return &Loss{Cause: CauseUnknown, Tokens: lost}
}
