package board

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Bounds of what is kept. Each lies far above what one person looks at.
const (
	maxSessions = 2000
	maxLineages = 64       // of a session
	maxRequests = 500      // of a lineage
	maxResults  = 2000     // of a lineage: what was said of results
	maxOne      = 16 << 20 // bytes of a session
	maxBytes    = 64 << 20 // in all, as far as it is counted
	maxGateKeys = 500      // pairs of filter and gate

	sessionBytes = 1500 // of a session and of its places in maps and lists
	lineageBytes = 1200 // of a lineage likewise
)

// Idle is how long a lineage must be silent to count as finished.
const Idle = time.Hour

// Options of a [Board].
type Options struct {
	// Finished is told what a conversation came to once it has been idle for [Idle] by the time of events, or is dropped:
	// the sum of net over the sum of baseline of its answers, both modelled. One that goes on later is told of again, with what
	// it has come to since. nil: nobody is told.
	Finished func(route string, netOfBaseline float64)
	// Content gives the text of an original by the id of its marker, for the page to show both. nil: content is not shown, and
	// neither markers nor arguments of calls nor whole ids, with which others would give the original, are kept.
	Content func(ctx context.Context, id string) (text string, err error)
}

// Board keeps what events tell of recent sessions.
type Board struct {
	o     Options
	nonce string // of this process, in entity tags

	mu       sync.Mutex
	version  uint64 // grows with every event
	now      time.Time
	since    time.Time // of the first event
	sessions map[string]*session
	recent   *list.List // of *session, the least recently active first
	detailed *list.List // of *session of which requests and results are kept, in the same order
	lineages *list.List // of *lineage that may finish, the least recently active first
	records  map[string]*record
	byID     map[string]*Result
	totals   tally
	gates    gates
	spend    Spend
	gone     int // sessions that were dropped
	config   *Config
	bytes    int
}

// Config is how the last load of the server's config went.
type Config struct {
	Time   time.Time `json:"ts"`
	Result string    `json:"result"`
	Errors []string  `json:"errors,omitempty"`
}

// New returns an empty board. It starts nothing and needs no Close.
func New(o Options) *Board {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return &Board{
		o: o, nonce: hex.EncodeToString(nonce[:]), sessions: map[string]*session{}, recent: list.New(), detailed: list.New(), lineages: list.New(),
		records: map[string]*record{}, byID: map[string]*Result{}, gates: gates{},
	}
}

// ending is a stretch of a conversation that is over.
type ending struct {
	route string
	ratio float64
}

// Take takes an event, which must not be changed any more. It returns at once, and may be called from many goroutines.
func (b *Board) Take(e event.Event) {
	b.mu.Lock()
	over := b.take(e)
	b.mu.Unlock()
	for _, o := range over {
		b.o.Finished(o.route, o.ratio)
	}
}

// take does what Take does, and returns which conversations that ends.
func (b *Board) take(e event.Event) (over []ending) {
	h := e.Of()
	b.version++
	if b.since.IsZero() && h.Event != event.NameConfig { // that of the start is no traffic
		b.since = h.Time
	}
	move(&b.now, h.Time)
	switch e := e.(type) {
	case *event.Config:
		b.config = &Config{e.Time, e.Result, slices.Clone(e.Errors[:min(len(e.Errors), maxMarks)])}
		return nil
	case *event.Spend:
		b.spend.Calls++
		b.spend.Input += e.Input
		b.spend.Output += e.Output
		b.spend.USD += e.USD
		return nil
	}
	b.totals.add(e)
	if r, ok := e.(*event.Request); ok {
		b.gates.add(gatesOf(r), maxGateKeys)
	}
	over = b.finish() // before the event counts: its own conversation may have been idle until now
	if h.Session != "" {
		over = b.keep(e, over)
	}
	return over
}

// keep enters an event into its session. It adds conversations that end to those that have ended already.
func (b *Board) keep(e event.Event, over []ending) []ending {
	s := b.session(e.Of())
	before := s.bytes
	s.tally.add(e)
	if r, ok := e.(*event.Request); ok {
		s.gates.add(gatesOf(r), maxGates)
	}
	if m, ok := e.(*event.Restore); !ok || m.Lineage != "" { // who asks for an original by its id names no conversation
		l := b.lineage(s, e.Of())
		l.tally.add(e)
		b.enter(l, e)
	}
	s.copied, s.version = nil, b.version
	b.bytes += s.bytes - before
	return b.shrink(s, over)
}

