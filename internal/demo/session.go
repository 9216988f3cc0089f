package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// model is what the session is billed as. The rates are those of the cache, in input tokens: read, written for five minutes,
// written for an hour.
const (
	model        = "claude-sonnet-4-6"
	dollarsPerMT = 3.0
	readRate     = 0.1
	shortRate    = 1.25
	longRate     = 2.0
)

// turn is one request of the session.
type turn struct {
	body  []byte
	at    time.Time
	pause time.Duration // before it, if it is longer than five minutes
	reply string        // what the model answers, as content blocks
}

// use is one call of the script.
type use struct {
	tool, path string
	lines      int // size of what it shows
}

func read(path string, lines int) use { return use{"Read", path, lines} }
func edit(path string) use            { return use{"Edit", path, 3} }
func run(lines int) use               { return use{"Bash", "go test ./...", lines} }

// script is what the agent does between two prompts of its user; the numbers are lines of output.
var script = []struct {
	pause  time.Duration
	prompt string
	steps  [][]use
}{
	{0, "The rate limiter counts some requests twice. Find out why and mend it.", [][]use{
		{run(20)},
		{read("limit/limiter.go", 130)},
		{read("limit/store.go", 120), read("limit/clock.go", 60)},
		{run(90)},
		{read("server/handler.go", 240)},
		{read("docs/design.md", 260), read("server/metrics.go", 150)},
		{run(60)},
		{read("server/router.go", 180)},
		{edit("limit/limiter.go")},
		{run(50)},
		{read("limit/limiter_test.go", 140)},
		{edit("limit/store.go")},
		{run(40)},
		{edit("limit/limiter_test.go")},
		{read("limit/limiter.go", 132)},
		{run(25)},
		{edit("limit/clock.go")},
		{run(25)},
	}},
	{9 * time.Minute, "Good. Now make the window configurable.", [][]use{
		{read("config/config.go", 160)},
		{read("config/load.go", 220)},
		{run(70)},
		{read("config/config_test.go", 120)},
		{edit("config/config.go")},
		{edit("limit/limiter.go")},
		{run(60)},
		{edit("config/config_test.go")},
		{read("config/config.go", 165)},
		{run(30)},
	}},
	{22 * time.Minute, "Please write the docs and check the whole once more.", [][]use{
		{read("README.md", 150)},
		{edit("README.md")},
		{run(40)},
		{read("limit/limiter.go", 135), read("docs/limits.md", 110)},
		{edit("docs/limits.md")},
		{run(25)},
	}},
	{80 * time.Minute, "Back from lunch. The limits should be in the metrics too.", [][]use{
		{read("server/metrics.go", 150)},
		{edit("server/metrics.go")},
		{run(40)},
		{read("server/metrics.go", 155)},
	}},
	{35 * time.Minute, "Reviewed. Rename the option, please.", [][]use{
		{edit("config/config.go")},
		{edit("config/load.go")},
		{run(30)},
		{edit("README.md")},
		{run(25)},
	}},
}

// start is when the session begins; the whole of it runs on a clock of its own.
var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// session writes the requests as a coding agent sends them: the whole transcript every time, markers on the system prompt
// and on the last block.
func session() []turn {
	var turns []turn
	var msgs []string
	at, calls := start, 0
	send := func(pause time.Duration, reply string) {
		last := msgs[len(msgs)-1]
		marked := strings.TrimSuffix(last, "}]}") + `,"cache_control":{"type":"ephemeral"}}]}`
		body := fmt.Sprintf(`{"model":%q,"max_tokens":32000,"system":%s,"tools":%s,"messages":[%s],"stream":true}`, model, system, tools,
			strings.Join(append(msgs[:len(msgs)-1:len(msgs)-1], marked), ","))
		turns = append(turns, turn{body: []byte(body), at: at, pause: pause, reply: reply})
		msgs = append(msgs, `{"role":"assistant","content":`+reply+`}`)
	}
	for _, part := range script {
		at = at.Add(part.pause)
		msgs = append(msgs, `{"role":"user","content":[{"type":"text","text":`+quote(part.prompt)+`}]}`)
		pause := part.pause
		for _, step := range part.steps {
			var say, hear []string
			for _, u := range step {
				calls++
				id := fmt.Sprintf("toolu_%04d", calls)
				say = append(say, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, u.tool, u.input(calls)))
				hear = append(hear, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s}`, id, quote(u.output(calls))))
			}
			send(pause, "["+strings.Join(say, ",")+"]")
			pause, at = 0, at.Add(11*time.Second)
			msgs = append(msgs, `{"role":"user","content":[`+strings.Join(hear, ",")+`]}`)
		}
		send(0, `[{"type":"text","text":"Done."}]`)
		at = at.Add(15 * time.Second)
	}
	return turns
}

func (u use) input(n int) string {
	switch u.tool {
	case "Read":
		return `{"file_path":` + quote("/src/"+u.path) + `}`
	case "Edit":
		return fmt.Sprintf(`{"file_path":%s,"old_string":"window","new_string":"window%d"}`, quote("/src/"+u.path), n)
	}
	return `{"command":` + quote(u.path) + `}`
}

// output is what the tool shows: lines of a made-up program, no two the same.
func (u use) output(n int) string {
	if u.tool == "Edit" {
		return "The file /src/" + u.path + " has been updated."
	}
	var b strings.Builder
	for i := range u.lines {
		fmt.Fprintf(&b, "%4d\tfunc (l *Limiter) step%d_%d(ctx context.Context) error { return l.store.Add(ctx, %q, %d) }\n", i+1, n, i, u.path, i*n)
	}
	return b.String()
}

func quote(s string) string { return string(transcript.AppendQuoted(nil, s)) }

var (
	system = `[{"type":"text","text":"You are a coding agent.","cache_control":{"type":"ephemeral"}},{"type":"text","text":` +
		quote(strings.Repeat("Work in small steps, run the tests after each of them, and say what you changed and why. ", 330)) +
		`,"cache_control":{"type":"ephemeral"}}]`
	tools = `[{"name":"Read","description":"Reads a file.","input_schema":{"type":"object"}},{"name":"Edit","description":"Edits a file.",` +
		`"input_schema":{"type":"object"}},{"name":"Bash","description":"Runs a command.","input_schema":{"type":"object"}}]`
)
