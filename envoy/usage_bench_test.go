package envoy_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/observe"
)

// BenchmarkUsageTaps measures how much later the first byte of a streamed response comes where its usage is looked at. Requests
// go through one Envoy by turns: with nobody looking, with Envoy's own metadata, and with bodies streamed through tidemark. It
// reports medians in microseconds, and how they relate to that of nobody looking. What a tap adds does not depend on how long
// the provider thinks, so that it is shown for one that answers at once and for one that takes 50 ms, still less than any.
//
//	go test -run '^$' -bench UsageTaps -benchtime 500x ./envoy
func BenchmarkUsageTaps(b *testing.B) {
	for _, thinks := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run("thinks-"+strconv.Itoa(int(thinks.Milliseconds()))+"ms", func(b *testing.B) { firstBytes(b, thinks) })
	}
}

// thinking is a provider that streams its answer event by event after a while.
type thinking time.Duration

func (d thinking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(time.Duration(d))
	w.Header().Set("content-type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	for event := range strings.SplitAfterSeq(sseAnswer, "\n\n") {
		_, _ = io.WriteString(w, event)
		_ = flush()
	}
}

func firstBytes(b *testing.B, thinks time.Duration) {
	b.Helper()
	env := envoytest.Start(b, envoytest.Options{
		Upstream: thinking(thinks),
		Server: &extproc.Options{
			Engine: toy{}, Admit: admitToy, Result: observe.Result, Account: observe.Account, Observer: newRecorder(), Deadline: shippedDeadline,
		},
	})
	client := envoytest.Client(b, false)
	body := strings.Repeat("b", 100<<10)
	post := func(path string) (first, last time.Duration) {
		began := time.Now()
		res, err := client.Post(env.URL(path), "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		first = time.Since(began)
		if n, err := io.Copy(io.Discard, res.Body); err != nil || int(n) != len(sseAnswer)-1 {
			b.Fatal(n, err)
		}
		last = time.Since(began)
		_ = res.Body.Close()
		return first, last
	}
	paths := []string{nothingPath, metadataPath, streamedPath}
	var first, last [3][]time.Duration
	for round := 0; b.Loop(); round++ {
		for i := range paths {
			way := (i + round) % len(paths) // each is first, second and third equally often
			f, l := post(paths[way])
			first[way], last[way] = append(first[way], f), append(last[way], l)
		}
	}
	p50 := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2].Nanoseconds()) / 1000 }
	off, offLast := p50(first[0]), p50(last[0])
	b.ReportMetric(off, "us-off")
	b.ReportMetric(p50(first[1]), "us-metadata")
	b.ReportMetric(p50(first[2]), "us-streamed")
	b.ReportMetric(p50(first[1])/off, "ratio-metadata")
	b.ReportMetric(p50(first[2])/off, "ratio-streamed")
	b.ReportMetric(p50(last[1])/offLast, "last-ratio-metadata")
	b.ReportMetric(p50(last[2])/offLast, "last-ratio-streamed")
}
