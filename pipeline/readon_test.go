package pipeline_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// keyedEngine is an engine whose markers are the same as another one's.
func keyedEngine(t *rapid.T) *pipeline.Engine {
	e, err := pipeline.New(context.Background(), memory.WithSecret(make([]byte, 32)), pipeline.Options{Flush: -1, DeepProof: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What an engine forwards does not depend on whether it reads bodies on from memos or as a whole.
func TestMemosChangeNothing(t *testing.T) {
	c := config(t, "always")
	keys := coref.Default()
	keys.MinTokens, keys.MinLaterTurns = 50, 1
	cr, err := coref.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	c.Filters = append([]filters.Filter{cr}, c.Filters...)
	decided, byMemo := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		with, without := keyedEngine(t), keyedEngine(t)
		maker := gen.New(gentest.Source(t), gen.Options{Strange: true, Wild: true, Files: 2, ResultBytes: 9000})
		k := maker.Conversation(1)
		at := epoch
		for range rapid.IntRange(2, 8).Draw(t, "turns") {
			body := k.Body()
			a := with.Request(context.Background(), ask(body, c, at))
			without.ForgetBodies()
			b := without.Request(context.Background(), ask(body, c, at))
			if !bytes.Equal(a.Body, b.Body) || a.Level != b.Level || a.Gate != b.Gate || a.Kind != b.Kind || len(a.New) != len(b.New) || a.Held != b.Held {
				t.Fatalf("with memos %v %q %v, without %v %q %v", a.Level, a.Gate, a.Kind, b.Level, b.Gate, b.Kind)
			}
			if a.Level == pipeline.Decided {
				decided++
			}
			if slices.ContainsFunc(a.New, func(d pipeline.DecisionMade) bool { return d.Filter == coref.Name }) {
				byMemo++
			}
			at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 3 * time.Hour}).Draw(t, "pause"))
			if rapid.IntRange(0, 4).Draw(t, "edit") == 0 {
				maker.Edit(k)
			}
			maker.Turn(k)
			k.Unmark()
			k.Mark(gen.Short)
		}
		if with.Memos() == 0 {
			t.Fatal("nothing is kept of what was read")
		}
	})
	if decided == 0 || byMemo == 0 {
		t.Errorf("%d requests decided something, %d by what a filter keeps", decided, byMemo)
	}
}
