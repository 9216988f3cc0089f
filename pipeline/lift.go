package pipeline

import (
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// A lift asks for an hour where the client asks for five minutes. The provider bills a read for the deepest entry that it
// holds, and the hour's price only for what lies beyond; the entry written there covers the whole prefix for an hour. So a
// request whose increment is small buys a long life for everything before it.
//
// What a lift costs is booked on the branch and bounded: the premium paid so far stays within ttl_regret of the bill that the
// branch would have at five minutes. What it saves counts only once the provider's usage has shown it.

// bigIncrement is the share of the prompt from which on an increment is written for five minutes and lifted by the next small
// one: an hour's price for it would buy nothing but the time until then.
const bigIncrement = 0.05

// sureShare is how much of the regret is spent: weights are not the provider's tokens, and the bound is one of the bill's.
const sureShare = 0.7

// bill is what this request adds to the branch's ledger, in uncached tokens at the price of the lowest tier. It is an estimate
// until usage settles it.
type bill struct {
	short   float64 // at five minutes, modelled
	premium float64 // of the lift beyond that
	lifts   bool    // what outlives five minutes here may have been lifted
	leans   bool    // more is expected to be read than would be there if no lift worked
}

// ttl chooses the lifetime that the outbound's breakpoints ask for, 0 for the client's own, and whether that lowers it.
func (p *pass) ttl() (ttl time.Duration, lower bool) {
	l := &p.r.Config.Levers
	p.bill = p.priced()
	if !p.mayRaise() || p.ix.Format.Automatic() {
		p.bill.premium = 0
		return 0, false
	}
	switch l.TTL {
	case KeepTTL:
	case HourTTL: // asked for whatever it costs
		return cache.Long, false
	case AutoTTL, LiftTTL:
		if p.clientTTL() > cache.Short {
			p.bill.premium = 0
			return p.lowered()
		}
		if p.affordable() {
			return cache.Long, false
		}
	}
	p.bill.premium = 0
	return 0, false
}

// mayRaise reports whether this request may ask for other lifetimes than the client does. A request that is sent again after
// an error does not, until the route has taken one: the error may have been for that.
func (p *pass) mayRaise() bool {
	if p.b == nil || p.side != "" {
		return false
	}
	route := p.e.route(p.r.Route)
	switch p.gate {
	case "", filters.RawGuard:
		return !route.refusesLevers()
	case filters.Retry:
		return route.takesLevers()
	default:
		return false
	}
}

// priced models what the request costs in a world at five minutes, and what a lift would add.
func (p *pass) priced() bill {
	w, rates := &p.worlds, p.rates()
	unit := tokens(p.b, 1) * tier(p.price, rates)
	at := func(x prefix, write float64) float64 {
		read := min(x.weight, w.tail)
		return unit * (rates.Rho()*float64(read) + write*float64(w.tail-read) + float64(w.total-w.tail))
	}
	b := bill{short: at(w.short, rates.Write(cache.Short)), lifts: p.lifts()}
	b.premium = max(0, at(w.certain, rates.Write(cache.Long))-b.short)
	b.leans = b.lifts && w.certain.weight > w.safe.weight
	return b
}

// tier is how much dearer a prompt's tier is than the lowest one.
func tier(p *cache.Price, r cache.Rates) float64 { return r.Input / p.Tiers[0].Rates.Input }

// settle replaces the estimate by what the provider billed: its hour's price for what it wrote for an hour, less what it read
// beyond what a world at five minutes would have held. A cache that the provider lost is in both worlds.
func (t *sent) settle(l *state.Ledger, u *Usage) {
	rates := t.price.Rates(u.Prompt())
	rho, short, long, unit := rates.Rho(), rates.Write(cache.Short), rates.Write(cache.Long), tier(t.price, rates)
	through := u.Read + u.Write5m + u.Write1h
	held := min(t.worlds.short.tokens, through)
	if t.worlds.certain.weight <= t.worlds.short.weight { // then a world without lifts would have read as much
		held = max(held, u.Read)
	}
	l.Short += unit*(rho*float64(held)+short*float64(through-held)+float64(u.Input)) - t.bill.short
	if t.bill.lifts && t.plain <= cache.Short {
		l.Premium += unit * ((long-short)*float64(u.Write1h) - (short-rho)*float64(max(0, min(u.Read, t.worlds.certain.tokens)-held)))
	}
	l.Premium -= t.bill.premium
}

// unbilled takes the estimate back: the provider answered with an error.
func (t *sent) unbilled(l *state.Ledger) {
	l.Short -= t.bill.short
	l.Premium -= t.bill.premium
}

// lifts reports whether what outlives five minutes here may have been lifted. An hour that the client asks for itself, or that
// is always asked for, is no word on lifts.
func (p *pass) lifts() bool {
	ttl := p.r.Config.Levers.TTL
	return ttl == LiftTTL || ttl == AutoTTL && p.clientTTL() <= cache.Short
}

// affordable reports whether the branch may pay for a lift now.
func (p *pass) affordable() bool {
	w, l := &p.worlds, &p.b.Ledger
	route := p.e.route(p.r.Route)
	switch {
	case w.tail == 0 || route.misjudged(lift) || l.Unlifted >= maxWrong:
		return false
	case p.big():
		return false // at five minutes now, and lifted by the next small one
	case p.bill.leans && !route.confirmed():
		return false // if lifting does not work here, this request pays for the whole prefix anew: at five minutes, then
	}
	return l.Premium+p.bill.premium <= sureShare*p.r.Config.Levers.Regret*(l.Short+p.bill.short)
}

// lowered is the choice for a body whose client asks for an hour itself.
func (p *pass) lowered() (time.Duration, bool) {
	w, route := &p.worlds, p.e.route(p.r.Route)
	if p.r.Config.Levers.TTL != LiftTTL || !route.confirmed() || route.misjudged(lift) || p.b.Ledger.Unlifted >= maxWrong || w.certain.weight == 0 || !p.big() {
		return 0, false
	}
	return cache.Short, true
}

// big reports whether much is to be written.
func (p *pass) big() bool {
	return float64(p.worlds.tail-p.worlds.certain.weight) > bigIncrement*float64(p.worlds.total)
}

// rates are the prices of this request's prompt.
func (p *pass) rates() cache.Rates {
	return p.price.Rates(int(tokens(p.b, float64(p.scale.total))))
}
