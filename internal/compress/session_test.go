package compress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state/badgerdb"
)

// talk is a session of an agent behind a gateway that asks the door before it asks the provider.
type talk struct {
	*door

	c      *gen.Conversation
	m      *gen.Maker
	format gen.Format
	name   string
	last   string // list that was returned last
}

// begin begins one that the simulators take: nothing is thought, as they know what they signed.
func begin(d *door, seed uint64, format gen.Format, name string) *talk {
	return beginWith(d, gen.Options{ResultBytes: 1500, Files: 2, Comparable: true}, seed, format, name)
}

func beginWith(d *door, o gen.Options, seed uint64, format gen.Format, name string) *talk {
	m := gen.New(rand.New(rand.NewPCG(seed, 1)), o) //nolint:gosec // of a test
	c := m.Start()
	c.System = append(c.System, gen.Text(strings.Repeat("Mind the gap. ", 2000))) // what is left of a prompt must be large enough to be cached
	return &talk{door: d, c: c, m: m, format: format, name: name}
}

// list is the name of the list in a body of the session's format.
func (k *talk) list() string {
	if k.format == gen.Responses {
		return "input"
	}
	return "messages"
}

// body is what the agent sends to the gateway.
func (k *talk) body() []byte {
	k.c.Unmark()
	return k.c.CompactAs(k.format)
}

// ask sends what the gateway got to the door.
func (k *talk) ask(body []byte) gjson.Result {
	k.t.Helper()
	parts := []string{}
	for _, name := range []string{"model", "tools", "system", "instructions", k.list()} {
		if v := gjson.GetBytes(body, name); v.Exists() {
			parts = append(parts, fmt.Sprintf("%q:%s", name, v.Raw))
		}
	}
	return k.compress(fmt.Sprintf(`{%s,"session_id":%q,"format":%q}`, strings.Join(parts, ","), k.name, k.format))
}

// turn goes on for a turn, and checks what came back: append-only but at a move, every pair where it was.
func (k *talk) turn() (body []byte, got gjson.Result) {
	k.t.Helper()
	body = k.body()
	got = k.ask(body)
	list := got.Get(k.list()).Raw
	if k.last != "" && got.Get("tidemark.move").Str == "" && !strings.HasPrefix(list, strings.TrimSuffix(k.last, "]")) {
		k.t.Fatalf("what was returned before is no prefix, without a move: %s", got.Get("tidemark").Raw)
	}
	if was, is := ids(gjson.GetBytes(body, k.list()).Raw), ids(list); !slices.Equal(was, is) {
		k.t.Fatalf("calls and results are %v, not %v", is, was)
	}
	if before, after, saved := got.Get("tokens_before").Int(), got.Get("tokens_after").Int(), got.Get("tokens_saved").Int(); before-after != saved || after < 0 || saved < 0 ||
		saved > 0 != (len(list) < len(gjson.GetBytes(body, k.list()).Raw)) || saved > 0 != (len(got.Get("transforms_applied").Array()) > 0) {
		k.t.Fatalf("figures: %d, %d, %d %s", before, after, saved, got.Get("transforms_applied").Raw)
	}
	k.last = list
	k.m.Turn(k.c)
	return body, got
}

// ids are the ids of calls and results, in order.
func ids(list string) (out []string) {
	gjson.Parse(list).ForEach(func(_, m gjson.Result) bool {
		for _, path := range []string{"content.#.id", "content.#.tool_use_id", "tool_calls.#.id"} {
			out = append(out, m.Get(path).Raw)
		}
		out = append(out, m.Get("tool_call_id").Str, m.Get("call_id").Str)
		return true
	})
	return out
}

// forward is the body that the gateway sends on: the list in the place of its own.
func (k *talk) forward(body []byte, list string) []byte {
	own := gjson.GetBytes(body, k.list()).Raw
	return bytes.Replace(body, []byte(own), []byte(list), 1)
}

// marked is a body with what gateways add to it: breakpoints on system and on the last message.
func marked(t fataler, body []byte, ttl string) []byte {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal(body, &top); err != nil {
		t.Fatal(err)
	}
	mark := func(v any) []any {
		blocks, ok := v.([]any)
		if text, is := v.(string); is {
			blocks, ok = []any{map[string]any{"type": "text", "text": text}}, true
		}
		if !ok || len(blocks) == 0 {
			t.Fatalf("content is %v", v)
		}
		blocks[len(blocks)-1].(map[string]any)["cache_control"] = map[string]any{"type": "ephemeral", "ttl": ttl}
		return blocks
	}
	top["system"] = mark(top["system"])
	list := top["messages"].([]any)
	last := list[len(list)-1].(map[string]any)
	last["content"] = mark(last["content"])
	out, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pause draws how long somebody thinks, mostly not at all.
func pause(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{5 * time.Second, 9 * time.Second, 20 * time.Second, time.Minute, 6 * time.Minute, 40 * time.Minute, 70 * time.Minute, 3 * time.Hour}).Draw(t, "pause")
}

