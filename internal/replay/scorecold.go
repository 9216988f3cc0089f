package replay

import (
	"context"
	"slices"

	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// ColdScore says what the engine cut by the filter at cold moments under one policy: one row for each verdict, and one for
// everything that could have been cut at its first cold moment.
type ColdScore struct {
	Policy string    `json:"policy"`
	Rows   []ColdRow `json:"rows"`
	Drops  []Drop    `json:"drops"` // cuts of which something was used again, by any count
}

// ColdRow is one verdict. Reread, Referenced and Again are as in [Reuse]. They and Missed ask what was forwarded: of everything,
// which no engine cuts, they are not counted and 0.
type ColdRow struct {
	Verdict string `json:"verdict"`
	Tally
	Reread     int     `json:"reread"`
	Referenced int     `json:"referenced"`
	Again      int     `json:"again"`
	AgainRate  float64 `json:"again_rate"` // of the results that were cut
}

// Drop is one cut of which something was used again.
type Drop struct {
	Session     string   `json:"session"`
	Request     int      `json:"request"` // that cut it
	Tool        string   `json:"tool"`
	Verdict     string   `json:"verdict"`
	Tokens      int      `json:"tokens"`
	Age         int      `json:"age"`              // turns from the result to the cut
	Turns       int      `json:"turns,omitempty"`  // from the cut to the first use; 0: it is no false drop
	Identifiers []string `json:"identifiers"`      // that were used, some of them
	Missed      []string `json:"missed,omitempty"` // that stood nowhere else
	Reread      bool     `json:"reread,omitempty"` // its file was read again
	Referenced  bool     `json:"referenced,omitempty"`
}

const dropIdentifiers = 5 // that a Drop shows

var coldVerdicts = [...]string{Everything, coref.Unreferenced, coref.Closed, Both}

func newColdScore(policy string) *ColdScore {
	c := &ColdScore{Policy: policy, Drops: []Drop{}}
	for _, v := range coldVerdicts {
		c.Rows = append(c.Rows, ColdRow{Verdict: v})
	}
	return c
}

func (c *ColdScore) join(o *ColdScore) {
	if c.Rows == nil { // what is added up starts with nothing
		*c = *newColdScore(o.Policy)
	}
	for i := range o.Rows {
		a, b := &c.Rows[i], &o.Rows[i]
		a.join(&b.Tally)
		a.Reread, a.Referenced, a.Again = a.Reread+b.Reread, a.Referenced+b.Referenced, a.Again+b.Again
		a.AgainRate = share(a.Again, a.Cut)
	}
	c.Drops = append(c.Drops, o.Drops...)
}

// coldScorer plays a session under one policy and follows what is cut.
type coldScorer struct {
	rec     *Recording
	books   map[string]*concordance
	all     setting
	out     *ColdScore
	story   *story
	reuse   *reuse
	sent    map[string][]byte // by conversation: what was forwarded last
	offered map[string]bool   // calls whose results were counted as candidates
	cuts    []*coldCut
}

// coldCut is one result that was cut.
type coldCut struct {
	*Drop
	call, lineage string
	pending       []pendingUse // first uses of what it introduced
}

type pendingUse struct {
	id  string
	msg int32
}

// scoreCold plays the session as [Run] does, without its bills.
func scoreCold(ctx context.Context, rec *Recording, books map[string]*concordance, policy *Policy, world Provider, ratio float64) (*ColdScore, error) {
	settings, err := grid()
	if err != nil {
		return nil, err
	}
	store := memory.New()
	defer store.Close() //nolint:errcheck // nothing outlives the run
	engine, err := newEngine(ctx, store, world)
	if err != nil {
		return nil, err
	}
	st, p := newStory(), newProvider(ratio, world)
	s := &coldScorer{
		rec: rec, books: books, all: settings[0], out: newColdScore(policy.Name), story: st, reuse: newReuse(st),
		sent: map[string][]byte{}, offered: map[string]bool{},
	}
	for n := range rec.Requests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := &rec.Requests[n]
		body := r.Body()
		o := engine.Request(ctx, request(r, body, policy))
		after := body
		if o.Body != nil {
			after = o.Body
		}
		s.request(n, r, body, after, o)
		if !r.counts() {
			engine.Observe(ctx, o, p.call(r, after))
		}
	}
	s.finish()
	return s.out, engine.Close(ctx)
}

