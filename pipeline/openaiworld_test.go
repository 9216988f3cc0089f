package pipeline_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

var openAIPaths = map[transcript.Format]string{transcript.Chat: "/v1/chat/completions", transcript.Responses: "/v1/responses"}

// duel plays the same client against two providers with the same policy: one gets the bodies as they came, the other what
// tidemark forwards.
type duel struct {
	*ride
	model       string
	plain, ours *openai.Sim
	paid, spent float64 // as it came, and as forwarded
}

// lives are what providers keep, from the shortest to the longest that is documented.
func lives(t *rapid.T) openai.Policy {
	pick := func(name string, d ...time.Duration) time.Duration { return rapid.SampledFrom(d).Draw(t, name) }
	return openai.Policy{
		AnyKey: rapid.Bool().Draw(t, "any key"), RefreshAll: rapid.Bool().Draw(t, "refresh all"), SkipBelow: rapid.Bool().Draw(t, "skip below"),
		Memory: pick("memory", 5*time.Minute, 20*time.Minute, time.Hour), Day: pick("day", time.Hour, 24*time.Hour),
		Beyond: pick("beyond", 0, 2*time.Hour, 48*time.Hour),
	}
}

func newDuel(t *rapid.T, c *pipeline.Config, f transcript.Format) *duel {
	d := &duel{model: rapid.SampledFrom([]string{"gpt-5.1", "gpt-5.5", "gpt-5.6-sol", "gpt-6.1-sol"}).Draw(t, "model")}
	o := gen.Options{Model: d.model, Dialects: true, Wild: rapid.Bool().Draw(t, "wild"), Files: 3, ResultBytes: 9000}
	w := &walker{t: t, m: gen.New(gentest.Source(t), o), c: c, store: keyed{memory.New()}, at: epoch}
	w.restart()
	conv := w.m.Conversation(0)                                                           // tidemark is there from the first request on
	conv.System = append(conv.System, gen.Text(strings.Repeat("Work with care. ", 1700))) // else the prompt is too small to change
	conv.Dialect.CacheControl, conv.Dialect.IDs = false, false                            // not OpenAI's; and equal messages must not have equal ids
	conv.Dialect.Explicit = conv.Dialect.Explicit && (d.model == "gpt-5.6-sol" || d.model == "gpt-6.1-sol")
	if d.model == "gpt-5.1" && rapid.Bool().Draw(t, "in memory") {
		conv.Extra = append(conv.Extra, gen.Member{Key: "prompt_cache_retention", Value: "in_memory"})
	}
	w.lines = []*gen.Conversation{conv}
	d.ride = &ride{w, f}
	policy := lives(t)
	d.plain = openai.New(openai.Options{Policy: policy, Foreign: true, NoLog: true})
	d.ours = openai.New(openai.Options{Policy: policy, Foreign: true, NoLog: true})
	return d
}

// turn sends one request to both.
func (d *duel) turn() step {
	t := d.t
	r := ask(d.lines[d.cur].As(wires[d.f]), d.c, d.at)
	r.Format = d.f
	o := d.e.Request(context.Background(), r)
	out := r.Body
	if o.Body != nil {
		out = o.Body
	}
	h := http.Header{"Authorization": {"Bearer sk-test"}}
	before := d.plain.Call(openAIPaths[d.f], r.Body, h, d.at)
	after := d.ours.Call(openAIPaths[d.f], out, h, d.at)
	if before.Err == nil && after.Err != nil {
		t.Fatalf("%s refuses what it took before: %v", d.f, after.Err)
	}
	if before.Err != nil { // an edited history may end in reasoning that nothing follows
		t.Skip(before.Err)
	}
	price := func(u openai.Usage) float64 { u.Output = 0; return openai.Units(d.model, u) }
	d.paid, d.spent = d.paid+price(before.Usage), d.spent+price(after.Usage)
	if after.Usage.Read < before.Usage.Read-int(after.Prompt) && o.Move == nil {
		t.Fatalf("%d tokens were read, and %d without tidemark", after.Usage.Read, before.Usage.Read)
	}
	u := after.Usage
	d.e.Observe(context.Background(), o, &pipeline.Response{Status: 200, Usage: &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write, Output: u.Output, Merged: u.Write > 0}})
	return step{in: r.Body, out: out, o: o}
}

// TestOpenAINeverDearer: whatever the provider keeps, for as short or as long as its documentation allows, no request is refused
// and no session costs more than as it came.
func TestOpenAINeverDearer(t *testing.T) {
	for f := range openAIPaths {
		t.Run(f.String(), func(t *testing.T) {
			for name, budget := range map[string]int{"results": 0, "cuts": 2500} {
				t.Run(name, func(t *testing.T) {
					c := deepConfig(t, budget)
					c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true} // none of them acts here
					c.Moves.Brake = true
					decided, saved, unbounded := 0, 0.0, 0
					rapid.Check(t, func(t *rapid.T) {
						d := newDuel(t, c, f)
						for range rapid.IntRange(4, 16).Draw(t, "requests") {
							d.act()
							if rapid.IntRange(0, 4).Draw(t, "night") == 0 {
								d.at = d.at.Add(rapid.SampledFrom([]time.Duration{30 * time.Minute, 2 * time.Hour, 30 * time.Hour}).Draw(t, "pause"))
							}
							s := d.turn()
							decided += len(s.o.New)
							if d.model[:5] != "gpt-5" || d.model == "gpt-5.6-sol" {
								unbounded += b2i(s.o.Move != nil && s.o.Kind != pipeline.KindFork) // a fork's history is another one
							}
							if b := s.o.Breakpoints; b != (pipeline.BreakpointChanges{}) {
								t.Fatalf("breakpoints changed: %+v", b)
							}
						}
						if d.spent > d.paid*1.0001+1 {
							t.Fatalf("%s: %.0f instead of %.0f", d.model, d.spent, d.paid)
						}
						saved += d.paid - d.spent
					})
					if decided == 0 || saved <= 0 {
						t.Errorf("%d decisions saved %.0f: the duels prove nothing", decided, saved)
					}
					if unbounded > 0 {
						t.Errorf("%d moves where nothing is known to lapse", unbounded)
					}
				})
			}
		})
	}
}

// Levers that need breakpoints say so.
func TestAutomaticCachingGates(t *testing.T) {
	c := config(t, "always")
	for f := range shapes {
		e := newEngine(t, true)
		r := ask(sessionAs(f, 0), c, epoch)
		r.Format = f
		e.Request(context.Background(), r)
		r = ask(sessionAs(f, 1), c, epoch.Add(time.Second))
		r.Format = f
		o := e.Request(context.Background(), r)
		if o.Gates[pipeline.FilterGate{Filter: "readmaturation", Gate: filters.AutomaticCaching}] == 0 || o.Held > 0 || o.Body != nil {
			t.Errorf("%s: held %d, gates %v", f, o.Held, o.Gates)
		}
	}
}