// A whole session against Anthropic's rules: nothing is refused, and it is never dearer than without the door, whatever lifetime
// the gateway asks for and whether or not it tells of usage.
func TestSessionAnthropic(t *testing.T) {
	var moved, smaller, observed int
	d := open(t, nil, full(t))
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		k := begin(d, seed, gen.Anthropic, fmt.Sprint("anthropic", seed, d.clock()))
		ttl, feedback := rapid.SampledFrom([]string{"5m", "1h"}).Draw(rt, "ttl"), rapid.Bool().Draw(rt, "feedback")
		plain, behind := simprovider.New(simprovider.Options{}), simprovider.New(simprovider.Options{})
		var cost, plainCost float64
		for range rapid.IntRange(6, 10).Draw(rt, "turns") {
			body, got := k.turn()
			p := plain.Call(marked(rt, body, ttl), nil, d.clock())
			b := behind.Call(marked(rt, k.forward(body, got.Get("messages").Raw), ttl), nil, d.clock())
			if (p.Err == nil) != (b.Err == nil) {
				rt.Fatalf("refused: %v, without the door: %v", b.Err, p.Err)
			}
			if p.Err != nil { // the agent said something that nobody may say
				break
			}
			cost, plainCost = cost+simprovider.Units(k.c.Model, b.Usage), plainCost+simprovider.Units(k.c.Model, p.Usage)
			if got.Get("tidemark.move").Str != "" {
				moved++
			}
			if b.Prompt < p.Prompt {
				smaller++
			}
			if feedback {
				u := fmt.Sprintf(`{"id":%q,"response":{"id":"msg_1","model":%q,"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d},"output_tokens":%d}}}`,
					got.Get("tidemark.id").Str, k.c.Model, b.Usage.Input, b.Usage.Read, b.Usage.Write5m+b.Usage.Write1h, b.Usage.Write5m, b.Usage.Write1h, b.Usage.Output)
				if status, e, _ := d.post("/v1/usage", []byte(u)); status != http.StatusNoContent {
					rt.Fatalf("usage: %d %s", status, e.Raw)
				}
				observed++
			}
			d.pause(pause(rt))
		}
		if cost > plainCost*1.0001 {
			rt.Errorf("bill %.0f, without the door %.0f", cost, plainCost)
		}
	})
	if moved == 0 || smaller == 0 || observed == 0 {
		t.Errorf("%d moves, %d smaller prompts, %d answers: this proves nothing", moved, smaller, observed)
	}
}

// The same against OpenAI's rules. Without a documented bound on the life of its cache nothing that was returned ever changes.
func TestSessionOpenAI(t *testing.T) {
	d := open(t, nil, full(t))
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		format := rapid.SampledFrom([]gen.Format{gen.Chat, gen.Responses}).Draw(rt, "format")
		k := begin(d, seed, format, fmt.Sprint("openai", seed, d.clock()))
		k.c.Model = "gpt-5.1"
		path := map[gen.Format]string{gen.Chat: "/v1/chat/completions", gen.Responses: "/v1/responses"}[format]
		plain, behind := openai.New(openai.Options{Foreign: true}), openai.New(openai.Options{Foreign: true})
		var cost, plainCost float64
		for range rapid.IntRange(6, 10).Draw(rt, "turns") {
			body, got := k.turn()
			p, b := plain.Call(path, body, nil, d.clock()), behind.Call(path, k.forward(body, got.Get(k.list()).Raw), nil, d.clock())
			if (p.Err == nil) != (b.Err == nil) {
				rt.Fatalf("refused: %v, without the door: %v", b.Err, p.Err)
			}
			if p.Err != nil {
				break
			}
			cost, plainCost = cost+openai.Units(k.c.Model, b.Usage), plainCost+openai.Units(k.c.Model, p.Usage)
			d.pause(pause(rt))
		}
		if cost > plainCost*1.0001 {
			rt.Errorf("bill %.0f, without the door %.0f", cost, plainCost)
		}
	})
}

