package pipeline_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/bedrock"
	"github.com/tidemark-dev/tidemark/internal/simprovider/gemini"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// verdict is what a simulated provider says of one request.
type verdict struct {
	refused string
	usage   pipeline.Usage
	units   float64 // of the input
}

// vendor is a provider for duels: models that it serves, and a simulator of one under a policy that is drawn.
type vendor struct {
	models  []string
	prepare func(t *rapid.T, c *gen.Conversation)
	open    func(t *rapid.T) func() func(model string, body []byte, at time.Time) verdict
}

func pick[T any](t *rapid.T, name string, list ...T) T { return rapid.SampledFrom(list).Draw(t, name) }

var openAI = vendor{
	models: []string{"gpt-5.1", "gpt-5.5", "gpt-5.6-sol", "gpt-6.1-sol"},
	prepare: func(t *rapid.T, c *gen.Conversation) {
		c.Dialect.CacheControl, c.Dialect.IDs = false, false // not OpenAI's; and equal messages must not have equal ids
		c.Dialect.Explicit = c.Dialect.Explicit && unbounded(c.Model)
		if c.Model == "gpt-5.1" && rapid.Bool().Draw(t, "in memory") {
			c.Extra = append(c.Extra, gen.Member{Key: "prompt_cache_retention", Value: "in_memory"})
		}
	},
}

// openAIAt serves a path of OpenAI's, which keeps what it caches for as short or as long as its documentation allows.
func openAIAt(path string) vendor {
	v := openAI
	v.open = func(t *rapid.T) func() func(string, []byte, time.Time) verdict {
		policy := openai.Policy{
			AnyKey: rapid.Bool().Draw(t, "any key"), RefreshAll: rapid.Bool().Draw(t, "refresh all"), SkipBelow: rapid.Bool().Draw(t, "skip below"),
			Memory: pick(t, "memory", 5*time.Minute, 20*time.Minute, time.Hour), Day: pick(t, "day", time.Hour, 24*time.Hour),
			Beyond: pick(t, "beyond", 0, 2*time.Hour, 48*time.Hour),
		}
		return func() func(string, []byte, time.Time) verdict {
			sim := openai.New(openai.Options{Policy: policy, Foreign: true, NoLog: true})
			return func(model string, body []byte, at time.Time) (a verdict) {
				res := sim.Call(path, body, http.Header{"Authorization": {"Bearer sk-test"}}, at)
				if res.Err != nil {
					return verdict{refused: res.Err.Error()}
				}
				u := res.Usage
				u.Output = 0
				return verdict{
					usage: pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write, Output: res.Usage.Output, Merged: u.Write > 0},
					units: openai.Units(model, u),
				}
			}
		}
	}
	return v
}

// vendors serve the formats.
var vendors = map[transcript.Format]vendor{
	transcript.Chat:      openAIAt("/v1/chat/completions"),
	transcript.Responses: openAIAt("/v1/responses"),
	transcript.Converse: {
		models:  []string{"global.anthropic.claude-sonnet-4-6", "us.anthropic.claude-opus-4-7-v1:0", "anthropic.claude-sonnet-4-20250514-v1:0"},
		prepare: func(*rapid.T, *gen.Conversation) {},
		open: func(t *rapid.T) func() func(string, []byte, time.Time) verdict {
			policy := simprovider.Policy{
				Refresh:   pick(t, "refresh", simprovider.Refresh(0), simprovider.Refresh(1)),
				SkipBelow: rapid.Bool().Draw(t, "skip below"), Upgrade: rapid.Bool().Draw(t, "upgrade"),
			}
			return func() func(string, []byte, time.Time) verdict {
				sim := bedrock.New(bedrock.Options{Policy: policy, NoLog: true})
				return func(model string, body []byte, at time.Time) verdict {
					res := sim.Call("/model/"+model+"/converse", body, http.Header{}, at)
					if res.Err != nil {
						return verdict{refused: res.Err.Error()}
					}
					u := res.Usage
					usage := pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output}
					u.Output = 0
					return verdict{usage: usage, units: bedrock.Units(model, u)}
				}
			}
		},
	},
	transcript.Gemini: {
		models:  []string{"gemini-2.5-pro", "gemini-3.1-pro-preview"},
		prepare: func(*rapid.T, *gen.Conversation) {},
		open: func(t *rapid.T) func() func(string, []byte, time.Time) verdict {
			policy := gemini.Policy{Life: pick(t, "life", time.Minute, 5*time.Minute, time.Hour)}
			return func() func(string, []byte, time.Time) verdict {
				sim := gemini.New(gemini.Options{Policy: policy, NoLog: true})
				return func(model string, body []byte, at time.Time) verdict {
					res := sim.Call("/v1beta/models/"+model+":generateContent", body, http.Header{}, at)
					if res.Err != nil {
						return verdict{refused: res.Err.Error()}
					}
					u := res.Usage
					usage := pipeline.Usage{Input: u.Input, Read: u.Read, Output: u.Output}
					u.Output, u.Thoughts = 0, 0
					return verdict{usage: usage, units: gemini.Units(model, u)}
				}
			}
		},
	},
}

