package summarize_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	credential = "sk-sekret-4711"
	source     = "FAIL limiter/bucket_test.go:42 TestBurst: got 429, want 200 after 3 tries\n"
	good       = "TestBurst of limiter/bucket_test.go fails with 429 after 3 tries."
)

// desk is a worker, its clock, what it reports and what it logs.
type desk struct {
	*testing.T
	*summarize.Worker
	reports chan summarize.Report
	log     *lockedBuffer
	clock   atomic.Int64
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newDesk(t *testing.T, credential string) *desk {
	t.Helper()
	d := &desk{T: t, reports: make(chan summarize.Report, 1000), log: &lockedBuffer{}}
	d.clock.Store(1_800_000_000)
	d.Worker = summarize.New(summarize.Options{
		Credential: credential, Prices: cache.Prices(), Now: func() time.Time { return time.Unix(d.clock.Load(), 0) },
		Report: func(r summarize.Report) { d.reports <- r }, Log: slog.New(slog.NewTextHandler(d.log, nil)),
	})
	t.Cleanup(d.Close)
	return d
}

func (d *desk) pass(by time.Duration) { d.clock.Add(int64(by / time.Second)) }

// expect waits for the next report.
func (d *desk) expect(want summarize.Outcome) summarize.Report {
	d.Helper()
	r := <-d.reports
	if r.Outcome != want {
		d.Fatalf("%s, want %s; log: %s", r.Outcome, want, d.log)
	}
	return r
}

// ask makes a summary of a text, as far as its outcome.
func (d *desk) ask(k pipeline.SummaryKey, text string, want summarize.Outcome) summarize.Report {
	d.Helper()
	if !d.Begin(k, func() string { return text }) {
		d.Fatalf("not begun; log: %s", d.log)
	}
	return d.expect(want)
}

// keyOf names a summary of the n-th result.
func keyOf(url, api string, n int) pipeline.SummaryKey {
	k := pipeline.SummaryKey{By: filters.Summarizer{URL: url, API: api, Model: "claude-haiku-4-5", Timeout: time.Minute, MaxInputTokens: 1000}}
	k.Block[0], k.Block[1] = byte(n), byte(n>>8)
	return k
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// says is an answer of either API.
func says(api, text string) string {
	quoted, _ := json.Marshal(text)
	if api == filters.Anthropic {
		return fmt.Sprintf(`{"content":[{"type":"thinking","thinking":"…"},{"type":"text","text":%s}],"stop_reason":"end_turn","usage":{"input_tokens":900,"output_tokens":40}}`, quoted)
	}
	return fmt.Sprintf(`{"choices":[{"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":40}}`, quoted)
}

func TestSummaries(t *testing.T) {
	for _, api := range []string{filters.OpenAI, filters.Anthropic} {
		t.Run(api, func(t *testing.T) {
			type seen struct {
				header http.Header
				body   []byte
				target string
			}
			got := make(chan seen, 1)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- seen{r.Header, body, r.Method + " " + r.URL.String()}
				io.WriteString(w, says(api, " "+good+"\n"))
			})
			d := newDesk(t, credential)
			k := keyOf(s.URL+"/some/path?version=1", api, 1)
			if _, ok := d.Ready(k); ok {
				t.Error("ready before it was begun")
			}
			r := d.ask(k, source, summarize.Ready)
			if text, ok := d.Ready(k); !ok || text != good {
				t.Errorf("ready: %q, %v", text, ok)
			}
			rates := cache.Prices().Lookup("claude-haiku-4-5").Rates(900)
			if want := (summarize.Report{Outcome: summarize.Ready, Model: "claude-haiku-4-5", Input: 900, Output: 40, Cost: (900*rates.Input + 40*rates.Output) / 1e6}); r != want {
				t.Errorf("report %+v, want %+v", r, want)
			}
			req := <-got
			if req.target != "POST /some/path?version=1" {
				t.Error(req.target)
			}
			var body struct {
				Model               string
				MaxTokens           int `json:"max_tokens"`
				MaxCompletionTokens int `json:"max_completion_tokens"`
				System              string
				Messages            []struct{ Role, Content string }
			}
			if err := json.Unmarshal(req.body, &body); err != nil {
				t.Fatal(err)
			}
			last := body.Messages[len(body.Messages)-1]
			if body.Model != k.By.Model || body.MaxTokens+body.MaxCompletionTokens != 1024 || last.Role != "user" || !strings.Contains(last.Content, " ===\n"+source+"\n=== ") {
				t.Errorf("request %s", req.body)
			}
			bearer, key := req.header.Get("Authorization"), req.header.Get("X-Api-Key")
			if api == filters.Anthropic && (key != credential || bearer != "" || req.header.Get("Anthropic-Version") == "" || body.System == "") {
				t.Errorf("headers %v", req.header)
			}
			if api == filters.OpenAI && (bearer != "Bearer "+credential || key != "" || body.Messages[0].Role != "system") {
				t.Errorf("headers %v", req.header)
			}
			if d.Begin(k, func() string { return source }) {
				t.Error("begun again although it is ready")
			}
			other := k
			other.Session.Tenant[0] = 1
			if _, ok := d.Ready(other); ok {
				t.Error("another tenant sees it")
			}
		})
	}
}

