package board_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/board/boardtest"
	"github.com/tidemark-dev/tidemark/internal/event"
)

// TestSumsAddUp: whatever comes in whatever order, totals are the sums of sessions, and those the sums of their conversations.
func TestSumsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := boardtest.Day(rapid.IntRange(1, 6).Draw(t, "sessions"), noon)
		events = rapid.Permutation(events).Draw(t, "events")
		b := board.New(board.Options{})
		var cost, net float64
		var read, lost, requests int
		for _, e := range events {
			b.Take(e)
			switch e := e.(type) {
			case *event.Usage:
				cost, net, read = cost+e.Observed.Cost, net+e.Modelled.Net, read+e.Observed.Read
			case *event.Loss:
				lost += e.Tokens
			case *event.Request:
				requests++
			}
		}
		page := sessions(t, b, "worst", 1000)
		if page.Dropped != 0 {
			t.Fatalf("dropped %d", page.Dropped)
		}
		check := func(what string, all ...board.Figures) {
			var f struct {
				cost, net            float64
				read, lost, requests int
			}
			for i := range all {
				a := &all[i]
				f.cost, f.net, f.read, f.requests = f.cost+a.Observed.Cost, f.net+a.Modelled.Net, f.read+a.Observed.Read, f.requests+a.Requests
				for _, l := range a.Losses {
					f.lost += l.Tokens
				}
			}
			if math.Abs(f.cost-cost) > 1e-6 || math.Abs(f.net-net) > 1e-6 || f.read != read || f.lost != lost || f.requests != requests {
				t.Fatalf("%s: %+v, want cost %v, net %v, read %d, lost %d, requests %d", what, f, cost, net, read, lost, requests)
			}
		}
		check("totals", page.Totals)
		var each []board.Figures
		for i := range page.List {
			each = append(each, page.List[i].Figures)
		}
		check("sessions", each...)
	})
}

// TestRowsInOrder: answers that are told of before their requests, and events out of order, make the same rows.
func TestRowsInOrder(t *testing.T) {
	spec := boardtest.Spec{Name: "00aa11bb22cc33dd", Route: "coding", Model: "m", Mode: "active", Seed: 5, Requests: 60, Start: noon, Pauses: 1}
	want := rows(t, boardtest.Play(spec))
	rapid.Check(t, func(rt *rapid.T) {
		have := rows(t, rapid.Permutation(boardtest.Play(spec)).Draw(rt, "events"))
		if len(have) != len(want) {
			rt.Fatalf("%d rows, want %d", len(have), len(want))
		}
		for i := range want {
			a, b := have[i], want[i]
			if a.Key != b.Key || *a.Observed != *b.Observed || *a.Modelled != *b.Modelled || a.Outcome != b.Outcome || !a.Known || len(a.Moves) != len(b.Moves) || len(a.Losses) != len(b.Losses) {
				rt.Fatalf("row %d: %+v, want %+v", i, a, b)
			}
		}
	})
}

func rows(t *testing.T, events []event.Event) []board.Request {
	t.Helper()
	s := serveHandler(events, board.Options{})
	page := sessions(t, s.Board, "recent", 1)
	return decode[board.SessionView](t, s.get(t, "/v1/board/sessions/"+page.List[0].ID)).Rows
}

