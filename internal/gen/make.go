package gen

import (
	"fmt"
	"slices"
)

// Source gives random numbers from 0 to n-1. A *rand.Rand of math/rand/v2 is one.
type Source interface{ IntN(n int) int }

// Options say what a Maker makes.
type Options struct {
	Model string // default claude-sonnet-4-6
	// Strange adds what lawful bodies may hold but few do: unknown and empty blocks, images, breakpoints inside results and
	// ones that are null, call ids that stand twice, lone surrogates, unknown members, mid-conversation system messages.
	Strange bool
	// Wild writes bodies in random legal JSON instead of compactly.
	Wild bool
	// Dialects draws what clients of other formats do differently, and offers a tool that some of them know.
	Dialects bool
	// Comparable makes what every format says alike: every result is text that tells its outcome by itself, nothing is
	// thought, and a message either answers calls or holds text.
	Comparable bool
	// Files is the number of files that the agent works on; few files are read and changed again. Default 4.
	Files int
	// ResultBytes is the size of a usual result. Default 300.
	ResultBytes int
}

// Maker makes conversations.
type Maker struct {
	s   Source
	o   Options
	ids int
}

// New returns a maker that takes its choices from s.
func New(s Source, o Options) *Maker {
	if o.Model == "" {
		o.Model = "claude-sonnet-4-6"
	}
	if o.Files == 0 {
		o.Files = 4
	}
	if o.ResultBytes == 0 {
		o.ResultBytes = 300
	}
	return &Maker{s: s, o: o}
}

// Conversation makes one of the given number of turns, marked as coding agents do.
func (m *Maker) Conversation(turns int) *Conversation {
	c := m.Start()
	for range turns {
		m.Turn(c)
	}
	c.Mark(m.ttl())
	if m.strange(3) {
		m.mark(c)
	}
	return c
}

// Start makes a head and the first human message.
func (m *Maker) Start() *Conversation {
	c := &Conversation{Model: m.o.Model, MaxTokens: 32_000, Seed: m.seed()}
	if m.o.Dialects {
		c.Dialect = m.dialect()
	}
	if !m.o.Comparable && m.chance(3) {
		header := fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.%d; cch=%05x;", m.s.IntN(400), m.s.IntN(1<<20))
		c.System = append(c.System, m.written(Text(header)))
	}
	for range 1 + m.s.IntN(2) {
		c.System = append(c.System, m.written(Text("You are a coding agent. "+m.text(100))))
	}
	c.SystemString = m.chance(3)
	for i := range 1 + m.s.IntN(len(tools)) {
		c.Tools = append(c.Tools, m.offer(tools[i].name, "path"))
	}
	if m.o.Dialects {
		c.Tools = append(c.Tools, m.offer(patch, "input"))
	}
	c.Extra = Object{{"stream", true}, {"metadata", Object{{"user_id", "user_1_account_2_session_3"}}}}
	if m.strange(4) {
		m.oddHead(c)
	}
	c.Messages = append(c.Messages, m.human())
	return c
}

// offer makes a tool with one argument.
func (m *Maker) offer(name, argument string) Block {
	return m.written(Block{Members: Object{
		{"name", name},
		{"description", m.text(60)},
		{"input_schema", Object{{"type", "object"}, {"properties", Object{{argument, Object{{"type", "string"}}}}}}},
	}})
}

