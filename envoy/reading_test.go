package envoy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/gen"
)

// shownSessions is how many sessions the page lists while it is read under load.
const shownSessions = 1000

// surfaces are what operators look at.
var surfaces = [3]string{"/v1/board/sessions?limit=1000", "/v1/board/overview", "/metrics"}

// readers read every surface again and again until they are stopped, each after a pause of its own. It returns how often a surface was read.
func readers(tb testing.TB, p *envoytest.Tidemark, pauses [3]time.Duration) (stop func() int64) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var all sync.WaitGroup
	var reads atomic.Int64
	for i, path := range surfaces {
		pause := pauses[i]
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, http.NoBody)
				if err != nil {
					tb.Error(err)
					return
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					continue // it was stopped
				}
				if _, err := io.Copy(io.Discard, res.Body); err == nil && res.StatusCode == http.StatusOK {
					reads.Add(1)
				}
				_ = res.Body.Close()
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	return func() int64 {
		cancel()
		all.Wait()
		return reads.Load()
	}
}

// crowd is a small request of each of many sessions.
func crowd(post func(session string, body []byte)) {
	for i := range shownSessions {
		a := newAgent(fmt.Sprint("crowd-", i))
		a.c.System = []gen.Block{gen.Text("You are one of many.")}
		a.step(reads("file.go", 3))
		post(fmt.Sprint("session-crowd-", i), a.body())
	}
}

// TestReadingChangesNothing plays one session while a thousand others are on the page and everything is read without pause: each
// byte that the provider sees is the same as when nobody looks.
func TestReadingChangesNothing(t *testing.T) {
	p := newProduct(t, "")
	p.tidemark.Stop(t) // now the state holds the secret and nothing else
	blank := t.TempDir()
	if err := os.CopyFS(blank, os.DirFS(p.tidemark.State)); err != nil {
		t.Fatal(err)
	}
	p.renew(t, blank)
	quiet := p.play(t, metadataPath, "sk-tidemark", false)

	p.renew(t, blank)
	crowd(func(session string, body []byte) {
		if status, _ := p.post(t, &request{path: metadataPath, key: "sk-crowd", session: session, at: start, body: body}, ""); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	})
	stop := readers(t, p.tidemark, [3]time.Duration{})
	read := p.play(t, metadataPath, "sk-tidemark", false)
	var listed struct{ Sessions int }
	if err := json.Unmarshal([]byte(p.tidemark.Ask(t, surfaces[0])), &listed); err != nil || listed.Sessions != shownSessions+1 {
		t.Errorf("%d sessions are listed, %v", listed.Sessions, err)
	}
	if n := stop(); n < int64(len(quiet)) {
		t.Errorf("all was read only %d times", n)
	}
	for i := range quiet {
		if !bytes.Equal(quiet[i].out, read[i].out) {
			t.Errorf("turn %d: other bytes, at %d of %d", i, differ(quiet[i].out, read[i].out), len(read[i].out))
		}
	}
}

// BenchmarkReading measures what looking costs those who are looked at: requests of one session through a real Envoy, in turns of
// ten seconds or so without and with somebody who has the page open, which asks every two seconds, here for all of a thousand
// sessions at once, and with a scraper that comes every five. It reports the medians of the turns' 99th percentiles in microseconds, and their ratio.
//
//	go test -run '^$' -bench Reading -benchtime 60000x ./envoy
func BenchmarkReading(b *testing.B) {
	p := envoytest.NewTidemark(b, "")
	p.SetClock(b, start)
	p.Start(b)
	env := envoytest.Start(b, envoytest.Options{Processor: p.Addr, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w, jsonAnswer)
	})})
	client := envoytest.Client(b, false)
	post := func(session string, body []byte) time.Duration {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, env.URL(metadataPath), bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("content-type", "application/json")
		r.Header.Set("x-api-key", "sk-reading")
		r.Header.Set("x-claude-code-session-id", session)
		began := time.Now()
		res, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
		return time.Since(began)
	}
	crowd(func(session string, body []byte) { post(session, body) })
	a := newAgent("reading")
	for i := range 12 {
		a.step(reads(fmt.Sprintf("file%d.go", i), 60))
	}
	body := a.body()
	const block = 3000
	var took []time.Duration
	var all [2][]float64 // by block
	stop := func() int64 { return 0 }
	for n := 0; b.Loop(); n++ {
		if n%block == 0 && n/block%2 == 1 {
			stop = readers(b, p, [3]time.Duration{2 * time.Second, 10 * time.Second, 5 * time.Second})
		}
		if took = append(took, post("session-reading", body)); len(took) == block {
			if n/block%2 == 1 {
				stop()
			}
			slices.Sort(took)
			all[n/block%2] = append(all[n/block%2], float64(took[block*99/100].Microseconds()))
			took = took[:0]
		}
	}
	stop()
	var p99 [2]float64
	for way, each := range all {
		if slices.Sort(each); len(each) > 0 {
			p99[way] = each[len(each)/2]
		}
	}
	b.ReportMetric(p99[0], "p99-alone-us")
	b.ReportMetric(p99[1], "p99-read-us")
	b.ReportMetric(p99[1]/p99[0], "ratio")
}