// TestBounds: more than may be kept is dropped, the least recently active first, and totals stay.
func TestBounds(t *testing.T) {
	var over []float64
	b := board.New(board.Options{Finished: func(_ string, net float64) { over = append(over, net) }})
	const all = 2300
	head := func(i, n int, name string) event.Head {
		return event.Head{Time: noon.Add(time.Duration(i) * time.Millisecond), Event: name, Key: fmt.Sprintf("k%d-%d", i, n), Tenant: "t", Session: fmt.Sprintf("s%d", i), Lineage: "l", N: n, Route: "r"}
	}
	for i := range all {
		b.Take(&event.Request{Head: head(i, 0, event.NameRequest)})
		b.Take(&event.Usage{Head: head(i, 0, event.NameUsage), Modelled: &event.Account{Baseline: 2, Net: -1}})
	}
	page := sessions(t, b, "recent", 5000)
	if len(page.List) != 2000 || page.Dropped != all-2000 || page.Totals.Requests != all || page.List[0].Session != "s2299" {
		t.Errorf("%d sessions, %d dropped, %d requests in all, the first %s", len(page.List), page.Dropped, page.Totals.Requests, page.List[0].Session)
	}
	if len(over) != all-2000 || over[0] != -0.5 {
		t.Errorf("%d conversations ended, the first with %v", len(over), over[0])
	}
	for n := range 700 { // of one conversation
		b.Take(&event.Request{Head: head(all-1, n+1, event.NameRequest)})
	}
	b.Take(&event.Usage{Head: head(all-1, 3, event.NameUsage)}) // of a request that is no longer kept
	s := &handled{b, b.Handler()}
	view := decode[board.SessionView](t, s.get(t, "/v1/board/sessions/t-s2299"))
	if len(view.Rows) != 500 || view.Rows[499].N != 700 || view.Rows[0].N != 201 || view.Session.Requests != 701 {
		t.Errorf("%d rows from %d to %d of %d requests", len(view.Rows), view.Rows[0].N, view.Rows[len(view.Rows)-1].N, view.Session.Requests)
	}
	// Sessions as large as hostile clients can make them are bounded by bytes.
	big := strings.Repeat("x", 4000)
	for i := range 40 {
		for n := range 1500 {
			d := &event.Decision{Head: head(all+i, n, event.NameDecision), Call: fmt.Sprintf("%d%s", n, big), Tool: big, What: big, Sum: big, Verb: big}
			b.Take(d)
		}
	}
	page = sessions(t, b, "recent", 5000)
	if n := b.Bytes(); n > 64<<20 || n < 32<<20 {
		t.Errorf("%d bytes kept", n)
	}
	if page.List[0].Session != fmt.Sprint("s", all+39) || len(page.List) != 2000 {
		t.Errorf("%d sessions, the first %s", len(page.List), page.List[0].Session)
	}
	if view := decode[board.SessionView](t, s.get(t, "/v1/board/sessions/t-s2299")); len(view.Rows) != 0 || view.Session.Requests != 701 {
		t.Errorf("of an old session %d rows are kept and %d requests counted", len(view.Rows), view.Session.Requests)
	}
}

// TestVerdicts: of each result the last word by the time of a request counts, and what lies in a cut says so.
func TestVerdicts(t *testing.T) {
	b := board.New(board.Options{Content: original})
	head := func(n int, name string) event.Head {
		return event.Head{Time: noon, Event: name, Key: fmt.Sprint("k", n), Tenant: "t", Session: "s", Lineage: "l", N: n}
	}
	for n := range 3 {
		b.Take(&event.Request{Head: head(n, event.NameRequest)})
	}
	b.Take(&event.Decision{Head: head(0, event.NameDecision), Call: "a", Tool: "Read", Message: 2, Gates: []event.Gate{{Filter: "tiered", Gate: "working_set"}}})
	b.Take(&event.Decision{Head: head(0, event.NameDecision), Call: "b", Tool: "Bash", Message: 4})
	b.Take(&event.Decision{Head: head(1, event.NameDecision), Call: "a", Tool: "Read", Message: 2, Filter: "tiered", Verb: "excerpt", ID: "0123", Marker: "the marker"})
	b.Take(&event.Decision{Head: head(2, event.NameDecision), Calls: []string{"b"}, Message: 3, Filter: "shed", Verb: "cut"})
	s := &handled{b, b.Handler()}
	var said []string
	for n := range 3 {
		line := ""
		for _, r := range decode[board.RequestView](t, s.get(t, fmt.Sprint("/v1/board/requests/k", n))).Results {
			line += fmt.Sprintf("%d %s %s %v; ", r.Message, r.Call, r.Filter, r.InCut)
		}
		said = append(said, line)
	}
	want := []string{"2 a  false; 4 b  false; ", "2 a tiered false; 4 b  false; ", "2 a tiered false; 3  shed false; 4 b  true; "}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if o := decode[board.Original](t, s.get(t, "/v1/board/originals/0123")); o.Marker != "the marker" || o.Result.Verb != "excerpt" || !strings.HasPrefix(o.Text, "package cache") {
		t.Errorf("%+v", o)
	}
}

