package access

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Bounds of rates.
const (
	maxClients = 4096 // whose rates are remembered; one that was forgotten begins anew, and the limit of all is there for that
	allClients = 25   // the rate of the listener as a whole, in rates of one client
	burst      = 2    // seconds of its rate that may come at once
	subnet     = 64   // bits of an IPv6 address that one client has to itself (RFC 6177)
)

// limits are the rates of one listener.
type limits struct {
	each    rate.Limit
	all     *rate.Limiter
	clients *lru.Cache[netip.Addr, *rate.Limiter]
}

// newLimits returns limits of so many requests per second and client.
func newLimits(each float64) *limits {
	clients, _ := lru.New[netip.Addr, *rate.Limiter](maxClients) // fails for sizes below 1
	return &limits{each: rate.Limit(each), all: limiter(each * allClients), clients: clients}
}

func limiter(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), int(max(1, math.Ceil(perSecond*burst))))
}

// own is how long the client of a request has to wait for its own rate, 0 if it need not. Requests without a credential count, too:
// they may be guesses.
func (l *limits) own(r *http.Request, now time.Time) time.Duration {
	who := client(r)
	fresh := limiter(float64(l.each))
	own, known, _ := l.clients.PeekOrAdd(who, fresh)
	if !known {
		own = fresh
	} else {
		l.clients.Get(who) // it is the most recent one
	}
	return take(own, now)
}

// shared is how long it is until there is room for another request of all. Whoever is over its own rate, or has not what the
// listener asks for, must not get here: it takes nothing from the others.
func (l *limits) shared(now time.Time) time.Duration { return take(l.all, now) }

// take takes one request, or says how long it is until there is one.
func take(l *rate.Limiter, now time.Time) time.Duration {
	r := l.ReserveN(now, 1)
	d := r.DelayFrom(now)
	if d > 0 {
		r.CancelAt(now)
	}
	return d
}

// client is the address that a request comes from; those of a unix socket are one.
func client(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(subnet); err == nil {
			return p.Addr()
		}
	}
	return addr
}
