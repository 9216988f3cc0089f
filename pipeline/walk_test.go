package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// step is one request of a walk.
type step struct {
	in, out []byte
	o       *pipeline.Outcome
	at      time.Time
	line    int // conversation line: a fork begins another
}

// keyed is a store in memory whose secret is given, so that two walks have the same ids.
type keyed struct{ state.Store }

func (keyed) Secret(context.Context) ([]byte, error) { return []byte(strings.Repeat("s", 32)), nil }

// walker plays one generated session: turns, edits, retries, forks, pauses and restarts.
type walker struct {
	t      *rapid.T
	m      *gen.Maker
	c      *pipeline.Config
	store  state.Store
	e      *pipeline.Engine
	at     time.Time
	lines  []*gen.Conversation
	cur    int
	steps  []step
	prices *cache.Table // nil: the embedded ones
	calm   bool         // no restarts: entries count from process start then, which is another state
}

// makers of conversations whose bodies are large enough that decisions are worth their while.
func bigMaker(t *rapid.T, model string) *gen.Maker {
	return gen.New(gentest.Source(t), gen.Options{
		Model: model, Strange: rapid.Bool().Draw(t, "strange"), Wild: rapid.Bool().Draw(t, "wild"), Files: 3, ResultBytes: 5000,
	})
}

func newWalker(t *rapid.T, c *pipeline.Config, model string) *walker {
	if rapid.Bool().Draw(t, "raised") {
		raised := *c
		raised.Levers.TTL = pipeline.HourTTL
		c = &raised
	}
	w := &walker{t: t, m: bigMaker(t, model), c: c, store: keyed{memory.New()}, at: epoch}
	w.restart()
	w.lines = []*gen.Conversation{w.m.Conversation(rapid.IntRange(0, 6).Draw(t, "turns"))}
	return w
}

func (w *walker) restart() {
	e, err := pipeline.New(context.Background(), w.store, pipeline.Options{Flush: -1, Start: w.at, DeepProof: true, Prices: w.prices})
	if err != nil {
		w.t.Fatal(err)
	}
	w.e = e
}

// walk plays n requests.
func (w *walker) walk(n int) []step {
	for range n {
		w.act()
		w.send(w.lines[w.cur].Body())
	}
	return w.steps
}

// act changes the world between two requests.
func (w *walker) act() {
	c := w.lines[w.cur]
	switch rapid.SampledFrom([]string{"turn", "turn", "turn", "turn", "retry", "edit", "fork", "switch", "pause", "lapse", "restart"}).Draw(w.t, "act") {
	case "turn":
		w.m.Turn(c)
		c.Unmark()
		c.Mark(gen.Short)
	case "edit":
		w.m.Edit(c)
	case "fork":
		if ends := c.Ends(); len(ends) > 1 {
			f := c.Clone()
			f.Truncate(rapid.SampledFrom(ends).Draw(w.t, "cut"))
			w.m.Turn(f)
			f.Unmark()
			f.Mark(gen.Short)
			w.lines = append(w.lines, f)
			w.cur = len(w.lines) - 1
		}
	case "switch":
		w.cur = rapid.IntRange(0, len(w.lines)-1).Draw(w.t, "line")
	case "pause":
		w.at = w.at.Add(4 * time.Minute)
	case "lapse":
		w.at = w.at.Add(2 * time.Hour)
		w.m.Turn(c)
	case "restart":
		if w.calm {
			break
		}
		w.e.Flush(context.Background())
		w.restart()
	}
	w.at = w.at.Add(7 * time.Second)
}

func (w *walker) send(body []byte) step {
	r := ask(body, w.c, w.at)
	o := w.e.Request(context.Background(), r)
	s := step{in: body, out: body, o: o, at: w.at, line: w.cur}
	if o.Body != nil {
		s.out = o.Body
	}
	w.steps = append(w.steps, s)
	return s
}

// parse reads a body with the decoder of the standard library.
func parse(t *rapid.T, body []byte) map[string]any {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	return v
}

func mustParse(body []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		return nil
	}
	return v
}

// blocks lists every object of a body that may carry a breakpoint, in the provider's order, with its area.
func blocks(body map[string]any) (list []placed) {
	for _, area := range []string{"tools", "system"} {
		if all, ok := body[area].([]any); ok {
			for i, b := range all {
				list = append(list, placed{obj(b), area, i, -1})
			}
		}
	}
	msgs, _ := body["messages"].([]any)
	for i, m := range msgs {
		content, _ := obj(m)["content"].([]any)
		for j, b := range content {
			list = append(list, placed{obj(b), fmt.Sprint(obj(m)["role"]), j, i})
		}
	}
	return list
}

