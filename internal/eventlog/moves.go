package eventlog

import (
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Move is one move, what was forecast of it, and what came of it as far as the log goes.
//
// Realised is modelled. The request of the move brings what it left out for the first time less what it wrote again. Every later
// request of the conversation, and of those that were forked from it afterwards, brings the move's share of what was left out
// again, by the estimated tokens of all that had been left out before.
type Move struct {
	Time      time.Time `json:"ts"`
	Session   string    `json:"session"`
	Lineage   string    `json:"lineage"`
	N         int       `json:"n"`
	Kind      string    `json:"kind"`
	Filter    string    `json:"filter,omitempty"`
	Message   int       `json:"from_message"`
	Removed   int       `json:"removed"` // estimated tokens
	Decisions int       `json:"decisions"`
	Sum       string    `json:"sum"`
	Predicted float64   `json:"predicted_usd"`
	Realised  float64   `json:"realised_usd"`
	Requests  int       `json:"requests"` // whose usage Realised counts; 0: nothing is known
}

// request is what a log says of one request, as far as moves need it.
type request struct {
	lineage, parent string
	removed         int // estimated tokens, for the first time
	move            *Move
	account         *event.Account
}

// lineage is what was left out of a conversation so far.
type lineage struct {
	removed int // estimated tokens
	moves   []*Move
}

// realise says what came of the moves of requests, which are in order.
func realise(requests []*request) {
	all := map[string]*lineage{}
	for _, r := range requests {
		l := all[r.lineage]
		if l == nil {
			l = &lineage{}
			if p := all[r.parent]; p != nil {
				l.removed, l.moves = p.removed, slices.Clone(p.moves)
			}
			all[r.lineage] = l
		}
		l.book(r)
	}
}

func (l *lineage) book(r *request) {
	if a := r.account; a != nil {
		for _, m := range l.moves {
			m.Requests++
			m.Realised += a.Again.USD * float64(m.Removed) / float64(l.removed)
		}
		if r.move != nil {
			r.move.Requests++
			r.move.Realised += a.Removal - a.Again.USD
		}
	}
	l.removed += max(0, r.removed)
	if r.move != nil && r.move.Removed > 0 {
		l.removed += max(0, r.move.Removed-r.removed)
		l.moves = append(l.moves, r.move)
	}
}
