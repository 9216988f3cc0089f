package pipeline_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// The unit of every benchmark here is BenchmarkUnit: gjson.ValidBytes and sha256 of the same body, in the same run. Run
//
//	go test ./pipeline -run '^$' -bench . -benchmem
//
// and divide. Bodies are about 1.3 MB with 600 messages, as a coding agent sends them late in a session.

var code = strings.Repeat("\tif err := s.store.Commit(ctx, key, branch); err != nil {\n\t\treturn fmt.Errorf(\"commit %q: %w\", key, err)\n\t}\n", 36)

// session writes the body of a coding session with n exchanges; the marker stands on the last block.
func session(exchanges int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"claude-sonnet-4-6","max_tokens":32000,"system":[{"type":"text","text":` + quoted(strings.Repeat("You are an agent. ", 600)) +
		`,"cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","description":"reads","input_schema":{"type":"object"}}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"Fix the limiter."}]}`)
	for i := range exchanges {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"Step %d."},`, i)
		if i%5 == 4 {
			fmt.Fprintf(&b, `{"type":"tool_use","id":"toolu_%05d","name":"Edit","input":{"file_path":"/w/src/file%d.go","old_string":"a","new_string":%s}}]}`, i, i%9, quoted(code[:800]))
		} else {
			fmt.Fprintf(&b, `{"type":"tool_use","id":"toolu_%05d","name":"Read","input":{"file_path":"/w/src/file%d.go"}}]}`, i, i%9)
		}
		marker := ""
		if i == exchanges-1 {
			marker = `,"cache_control":{"type":"ephemeral"}`
		}
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%05d","content":%s%s}]}`, i, quoted(fmt.Sprintf("%d", i)+code), marker)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func quoted(s string) string { return string(transcript.AppendQuoted(nil, s)) }

func config(tb testing.TB, hold string) *pipeline.Config {
	tb.Helper()
	rl, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		tb.Fatal(err)
	}
	fs := []filters.Filter{rl}
	if hold != "" {
		c := readmaturation.Default()
		c.Hold = readmaturation.Hold(hold)
		rm, err := readmaturation.New(c)
		if err != nil {
			tb.Fatal(err)
		}
		fs = append(fs, rm)
	}
	return &pipeline.Config{Name: "test", Filters: fs}
}

// fataler is a test of either kind.
type fataler interface{ Fatal(args ...any) }

func newEngine(tb fataler, deep bool) *pipeline.Engine {
	e, err := pipeline.New(context.Background(), memory.New(), pipeline.Options{Flush: -1, DeepProof: deep})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

var epoch = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

func ask(body []byte, c *pipeline.Config, at time.Time) *pipeline.Request {
	return &pipeline.Request{Format: transcript.Anthropic, Body: body, Tenant: "t", Session: "s", Now: at, Config: c}
}

func BenchmarkUnit(b *testing.B) {
	body := session(300)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if !gjson.ValidBytes(body) {
			b.Fatal("not JSON")
		}
		_ = sha256.Sum256(body)
	}
}

// BenchmarkWarm is a turn of a known session in which nothing is decided and many decisions are replayed.
func BenchmarkWarm(b *testing.B) {
	for _, memory := range []bool{true, false} {
		b.Run(fmt.Sprintf("memory=%v", memory), func(b *testing.B) { warm(b, memory) })
	}
}

// BenchmarkEverything is the same with everything on: both filters, lifts, warm moves, guards, and usage that is taken in.
func BenchmarkEverything(b *testing.B) {
	c := config(b, "economic")
	c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true}
	c.Moves = pipeline.Moves{Warm: true, MinGain: 0.05, Budget: 3, Spacing: 8, RawGuard: true, Brake: true}
	e, ctx := newEngine(b, false), context.Background()
	e.Request(ctx, ask(session(298), c, epoch))
	e.Request(ctx, ask(session(299), c, epoch.Add(3*time.Hour))) // a cold move
	body := session(300)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	at := epoch.Add(3*time.Hour + time.Second)
	for b.Loop() {
		at = at.Add(time.Millisecond)
		r := ask(body, c, at)
		r.Explain = pipeline.ExplainNew // as servers ask, for the page and for events
		o := e.Request(ctx, r)
		if o.Body == nil || len(o.New) > 0 {
			b.Fatalf("level %v gate %v new %d", o.Level, o.Gate, len(o.New))
		}
		e.Observe(ctx, o, &pipeline.Response{Status: 200, Usage: &pipeline.Usage{Read: 250_000, Write5m: 1500}})
	}
}