type placed struct {
	block map[string]any
	area  string
	at    int
	msg   int
}

func obj(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// marks lists the breakpoints of a body: nested ones count with their result.
func marks(body map[string]any) (ttls []string, on []map[string]any) {
	take := func(b map[string]any) {
		if cc := obj(b["cache_control"]); cc != nil {
			ttl, ok := cc["ttl"].(string)
			if !ok {
				ttl = "5m"
			}
			ttls, on = append(ttls, ttl), append(on, b)
		}
	}
	for _, p := range blocks(body) {
		if parts, ok := p.block["content"].([]any); ok && p.block["type"] == "tool_result" {
			for _, part := range parts {
				take(obj(part))
			}
		}
		take(p.block)
	}
	if obj(body["cache_control"]) != nil {
		take(body)
	}
	return ttls, on
}

// change is a result whose content is forwarded otherwise than it came.
type change struct {
	msg           int
	call          string
	before, after any
	failed        bool
}

// changes compares two bodies value by value. Anything but a result's content or a cache_control fails the test.
func changes(t *rapid.T, in, out []byte) (list []change) {
	a, b := parse(t, in), parse(t, out)
	x, y := blocks(a), blocks(b)
	if len(x) != len(y) {
		t.Fatalf("%d blocks became %d", len(x), len(y))
	}
	for i := range x {
		p, q := x[i].block, y[i].block
		if p["type"] == "tool_result" && !reflect.DeepEqual(bare(p["content"]), bare(q["content"])) {
			call, _ := p["tool_use_id"].(string)
			list = append(list, change{x[i].msg, call, p["content"], q["content"], p["is_error"] == true})
			p["content"], q["content"] = nil, nil
		}
		for _, o := range []map[string]any{p, q} {
			delete(o, "cache_control")
			o["content"] = bare(o["content"])
			if src := obj(o["source"]); src != nil { // a hold takes off breakpoints inside of documents too
				src["content"] = bare(src["content"])
			}
		}
	}
	for _, o := range []map[string]any{a, b} {
		o["system"], o["tools"] = bare(o["system"]), bare(o["tools"])
	}
	if d := cmp.Diff(a, b); d != "" {
		t.Fatalf("something besides results and breakpoints changed: %.20000s", d)
	}
	return list
}

// bare is content without markers on its parts.
func bare(content any) any {
	parts, ok := content.([]any)
	if !ok {
		return content
	}
	out := make([]any, len(parts))
	for i, p := range parts {
		m := map[string]any{}
		for k, v := range obj(p) {
			if k != "cache_control" {
				m[k] = v
			}
		}
		out[i] = m
		if obj(p) == nil {
			out[i] = p
		}
	}
	return out
}

// text is the text of a result's content, "" with ok false if there is anything but text.
func text(content any) (s string, ok bool) {
	if s, ok = content.(string); ok {
		return s, true
	}
	parts, _ := content.([]any)
	var words []string
	for _, p := range parts {
		w, isText := obj(p)["text"].(string)
		if !isText || obj(p)["type"] != "text" {
			return "", false
		}
		words = append(words, w)
	}
	return strings.Join(words, "\n"), len(words) > 0
}

// skeleton is a body with every result's content and every breakpoint taken out: what must never change by a byte.
func skeleton(t *rapid.T, body []byte) string {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	var cuts []transcript.Span
	for i := range ix.Results {
		cuts = append(cuts, ix.Results[i].Content)
	}
	results := slices.Clone(cuts)
	for i := range ix.Markers {
		m := ix.Markers[i].Cut
		if !slices.ContainsFunc(results, func(c transcript.Span) bool { return c.Lo <= m.Lo && m.Hi <= c.Hi }) {
			cuts = append(cuts, m)
		}
	}
	slices.SortFunc(cuts, func(a, b transcript.Span) int { return int(a.Lo) - int(b.Lo) })
	var b strings.Builder
	at := uint32(0)
	for _, c := range cuts {
		b.Write(body[at:c.Lo])
		at = c.Hi
	}
	b.Write(body[at:])
	return b.String()
}
