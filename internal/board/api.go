package board

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/event"
)

// Prefix is where the API is.
const Prefix = "/v1/board/"

// Pages of the list of sessions.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// Overview is all that was seen since the start.
type Overview struct {
	Since   time.Time `json:"since"` // the first event that is no load of the config; zero: there was none
	Now     time.Time `json:"now"`   // the last one
	Kept    int       `json:"sessions"`
	Dropped int       `json:"dropped_sessions"` // no longer listed, but in the totals
	Totals  Figures   `json:"totals"`
	Spend   Spend     `json:"own_spend"` // calls of tidemark's own, not in the totals
	Gates   []Gate    `json:"gates"`     // what kept results and requests as they were, most first
	Config  *Config   `json:"config,omitempty"`
}

// Spend is what calls of tidemark's own came to, as summaries.
type Spend struct {
	Calls  int     `json:"calls"`
	Input  int     `json:"input"`
	Output int     `json:"output"`
	USD    float64 `json:"usd"`
}

// Gate is how often a gate kept something.
type Gate struct {
	Filter   string `json:"filter,omitempty"` // empty: of requests as a whole
	Gate     string `json:"gate"`
	N        int    `json:"n"`        // results, counted in every request; of requests as a whole requests
	Requests int    `json:"requests"` // in which it did
}

// Sessions is a page of the list of sessions.
type Sessions struct {
	Overview

	Sort   string    `json:"sort"`
	Offset int       `json:"offset"`
	List   []Session `json:"list"`
}

// Lineage is one conversation of a session. That with an empty ID stands for what belongs to none.
type Lineage struct {
	ID     string    `json:"id"`
	Parent string    `json:"parent,omitempty"` // that it was forked from: decisions of then are told there
	Began  time.Time `json:"began"`
	Last   time.Time `json:"last"`
	Turns  int       `json:"turns"`
	Figures
}

// SessionView is one session with one of its conversations request by request.
type SessionView struct {
	Session Session   `json:"session"`
	Gates   []Gate    `json:"gates"`
	List    []Lineage `json:"lineages"` // by their first request
	Lineage string    `json:"lineage"`  // that the requests are of
	Rows    []Request `json:"requests"` // the oldest first; at most the last 500
}

// RequestView is one request with what was decided on each result of its transcript, as far as that was told.
type RequestView struct {
	Request
	Previous   string         `json:"previous,omitempty"` // Key of the request before it in the conversation
	Next       string         `json:"next,omitempty"`
	Session    string         `json:"session"` // ID of it
	Lineage    string         `json:"lineage"`
	Parent     string         `json:"parent,omitempty"`
	RequestID  string         `json:"request_id,omitempty"`
	TraceID    string         `json:"trace_id,omitempty"`
	Pipeline   string         `json:"pipeline,omitempty"`
	Group      string         `json:"group,omitempty"`
	Held       int            `json:"held,omitempty"`
	Replays    int            `json:"replays,omitempty"`
	Filters    []string       `json:"filters,omitempty"`
	Breakpoint map[string]int `json:"breakpoints,omitempty"`
	Gates      []event.Gate   `json:"gates,omitempty"`
	Duration   float64        `json:"duration_seconds"`
	Results    []Shown        `json:"results"`
	Content    bool           `json:"content"` // whether originals may be shown
}

// Shown is a result as a request has it.
type Shown struct {
	Result
	InCut bool `json:"in_cut,omitempty"` // it lies in a span that was cut
}

// Original is a result that was left out beside what was forwarded in its place. Both are content.
type Original struct {
	ID        string `json:"id"`
	Text      string `json:"text"`
	Truncated int    `json:"truncated_bytes,omitempty"` // of the text, that are not shown
	Marker    string `json:"marker,omitempty"`          // empty: it was made before this process began
	Result    *Shown `json:"result,omitempty"`
}

// maxText bounds the text of an original that is shown, in bytes.
const maxText = 256 << 10

// Reasons of [Options.Content] for not giving an original.
var (
	ErrMissing   = errors.New("no original of this id is kept")
	ErrSealed    = errors.New("the original is sealed: an operator must lift the seal first")
	ErrWithdrawn = errors.New("the original is withdrawn, and gone for good")
)

// Handler serves the API under [Prefix]:
//
//	GET overview                  [Overview]
//	GET sessions                  [Sessions]: ?sort=worst|recent|cost|losses&offset=0&limit=100
//	GET sessions/{id}             [SessionView] of the conversation that was active last; ?lineage= chooses another
//	GET requests/{key}            [RequestView]
//	GET originals/{id}            [Original]; 403 unless content may be shown
//
// All but the last have an entity tag, which changes with the events of what is asked for. Whoever may ask is the caller's duty.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"overview", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		version := b.version
		b.mu.Unlock()
		b.answer(w, r, version, func() ([]byte, error) { return json.Marshal(b.Overview()) })
	})
	mux.HandleFunc("GET "+Prefix+"sessions", b.serveSessions)
	mux.HandleFunc("GET "+Prefix+"sessions/{id}", b.serveSession)
	mux.HandleFunc("GET "+Prefix+"requests/{key}", b.serveRequest)
	mux.HandleFunc("GET "+Prefix+"originals/{id}", b.serveOriginal)
	return mux
}

