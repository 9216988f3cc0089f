package board

import (
	"container/list"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Request is one request, as it is listed.
type Request struct {
	Key        string         `json:"key"`
	N          int            `json:"n"` // requests of the conversation before it
	Turn       int            `json:"turn"`
	Time       time.Time      `json:"ts"`
	Model      string         `json:"model"`
	Mode       string         `json:"mode"`
	Known      bool           `json:"known"` // false: its answer was told of, and it not yet
	Kind       string         `json:"kind"`
	Outcome    string         `json:"outcome"`
	Gate       string         `json:"gate,omitempty"`
	Cache      string         `json:"cache"` // what the provider was believed to hold: first, warm, cold
	Side       bool           `json:"side,omitempty"`
	Undeclared bool           `json:"undeclared,omitempty"`
	Desync     bool           `json:"desync,omitempty"`
	Compacted  bool           `json:"compacted,omitempty"`
	Messages   int            `json:"messages"`
	BytesIn    int            `json:"bytes_in"`
	BytesOut   int            `json:"bytes_out"`
	Estimated  event.Sizes    `json:"estimated"`
	Observed   *event.Billed  `json:"observed,omitempty"` // nil: the provider has not said
	Modelled   *event.Account `json:"modelled,omitempty"`
	Expected   int            `json:"expected_cached,omitempty"`
	Shadow     *event.Shadow  `json:"shadow,omitempty"`
	Moves      []Move         `json:"moves,omitempty"`
	Losses     []Lost         `json:"losses,omitempty"`
	Reuses     []Reuse        `json:"reuses,omitempty"`
}

// Move is a declared change of what had been sent.
type Move struct {
	Kind      string  `json:"kind"`
	Filter    string  `json:"filter,omitempty"`
	Message   int     `json:"from_message"`
	Removed   int     `json:"removed"` // estimated tokens
	Decisions int     `json:"decisions"`
	Sum       string  `json:"sum"`
	Predicted float64 `json:"predicted_usd"` // modelled
}

// Lost is one cache loss.
type Lost struct {
	Cause   string  `json:"cause"`
	Filter  string  `json:"filter,omitempty"`
	Source  string  `json:"source"`
	Message int     `json:"message,omitempty"`
	Tokens  int     `json:"tokens"`
	USD     float64 `json:"usd"`
}

// Reuse is something that was left out and needed again.
type Reuse struct {
	Call   string `json:"call_id,omitempty"`
	Filter string `json:"filter"`
	Kind   string `json:"kind"`
	Tokens int    `json:"tokens"`
	Later  int    `json:"turns_later"`
}

// Result is what was decided on one tool result. What is the file that the call names, else, where content may be shown, the start
// of its arguments. It and the marker are of hostile origin.
type Result struct {
	Call         string       `json:"call_id,omitempty"`
	Calls        []string     `json:"calls,omitempty"` // of a cut
	Tool         string       `json:"tool,omitempty"`
	What         string       `json:"what,omitempty"`
	Message      int          `json:"message"`
	Turn         int          `json:"turn"` // that brought it
	Zone         string       `json:"zone,omitempty"`
	Held         bool         `json:"held,omitempty"`
	Filter       string       `json:"filter,omitempty"` // empty: it goes verbatim
	Verb         string       `json:"verb,omitempty"`
	Gates        []event.Gate `json:"gates,omitempty"`
	Tokens       int          `json:"tokens"` // estimated
	MarkerTokens int          `json:"marker_tokens,omitempty"`
	ID           string       `json:"id,omitempty"` // its beginning alone where content is not shown
	Sum          string       `json:"sum,omitempty"`
	Told         int          `json:"told"` // request of the conversation that said so last

	marker string
	at     int // bytes that it counts for
}

// Bounds of strings from requests, in bytes.
const (
	maxName   = 200 // tools, calls
	maxWhat   = 300
	maxSum    = 600
	maxMarker = 4 << 10
	maxCalls  = 500 // of a cut
	maxGates  = 40  // of a request or a result
	maxMarks  = 20  // moves, losses and reuses of a request, of each
)

// clip returns at most n bytes of s, cut between runes, in memory of its own: s may be a view of a whole body.
func clip(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.Clone(s)
}

// record is a request with what is not listed.
type record struct {
	Request

	of       *lineage
	gates    []event.Gate
	filters  []string
	pipeline string
	group    string
	held     int
	replays  int
	points   map[string]int
	duration time.Duration
	trace    string
	id       string
	bytes    int
}

// lineage is one conversation.
type lineage struct {
	of       *session
	id       string
	parent   string
	route    string
	began    time.Time
	last     time.Time
	turns    int
	tally    tally
	reported [2]float64 // net and baseline that Finished was told of
	records  []*record  // the oldest first
	results  []*Result  // in the order in which they were told
	active   *list.Element
}

// session is one session of one tenant.
type session struct {
	id, tenant, name           string
	route, model, format, mode string
	began, last                time.Time
	version                    uint64
	tally                      tally
	gates                      gates
	lineages                   map[string]*lineage
	order                      []*lineage    // by their first request
	copied                     *copied       // nil: it changed since
	active, details            *list.Element // in the board's lists; details is nil where only sums are kept
	bytes                      int
}

// copied is what readers get of a session. It is never changed.
type copied struct {
	id, tenant, name           string
	route, model, format, mode string
	began, last                time.Time
	turns, lineages            int
	tally                      tally

	text func() ([]byte, error) // JSON of what is shown, written once
}

func (s *session) copy() *copied {
	if s.copied == nil {
		c := &copied{
			id: s.id, tenant: s.tenant, name: s.name, route: s.route, model: s.model, format: s.format, mode: s.mode,
			began: s.began, last: s.last, lineages: len(s.order), tally: s.tally,
		}
		for _, l := range s.order {
			c.turns += l.turns
		}
		c.text = sync.OnceValues(func() ([]byte, error) { return json.Marshal(c.shown()) })
		s.copied = c
	}
	return s.copied
}

// Session is one session, as it is listed. ID names it in paths of the API, Session and Tenant are the hashes of events.
type Session struct {
	ID       string    `json:"id"`
	Session  string    `json:"session"`
	Tenant   string    `json:"tenant"`
	Route    string    `json:"route"`
	Model    string    `json:"model"`
	Format   string    `json:"format"`
	Mode     string    `json:"mode"`
	Began    time.Time `json:"began"`
	Last     time.Time `json:"last"`
	Turns    int       `json:"turns"` // of all its conversations
	Lineages int       `json:"lineages"`
	Figures
}

func (c *copied) shown() Session {
	return Session{
		c.id, c.name, c.tenant, c.route, c.model, c.format, c.mode, c.began, c.last, c.turns, c.lineages, c.tally.figures(),
	}
}

// gateKey names a gate of a filter, or of requests.
type gateKey struct{ filter, gate string }

// gateCount is how often a gate kept something, and in how many requests.
type gateCount struct{ n, requests int }

// gates count gates.
type gates map[gateKey]gateCount

// add counts the gates of a request. Words that come once there are too many are left out: the list of gates is closed.
func (g gates) add(all []event.Gate, limit int) {
	for _, e := range all {
		k := gateKey{e.Filter, e.Gate}
		c, known := g[k]
		if !known && len(g) >= limit {
			continue
		}
		g[k] = gateCount{c.n + max(1, e.N), c.requests + 1}
	}
}

// size is about what a record takes in memory.
func (r *record) size() int {
	n := int(unsafe.Sizeof(*r)) + len(r.Key) + len(r.trace) + len(r.id) + 48*len(r.points) + 48*len(r.gates) + 16*len(r.filters)
	if r.Observed != nil {
		n += int(unsafe.Sizeof(*r.Observed))
	}
	if r.Modelled != nil {
		n += int(unsafe.Sizeof(*r.Modelled))
	}
	if r.Shadow != nil {
		n += int(unsafe.Sizeof(*r.Shadow)) + 48*len(r.Shadow.Gates)
	}
	for i := range r.Moves {
		n += int(unsafe.Sizeof(r.Moves[i])) + len(r.Moves[i].Sum)
	}
	return n + len(r.Losses)*int(unsafe.Sizeof(Lost{})) + len(r.Reuses)*(int(unsafe.Sizeof(Reuse{}))+maxName/4)
}

func (r *Result) size() int {
	n := int(unsafe.Sizeof(*r)) + len(r.Call) + len(r.Tool) + len(r.What) + len(r.Sum) + len(r.ID) + len(r.marker) + 48*len(r.Gates)
	for _, c := range r.Calls {
		n += 16 + len(c)
	}
	return n
}
