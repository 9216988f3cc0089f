package eventlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Summary is what files of events say.
type Summary struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	Events   int        `json:"events"`
	Unread   *Unread    `json:"unread"`
	Total    Figures    `json:"total"`
	Spend    Spend      `json:"spend"`
	Net      float64    `json:"net_usd"` // modelled, less the spend
	Configs  int        `json:"configs"` // loaded
	Rejected int        `json:"configs_rejected"`
	Sessions []*Session `json:"sessions"` // worst net first

	byID map[[2]string]*Session
}

// Spend is what tidemark's own calls cost, as the models asked said.
type Spend struct {
	Calls  int     `json:"calls"`
	Input  int     `json:"input"`
	Output int     `json:"output"`
	USD    float64 `json:"usd"`
}

// Session is what became of one session. Requests that belong to none stand together in one without a name.
type Session struct {
	Session  string    `json:"session"`
	Tenant   string    `json:"tenant,omitempty"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Models   []string  `json:"models"`
	Lineages int       `json:"lineages"`
	Turns    int       `json:"turns"` // of the longest lineage
	Figures

	requests []*request
	byKey    map[string]*request
	lineages map[string]bool
}

// Summarize reads files of events.
func Summarize(names []string) (*Summary, error) {
	s := &Summary{Total: newFigures(), Sessions: []*Session{}, byID: map[[2]string]*Session{}}
	var err error
	if s.Unread, err = Read(names, s.add); err != nil {
		return nil, err
	}
	s.finish()
	return s, nil
}

func (s *Summary) add(e event.Event) {
	s.Events++
	h := e.Of()
	s.From, s.To = span(s.From, s.To, h.Time)
	switch e := e.(type) {
	case *event.Spend:
		s.Spend.Calls++
		s.Spend.Input += e.Input
		s.Spend.Output += e.Output
		s.Spend.USD += e.USD
		return
	case *event.Config:
		s.Configs++
		if e.Result != "ok" {
			s.Rejected++
		}
		return
	}
	s.Total.add(e)
	if h.Key != "" { // without one it is a restore that names no session
		s.session(h).add(e)
	}
}

func span(from, to, at time.Time) (time.Time, time.Time) {
	if at.IsZero() {
		return from, to
	}
	if from.IsZero() || at.Before(from) {
		from = at
	}
	if at.After(to) {
		to = at
	}
	return from, to
}

func (s *Summary) session(h *event.Head) *Session {
	id := [2]string{h.Tenant, h.Session}
	if h.Session == "" {
		id = [2]string{}
	}
	one := s.byID[id]
	if one == nil {
		one = &Session{Session: id[1], Tenant: id[0], Models: []string{}, Figures: newFigures(), byKey: map[string]*request{}, lineages: map[string]bool{}}
		s.byID[id] = one
		s.Sessions = append(s.Sessions, one)
	}
	return one
}

func (s *Session) add(e event.Event) {
	h := e.Of()
	s.From, s.To = span(s.From, s.To, h.Time)
	s.Turns = max(s.Turns, h.Turn)
	if h.Model != "" && !slices.Contains(s.Models, h.Model) {
		s.Models = append(s.Models, h.Model)
	}
	s.Figures.add(e)
	if h.Lineage != "" {
		s.lineages[h.Lineage] = true
	}
	switch e := e.(type) {
	case *event.Request:
		r := s.request(h)
		r.parent, r.removed = e.Parent, e.Sizes.Removed
	case *event.Usage:
		r := s.request(h)
		r.account = e.Modelled
		if was := s.byKey[e.Moved]; was != nil { // was never billed
			r.move, r.removed = cmp.Or(r.move, was.move), r.removed+was.removed
			was.move, was.removed = nil, 0
		}
	case *event.Move:
		m := &Move{
			Time: h.Time, Session: h.Session, Lineage: h.Lineage, N: h.N, Kind: e.Kind, Filter: e.Filter, Message: e.Message, Removed: e.Removed, Decisions: e.Decisions,
			Sum: e.Sum, Predicted: e.Predicted,
		}
		s.request(h).move = m
		s.Moves = append(s.Moves, m)
	}
}

// request is the request of an event, in the order in which requests are first heard of.
func (s *Session) request(h *event.Head) *request {
	r := s.byKey[h.Key]
	if r == nil {
		r = &request{lineage: h.Lineage}
		s.byKey[h.Key] = r
		s.requests = append(s.requests, r)
	}
	return r
}

// finish works out what needs all events.
func (s *Summary) finish() {
	for _, one := range s.Sessions {
		one.Lineages = len(one.lineages)
		realise(one.requests)
		one.sort()
		s.Total.Moves = append(s.Total.Moves, one.Moves...)
	}
	slices.SortStableFunc(s.Total.Moves, func(a, b *Move) int { return a.Time.Compare(b.Time) })
	s.Total.sort()
	s.Net = s.Total.Modelled.Net - s.Spend.USD
	slices.SortStableFunc(s.Sessions, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.Modelled.Net, b.Modelled.Net), cmp.Compare(a.Session, b.Session))
	})
}
