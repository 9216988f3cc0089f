package summarize

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// Bounds of a worker.
const (
	workers     = 2
	maxWaiting  = 64   // jobs
	maxKept     = 4096 // summaries
	maxKnown    = 256  // summarizers whose failures and ways are remembered
	bytesPerTok = 8    // of a text, at most: what is copied for a job is cut to so many bytes first
)

// Pauses after failures.
const (
	firstPause = time.Second
	longest    = 5 * time.Minute
)

// Outcome is what became of a job.
type Outcome string

// Outcomes.
const (
	Ready    Outcome = "ready"
	Refused  Outcome = "refused" // by the audit
	Failed   Outcome = "failed"
	TimedOut Outcome = "timeout"
	Dropped  Outcome = "dropped" // never sent: no room, the summarizer failed meanwhile, or the worker was closed
)

// Report is what one job came to and cost. Nothing is known of the cost of one that failed.
type Report struct {
	Outcome       Outcome
	Model         string  // as the table of prices names it
	Input, Output int     // tokens by the summarizer's own count
	Cost          float64 // USD; 0 where the table does not know the model
}

// Options of a Worker. All but the credential must be there.
type Options struct {
	Credential string           // for the summarizers; empty: none is sent
	Prices     *cache.Table     // of their models
	Now        func() time.Time // the clock of pauses
	Report     func(Report)     // is told of every job; called by several goroutines
	Log        *slog.Logger
}

// Worker makes summaries and keeps them. It implements [pipeline.Summaries].
type Worker struct {
	o      Options
	client *http.Client
	jobs   chan job
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	kept   *simplelru.LRU[pipeline.SummaryKey, summary]
	spared *simplelru.LRU[filters.Summarizer, *pause]
	older  *simplelru.LRU[filters.Summarizer, struct{}] // that take max_tokens alone
	warned *simplelru.LRU[string, struct{}]             // hosts that get no credential
}

var _ pipeline.Summaries = (*Worker)(nil)

// job is a text to be summarised; it belongs to the job.
type job struct {
	key  pipeline.SummaryKey
	text string
	cut  bool // it is not all of the result's text
}

// summary is what is known of one: it is being made, there, or refused.
type summary struct {
	text    string // empty unless it is there
	pending bool
}

// pause spares a summarizer that has failed.
type pause struct {
	next  *backoff.ExponentialBackOff
	until time.Time
}

// New returns a running worker.
func New(o Options) *Worker {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one unless somebody replaced it
	transport.MaxResponseHeaderBytes = 64 << 10
	w := &Worker{
		o: o, jobs: make(chan job, maxWaiting),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	w.kept, _ = simplelru.NewLRU[pipeline.SummaryKey, summary](maxKept, nil) // fails for sizes below 1
	w.spared, _ = simplelru.NewLRU[filters.Summarizer, *pause](maxKnown, nil)
	w.older, _ = simplelru.NewLRU[filters.Summarizer, struct{}](maxKnown, nil)
	w.warned, _ = simplelru.NewLRU[string, struct{}](maxKnown, nil)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for range workers {
		w.done.Go(func() { w.work(ctx) })
	}
	return w
}

// Close ends what is under way, drops what waits, and returns when nothing runs any more.
func (w *Worker) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.done.Wait()
	for len(w.jobs) > 0 { // nothing is added any more
		j := <-w.jobs
		w.drop(&j)
	}
	w.client.CloseIdleConnections()
}

// Ready implements [pipeline.Summaries].
func (w *Worker) Ready(k pipeline.SummaryKey) (text string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, _ := w.kept.Get(k)
	return s.text, s.text != ""
}

// Takes implements [pipeline.Summaries]. A job that there is no room for is reported as dropped.
func (w *Worker) Takes(k pipeline.SummaryKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takes(&k)
}

// takes is Takes. The lock must be held.
func (w *Worker) takes(k *pipeline.SummaryKey) bool {
	if w.closed || w.kept.Contains(*k) || w.resting(&k.By) {
		return false
	}
	if len(w.jobs) == cap(w.jobs) {
		w.o.Report(Report{Outcome: Dropped})
		return false
	}
	return true
}