func warm(b *testing.B, known bool) {
	b.Helper()
	c, e := config(b, ""), newEngine(b, false)
	ctx := context.Background()
	e.Request(ctx, ask(session(298), c, epoch))
	e.Request(ctx, ask(session(299), c, epoch.Add(3*time.Hour))) // a cold move
	body := session(300)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	at := epoch.Add(3*time.Hour + time.Second)
	for b.Loop() {
		if !known {
			b.StopTimer()
			e.Flush(ctx)
			e.Forget()
			b.StartTimer()
		}
		at = at.Add(time.Millisecond)
		o := e.Request(ctx, ask(body, c, at))
		if o.Body == nil || len(o.New) > 0 {
			b.Fatalf("level %v gate %v new %d", o.Level, o.Gate, len(o.New))
		}
	}
}

// BenchmarkFirstSight is a body of a session that tidemark has never seen.
func BenchmarkFirstSight(b *testing.B) {
	c, e := config(b, "always"), newEngine(b, false)
	body := session(300)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		r := ask(body, c, epoch)
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		e.Request(context.Background(), r)
	}
}

// BenchmarkMove is a turn after a pause: every stale read of the session is decided at once.
func BenchmarkMove(b *testing.B) {
	c, e := config(b, ""), newEngine(b, false)
	ctx := context.Background()
	before, body := session(299), session(300)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		r := ask(before, c, epoch)
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		e.Request(ctx, r)
		b.StartTimer()
		r = ask(body, c, epoch.Add(2*time.Hour))
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		if o := e.Request(ctx, r); o.Move == nil {
			b.Fatalf("no move: %v %v", o.Gate, o.Gates)
		}
	}
}

// BenchmarkHold is a turn that holds its fresh read.
func BenchmarkHold(b *testing.B) {
	c, e := config(b, "always"), newEngine(b, false)
	ctx := context.Background()
	before, body := session(298), session(299) // exchange 298 reads
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		r := ask(before, c, epoch)
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		e.Request(ctx, r)
		b.StartTimer()
		r = ask(body, c, epoch.Add(time.Second))
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		if o := e.Request(ctx, r); o.Held != 2 || len(o.New) != 1 {
			b.Fatalf("held %d: %v %v", o.Held, o.Gate, o.Gates)
		}
	}
}

// BenchmarkHostile are bodies made to hurt; compare each with a well-formed body of its size.
func BenchmarkHostile(b *testing.B) {
	for name, body := range map[string][]byte{
		"deep":     []byte(`{"messages":` + strings.Repeat("[", 1<<20)),
		"blocks":   []byte(`{"messages":[{"role":"user","content":[` + strings.Repeat(`{},`, 1<<18) + `{}]}]}`),
		"escapes":  []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(`\u0041`, 1<<17) + `"}]}`),
		"keys":     []byte(`{"messages":[{"role":"user","content":"x"` + strings.Repeat(`,"k\u0065y":1`, 1<<16) + `}]}`),
		"sameids":  hostileIDs(4000),
		"unclosed": []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("a", 1<<20)),
	} {
		b.Run(name, func(b *testing.B) {
			c, e := config(b, "always"), newEngine(b, false)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				e.Request(context.Background(), ask(body, c, epoch))
			}
		})
	}
}

// hostileIDs has n calls and results that all carry one id.
func hostileIDs(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"tools":[{"name":"Read"}],"messages":[{"role":"user","content":"x"}`)
	for range n {
		b.WriteString(`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Read","input":{"file_path":"/f"}}]}` +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"` + strings.Repeat("abc ", 200) + `"}]}`)
	}
	b.WriteString("]}")
	return []byte(b.String())
}
