package gentest

import (
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// Talk is a transcript of which is known, without reading its body, what belongs together and who speaks.
type Talk []Said

// Said is one message of a talk.
type Said struct {
	Role     string   // user, assistant or system
	Calls    []string // ids of the calls that it makes
	Answers  []string // ids of the calls that it answers
	Texts    []string // in the order in which they stand
	Exchange int      // number of the exchange that it belongs to, 0: to none
}

// Words that a human or the client adds.
const (
	Reminder = " \n<system-reminder>Mind the list.</system-reminder>"
	Goal     = "By the way:\n[tidemark:goal] \"keep\" the parser"
	OldGoal  = "[fak:goal] keep the limits"
)

// Human reports whether a human speaks in the message.
func (s *Said) Human() bool {
	return s.Role == "user" && (len(s.Answers) == 0 || slices.ContainsFunc(s.Texts, func(text string) bool { return text != Reminder }))
}

// Opens reports whether the message is the first of its exchange, and makes a call.
func (t Talk) Opens(m int) bool {
	return t[m].Role == "assistant" && len(t[m].Calls) > 0 && (m == 0 || t[m-1].Role != "assistant")
}

// Head is the first message of a human.
func (t Talk) Head() int { return slices.IndexFunc(t, func(s Said) bool { return s.Human() }) }

// Together reports, for every call that is answered, the messages of the call and of its answer.
func (t Talk) Together() (pairs [][2]int) {
	made := map[string]int{}
	for m := range t {
		for _, id := range t[m].Calls {
			made[id] = m
		}
		for _, id := range t[m].Answers {
			pairs = append(pairs, [2]int{made[id], m})
		}
	}
	return pairs
}

// Body is the talk as an Anthropic Messages body, with a breakpoint on the system prompt.
func (t Talk) Body() []byte {
	type object = map[string]any
	messages := make([]object, len(t))
	for m := range t {
		content := []object{}
		for _, id := range t[m].Answers {
			content = append(content, object{"type": "tool_result", "tool_use_id": id, "content": "what " + id + " says"})
		}
		for _, text := range t[m].Texts {
			content = append(content, object{"type": "text", "text": text})
		}
		for _, id := range t[m].Calls {
			content = append(content, object{"type": "tool_use", "id": id, "name": "Read", "input": object{"file_path": "/w/" + id}})
		}
		messages[m] = object{"role": t[m].Role, "content": content}
	}
	system := []object{{"type": "text", "text": "You code.", "cache_control": object{"type": "ephemeral"}}}
	body, err := json.Marshal(object{"model": "claude-sonnet-4-6", "max_tokens": 1024, "system": system, "messages": messages})
	if err != nil {
		return nil // strings always marshal
	}
	return body
}

// Talks draws talks of up to so many exchanges: parallel calls, answers in several messages or much later, runs of assistant
// messages, humans between exchanges and beside answers, reminders, system messages. Every one ends with the user's turn.
func Talks(exchanges int) *rapid.Generator[Talk] {
	return rapid.Custom(func(t *rapid.T) Talk {
		d := talker{T: t}
		if d.oneIn(8) {
			if d.oneIn(2) {
				d.add(Said{Role: "system", Texts: []string{"You code."}})
			}
			d.add(Said{Role: "assistant", Texts: []string{"Hello."}, Exchange: -1})
		}
		d.human()
		for range rapid.IntRange(1, exchanges).Draw(t, "exchanges") {
			d.exchange()
		}
		return d.talk
	})
}

type talker struct {
	*rapid.T

	talk       Talk
	ids, count int
	late       []string // calls whose answer comes later
}

func (d *talker) oneIn(n int) bool { return rapid.IntRange(0, n-1).Draw(d.T, "chance") == n-1 }

func (d *talker) add(s Said) {
	d.talk = append(d.talk, s)
	if s.Role == "user" && d.oneIn(10) {
		d.talk = append(d.talk, Said{Role: "system", Texts: []string{"The mode is another one."}})
	}
}

// human adds one or two messages of a human.
func (d *talker) human() {
	for range 1 + b2i(d.oneIn(6)) {
		texts := []string{rapid.SampledFrom([]string{"Go on.", Goal, OldGoal, "see [tidemark:goal]"}).Draw(d.T, "text")}
		if d.oneIn(4) {
			texts = slices.Insert(texts, rapid.IntRange(0, 1).Draw(d.T, "at"), Reminder)
		}
		d.add(Said{Role: "user", Texts: texts})
	}
}

// exchange adds what the assistant says and calls, with the answers; where it calls nothing, a human speaks next.
func (d *talker) exchange() {
	d.count++
	var calls []string
	for range 1 + b2i(d.oneIn(6)) {
		s := Said{Role: "assistant", Exchange: d.count}
		for range rapid.SampledFrom([]int{1, 1, 1, 2, 3, 0}).Draw(d.T, "calls") {
			d.ids++
			s.Calls = append(s.Calls, fmt.Sprint("c", d.ids))
		}
		if len(s.Calls) == 0 || d.oneIn(3) {
			s.Texts = []string{fmt.Sprint("Step ", len(d.talk))}
		}
		calls = append(calls, s.Calls...)
		d.add(s)
	}
	if len(calls) > 0 && d.oneIn(12) {
		d.late, calls = append(d.late, calls[0]), calls[1:]
	} else if len(calls) > 0 && len(d.late) > 0 && d.oneIn(2) {
		calls, d.late = append(calls, d.late...), nil
	}
	if len(calls) == 0 {
		d.human()
		return
	}
	for len(calls) > 0 {
		n := len(calls)
		if d.oneIn(5) {
			n = 1
		}
		s := Said{Role: "user", Answers: calls[:n], Exchange: d.count}
		switch rapid.IntRange(0, 9).Draw(d.T, "beside") {
		case 0:
			s.Texts = []string{Reminder, "No, the other one."}
		case 1, 2:
			s.Texts = []string{Reminder}
		}
		calls = calls[n:]
		d.talk = append(d.talk, s) // answers of one exchange stand together
	}
	if d.oneIn(6) {
		d.human()
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