// unbounded reports whether nothing is known to lapse of what a model's provider caches.
func unbounded(model string) bool { return model == "gpt-5.6-sol" || model == "gpt-6.1-sol" }

// duel plays the same client against two providers with the same policy: one gets the bodies as they came, the other what
// tidemark forwards.
type duel struct {
	*ride
	model       string
	plain, ours func(model string, body []byte, at time.Time) verdict
	paid, spent float64               // as it came, and as forwarded
	own         float64               // what the client lost itself, by writing sent messages otherwise
	rewound     bool                  // the client has gone back behind what it had sent
	replayed    int                   // requests that were forwarded otherwise than they came
	holds       bool                  // what is held out of the cache is not read
	giving      func(body []byte) int // tokens of what was given back; nil: nothing is
}

// bounded knows that Gemini, as these duels have it, forgets after an hour. Its documentation promises no such thing.
var bounded = func() *cache.Table {
	t, err := cache.Prices().With([]cache.Override{{Model: "gemini-*", AutoTTL: time.Hour}})
	if err != nil {
		panic(err)
	}
	return t
}()

func newDuel(t *rapid.T, c *pipeline.Config, f transcript.Format) *duel {
	return newDuelAt(t, c, f, vendors[f])
}

func newDuelAt(t *rapid.T, c *pipeline.Config, f transcript.Format, v vendor) *duel {
	d := &duel{model: rapid.SampledFrom(v.models).Draw(t, "model")}
	o := gen.Options{Model: d.model, Dialects: true, Wild: rapid.Bool().Draw(t, "wild"), Files: 3, ResultBytes: 9000}
	w := &walker{t: t, m: gen.New(gentest.Source(t), o), c: c, store: keyed{memory.New()}, at: epoch, prices: bounded}
	w.restart()
	conv := w.m.Conversation(0)                                                           // tidemark is there from the first request on
	conv.System = append(conv.System, gen.Text(strings.Repeat("Work with care. ", 1700))) // else the prompt is too small to change
	conv.Mark(gen.Short)
	v.prepare(t, conv)
	w.lines = []*gen.Conversation{conv}
	d.ride = &ride{w, f}
	sim := v.open(t)
	d.plain, d.ours = sim(), sim()
	return d
}

// turn sends one request to both.
func (d *duel) turn() step {
	t := d.t
	r := ask(d.lines[d.cur].As(wires[d.f]), d.c, d.at)
	r.Format, r.Model = d.f, d.model
	if d.f == transcript.Converse {
		r.Place.Platform = cache.Bedrock // nobody else speaks it
	}
	o := d.e.Request(context.Background(), r)
	out := r.Body
	if o.Body != nil {
		out = o.Body
		d.replayed++
	}
	before, after := d.plain(d.model, r.Body, d.at), d.ours(d.model, out, d.at)
	if before.refused != "" { // an edited history may end in reasoning that nothing follows
		t.Skip(before.refused)
	}
	if after.refused != "" {
		t.Fatalf("%s refuses what it took before: %s\n%.3000s", d.f, after.refused, out)
	}
	d.paid, d.spent = d.paid+before.units, d.spent+after.units
	shorter := before.usage.Prompt() - after.usage.Prompt()
	if d.giving != nil {
		shorter += d.giving(out)
	}
	d.rewound = d.rewound || o.Kind == pipeline.KindFork
	// No move leaves less than what the provider caches, but a client that goes back may: there is nothing to read of so little.
	small := d.rewound && before.usage.Read > 0 && before.usage.Read-max(shorter, 0) < bounded.At(d.model, r.Place).Minimum
	if small || o.Kind == pipeline.KindFork || o.Kind == pipeline.KindNew { // a provider goes by values, tidemark by bytes
		d.own += min(max(0, after.units-before.units), 2*float64(max(0, before.usage.Read-after.usage.Read))) // written at up to double the price
	}
	if after.usage.Read+max(shorter, 0)+2048 < before.usage.Read && !d.holds && !small && o.Move == nil && o.Kind == pipeline.KindContinue {
		t.Fatalf("%d tokens were read of %d, and %d of %d without tidemark", after.usage.Read, after.usage.Prompt(), before.usage.Read, before.usage.Prompt())
	}
	d.e.Observe(context.Background(), o, &pipeline.Response{Status: 200, Usage: &after.usage})
	return step{in: r.Body, out: out, o: o}
}