func TestWithoutACredentialNoneIsSent(t *testing.T) {
	headers := make(chan http.Header, 2)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		io.WriteString(w, says(filters.OpenAI, good))
	})
	d := newDesk(t, "")
	d.ask(keyOf(s.URL, filters.OpenAI, 1), source, summarize.Ready)
	d.ask(keyOf(s.URL, filters.Anthropic, 1), source, summarize.Failed) // it is the other API's answer
	for range 2 {
		if h := <-headers; h.Get("Authorization")+h.Get("X-Api-Key") != "" {
			t.Errorf("headers %v", h)
		}
	}
}

// Whatever a server does wrong, there is no summary, the summarizer is left alone for a while, and then it may be asked again.
func TestWrongAnswers(t *testing.T) {
	secret := "private words of the answer"
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				io.WriteString(w, says(filters.OpenAI, good)+secret)
			}
		}
	}
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	handlers := map[string]http.HandlerFunc{
		"no JSON": text("<html>" + secret), "empty": text(""), "null": text("null"), "a list": text("[]"), "no choices": text(`{"choices":[]}`),
		"two choices": text(`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`), "wrong type": text(`{"choices":"` + secret + `"}`),
		"no content": text(`{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`),
		"cut":        text(`{"choices":[{"message":{"content":"` + secret + `"},"finish_reason":"length"}]}`),
		"calls":      text(`{"choices":[{"message":{"content":"a","tool_calls":[{"id":"x"}]},"finish_reason":"stop"}]}`),
		"more":       text(says(filters.OpenAI, good) + `{}`),
		"204":        status(204), "400": status(400), "401": status(401), "500": status(500), "529": status(529),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"closed": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		},
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(c, secret+"\r\n\r\n")
			c.Close()
		},
		"closed half-way": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"choices":[`)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
					return
				}
			}
		},
		"endless headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			io.WriteString(w, says(filters.OpenAI, good))
		},
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				h(w, r)
			})
			d := newDesk(t, credential)
			k := keyOf(s.URL+"/?token="+credential, filters.OpenAI, 1)
			d.ask(k, source, summarize.Failed)
			for n := range 50 {
				if d.Begin(keyOf(k.By.URL, filters.OpenAI, n), func() string { return source }) {
					t.Fatal("begun although it has just failed")
				}
			}
			d.pass(time.Minute)
			d.ask(k, source, summarize.Failed)
			if n := calls.Load(); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
			if log := d.log.String(); !strings.Contains(log, "summarizer failed") || strings.Contains(log, credential) || strings.Contains(log, secret) || strings.Contains(log, "TestBurst") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestADownServerIsLeftAlone(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	d := newDesk(t, credential)
	for n := range 20 {
		d.ask(keyOf(s.URL, filters.OpenAI, n), source, summarize.Failed)
		if d.Begin(keyOf(s.URL, filters.OpenAI, n), func() string { return source }) {
			t.Fatal("begun although it has just failed")
		}
		d.pass(8 * time.Minute) // the longest pause is spread by half
	}
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, says(filters.OpenAI, good)) })
	d.ask(keyOf(up.URL, filters.OpenAI, 0), source, summarize.Ready) // another summarizer is not spared
}

// A summary that was written ends the pauses: the next failure counts as the first.
func TestAnAnswerEndsThePauses(t *testing.T) {
	var fails atomic.Bool
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		io.WriteString(w, says(filters.OpenAI, good))
	})
	d := newDesk(t, credential)
	fails.Store(true)
	for n := range 6 {
		d.ask(keyOf(s.URL, filters.OpenAI, n), source, summarize.Failed)
		d.pass(8 * time.Minute)
	}
	fails.Store(false)
	d.ask(keyOf(s.URL, filters.OpenAI, 10), source, summarize.Ready)
	fails.Store(true)
	d.ask(keyOf(s.URL, filters.OpenAI, 11), source, summarize.Failed)
	d.pass(2 * time.Second)
	d.ask(keyOf(s.URL, filters.OpenAI, 11), source, summarize.Failed)
}

func TestASlowServerTimesOut(t *testing.T) {
	for name, begin := range map[string]string{"headers": "", "body": `{"choices":`} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if begin != "" {
					io.WriteString(w, begin)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			})
			d := newDesk(t, credential)
			k := keyOf(s.URL, filters.OpenAI, 1)
			k.By.Timeout = 20 * time.Millisecond
			d.ask(k, source, summarize.TimedOut)
			if d.Begin(k, func() string { return source }) {
				t.Error("begun although it has just failed")
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for header, seconds := range map[string]int{"120": 120, "99999999": 300, "Sat, 16 Jan 2027 08:02:00 GMT": 120} { // the clock says 08:00:00
		t.Run(header, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			d := newDesk(t, credential)
			d.clock.Store(time.Date(2027, 1, 16, 8, 0, 0, 0, time.UTC).Unix())
			k := keyOf(s.URL, filters.Anthropic, 1)
			d.ask(k, source, summarize.Failed)
			d.pass(time.Duration(seconds-1) * time.Second)
			if d.Begin(k, func() string { return source }) {
				t.Error("begun before the server wants it")
			}
			d.pass(time.Second)
			d.ask(k, source, summarize.Failed)
		})
	}
}

// A job that waits holds a copy: what becomes of the request's body does not matter.
func TestTheTextIsCopied(t *testing.T) {
	got, release := make(chan string, 3), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		<-release
		io.WriteString(w, says(filters.OpenAI, good))
	})
	d := newDesk(t, credential)
	for n := range 2 { // both hands are full
		d.Begin(keyOf(s.URL, filters.OpenAI, n), func() string { return source })
		<-got
	}
	body := []byte(source)
	d.Begin(keyOf(s.URL, filters.OpenAI, 2), func() string { return viewOf(body) })
	clear(body)
	close(release)
	if said := <-got; !strings.Contains(said, "FAIL limiter/bucket_test.go:42 TestBurst") {
		t.Errorf("said %q", said)
	}
	for range 3 {
		d.expect(summarize.Ready)
	}
}

func TestTheTextIsCut(t *testing.T) {
	got := make(chan string, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		io.WriteString(w, says(filters.OpenAI, good))
	})
	d := newDesk(t, credential)
	body := []byte(source + strings.Repeat("limiter output 語 line\n", 20_000) + "the end")
	k := keyOf(s.URL, filters.OpenAI, 1)
	if !d.Begin(k, func() string { return viewOf(body) }) {
		t.Fatal("not begun")
	}
	clear(body)
	d.expect(summarize.Ready)
	var req struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal([]byte(<-got), &req); err != nil {
		t.Fatal(err)
	}
	said := req.Messages[1].Content
	if !strings.Contains(said, "Its middle is left out.") || !strings.Contains(said, source) || !strings.Contains(said, "the end\n===") {
		t.Errorf("said %.300q", said)
	}
	if n := transcript.Est(said); n > 1000+60 {
		t.Errorf("%d tokens were sent", n)
	}
}

func TestAFullQueueDropsWork(t *testing.T) {
	taken, release := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case taken <- struct{}{}:
		default:
		}
		<-release
		io.WriteString(w, says(filters.OpenAI, good))
	})
	d := newDesk(t, credential)
	begin := func(n int) bool { return d.Begin(keyOf(s.URL, filters.OpenAI, n), func() string { return source }) }
	for n := range 2 {
		if !begin(n) {
			t.Fatal("not begun")
		}
		<-taken
	}
	for n := range 64 {
		if !begin(2 + n) {
			t.Fatalf("job %d is not taken", n)
		}
	}
	if begin(99) {
		t.Error("taken by a full queue")
	}
	d.expect(summarize.Dropped)
	if begin(0) || begin(2) {
		t.Error("one that is under way is begun again")
	}
	close(release)
	for range 66 {
		d.expect(summarize.Ready)
	}
	d.ask(keyOf(s.URL, filters.OpenAI, 99), source, summarize.Ready)
}

// Jobs that wait behind one that fails are not sent, and can be begun again.
func TestAFailureEmptiesTheQueue(t *testing.T) {
	var calls atomic.Int32
	taken, release := make(chan struct{}, 2), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		taken <- struct{}{}
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	d := newDesk(t, credential)
	for n := range 10 {
		d.Begin(keyOf(s.URL, filters.OpenAI, n), func() string { return source })
		if n < 2 {
			<-taken
		}
	}
	close(release)
	outcomes := map[summarize.Outcome]int{}
	for range 10 {
		outcomes[(<-d.reports).Outcome]++
	}
	if outcomes[summarize.Failed] != 2 || outcomes[summarize.Dropped] != 8 || calls.Load() != 2 {
		t.Errorf("%v after %d calls", outcomes, calls.Load())
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	taken := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(taken)
		<-r.Context().Done()
	})
	d := newDesk(t, credential)
	k := keyOf(s.URL, filters.OpenAI, 1)
	if !d.Begin(k, func() string { return source }) {
		t.Fatal("not begun")
	}
	<-taken
	d.Close()
	d.expect(summarize.Dropped)
	if d.Begin(k, func() string { return source }) {
		t.Error("begun after Close")
	}
}

// What waits is no larger than the summarizer may take.
func TestWhatWaitsIsCut(t *testing.T) {
	k := keyOf("http://localhost", filters.OpenAI, 1)
	bound := k.By.MaxInputTokens * 8
	text := "the beginning" + strings.Repeat(" middle", bound) + "the end"
	part, cut := summarize.Queued(k, text)
	if !cut || len(part) > bound || len(part) < bound-8 || !strings.HasPrefix(part, "the beginning") || !strings.HasSuffix(part, "the end") {
		t.Errorf("%d bytes wait, cut: %v", len(part), cut)
	}
	if part, cut := summarize.Queued(k, source); cut || part != source {
		t.Errorf("%q waits, cut: %v", part, cut)
	}
}

// The text is made while others may use the worker, and one of two that begin the same at the same time does.
func TestTheTextIsMadeOutsideOfTheLock(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, says(filters.OpenAI, good)) })
	d := newDesk(t, credential)
	k := keyOf(s.URL, filters.OpenAI, 1)
	outer := d.Begin(k, func() string {
		if !d.Takes(k) || !d.Begin(k, func() string { return source }) {
			t.Error("not begun")
		}
		return source
	})
	if outer || d.Takes(k) {
		t.Error("begun twice")
	}
	d.expect(summarize.Ready)
	if d.Close(); len(d.reports) > 0 {
		t.Errorf("also %+v", <-d.reports)
	}
}

// Every job is reported, those that wait when the worker is closed too.
func TestCloseReportsWhatWaits(t *testing.T) {
	taken := make(chan struct{}, 2)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		taken <- struct{}{}
		<-r.Context().Done()
	})
	d := newDesk(t, credential)
	for n := range 9 {
		if !d.Begin(keyOf(s.URL, filters.OpenAI, n), func() string { return source }) {
			t.Fatal("not begun")
		}
	}
	<-taken
	<-taken
	d.Close()
	for range 9 {
		d.expect(summarize.Dropped)
	}
	if len(d.reports) > 0 || d.Takes(keyOf(s.URL, filters.OpenAI, 10)) {
		t.Error("more than was begun")
	}
}