// Turn adds what the assistant says and does next, and the user message that answers it.
func (m *Maker) Turn(c *Conversation) {
	said := Message{Role: "assistant", Seed: m.seed()}
	for m.o.Comparable && styleOf(said.Seed).shuffle {
		said.Seed++ // in Chat, calls and text are members of the message, and a shuffled one says them in another order
	}
	if !m.o.Comparable && m.chance(4) {
		thinking := Object{{"type", "thinking"}, {"thinking", m.text(80)}, {"signature", "c2lnbmF0dXJl"}}
		said.Blocks = append(said.Blocks, m.written(Block{Members: thinking}))
	}
	if m.chance(2) {
		said.Blocks = append(said.Blocks, m.written(Text(m.text(60))))
	}
	answers := make([]Block, 0, 4)
	for range [...]int{1, 1, 1, 2, 4, 0}[m.s.IntN(6)] {
		call, answer := m.exchange()
		said.Blocks, answers = append(said.Blocks, call), append(answers, answer)
	}
	if len(said.Blocks) == 0 {
		said.Blocks = append(said.Blocks, m.written(Text(m.text(60))))
	}
	said.String = m.chance(3)
	if m.strange(8) {
		said.Blocks = append(said.Blocks, m.written(m.unknown()))
	}
	c.Messages = append(c.Messages, said)
	if m.strange(12) {
		note := []Block{m.written(Text(m.text(40)))}
		c.Messages = append(c.Messages, Message{Role: "system", Blocks: note, String: m.chance(2), Seed: m.seed()})
	}
	heard := m.human()
	if len(answers) > 0 {
		heard = Message{Role: "user", Blocks: answers, Seed: m.seed()}
		if !m.o.Comparable && m.chance(5) {
			heard.Blocks = append(heard.Blocks, m.written(Text("<system-reminder>"+m.text(40)+"</system-reminder>")))
		}
	}
	if m.strange(10) {
		heard.Extra = Object{{"id", m.s.IntN(10) == 0}, {"id", Object{{"cache_control", nil}}}}
	}
	c.Messages = append(c.Messages, heard)
}

// human makes a message of a human: text, a string or blocks.
func (m *Maker) human() Message {
	msg := Message{Role: "user", String: m.chance(2), Seed: m.seed()}
	for range 1 + m.s.IntN(2) {
		msg.Blocks = append(msg.Blocks, m.written(Text(m.text(80))))
	}
	if m.strange(6) {
		msg.Blocks = append(msg.Blocks, m.written(m.unknown()))
	}
	return msg
}

// Edit changes history as clients do, and says how.
func (m *Maker) Edit(c *Conversation) string {
	i := m.s.IntN(len(c.Messages))
	msg := &c.Messages[i]
	switch m.s.IntN(5) {
	case 0: // what clients do to old results by themselves
		for j := range msg.Blocks {
			if msg.Blocks[j].Type() == "tool_result" {
				msg.Blocks[j].Set("content", "[Old tool result content cleared]")
				return "result cleared"
			}
		}
	case 1:
		for j := range msg.Blocks {
			if t := msg.Blocks[j].Type(); t == "thinking" && len(msg.Blocks) > 1 {
				msg.Blocks = append(msg.Blocks[:j:j], msg.Blocks[j+1:]...)
				return "thinking dropped"
			}
		}
	case 2:
		msg.Seed = m.seed()
		for j := range msg.Blocks {
			msg.Blocks[j].Seed = m.seed()
		}
		return "message written anew"
	case 3:
		if len(c.System) > 0 {
			c.System[len(c.System)-1] = m.written(Text("You are another agent. " + m.text(60)))
			return "system changed"
		}
	}
	if msg.Role == "user" {
		msg.Blocks = append(slices.Clip(msg.Blocks), m.written(Text(m.text(30))))
		return "text added"
	}
	c.Truncate(c.Ends()[0])
	return "history dropped"
}

func (m *Maker) chance(n int) bool  { return m.s.IntN(n) == n-1 }
func (m *Maker) strange(n int) bool { return m.o.Strange && m.chance(n) }
func (m *Maker) ttl() Marker        { return [...]Marker{Short, Long}[m.s.IntN(2)] }

func (m *Maker) seed() uint64 {
	if !m.o.Wild {
		return 0
	}
	return uint64(m.s.IntN(1 << 20))
}

func (m *Maker) written(b Block) Block {
	b.Seed = m.seed()
	return b
}

// text makes text of about n bytes.
func (m *Maker) text(n int) string {
	if m.strange(12) {
		return odd[m.s.IntN(len(odd))]
	}
	kind := prose
	if m.chance(3) {
		kind = m.s.IntN(kinds)
	}
	return text(kind, 1+m.s.IntN(2*n), uint64(m.s.IntN(1<<20)))
}