// request looks at what the model said since the conversation's last request, and then at what this one cuts.
func (s *coldScorer) request(n int, r *Request, body, after []byte, o *pipeline.Outcome) {
	s.story.read(n, r, body)
	s.reuse.turn(n, r, o, after)
	s.look(r.Lineage, int32(o.Messages))
	s.sent[r.Lineage] = legible(after, r.wire.Format)
	l := s.books[r.Lineage]
	if l == nil {
		return
	}
	at := l.at(int32(o.Messages))
	if o.Cache == pipeline.CacheCold {
		s.offer(l, at, tokensOf(body))
	}
	if o.Move == nil || o.Move.Kind != pipeline.Cold {
		return
	}
	for i := range o.New {
		if d := &o.New[i]; d.Filter == coref.Name && !d.Hold {
			s.cut(n, r.Lineage, d, at)
		}
	}
}

// offer books a cold moment and what could be cut in it for the first time.
func (s *coldScorer) offer(l *concordance, at cutAt, tokens int) {
	for i := range s.out.Rows {
		s.out.Rows[i].moment(tokens)
	}
	for r := range at.results {
		if call := l.ix.CallID(&l.ix.Results[r]); !s.offered[call] && s.all.mayCut(l.ix, r) {
			s.offered[call] = true
			turns, _ := l.used(r, at)
			for i := range s.out.Rows {
				s.out.Rows[i].candidate(turns > 0)
			}
			s.out.Rows[0].cut(l.size(r), turns, false)
		}
	}
}

// cut notes one decision. What the conversation does not hold to its end has no future and is left out.
func (s *coldScorer) cut(n int, lineage string, d *pipeline.DecisionMade, at cutAt) {
	l := s.books[lineage]
	r, ok := l.calls[d.Call]
	if !ok {
		return
	}
	c := &coldCut{call: d.Call, lineage: lineage, Drop: &Drop{
		Session: s.rec.Name, Request: n, Tool: d.Tool, Verdict: d.Verdict, Tokens: l.size(r),
		Age: int(l.ix.Messages[at.msg-1].Turn - l.ix.Results[r].Turn),
	}}
	c.Turns, c.Identifiers = l.used(r, at)
	for _, m := range l.introduced(r, at) {
		if p, ok := m.next(at); ok {
			c.pending = append(c.pending, pendingUse{m.id, p.msg})
		}
	}
	s.cuts = append(s.cuts, c)
}

// look finds out of what was said before a message whether it stood in the request that it answers.
func (s *coldScorer) look(lineage string, msg int32) {
	for _, c := range s.cuts {
		if c.lineage != lineage {
			continue
		}
		c.pending = slices.DeleteFunc(c.pending, func(u pendingUse) bool {
			if u.msg >= msg {
				return false
			}
			if !stands(s.sent[lineage], u.id) {
				c.Missed = append(c.Missed, u.id)
			}
			return true
		})
	}
}

// finish books what was cut.
func (s *coldScorer) finish() {
	for name, l := range s.books {
		s.look(name, int32(len(l.ix.Messages)))
	}
	for _, c := range s.cuts {
		if again := s.reuse.gone[c.call]; again != nil {
			c.Reread, c.Referenced = again.reread, again.referenced
		}
		for i := range s.out.Rows {
			if r := &s.out.Rows[i]; r.Verdict == c.Verdict || r.Verdict == Both {
				r.drop(c.Drop)
			}
		}
		if c.Turns > 0 || c.Reread || c.Referenced {
			c.Identifiers = c.Identifiers[:min(len(c.Identifiers), dropIdentifiers)]
			c.Missed = c.Missed[:min(len(c.Missed), dropIdentifiers)]
			s.out.Drops = append(s.out.Drops, *c.Drop)
		}
	}
	for i := range s.out.Rows {
		s.out.Rows[i].rates()
	}
}

func (r *ColdRow) drop(d *Drop) {
	r.cut(d.Tokens, d.Turns, len(d.Missed) > 0)
	if d.Reread {
		r.Reread++
	}
	if d.Referenced {
		r.Referenced++
	}
	if d.Reread || d.Referenced {
		r.Again++
	}
	r.AgainRate = share(r.Again, r.Cut)
}