// answer writes what get returns as JSON, unless the reader has that version.
func (b *Board) answer(w http.ResponseWriter, r *http.Request, version uint64, get func() ([]byte, error)) {
	h := w.Header()
	tag := fmt.Sprintf(`"%s-%d"`, b.nonce, version)
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := get()
	write(w, body, err)
}

func write(w http.ResponseWriter, body []byte, err error) {
	if err != nil {
		access.Refuse(w, http.StatusInternalServerError, access.Internal, "the answer cannot be written")
		return
	}
	_ = access.Write(w, http.StatusOK, body) // the reader went away
}

// Overview returns what was seen since the start.
func (b *Board) Overview() Overview {
	b.mu.Lock()
	o := Overview{Since: b.since, Now: b.now, Kept: len(b.sessions), Dropped: b.gone, Config: b.config, Spend: b.spend}
	t := b.totals
	o.Gates = b.gates.list()
	b.mu.Unlock()
	o.Totals = t.figures()
	sortGates(o.Gates)
	return o
}

func (g gates) list() []Gate {
	list := make([]Gate, 0, len(g))
	for k, c := range g {
		list = append(list, Gate{k.filter, k.gate, c.n, c.requests})
	}
	return list
}

func sortGates(list []Gate) {
	slices.SortFunc(list, func(a, b Gate) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Gate, b.Gate))
	})
}

// orders of the list of sessions. Sessions of which nothing is known come last.
var orders = map[string]func(a, b *copied) int{
	"worst": func(a, b *copied) int {
		return cmp.Or(cmp.Compare(min(1, b.tally.modelled), min(1, a.tally.modelled)), cmp.Compare(a.tally.account.Net, b.tally.account.Net))
	},
	"recent": func(*copied, *copied) int { return 0 },
	"cost":   func(a, b *copied) int { return cmp.Compare(b.tally.billed.Cost, a.tally.billed.Cost) },
	"losses": func(a, b *copied) int {
		return cmp.Or(cmp.Compare(b.tally.lossUSD(), a.tally.lossUSD()), cmp.Compare(b.tally.lossN(), a.tally.lossN()))
	},
}

// page is a page of sessions without its list, and what is to be listed, in an order of [orders]; the more recently active come
// first among equals.
func (b *Board) page(order string, offset, limit int) (page Sessions, list []*copied) {
	b.mu.Lock()
	all := make([]*copied, 0, len(b.sessions))
	for e := b.recent.Back(); e != nil; e = e.Prev() {
		all = append(all, e.Value.(*session).copy())
	}
	b.mu.Unlock()
	slices.SortStableFunc(all, orders[order])
	return Sessions{Overview: b.Overview(), Sort: order, Offset: offset, List: []Session{}}, all[min(offset, len(all)):min(offset+limit, len(all))]
}

func (b *Board) serveSessions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	order := cmp.Or(q.Get("sort"), "worst")
	offset, err := number(q.Get("offset"), 0)
	limit, err2 := number(q.Get("limit"), defaultLimit)
	if _, known := orders[order]; !known || errors.Join(err, err2) != nil {
		access.Refuse(w, http.StatusBadRequest, "invalid_request", "sort is worst, recent, cost or losses; offset and limit are numbers")
		return
	}
	b.mu.Lock()
	version := b.version
	b.mu.Unlock()
	b.answer(w, r, version, func() ([]byte, error) {
		page, list := b.page(order, offset, min(limit, maxLimit))
		return page.with(list)
	})
}

// with is the page with its list, as JSON. Most sessions are as they were when they were written last: that is not done again.
func (s *Sessions) with(list []*copied) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write sessions: %w", err)
	}
	body = append(make([]byte, 0, len(body)+1024*len(list)), bytes.TrimSuffix(body, []byte("]}"))...) // the list is its last member
	for i, c := range list {
		text, err := c.text()
		if err != nil {
			return nil, fmt.Errorf("write session: %w", err)
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, text...)
	}
	return append(body, "]}"...), nil
}

func number(s string, otherwise int) (int, error) {
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("read number: %w", err)
	}
	return int(n), nil
}

func missing(w http.ResponseWriter, what string) {
	access.Refuse(w, http.StatusNotFound, "not_found", what)
}

// serveOriginal answers with content, if it may be shown.
func (b *Board) serveOriginal(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if b.o.Content == nil {
		access.Refuse(w, http.StatusForbidden, "content_off", "content is not shown here: set admin.content, with admin.token_file or mutual TLS")
		return
	}
	id := r.PathValue("id")
	text, err := b.o.Content(r.Context(), id)
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing):
		missing(w, ErrMissing.Error())
		return
	case errors.Is(err, ErrSealed):
		access.Refuse(w, http.StatusForbidden, "sealed", ErrSealed.Error())
		return
	case errors.Is(err, ErrWithdrawn):
		access.Refuse(w, http.StatusGone, "withdrawn", ErrWithdrawn.Error())
		return
	case errors.Is(err, context.Canceled):
		return
	default:
		access.Refuse(w, http.StatusServiceUnavailable, "store_unavailable", "the original cannot be read now")
		return
	}
	o := &Original{ID: id, Text: clip(text, maxText)}
	o.Truncated = len(text) - len(o.Text)
	b.mu.Lock()
	if known := b.byID[id]; known != nil {
		o.Marker, o.Result = known.marker, &Shown{Result: *known}
	}
	b.mu.Unlock()
	body, err := json.Marshal(o)
	write(w, body, err)
}
