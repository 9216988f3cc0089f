package pipeline

import "sync"

// What the provider's usage says of a route's model of the cache. It is kept until the process ends.
type routeState struct {
	mu     sync.Mutex
	wrong  [judgements]int
	lifted int // pauses over which a lifted prefix was read
	asks   asks
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

func (r *routeState) refute(j judgement) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
