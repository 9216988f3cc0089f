package extproc

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/pipeline"
)

func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration // the engine, heedless of its context
		level pipeline.Level
		gate  filters.Gate
		after time.Duration // the answer
	}{
		"in time":      {takes: 10 * time.Millisecond, level: pipeline.Decided, after: 10 * time.Millisecond},
		"within grace": {takes: DefaultDeadline + grace/2, level: pipeline.Decided, after: DefaultDeadline + grace/2},
		"late":         {takes: time.Hour, level: pipeline.Original, gate: filters.Deadline, after: DefaultDeadline + grace},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var given time.Duration
			s, _ := newTestServer(func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
				deadline, _ := ctx.Deadline()
				given = deadline.Sub(began)
				time.Sleep(c.takes)
				return upper(ctx, r)
			}, Options{Deadline: DefaultDeadline})
			o := s.decide(t.Context(), &pipeline.Request{}, []byte("body"), coding.Identity).outcome
			if o.Level != c.level || o.Gate != c.gate || o.Desync != (c.gate != "") || time.Since(began) != c.after {
				t.Errorf("%s: outcome %+v after %v", name, o, time.Since(began))
			}
			s.calls.Wait()
			if given != DefaultDeadline {
				t.Errorf("%s: the engine was given %v", name, given)
			}
		})
	}
}

// The wait for an engine that was given up ends, with a complaint.
func TestWaitForCallsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(func(ctx context.Context, r *pipeline.Request) *pipeline.Outcome {
			time.Sleep(time.Hour)
			return upper(ctx, r)
		}, Options{Deadline: DefaultDeadline})
		s.decide(t.Context(), &pipeline.Request{}, nil, coding.Identity)
		if err := s.waitForCalls(); err == nil {
			t.Error("no error although the engine is in use")
		}
		s.calls.Wait()
		if err := s.waitForCalls(); err != nil {
			t.Error(err)
		}
	})
}

func TestPanicIsLoggedWithoutContent(t *testing.T) {
	for name, e := range map[string]engineFunc{
		"text": faulty,
		"runtime": func(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
			return &pipeline.Outcome{Body: r.Body[len(r.Body)+1:]}
		},
	} {
		var log bytes.Buffer
		s, _ := newTestServer(e, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		o := s.decide(t.Context(), &pipeline.Request{}, []byte("the secret content of a body"), coding.Identity).outcome
		if o.Level != pipeline.Original || o.Gate != filters.Panic || !o.Desync || o.Class() != "error" {
			t.Errorf("%s: outcome %+v", name, o)
		}
		if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "_test.go:") {
			t.Errorf("%s: logged %s", name, log.String())
		}
		if name == "runtime" && !strings.Contains(log.String(), "slice bounds out of range") {
			t.Errorf("the runtime's own words are missing: %s", log.String())
		}
	}
}

func TestGatesAreOfTheClosedList(t *testing.T) {
	for _, g := range []filters.Gate{gatePanic, gateDeadline} {
		if !slices.Contains(filters.Gates(), g) {
			t.Errorf("%s is no gate", g)
		}
	}
}
