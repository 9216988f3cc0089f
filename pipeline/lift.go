package pipeline

import (
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
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

// bill is what this request adds to the branch's ledger, in uncached characters.
type bill struct {
	short   float64 // at five minutes, modelled
	premium float64 // of the lift beyond that; a saving is booked when usage shows it
	saving  float64 // what a lift that is relied on saves here, if it holds
	relied  bool    // more is expected to be read than a world at five minutes would hold
	leans   bool    // more is expected to be read than would be there if no lift worked
}

// ttl chooses the lifetime that the outbound's breakpoints ask for, 0 for the client's own, and whether that lowers it.
func (p *pass) ttl() (ttl time.Duration, lower bool) {
	l := &p.r.Config.Levers
	p.bill = p.priced()
	if p.b == nil || p.side != "" || p.gate != "" && p.gate != filters.Retry {
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

// priced models what the request costs in a world at five minutes, and what a lift would add.
func (p *pass) priced() bill {
	w, rates := &p.worlds, p.rates()
	rho, short, long := rates.Rho(), rates.Write(cache.Short), rates.Write(cache.Long)
	at := func(x prefix, write float64) float64 {
		read := min(x.weight, w.tail)
		return rho*float64(read) + write*float64(w.tail-read) + float64(w.total-w.tail)
	}
	b := bill{short: at(w.short, short), relied: p.lifts() && w.certain.weight > w.short.weight}
	b.leans = p.lifts() && w.certain.weight > w.safe.weight
	b.premium = max(0, at(w.certain, long)-b.short)
	if b.relied && p.clientTTL() <= cache.Short {
		b.saving = max(0, b.short-at(w.certain, long))
	}
	return b
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
	case w.tail == 0 || route.misjudged(lift):
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
	w := &p.worlds
	if p.r.Config.Levers.TTL != LiftTTL || !p.e.route(p.r.Route).confirmed() || w.certain.weight == 0 || !p.big() {
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
