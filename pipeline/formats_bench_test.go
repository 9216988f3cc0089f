package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// shape is how a session is written in a format: what stands before the turns, one turn, and what stands behind.
type shape struct {
	head string
	turn func(i int, tool, args, result string) string
	tail string
}

var shapes = map[transcript.Format]shape{
	transcript.Chat: {
		`{"model":"claude-sonnet-4-6","tools":[{"type":"function","function":{"name":"Read"}}],"messages":[{"role":"system","content":%s},{"role":"user","content":"Fix the limiter."}`,
		func(i int, tool, args, result string) string {
			return fmt.Sprintf(`,{"role":"assistant","content":"Step %d.","tool_calls":[{"id":"call_%05d","type":"function","function":{"name":%s,"arguments":%s}}]},{"role":"tool","tool_call_id":"call_%05d","content":%s}`,
				i, i, quoted(tool), quoted(args), i, quoted(result))
		}, "]}",
	},
	transcript.Responses: {
		`{"model":"claude-sonnet-4-6","tools":[{"type":"function","name":"Read"}],"instructions":%s,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the limiter."}]}`,
		func(i int, tool, args, result string) string {
			return fmt.Sprintf(`,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Step %d."}]},{"type":"function_call","call_id":"call_%05d","name":%s,"arguments":%s},{"type":"function_call_output","call_id":"call_%05d","output":%s}`,
				i, i, quoted(tool), quoted(args), i, quoted(result))
		}, "]}",
	},
	transcript.Converse: {
		`{"system":[{"text":%s},{"cachePoint":{"type":"default"}}],"toolConfig":{"tools":[{"toolSpec":{"name":"Read","inputSchema":{"json":{}}}}]},"messages":[{"role":"user","content":[{"text":"Fix the limiter."}]}`,
		func(i int, tool, args, result string) string {
			return fmt.Sprintf(`,{"role":"assistant","content":[{"text":"Step %d."},{"toolUse":{"toolUseId":"tooluse_%05d","name":%s,"input":%s}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_%05d","content":[{"text":%s}]}}]}`,
				i, i, quoted(tool), args, i, quoted(result))
		}, "]}",
	},
	transcript.Gemini: {
		`{"systemInstruction":{"parts":[{"text":%s}]},"tools":[{"functionDeclarations":[{"name":"Read"}]}],"contents":[{"role":"user","parts":[{"text":"Fix the limiter."}]}`,
		func(i int, tool, args, result string) string {
			return fmt.Sprintf(`,{"role":"model","parts":[{"text":"Step %d."},{"functionCall":{"id":"f%05d","name":%s,"args":%s}}]},{"role":"user","parts":[{"functionResponse":{"id":"f%05d","name":%s,"response":{"output":%s}}}]}`,
				i, i, quoted(tool), args, i, quoted(tool), quoted(result))
		}, "]}",
	},
}

// sessionAs is session in another format. Its results tell their outcome themselves.
func sessionAs(f transcript.Format, exchanges int) []byte {
	s := shapes[f]
	var b strings.Builder
	fmt.Fprintf(&b, s.head, quoted(strings.Repeat("You are an agent. ", 600)))
	for i := range exchanges {
		tool, args := "Read", fmt.Sprintf(`{"file_path":"/w/src/file%d.go"}`, i%9)
		if i%5 == 4 {
			tool = "Edit"
			args = fmt.Sprintf(`{"file_path":"/w/src/file%d.go","old_string":"a","new_string":%s}`, i%9, quoted(code[:800]))
		}
		b.WriteString(s.turn(i, tool, args, fmt.Sprintf("Exit code: 0\n%d%s", i, code)))
	}
	text := b.String()
	if f == transcript.Converse { // the one format here in which the client says what is cached
		text = strings.TrimSuffix(text, "]}") + `,{"cachePoint":{"type":"default"}}]}`
	}
	return []byte(text + s.tail)
}

// BenchmarkFormats are the turns of the other benchmarks in every other format: nothing new with and without memory, first
// sight, and a move. Compare with BenchmarkUnit.
func BenchmarkFormats(b *testing.B) {
	for f := range shapes {
		b.Run(f.String(), func(b *testing.B) {
			b.Run("warm", func(b *testing.B) { warmAs(b, f, true) })
			b.Run("cold", func(b *testing.B) { warmAs(b, f, false) })
			b.Run("first", func(b *testing.B) { oftenAs(b, f, false) })
			b.Run("move", func(b *testing.B) { oftenAs(b, f, true) })
		})
	}
}

func askAs(f transcript.Format, exchanges int, c *pipeline.Config, at time.Time) *pipeline.Request {
	r := ask(sessionAs(f, exchanges), c, at)
	r.Format, r.Model = f, plainModel
	return r
}

func warmAs(b *testing.B, f transcript.Format, known bool) {
	b.Helper()
	c, e, ctx := config(b, ""), newEngine(b, false), context.Background()
	e.Request(ctx, askAs(f, 298, c, epoch))
	e.Request(ctx, askAs(f, 299, c, epoch.Add(3*time.Hour))) // a cold move
	r := askAs(f, 300, c, epoch.Add(3*time.Hour))
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if !known {
			b.StopTimer()
			e.Flush(ctx)
			e.Forget()
			b.StartTimer()
		}
		r.Now = r.Now.Add(time.Millisecond)
		if o := e.Request(ctx, r); o.Body == nil || len(o.New) > 0 {
			b.Fatalf("level %v gate %v new %d", o.Level, o.Gate, len(o.New))
		}
	}
}

// oftenAs is the first sight of a session, or the move after a pause.
func oftenAs(b *testing.B, f transcript.Format, move bool) {
	b.Helper()
	c, e, ctx := config(b, ""), newEngine(b, false), context.Background()
	before, r := askAs(f, 299, c, epoch), askAs(f, 300, c, epoch.Add(2*time.Hour))
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		r.Tenant = fmt.Sprint("t", n) // another tenant: nothing is known of it
		if move {
			b.StopTimer()
			before.Tenant = r.Tenant
			e.Request(ctx, before)
			b.StartTimer()
		}
		if o := e.Request(ctx, r); (o.Move != nil) != move {
			b.Fatalf("moved %t: %v %v", o.Move != nil, o.Gate, o.Gates)
		}
	}
}
