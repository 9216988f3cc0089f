package envoy_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/badgerdb"
)

// either asks the engine, or answers at once, as it is told.
type either struct {
	engine *pipeline.Engine
	atOnce atomic.Bool
}

func (e *either) Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
	if e.atOnce.Load() {
		return &pipeline.Outcome{Body: r.Body, Format: r.Format, BytesIn: len(r.Body), BytesOut: len(r.Body)}
	}
	return e.engine.Request(ctx, r)
}

// Observe implements [extproc.Engine] for both.
func (e *either) Observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	return e.engine.Observe(ctx, o, r)
}

// BenchmarkEngine sends turns of sessions of about 100 kB and 1 MB through Envoy in three ways by turns: without ext_proc, with an
// ext_proc that answers at once with the same body, and with the engine, which replays what it decided before. It reports
// the median of each and, as ratio, what the engine adds over what answering at once adds.
func BenchmarkEngine(b *testing.B) {
	b.Run("size-100k", func(b *testing.B) { throughEnvoy(b, 30) })
	b.Run("size-1m", func(b *testing.B) { throughEnvoy(b, 330) })
}

// turnsEach is how many turns of a session are measured before the next one begins, so that bodies stay of one size.
const turnsEach = 10

// played is a session that has some turns behind it.
type played struct {
	maker        *gen.Maker
	conversation *gen.Conversation
}

func (p *played) turn() []byte {
	p.maker.Turn(p.conversation)
	p.conversation.Unmark()
	p.conversation.Mark(gen.Short)
	return p.conversation.Compact()
}

// throughEnvoy plays sessions that have the given number of turns behind them.
func throughEnvoy(b *testing.B, behind int) {
	b.Helper()
	store, err := badgerdb.Open(b.TempDir(), badgerdb.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	engine, err := pipeline.New(b.Context(), store, pipeline.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = engine.Close(context.Background()) })
	filter, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		b.Fatal(err)
	}
	config := &pipeline.Config{Name: "bench", Filters: []filters.Filter{filter}}
	var now, session atomic.Int64
	e := &either{engine: engine}
	env := envoytest.Start(b, envoytest.Options{
		Upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
		Server: &extproc.Options{
			Engine: e, Result: observe.Result, Account: observe.Account, Observer: newRecorder(), Deadline: shippedDeadline,
			Now: func() time.Time { return time.Unix(now.Load(), 0) },
			Admit: func(*extproc.Head) (*pipeline.Request, string) {
				return &pipeline.Request{Format: transcript.Anthropic, Tenant: "t", Session: strconv.FormatInt(session.Load(), 10), Config: config}, ""
			},
		},
	})
	client := envoytest.Client(b, false)
	post := func(path string, body []byte) time.Duration {
		began := time.Now()
		res, err := client.Post(env.URL(path), "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
		return time.Since(began)
	}
	bodies := 0
	var off, atOnce, real []time.Duration
	for b.Loop() {
		b.StopTimer()
		p := played{maker: gen.New(rand.New(rand.NewPCG(1, uint64(session.Add(1)))), gen.Options{ResultBytes: 2500, Files: 9})}
		p.conversation = p.maker.Conversation(behind)
		post("/v1/messages", p.turn())
		now.Add(3 * 3600)
		post("/v1/messages", p.turn()) // a cold move: there is something to replay
		post("/v1/messages", p.turn())
		turns := make([][]byte, turnsEach)
		for i := range turns { // made beforehand, so that making them is no part of what is measured
			turns[i] = p.turn()
			bodies += len(turns[i])
		}
		b.StartTimer()
		for _, body := range turns {
			now.Add(10)
			off = append(off, post("/off/v1/messages", body))
			e.atOnce.Store(true)
			atOnce = append(atOnce, post("/v1/messages", body))
			e.atOnce.Store(false)
			real = append(real, post("/v1/messages", body))
		}
	}
	b.ReportMetric(float64(bodies)/float64(len(real))/1000, "kB-body")
	p50 := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2].Microseconds()) / 1000 }
	b.ReportMetric(p50(off), "ms-off")
	b.ReportMetric(p50(atOnce), "ms-at-once")
	b.ReportMetric(p50(real), "ms-engine")
	b.ReportMetric((p50(real)-p50(off))/(p50(atOnce)-p50(off)), "added-ratio")
}
