package board

import (
	"encoding/json"
	"net/http"
	"slices"
)

// serveSession answers with a session, and one of its conversations request by request.
func (b *Board) serveSession(w http.ResponseWriter, r *http.Request) {
	lineage, chosen := r.URL.Query().Get("lineage"), r.URL.Query().Has("lineage")
	b.mu.Lock()
	s := b.sessions[r.PathValue("id")]
	if s == nil {
		b.mu.Unlock()
		missing(w, "the session is not known, or no longer kept")
		return
	}
	version := s.version
	b.mu.Unlock()
	b.answer(w, r, version, func() ([]byte, error) { return json.Marshal(b.view(s, lineage, chosen)) })
}

// view copies a session under the lock, and makes what is shown of it after that.
func (b *Board) view(s *session, lineage string, chosen bool) *SessionView {
	b.mu.Lock()
	copied := s.copy()
	v := &SessionView{Gates: s.gates.list(), List: make([]Lineage, len(s.order)), Rows: []Request{}}
	tallies := make([]tally, len(s.order))
	var of *lineageRows
	for i, l := range s.order {
		tallies[i] = l.tally
		v.List[i] = Lineage{ID: l.id, Parent: l.parent, Began: l.began, Last: l.last, Turns: l.turns}
		switch {
		case chosen && l.id == lineage, !chosen && of.before(l):
			of = &lineageRows{l}
		}
	}
	if of != nil {
		v.Lineage, v.Rows = of.id, make([]Request, len(of.records))
		for i, r := range of.records {
			v.Rows[i] = r.Request // what it points to is replaced and never changed
		}
	}
	b.mu.Unlock()
	v.Session = copied.shown()
	for i := range tallies {
		v.List[i].Figures = tallies[i].figures()
	}
	sortGates(v.Gates)
	return v
}

// lineageRows is the conversation that is shown.
type lineageRows struct{ *lineage }

// before reports whether l is the better choice where none was made: the one that was active last, and no side traffic if there is
// another.
func (o *lineageRows) before(l *lineage) bool {
	return o == nil || o.id == "" || l.id != "" && !l.last.Before(o.last)
}

// serveRequest answers with a request, and what was said of each result by then.
func (b *Board) serveRequest(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	k := b.records[r.PathValue("key")]
	if k == nil {
		b.mu.Unlock()
		missing(w, "the request is not known, or no longer kept")
		return
	}
	version := k.of.of.version
	b.mu.Unlock()
	b.answer(w, r, version, func() ([]byte, error) { return json.Marshal(b.request(k)) })
}

func (b *Board) request(k *record) *RequestView {
	b.mu.Lock()
	l := k.of
	v := &RequestView{
		Request: k.Request, Session: l.of.id, Lineage: l.id, Parent: l.parent, RequestID: k.id, TraceID: k.trace, Pipeline: k.pipeline,
		Group: k.group, Held: k.held, Replays: k.replays, Filters: k.filters, Breakpoint: k.points, Gates: k.gates,
		Duration: k.duration.Seconds(), Results: []Shown{}, Content: b.o.Content != nil,
	}
	if i := slices.Index(l.records, k); i >= 0 {
		if i > 0 {
			v.Previous = l.records[i-1].Key
		}
		if i+1 < len(l.records) {
			v.Next = l.records[i+1].Key
		}
	}
	all := slices.Clone(l.results) // results are never changed
	b.mu.Unlock()
	cut := map[string]bool{}
	list := resultsAt(all, v.N)
	for _, r := range list {
		for _, c := range r.Calls {
			cut[c] = true
		}
	}
	for _, r := range list {
		v.Results = append(v.Results, Shown{*r, r.Call != "" && cut[r.Call]})
	}
	return v
}