// After a pause in which everything lapses the list is smaller, in each format whose model has a bound; and a server that starts
// anew over the same store returns what was decided before, byte for byte.
func TestColdPauseAndRestart(t *testing.T) {
	for _, format := range []gen.Format{gen.Anthropic, gen.Chat, gen.Responses} {
		t.Run(string(format), func(t *testing.T) {
			dir := t.TempDir()
			run := func(k *talk, play func(*talk)) *talk {
				store, err := badgerdb.Open(dir, badgerdb.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Run("server", func(t *testing.T) {
					d := open(t, store, full(t))
					if k == nil {
						k = begin(d, 7, format, "s")
					} else {
						d.now.Store(k.now.Load())
					}
					k.door = d
					play(k)
				})
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				return k
			}
			k := run(nil, func(k *talk) {
				for range 14 {
					if _, got := k.turn(); got.Get("tokens_saved").Int() > 0 {
						t.Error("smaller without a pause")
					}
					k.pause(10 * time.Second)
				}
				k.pause(2 * time.Hour)
				if _, got := k.turn(); got.Get("tokens_saved").Int() == 0 || got.Get("tidemark.move").Str != pipeline.Cold || got.Get("tidemark.cache").Str != "cold" || got.Get("compression_ratio").Num >= 1 {
					t.Errorf("nothing left out: %s", got.Get("tidemark").Raw)
				}
			})
			run(k, func(k *talk) {
				k.pause(10 * time.Second)
				if _, got := k.turn(); got.Get("tokens_saved").Int() == 0 || got.Get("tidemark.new").Int() > 0 {
					t.Errorf("after a restart: %s", got.Raw[len(got.Raw)-600:])
				}
			})
		})
	}
}

// Requests of many sessions at once, with word of their answers. In between all that was cached lapses.
func TestConcurrent(t *testing.T) {
	d := open(t, nil, full(t))
	talks := make([]*talk, 8)
	for n := range talks {
		talks[n] = begin(d, uint64(n), []gen.Format{gen.Anthropic, gen.Chat, gen.Responses}[n%3], fmt.Sprint("s", n/2)) //nolint:gosec // small
	}
	for range 2 {
		var all sync.WaitGroup
		for _, k := range talks {
			all.Go(func() {
				for range 6 {
					_, got := k.turn()
					d.pause(time.Second)
					if status, e, _ := d.post("/v1/usage", fmt.Appendf(nil, `{"id":%q,"status":500}`, got.Get("tidemark.id").Str)); status != http.StatusNoContent {
						t.Errorf("status %d: %s", status, e.Raw)
					}
				}
			})
		}
		all.Wait()
		d.pause(2 * time.Hour)
	}
	d.eventually("all were answered", func() bool { return d.answered == 96 && d.observed == 96 })
}

// The second door gives what the first one gives.
func TestSameAsTheFirstDoor(t *testing.T) {
	first, second := open(t, nil, full(t)), open(t, nil, full(t))
	var smaller int
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		format := rapid.SampledFrom([]gen.Format{gen.Anthropic, gen.Chat, gen.Responses}).Draw(rt, "format")
		k := begin(second, seed, format, fmt.Sprint(seed, second.clock()))
		config := *first.config
		config.Levers, config.Diagnostics, config.Inline = pipeline.Levers{}, 0, false
		for range rapid.IntRange(5, 8).Draw(rt, "turns") {
			body := k.body()
			if format == gen.Anthropic { // all of it is cached for an hour
				k.c.TopMarker = gen.Long
				body = k.c.CompactAs(format)
			}
			r := &pipeline.Request{Route: "r", Format: formatOf[format], Body: body, Tenant: "default", Session: k.name, Now: second.clock(), Config: &config}
			o := first.engine.Request(context.Background(), r)
			want := gjson.GetBytes(body, k.list()).Raw
			if o.Body != nil {
				want = gjson.GetBytes(o.Body, k.list()).Raw
				smaller++
			}
			if _, got := k.turn(); blank(got.Get(k.list()).Raw) != blank(want) {
				rt.Fatalf("first door %q, second door %s:\n%s", o.Gate, got.Get("tidemark").Raw, cmp.Diff(blank(want), blank(got.Get(k.list()).Raw)))
			}
			second.pause(pause(rt))
		}
	})
	if smaller == 0 {
		t.Error("nothing was ever changed: this proves nothing")
	}
}