// TestContentStaysInside: where content may not be shown, no answer holds a marker, an argument of a call, or an id with which the
// restore listener gives the original.
func TestContentStaysInside(t *testing.T) {
	const id, argument, path, marker = "0123456789abcdef01234567", "curl -H 'authorization: hunter2'", "/home/me/plan.go", "a marker quotes hunter2"
	for _, content := range []bool{false, true} {
		o := board.Options{}
		if content {
			o.Content = original
		}
		head := func(name string) event.Head {
			return event.Head{Time: noon, Event: name, Key: "k", Tenant: "t", Session: "s", Lineage: "l"}
		}
		s := serveHandler([]event.Event{
			&event.Request{Head: head(event.NameRequest)},
			&event.Decision{Head: head(event.NameDecision), Call: "a", Tool: "Bash", What: argument, Filter: "tiered", ID: id, Marker: marker},
			&event.Decision{Head: head(event.NameDecision), Call: "b", Tool: "Read", What: path + " (1-20)", Path: path, Filter: "tiered", ID: id, Marker: marker},
		}, o)
		said, paths := "", []string{"overview", "sessions", "sessions/t-s", "requests/k"}
		if content {
			paths = append(paths, "originals/"+id)
		}
		for _, p := range paths {
			said += string(s.get(t, board.Prefix+p))
		}
		for text, shown := range map[string]bool{path + " (1-20)": true, `"id":"01234567`: true, id: content, "hunter2": content, "quotes": content} {
			if strings.Contains(said, text) != shown {
				t.Errorf("content %v: %q: shown %v", content, text, !shown)
			}
		}
	}
}

// TestAPI: entity tags, errors and refusals.
func TestAPI(t *testing.T) {
	s := serve(t, boardtest.Day(3, noon), board.Options{}, true)
	page := sessions(t, s.Board, "worst", 3)
	session := "/v1/board/sessions/" + page.List[0].ID
	for _, c := range []struct {
		path, token string
		status      int
		body        string
	}{
		{"/", "", http.StatusOK, "<title>tidemark</title>"}, // by a redirect
		{"/ui/app.js", "", http.StatusOK, "import"},
		{"/ui/none.js", "", http.StatusNotFound, ""},
		{"/v1/board/sessions", "", http.StatusUnauthorized, "unauthorized"},
		{"/v1/board/sessions", "wrong", http.StatusUnauthorized, "unauthorized"},
		{"/v1/board/sessions?sort=up", token, http.StatusBadRequest, "invalid_request"},
		{"/v1/board/sessions?offset=-1", token, http.StatusBadRequest, "invalid_request"},
		{"/v1/board/sessions?offset=99999", token, http.StatusOK, `"list":[]`},
		{"/v1/board/sessions/none", token, http.StatusNotFound, "not_found"},
		{"/v1/board/requests/none", token, http.StatusNotFound, "not_found"},
		{"/v1/board/originals/0123", token, http.StatusForbidden, "admin.content"},
		{session, token, http.StatusOK, `"requests"`},
		{session + "?lineage=none", token, http.StatusOK, `"requests":[]`},
	} {
		status, body, h := s.ask(t, c.path, c.token, "")
		if status != c.status || !strings.Contains(string(body), c.body) {
			t.Errorf("%s: %d %.200s", c.path, status, body)
		}
		if strings.HasPrefix(c.path, "/ui/") && !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: policy %q", c.path, h.Get("Content-Security-Policy"))
		}
	}
	_, _, h := s.ask(t, session, token, "")
	tag := h.Get("ETag")
	if status, body, _ := s.ask(t, session, token, tag); status != http.StatusNotModified || len(body) != 0 {
		t.Errorf("without news: %d, %d bytes", status, len(body))
	}
	other := boardtest.Play(boardtest.Spec{Name: "ffffffffffffffff", Seed: 77, Requests: 1, Start: noon})
	s.Take(other[0])
	if status, _, _ := s.ask(t, session, token, tag); status != http.StatusNotModified {
		t.Errorf("with news of another session: %d", status)
	}
	s.Take(&event.Loss{Head: event.Head{Time: noon, Event: event.NameLoss, Tenant: page.List[0].Tenant, Session: page.List[0].Session, Lineage: "x", Key: "k"}, Cause: "ttl"})
	if status, _, _ := s.ask(t, session, token, tag); status != http.StatusOK {
		t.Errorf("with news: %d", status)
	}
}

