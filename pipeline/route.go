package pipeline

import (
	"net/http"
	"sync"

	"github.com/tidemark-dev/tidemark/state"
)

// What the provider's usage says of a route's model of the cache. It is kept until the process ends.
type routeState struct {
	mu     sync.Mutex
	wrong  [judgements]int
	lifted int // pauses over which a lifted prefix was read
	asks   asks
	levers levers
	said   map[state.SessionKey]bool // sessions that have refuted a lift, at most maxWrong
}

// levers is what is known of how the route's provider takes breakpoints of ours.
type levers struct{ taken, refused bool }

// answer takes note of the answer to a request whose breakpoints tidemark raised or placed. Until one was taken, a refusal is
// put down to them: some upstreams know no ttl.
func (r *routeState) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case status/100 == 2:
		r.levers.taken = true
	case status == http.StatusBadRequest && !r.levers.taken:
		r.levers.refused = true
	}
}

func (r *routeState) refusesLevers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.levers.refused
}

func (r *routeState) takesLevers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.levers.taken
}

// judgement is something believed of the provider that its usage can refute.
type judgement uint8

const (
	cold judgement = iota // what lapsed is gone
	lift                  // what was lifted lives for an hour
	judgements
)

const (
	maxWrong  = 2    // refutations after which a route no longer acts on a belief
	maxRoutes = 1024 // routes that are told apart
)

// route is the state of a route.
func (e *Engine) route(name string) *routeState {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.routes[name]
	if r == nil {
		if len(e.routes) >= maxRoutes {
			name = ""
		}
		if r = e.routes[name]; r == nil {
			r = &routeState{}
			e.routes[name] = r
		}
	}
	return r
}

func (r *routeState) misjudged(j judgement) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Providers evict early now and then: a lift that held ten times as often is no error.
	return r.wrong[j] >= maxWrong && (j != lift || r.wrong[j]*10 > r.lifted)
}

// refute notes that a session's usage contradicts a belief. What is wrong with one session's cache is no word on all of a
// route's lifts: each counts once.
func (r *routeState) refute(j judgement, by state.SessionKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j == lift {
		if r.said[by] || len(r.said) > maxWrong {
			return
		}
		if r.said == nil {
			r.said = map[state.SessionKey]bool{}
		}
		r.said[by] = true
	}
	r.wrong[j]++
}

// confirm notes that a lifted prefix was read after a pause that only an hour outlives.
func (r *routeState) confirm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lifted++
}

func (r *routeState) confirmed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lifted > 0
}