// TestNeverDearer: whatever the provider keeps, for as short or as long as its documentation allows, no request is refused and no
// session costs more than as it came.
func TestNeverDearer(t *testing.T) {
	for f := range vendors {
		t.Run(f.String(), func(t *testing.T) {
			var sum bill
			for name, budget := range map[string]int{"results": 0, "cuts": 2500} {
				t.Run(name, func(t *testing.T) { sum.add(neverDearer(t, f, budget)) })
			}
			if sum.decided == 0 || sum.spent >= sum.paid {
				t.Errorf("%d decisions, and %.0f instead of %.0f", sum.decided, sum.spent, sum.paid)
			}
		})
	}
}

// bill is what sessions cost as they came and as they were forwarded, and the decisions that made the difference.
type bill struct {
	decided     int
	paid, spent float64
}

func (b *bill) add(c bill) {
	b.decided, b.paid, b.spent = b.decided+c.decided, b.paid+c.paid, b.spent+c.spent
}

func neverDearer(t *testing.T, f transcript.Format, budget int) (sum bill) {
	t.Helper()
	c := deepConfig(t, budget)
	c.Moves.Brake = true
	if f.Automatic() { // none of them acts there
		c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true}
	}
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		d := newDuel(t, c, f)
		for range rapid.IntRange(4, 16).Draw(t, "requests") {
			d.act()
			if rapid.IntRange(0, 4).Draw(t, "night") == 0 {
				d.at = d.at.Add(pick(t, "pause", 30*time.Minute, 2*time.Hour, 30*time.Hour))
			}
			s := d.turn()
			sum.decided += len(s.o.New)
			moved += b2i(unbounded(d.model) && s.o.Move != nil && s.o.Kind != pipeline.KindFork) // a fork's history is another one
			if b := s.o.Breakpoints; f.Automatic() && b != (pipeline.BreakpointChanges{}) {
				t.Fatalf("breakpoints changed: %+v", b)
			}
		}
		// Where reads are billed in steps, each request may have a step less to read.
		if d.spent > d.paid*1.0001+1+d.own+float64(d.replayed*bounded.Lookup(d.model).Step)*0.9 {
			t.Fatalf("%s: %.0f instead of %.0f", d.model, d.spent, d.paid)
		}
		sum.paid, sum.spent = sum.paid+d.paid, sum.spent+d.spent
	})
	if moved > 0 {
		t.Errorf("%d moves where nothing is known to lapse", moved)
	}
	return sum
}

// TestConverseLevers: holds, lifts and placed breakpoints are taken by Bedrock too.
func TestConverseLevers(t *testing.T) {
	c := config(t, "always")
	c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true}
	var done pipeline.BreakpointChanges
	rapid.Check(t, func(t *rapid.T) {
		d := newDuel(t, c, transcript.Converse)
		d.holds = true
		for range rapid.IntRange(4, 16).Draw(t, "requests") {
			d.act()
			if rapid.IntRange(0, 3).Draw(t, "unmark") == 0 {
				d.lines[d.cur].Unmark()
			}
			b := d.turn().o.Breakpoints
			done.Stripped, done.Anchored, done.Kept = done.Stripped+b.Stripped, done.Anchored+b.Anchored, done.Kept+b.Kept
			done.Placed, done.Raised = done.Placed+b.Placed, done.Raised+b.Raised
		}
	})
	if slices.Contains([]int{done.Stripped, done.Anchored, done.Placed, done.Raised}, 0) {
		t.Errorf("breakpoints changed: %+v", done)
	}
}

// Levers that need breakpoints say so.
func TestAutomaticCachingGates(t *testing.T) {
	c := config(t, "always")
	for f := range shapes {
		if !f.Automatic() {
			continue
		}
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

// TestStringHead: for a server of which nothing is known a string never becomes a list. For one that is known to take lists it does,
// and a list stays one for anybody.
func TestStringHead(t *testing.T) {
	prices, err := cache.Prices().With([]cache.Override{{Model: "deepseek-*", AutoTTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	c := deepConfig(t, 1200)
	for _, k := range []struct {
		model string
		list  bool
		gate  bool
	}{{"deepseek-chat", false, true}, {"deepseek-chat", true, false}, {"gpt-5.1", false, false}} {
		e, err := pipeline.New(context.Background(), memory.New(), pipeline.Options{Flush: -1, DeepProof: true, Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		var o *pipeline.Outcome
		for i, n := range []int{30, 31} {
			body := strings.Replace(string(sessionAs(transcript.Chat, n)), plainModel, k.model, 1)
			if k.list {
				body = strings.Replace(body, `"content":"Fix the limiter."`, `"content":[{"type":"text","text":"Fix the limiter."}]`, 1)
			}
			r := ask([]byte(body), c, epoch.Add(time.Duration(i)*40*time.Hour))
			r.Format = transcript.Chat
			o = e.Request(context.Background(), r)
		}
		if gate := o.Gates[pipeline.FilterGate{Filter: "shed", Gate: filters.StringHead}]; (gate > 0) != k.gate || (o.Cut == 0) != k.gate {
			t.Errorf("%s, list %t: %d messages cut, gates %v", k.model, k.list, o.Cut, o.Gates)
		}
	}
}