// TestReadersAndWriters runs under the race detector: what readers see is never changed under them.
func TestReadersAndWriters(t *testing.T) {
	s := serveHandler(boardtest.Day(20, noon), board.Options{Content: original})
	more := boardtest.Day(30, noon.Add(time.Hour))
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := w; i < len(more); i += 3 {
				s.Take(more[i])
			}
		})
		all.Go(func() {
			for range 15 {
				page := decode[board.Sessions](t, s.get(t, "/v1/board/sessions?limit=1000"))
				view := decode[board.SessionView](t, s.get(t, "/v1/board/sessions/"+page.List[w].ID))
				for i := range min(5, len(view.Rows)) {
					s.get(t, "/v1/board/requests/"+view.Rows[i].Key)
				}
			}
		})
	}
	all.Wait()
}

// handled is a board whose API is asked without a listener.
type handled struct {
	*board.Board

	api http.Handler
}

func serveHandler(events []event.Event, o board.Options) *handled {
	b := board.New(o)
	for _, e := range events {
		b.Take(e)
	}
	return &handled{b, b.Handler()}
}

// answered keeps an answer.
type answered struct {
	status int
	header http.Header
	body   []byte
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) WriteHeader(status int)      { a.status = status }
func (a *answered) Write(b []byte) (int, error) { a.body = append(a.body, b...); return len(b), nil }
func (a *answered) Flush()                      {}

func (s *handled) get(tb rapid.TB, path string) []byte {
	tb.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	a := &answered{status: http.StatusOK, header: http.Header{}}
	s.api.ServeHTTP(a, r)
	if a.status != http.StatusOK {
		tb.Errorf("%s: %d %s", path, a.status, a.body)
	}
	return a.body
}

// sessions asks for the first n sessions.
func sessions(tb rapid.TB, b *board.Board, order string, n int) (all board.Sessions) {
	tb.Helper()
	for s := (&handled{b, b.Handler()}); len(all.List) < n; {
		page := decode[board.Sessions](tb, s.get(tb, fmt.Sprintf("/v1/board/sessions?sort=%s&offset=%d&limit=%d", order, len(all.List), min(n-len(all.List), 1000))))
		all.Overview, all.List = page.Overview, append(all.List, page.List...)
		if len(page.List) == 0 {
			break
		}
	}
	return all
}

// BenchmarkSessions reads a page of 1,000 sessions, of which one or all changed since the last time. Run it with -bench 'Sessions|Take'.
func BenchmarkSessions(b *testing.B) {
	events := boardtest.Day(1000, noon)
	for name, step := range map[string]int{"one": len(events), "all": 50} {
		b.Run("changed-"+name, func(b *testing.B) {
			s := serveHandler(events, board.Options{})
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := 0; i < len(events); i += step {
					s.Take(events[i])
				}
				b.StartTimer()
				b.SetBytes(int64(len(s.get(b, "/v1/board/sessions?limit=1000"))))
			}
		})
	}
}

// BenchmarkTake is what an event costs a request, alone and while somebody reads 1,000 sessions without a pause.
func BenchmarkTake(b *testing.B) {
	events := boardtest.Day(1000, noon)
	for _, reader := range []string{"none", "busy"} {
		b.Run("reader-"+reader, func(b *testing.B) {
			s := serveHandler(events, board.Options{})
			stop := make(chan struct{})
			var done sync.WaitGroup
			if reader == "busy" {
				done.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							s.get(b, "/v1/board/sessions?limit=1000")
						}
					}
				})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Take(events[i%len(events)])
				i++
			}
			close(stop)
			done.Wait()
		})
	}
}
