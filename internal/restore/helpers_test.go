package restore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// at is when all originals of the tests were left out.
var at = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// watcher collects events.
type watcher struct {
	mu     sync.Mutex
	events []restore.Event
}

func (w *watcher) Restored(e restore.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// taken returns the events so far and forgets them.
func (w *watcher) taken() []restore.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events
	w.events = nil
	return e
}

// logs collects what is logged, from many goroutines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// world is a server over a real store, with the keys of a real engine.
type world struct {
	tb      testing.TB
	store   *memory.Store
	engine  *pipeline.Engine
	seen    *watcher
	log     *logs
	url     string // of the restore listener
	admin   string // of the admin listener
	version uint64
}

// byKey is the tenant of a request, as a config may say it.
func byKey(r *http.Request) (string, bool) {
	key := r.Header.Get("x-api-key")
	return "key:" + key, key != ""
}

func newWorld(tb testing.TB, tenant func(*http.Request) (string, bool)) *world {
	tb.Helper()
	w := &world{tb: tb, store: memory.New(), seen: &watcher{}, log: &logs{}}
	var err error
	if w.engine, err = pipeline.New(context.Background(), w.store, pipeline.Options{Flush: -1, Start: at}); err != nil {
		tb.Fatal(err)
	}
	s := restore.New(restore.Options{
		Store: w.store, Session: w.engine.SessionKey, Tenant: tenant, Observer: w.seen,
		Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	user, operator := httptest.NewServer(s.Handler()), httptest.NewServer(s.Operator())
	tb.Cleanup(user.Close)
	tb.Cleanup(operator.Close)
	w.url, w.admin = user.URL, operator.URL
	return w
}

// keep keeps originals of a session and returns their ids.
func (w *world) keep(tenant, session string, contents ...string) (ids []string) {
	w.tb.Helper()
	key := w.engine.SessionKey(tenant, session)
	var originals []state.Original
	for i, c := range contents {
		digest := sha256.Sum256([]byte(c))
		sum := sha256.Sum256(append(append(key.Tenant[:], key.Session[:]...), digest[:]...))
		id := hex.EncodeToString(sum[:12])
		ids = append(ids, id)
		originals = append(originals, state.Original{
			ID: id, Session: key, Call: "call" + string(rune('a'+i)), Tool: "Read", Content: []byte(c), SHA256: digest,
			At: at.Add(time.Duration(i) * time.Minute), About: "Read of main.go (1-40)", Size: len(c), Filter: "readlifecycle",
		})
	}
	w.version++
	if _, err := w.store.Commit(context.Background(), key, &state.Branch{ID: w.version, Last: at}, originals); err != nil {
		w.tb.Fatal(err)
	}
	return ids
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; headers are pairs of name and value.
func (w *world) ask(method, url string, headers ...string) reply {
	w.tb.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Add(pair[0], pair[1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.tb.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

// get asks for an original.
func (w *world) get(id, query string, headers ...string) reply {
	w.tb.Helper()
	return w.ask(http.MethodGet, w.url+"/v1/originals/"+id+query, headers...)
}

// want checks status and body.
func (r reply) want(tb testing.TB, status int, body string) {
	tb.Helper()
	if r.status != status || r.body != body {
		tb.Errorf("%d %q, want %d %q", r.status, short(r.body), status, short(body))
	}
}

func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// same is a reply as one string, without its date.
func (r reply) same() string {
	var b strings.Builder
	h := r.header.Clone()
	h.Del("Date")
	_ = h.Write(&b)
	return http.StatusText(r.status) + "\n" + b.String() + "\n" + r.body
}