// session returns the session of an event, which is the most recently active one from now on.
func (b *Board) session(h *event.Head) *session {
	id := h.Tenant + "-" + h.Session
	s := b.sessions[id]
	if s == nil {
		s = &session{id: id, tenant: h.Tenant, name: h.Session, began: h.Time, gates: gates{}, lineages: map[string]*lineage{}}
		s.bytes = sessionBytes
		b.bytes += s.bytes
		s.active = b.recent.PushBack(s)
		b.sessions[id] = s
	}
	b.recent.MoveToBack(s.active)
	if s.details == nil {
		s.details = b.detailed.PushBack(s)
	}
	b.detailed.MoveToBack(s.details)
	move(&s.last, h.Time)
	for _, f := range []struct {
		to   *string
		from string
	}{{&s.route, h.Route}, {&s.model, h.Model}, {&s.format, h.Format}, {&s.mode, h.Mode}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	return s
}

// lineage returns the conversation of an event. What belongs to none is kept together under the empty id.
func (b *Board) lineage(s *session, h *event.Head) *lineage {
	l := s.lineages[h.Lineage]
	if l == nil {
		l = &lineage{of: s, id: h.Lineage, began: h.Time}
		s.lineages[h.Lineage] = l
		s.order = append(s.order, l)
		s.bytes += lineageBytes
	}
	if h.Route != "" {
		l.route = h.Route
	}
	move(&l.last, h.Time)
	l.turns = max(l.turns, h.Turn)
	if l.active == nil {
		l.active = b.lineages.PushBack(l)
	}
	b.lineages.MoveToBack(l.active)
	return l
}

// move moves a time on to that of an event. One that is much earlier moves it back: the clock was wrong before, and what was active
// then must not stay the last, nor all that comes now count as idle.
func move(last *time.Time, t time.Time) {
	if t.After(*last) || last.Sub(t) >= Idle {
		*last = t
	}
}

// finish ends the conversations that are idle by now.
func (b *Board) finish() (over []ending) {
	for f := b.lineages.Front(); f != nil; f = b.lineages.Front() {
		l := f.Value.(*lineage)
		if b.now.Sub(l.last).Abs() < Idle { // one of hours to come is of a clock that was wrong
			break
		}
		over = b.end(l, over)
	}
	return over
}

// end tells of what a conversation came to since it was told of last.
func (b *Board) end(l *lineage, over []ending) []ending {
	if l.active != nil {
		b.lineages.Remove(l.active)
		l.active = nil
	}
	net, baseline := l.tally.account.Net-l.reported[0], l.tally.account.Baseline-l.reported[1]
	l.reported = [2]float64{l.tally.account.Net, l.tally.account.Baseline}
	if b.o.Finished == nil || baseline <= 0 {
		return over
	}
	return append(over, ending{l.route, net / baseline})
}

// shrink drops what is too much once s has grown: of s the conversations that were active longest ago; of other sessions requests and
// results, so that many more can be listed than be looked into; and then sessions.
func (b *Board) shrink(s *session, over []ending) []ending {
	before := s.bytes
	for len(s.order) > maxLineages || s.bytes > maxOne && len(s.order) > 1 {
		l := slices.MinFunc(s.order, func(a, c *lineage) int { return a.last.Compare(c.last) })
		over = b.drop(l, over)
		s.order = slices.DeleteFunc(s.order, func(o *lineage) bool { return o == l })
		delete(s.lineages, l.id)
	}
	for s.bytes > maxOne && len(s.order[0].results) > 0 {
		b.dropResult(s.order[0])
	}
	b.bytes += s.bytes - before
	for b.bytes > maxBytes && b.detailed.Len() > 1 {
		b.strip(b.detailed.Front().Value.(*session))
	}
	for len(b.sessions) > maxSessions || b.bytes > maxBytes {
		over = b.forget(b.recent.Front().Value.(*session), over)
	}
	return over
}

// strip drops what is kept of a session's requests and results, and keeps what they came to.
func (b *Board) strip(s *session) {
	before := s.bytes
	for _, l := range s.order {
		b.empty(l)
	}
	b.detailed.Remove(s.details)
	s.details, s.version = nil, b.version
	b.bytes += s.bytes - before
}

// forget drops a session.
func (b *Board) forget(s *session, over []ending) []ending {
	if s.details != nil {
		b.strip(s)
	}
	for _, l := range s.order {
		over = b.end(l, over)
	}
	b.recent.Remove(s.active)
	delete(b.sessions, s.id)
	b.bytes -= s.bytes
	b.gone++
	return over
}

// drop forgets a conversation.
func (b *Board) drop(l *lineage, over []ending) []ending {
	b.empty(l)
	l.of.bytes -= lineageBytes
	return b.end(l, over)
}

// empty drops what is kept of a conversation's requests and results.
func (b *Board) empty(l *lineage) {
	for _, r := range l.records {
		b.forgetRecord(r)
	}
	for _, r := range l.results {
		b.forgetResult(l, r)
	}
	l.records, l.results = nil, nil
}

// dropRecord and dropResult drop the oldest one.
func (b *Board) dropRecord(l *lineage) {
	b.forgetRecord(l.records[0])
	l.records = slices.Delete(l.records, 0, 1)
}

func (b *Board) dropResult(l *lineage) {
	b.forgetResult(l, l.results[0])
	l.results = slices.Delete(l.results, 0, 1)
}

func (b *Board) forgetRecord(r *record) {
	r.of.of.bytes -= r.bytes
	delete(b.records, r.Key)
}

func (b *Board) forgetResult(l *lineage, r *Result) {
	l.of.bytes -= r.at
	if b.byID[r.ID] == r {
		delete(b.byID, r.ID)
	}
}