// Begin implements [pipeline.Summaries].
func (w *Worker) Begin(k pipeline.SummaryKey, text func() string) bool {
	if !w.Takes(k) { // before the text is made
		return false
	}
	j := newJob(k, text())
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.takes(&k) {
		return false
	}
	w.kept.Add(k, summary{pending: true})
	w.jobs <- j // there is room: only this function fills it, under the lock
	return true
}

// newJob returns the job of summarising a text, which it copies as far as the summarizer may take it.
func newJob(k pipeline.SummaryKey, text string) job {
	part := ends(text, k.By.MaxInputTokens*bytesPerTok)
	return job{key: k, text: strings.Clone(part), cut: len(part) < len(text)}
}

// resting reports whether a summarizer is spared now. The lock must be held.
func (w *Worker) resting(by *filters.Summarizer) bool {
	p, ok := w.spared.Get(*by)
	return ok && w.o.Now().Before(p.until)
}

// work takes jobs until ctx ends.
func (w *Worker) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-w.jobs:
			w.do(ctx, &j)
		}
	}
}

// do carries out a job.
func (w *Worker) do(ctx context.Context, j *job) {
	w.mu.Lock()
	resting := w.resting(&j.key.By)
	w.mu.Unlock()
	if resting || ctx.Err() != nil {
		w.drop(j)
		return
	}
	source, cut := fit(j.text, j.key.By.MaxInputTokens)
	a, err := w.ask(ctx, &j.key.By, source, cut || j.cut)
	r := Report{Outcome: Ready, Input: a.input, Output: a.output}
	r.Model, r.Cost = w.price(&j.key.By, &a)
	host := hostOf(&j.key.By)
	switch {
	case err == nil:
		if reason := Audit(source, a.text); reason != "" {
			r.Outcome, a.text = Refused, ""
			w.o.Log.InfoContext(ctx, "summary refused", "summarizer", host, "reason", reason)
		}
		w.settle(j, a.text)
	case ctx.Err() != nil:
		r.Outcome = Dropped
		w.forget(j)
	default:
		r.Outcome = Failed
		if errors.Is(err, context.DeadlineExceeded) {
			r.Outcome = TimedOut
		}
		rest := w.rest(j, a.retryAfter)
		w.o.Log.WarnContext(ctx, "summarizer failed", "summarizer", host, "error", err, "pause", rest)
	}
	w.o.Report(r)
}

// settle keeps what an answer came to for good; an empty text stands for one that was refused.
func (w *Worker) settle(j *job, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Add(j.key, summary{text: text})
	w.spared.Remove(j.key.By)
}

// drop forgets a job that was never sent.
func (w *Worker) drop(j *job) {
	w.forget(j)
	w.o.Report(Report{Outcome: Dropped})
}

// forget makes a job one that may be begun again.
func (w *Worker) forget(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Remove(j.key)
}

// rest spares a summarizer after a failure, and returns for how long.
func (w *Worker) rest(j *job, retryAfter time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Remove(j.key)
	p, ok := w.spared.Get(j.key.By)
	if !ok {
		p = &pause{next: backoff.NewExponentialBackOff()}
		p.next.InitialInterval, p.next.Multiplier, p.next.MaxInterval = firstPause, 2, longest
		p.next.Reset()
		w.spared.Add(j.key.By, p)
	}
	d := min(max(p.next.NextBackOff(), retryAfter), longest)
	p.until = w.o.Now().Add(d)
	return d
}

// isOlder reports whether a summarizer is known to take max_tokens and not max_completion_tokens.
func (w *Worker) isOlder(by *filters.Summarizer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.older.Get(*by)
	return ok
}

// learn remembers which of the two a summarizer takes.
func (w *Worker) learn(by *filters.Summarizer, older bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if older {
		w.older.Add(*by, struct{}{})
	} else {
		w.older.Remove(*by)
	}
}

// price is the model as the table of prices names it, and what an answer cost.
func (w *Worker) price(by *filters.Summarizer, a *answer) (model string, usd float64) {
	p := w.o.Prices.Lookup(by.Model)
	if !p.Known {
		return p.Name, 0
	}
	rates := p.Rates(a.input)
	return p.Name, (float64(a.input)*rates.Input + float64(a.output)*rates.Output) / 1e6
}

// hostOf names a summarizer in logs; the rest of an address may hold what is nobody's business.
func hostOf(by *filters.Summarizer) string {
	u, err := url.Parse(by.URL)
	if err != nil {
		return ""
	}
	return u.Host
}
