package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// side is one of two worlds that see the same session.
type side struct {
	e    *pipeline.Engine
	c    *pipeline.Config
	sim  *simprovider.Sim
	cost float64
}

func newSide(t *rapid.T, moves pipeline.Moves) *side {
	keys := readlifecycle.Default()
	keys.StaleAtDepth = true
	f, err := readlifecycle.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &side{
		e: newEngine(t, true), sim: simprovider.New(simprovider.Options{}),
		c: &pipeline.Config{Name: "warm", Filters: []filters.Filter{f}, Moves: moves},
	}
}

// send plays one request and bills it.
func (s *side) send(t *rapid.T, body []byte, at time.Time) *pipeline.Outcome {
	o := s.e.Request(context.Background(), ask(body, s.c, at))
	out := body
	if o.Body != nil {
		out = o.Body
	}
	r := s.sim.Call(out, http.Header{"X-Api-Key": {"k"}}, at)
	if r.Status != http.StatusOK {
		t.Fatalf("refused: %v", r.Err)
	}
	s.cost += simprovider.Units(r.Model, r.Usage)
	u := r.Usage
	s.e.Observe(context.Background(), o, &pipeline.Response{
		Status: r.Status, Model: r.Model, Usage: &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output},
	})
	return o
}

// A warm move that fires never loses against not firing, if the session goes on for as many calls as the move counts on.
func TestWarmMovesPay(t *testing.T) {
	fired := 0
	rapid.Check(t, func(t *rapid.T) {
		moves := pipeline.Moves{
			Warm: true, Budget: 1, MinGain: rapid.SampledFrom([]float64{0.001, 0.01, 0.05}).Draw(t, "min gain"),
			Horizon: rapid.SampledFrom([]int{0, 20, 40}).Draw(t, "horizon"),
		}
		with, without := newSide(t, moves), newSide(t, pipeline.Moves{})
		maker := gen.New(gentest.Source(t), gen.Options{Files: 2, ResultBytes: rapid.SampledFrom([]int{1500, 6000}).Draw(t, "bytes")})
		k := maker.Conversation(3)
		at := epoch
		begun := k.Clone() // from its first message on, so that no warm move can have been made before
		begun.Truncate(1)
		begun.Mark(gen.Short)
		if without.sim.Call(begun.Compact(), http.Header{"X-Api-Key": {"probe"}}, at).Status != http.StatusOK {
			return // no client would begin like this
		}
		with.send(t, begun.Compact(), at)
		without.send(t, begun.Compact(), at)
		at = at.Add(20 * time.Second)
		var move *pipeline.Move
		left := 0
		for turn := 0; turn < 24 || left > 0; turn++ {
			body := k.Compact()
			if without.sim.Call(body, http.Header{"X-Api-Key": {"probe"}}, at).Status != http.StatusOK {
				return // no client would go on like this
			}
			o := with.send(t, body, at)
			without.send(t, body, at)
			switch {
			case o.Move != nil && o.Move.Kind == pipeline.Warm:
				if move = o.Move; move.Sum.Gain <= 0 {
					t.Fatalf("a warm move that does not pay: %v", move.Sum)
				}
				left = int(move.Sum.N) - 1
				fired++
			case move != nil:
				left--
			}
			if move != nil && left <= 0 {
				break
			}
			at = at.Add(20 * time.Second)
			maker.Turn(k)
			k.Unmark()
			k.Mark(gen.Short)
		}
		if move != nil && with.cost > without.cost {
			t.Fatalf("bill %.0f after a warm move (%v), %.0f without", with.cost, move.Sum, without.cost)
		}
	})
	if fired == 0 {
		t.Error("no warm move ever fired")
	}
	t.Logf("%d warm moves", fired)
}

// TestWarmMoveCountsWhatRidesAlong: superseded reads behind the cut go with a warm move that stale ones cause. If the prompt became
// too small for all of them, no part of the move is made; a move of which a part is refused is not the one that was weighed.
func TestWarmMoveCountsWhatRidesAlong(t *testing.T) {
	l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 300}), simprovider.Policy{})
	k := l.talk()
	k.System = []gen.Block{gen.Text(strings.Repeat("You are a coding agent. ", 400))}
	l.turn(k)
	read := func(id, path, offset string, bytes int) {
		input := gen.Object{{Key: "file_path", Value: path}, {Key: "offset", Value: gen.Number(offset)}}
		l.turn(k.exchange(id, "Read", input, id+strings.Repeat(" line", bytes/5)))
	}
	read("stale1", "/w/a", "1", 4000)
	read("superseded", "/w/b", "1", 8000)
	read("again", "/w/b", "1", 8000)
	read("stale2", "/w/a", "900", 4000)
	l.turn(k.edit("e", "/w/a"))
	l.gate("too small", filters.SmallPrompt, 2)
	if l.o.Move != nil || !bytes.Equal(l.in, l.out) {
		t.Errorf("move %v", l.o.Move)
	}
	l.turn(k.say(strings.Repeat("Go on. ", 1200)))
	l.shortened("stale1 stale2 superseded")
	if l.o.Move == nil || l.o.Move.Kind != pipeline.Warm {
		t.Errorf("move %v, gates %v", l.o.Move, l.o.Gates)
	}
}

// TestWarmMoveForecast: what a warm move removes and re-writes is forecast by the provider's own counts, whatever a token holds
// in the read that goes, and in what stands around it.
func TestWarmMoveForecast(t *testing.T) {
	for _, text := range []string{"日本語 ", "file🙂 ", "\"a\\b\"\t", "plain words "} {
		t.Run(text, func(t *testing.T) {
			l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 300}), simprovider.Policy{})
			k := l.talk()
			l.turn(k)
			l.turn(k.exchange("r", "Read", gen.Object{{Key: "file_path", Value: "/w/a"}}, strings.Repeat(text, 800)))
			l.turn(k.read("other", "/w/b"))
			whole := l.res.Usage
			l.turn(k.edit("e", "/w/a"))
			if l.o.Move == nil {
				t.Fatalf("no move, gates %v", l.o.Gates)
			}
			sum, now := l.o.Move.Sum, l.res.Usage
			k.Mark(gen.Short)
			removed := float64(l.sim.Call(k.Body(), http.Header{"X-Api-Key": {"probe"}}, l.at).Prompt - l.res.Prompt)
			again := float64(whole.Read+whole.Write5m-now.Read) - removed
			if sum.Removed > 1.1*removed || sum.Removed < 0.5*removed || sum.Rewritten < 0.9*again {
				t.Errorf("%v: removed %.0f, re-written %.0f", sum, removed, again)
			}
		})
	}
}

// TestUnknownHistoryHasNoBudget: of a conversation that nobody remembers, the warm moves that it has had are not known. None is made.
func TestUnknownHistoryHasNoBudget(t *testing.T) {
	for _, known := range []bool{true, false} {
		l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 3, Horizon: 200}), simprovider.Policy{})
		k, moves := l.talk(), 0
		for i := range 12 {
			if known || i > 3 {
				l.turn(k)
				moves += b2i(l.o.Move != nil && l.o.Move.Kind == pipeline.Warm)
			}
			k.read(fmt.Sprintf("r%d", i), "/w/a").edit(fmt.Sprintf("e%d", i), "/w/a")
		}
		if moves > 0 != known {
			t.Errorf("known %v: %d warm moves", known, moves)
		}
		if !known && l.o.Gates[pipeline.FilterGate{Filter: readlifecycle.Name, Gate: filters.RewriteBudget}] == 0 {
			t.Errorf("gates %v", l.o.Gates)
		}
	}
}
