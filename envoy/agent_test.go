package envoy_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// agent is a coding agent with one conversation. Its client sends the whole of it on every turn, with breakpoints on the
// system prompt and on the last block.
type agent struct {
	c     *gen.Conversation
	name  string
	at    time.Time
	calls int
	texts map[string]string // what each result says, by call id
	reads []string          // calls that read a file
}

// use is a call: a tool, a file, and how many lines it shows.
type use struct {
	tool, path string
	lines      int
}

func reads(path string, lines int) use { return use{"Read", path, lines} }
func edits(path string) use            { return use{"Edit", path, 1} }
func runs(lines int) use               { return use{"Bash", "go test ./...", lines} }

// newAgent makes an agent that has its first prompt. Nothing that it says is said by an agent of another name.
func newAgent(name string) *agent {
	a := &agent{name: name, at: start, texts: map[string]string{}}
	a.c = &gen.Conversation{
		Model: "claude-sonnet-4-6", MaxTokens: 32_000,
		System: []gen.Block{gen.Text(strings.Repeat("You are the coding agent "+name+". Say what you do and why you do it. ", 420))},
		Extra:  gen.Object{{Key: "stream", Value: true}},
	}
	for _, tool := range []string{"Read", "Edit", "Bash"} {
		a.c.Tools = append(a.c.Tools, gen.Block{Members: gen.Object{
			{Key: "name", Value: tool}, {Key: "description", Value: "It is what it is called."}, {Key: "input_schema", Value: gen.Object{{Key: "type", Value: "object"}}},
		}})
	}
	a.human("Please mend what is broken.")
	return a
}

// human adds a prompt of the user, after an answer of the assistant if there was anything before it.
func (a *agent) human(text string) {
	if n := len(a.c.Messages); n > 0 {
		a.add("assistant", gen.Text(fmt.Sprintf("%d is done.", n)))
	}
	a.add("user", gen.Text(text))
}

func (a *agent) add(role string, blocks ...gen.Block) {
	a.c.Messages = append(a.c.Messages, gen.Message{Role: role, Blocks: blocks})
}

// step adds one turn: calls side by side, and their results. It takes some seconds.
func (a *agent) step(uses ...use) {
	var said, heard []gen.Block
	for _, u := range uses {
		a.calls++
		id := fmt.Sprintf("toolu_%s_%d", a.name, a.calls)
		input, text := u.call(id)
		a.texts[id] = text
		if u.tool == "Read" {
			a.reads = append(a.reads, id)
		}
		said = append(said, gen.Call(id, u.tool, input))
		heard = append(heard, gen.Result(id, text))
	}
	a.add("assistant", said...)
	a.add("user", heard...)
	a.at = a.at.Add(12 * time.Second)
}

func (u use) call(id string) (input gen.Object, text string) {
	switch u.tool {
	case "Bash":
		input = gen.Object{{Key: "command", Value: u.path}}
	case "Edit":
		input = gen.Object{{Key: "file_path", Value: "/src/" + u.path}, {Key: "old_string", Value: "a"}, {Key: "new_string", Value: id}}
		return input, "The file /src/" + u.path + " has been updated."
	default:
		input = gen.Object{{Key: "file_path", Value: "/src/" + u.path}}
	}
	var b strings.Builder
	for i := range u.lines {
		fmt.Fprintf(&b, "%4d\tfunc step_%d(ctx context.Context) error { return %q.Add(ctx, \"%s <b>ü\\n\", %d) }\n", i+1, i, u.path, id, i)
	}
	return input, b.String()
}

// pause lets time pass.
func (a *agent) pause(d time.Duration) { a.at = a.at.Add(d) }

// cold is longer than the provider keeps a prefix for five minutes.
const cold = 9 * time.Minute

// body is the request as it is now.
func (a *agent) body() []byte {
	a.c.Mark(gen.Short)
	return a.c.Compact()
}

// request sends the conversation as it is now along a route.
func (a *agent) request(path string) *request {
	return &request{path: path, key: "sk-" + a.name, session: "session-" + a.name, at: a.at, body: a.body()}
}
