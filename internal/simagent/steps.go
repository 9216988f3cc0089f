package simagent

import (
	"fmt"
	"maps"
	"slices"
)

func (a *agent) run(n int) {
	cur := a.main
	for range n {
		a.control()
		switch x := a.r.Float64(); {
		case a.f["sub"] && x < .08 && len(a.lines) < 4:
			cur = a.subagent()
		case a.f["fork"] && x < .14 && len(cur.msgs) > 5:
			cur = a.fork(cur)
		case x < .24 && len(a.lines) > 1:
			cur = pick(a.r, a.lines...)
		}
		a.step(cur)
		if a.f["par"] && a.chance(.1) && len(a.lines) > 1 {
			a.now = a.now.Add(-a.seconds(0, 25))
			a.step(pick(a.r, a.lines...))
		}
	}
}

func (a *agent) subagent() *line {
	name := fmt.Sprintf("sub%d", len(a.lines))
	if a.f["samesub"] {
		name = "sub"
	}
	k := a.line(name, pick(a.r, a.main.model, smallModel), true)
	i := slices.IndexFunc(a.lines, func(l *line) bool { return l.name == name && l != a.main })
	if i >= 0 {
		o := a.lines[i]
		k.tools, k.system, k.model = o.tools, o.system, o.model
		if a.chance(.5) && len(o.msgs) > 0 {
			k.msgs = o.msgs[:1:1]
		}
	}
	a.lines = append(a.lines, k)
	return k
}

func (a *agent) fork(cur *line) *line {
	var cuts []int
	for i, m := range cur.msgs {
		if i > 0 && m.role == "user" {
			cuts = append(cuts, i)
		}
	}
	if len(cuts) == 0 {
		return cur
	}
	cut := pick(a.r, cuts...)
	k := &line{name: "fork", model: cur.model, session: cur.session, tools: cur.tools, system: cur.system}
	if a.chance(.5) && cur.msgs[cut].human {
		k.msgs = append(slices.Clone(cur.msgs[:cut]), message{"user", []block{textBlock(a.prose(80))}, true})
	} else {
		k.msgs = cur.msgs[: cut+1 : cut+1]
	}
	a.lines = append(a.lines, k)
	a.now = a.now.Add(a.pause(true))
	return k
}

// body writes the request of a line with the markers of its client.
func (a *agent) body(l *line, msgs []message) *body {
	b := &body{model: l.model, tools: l.tools, system: slices.Clone(l.system), maxTokens: 32000, marks: map[[2]int]marker{}, flips: map[int]bool{}, drop: a.f["drop"] && l.model == boundModel}
	if a.f["volatile"] {
		b.system = append(b.system, textBlock(a.prose(10)))
	} else if a.f["flipsys"] {
		b.system = append(b.system, textBlock(fmt.Sprintf("mode %d", l.sysvar%2)))
	}
	human := -1
	for i, m := range msgs {
		if m.human {
			human = i
		}
	}
	for i, m := range msgs {
		c := message{m.role, slices.Clone(m.blocks), m.human}
		if a.f["strip"] && i < human && l.model != boundModel {
			c.blocks = slices.DeleteFunc(c.blocks, func(x block) bool { return x.kind == "thinking" })
		}
		if n := len(b.messages); a.f["merge"] && n > 0 && b.messages[n-1].role == "user" && c.role == "user" && i < len(msgs)-1 {
			b.messages[n-1].blocks = append(b.messages[n-1].blocks, c.blocks...)
			continue
		}
		b.messages = append(b.messages, c)
	}
	a.markers(b)
	if a.f["flip"] {
		for i := range b.messages {
			b.flips[i] = a.chance(.5)
		}
	}
	return b
}

func (a *agent) markers(b *body) {
	sys, msg := marker("5m"), marker("5m")
	if a.ttl == "1h" || a.ttl == "mixed" {
		sys = "1h"
	}
	if a.ttl == "1h" {
		msg = "1h"
	}
	mark := func(i int) {
		for j, x := range slices.Backward(b.messages[i].blocks) {
			if x.kind != "thinking" {
				b.marks[[2]int{i, j}] = msg
				return
			}
		}
	}
	last := len(b.messages) - 1
	b.marks[[2]int{-1, len(b.system) - 1}] = sys
	switch a.style {
	case "claude":
		b.marks[[2]int{-1, 0}] = sys
		mark(last)
	case "opencode", "four":
		n := map[string]int{"opencode": 2, "four": 3}[a.style]
		for i := max(0, last-n+1); i <= last; i++ {
			mark(i)
		}
	case "early":
		if i := slices.IndexFunc(b.messages, func(m message) bool { return m.human }); i >= 0 {
			mark(i)
		}
		mark(last)
	}
}

// reply is what the model answers.
func (a *agent) reply() []block {
	var out []block
	final := a.chance(.2)
	if a.f["think"] {
		a.uid++
		out = append(out, thinkingBlock(a.prose(5+a.r.IntN(80)), fmt.Sprintf("tidemark-sim.%d", a.uid)))
	}
	if a.chance(.4) || final {
		out = append(out, textBlock(a.prose(10+a.r.IntN(60))))
	}
	if final {
		return out
	}
	n := pick(a.r, 1, 1, 1, 1, 2, 3)
	if a.chance(.01) {
		n = 24
	}
	for range n {
		a.uid++
		c := call{id: fmt.Sprintf("t%d", a.uid), role: pick(a.r, "read", "read", "edit", "shell")}
		if c.role != "shell" {
			c.path = "/w/" + pick(a.r, "a", "b", "c", "d", "e", "f", "g", "h") + ".go"
		}
		out = append(out, useBlock(c, a.prose(5+a.r.IntN(60))))
	}
	return out
}

func (a *agent) results(reply []block) []block {
	var out []block
	for _, b := range reply {
		if b.kind != "use" {
			continue
		}
		size := 20
		switch b.use.role {
		case "read":
			size = pick(a.r, 40, 200, 600, 1200, 2500)
		case "shell":
			size = pick(a.r, 20, 100, 400)
		}
		out = append(out, resultBlock(b.use.id, a.prose(size), a.chance(.05)))
	}
	return out
}

func uses(m message) bool {
	return slices.ContainsFunc(m.blocks, func(b block) bool { return b.kind == "use" })
}

func (m message) plus(b ...block) message {
	m.blocks = append(slices.Clone(m.blocks), b...)
	return m
}

func (l *line) add(m message) { l.msgs = append(slices.Clone(l.msgs), m) }

// prompt brings the line to the point where its client sends a request; false: it sent something else instead.
func (a *agent) prompt(l *line) bool {
	n := len(l.msgs)
	switch {
	case n > 0 && l.msgs[n-1].role == "user":
		if a.f["inter"] && a.chance(.5) {
			t := textBlock(a.prose(3 + a.r.IntN(50)))
			if a.f["merge"] && a.chance(.6) {
				l.add(message{"user", []block{t}, true})
			} else {
				l.msgs = append(slices.Clone(l.msgs[:n-1]), l.msgs[n-1].plus(t))
			}
			a.wait(2, 60)
		}
	case n > 0 && uses(l.msgs[n-1]):
		m := message{"user", a.results(l.msgs[n-1].blocks), false}
		if a.f["inter"] && a.chance(.06) {
			m = m.plus(textBlock(a.prose(8)))
		}
		l.add(m)
		a.now = a.now.Add(a.pause(false))
	default:
		return a.human(l)
	}
	return true
}

func (a *agent) human(l *line) bool {
	if a.f["compact"] && len(l.msgs) > 14 && a.chance(.25) {
		a.compact(l)
		return false
	}
	var m message
	m.role, m.human = "user", true
	first := 150
	if len(l.msgs) == 0 {
		first = 600
	}
	for range pick(a.r, 1, 1, 1, 3) {
		m.blocks = append(m.blocks, textBlock(a.prose(5+a.r.IntN(first))))
	}
	if len(l.msgs) > 0 {
		p := a.pause(true)
		if a.f["keepalive"] && p.Seconds() > 200 && a.chance(.7) {
			for i := 0; i < 8 && p.Seconds() > 240; i++ {
				a.wait(240, 240)
				p -= a.seconds(240, 240)
				b := a.body(l, l.msgs[:len(l.msgs)-1]) // the last request once more
				b.maxTokens = 1
				a.emit(l, b, nil, nil)
			}
		}
		a.now = a.now.Add(p)
		if a.f["resume"] && a.chance(.2) {
			a.uid++
			l.session = fmt.Sprintf("s%d", a.uid)
		}
		if a.f["toolchg"] && a.chance(.15) {
			a.uid++
			l.tools = append(slices.Clone(l.tools), fmt.Sprintf(`{"name":"X%d","description":"added","input_schema":{"type":"object"}}`, a.uid))
		}
		if a.f["mswitch"] && a.chance(.25) {
			l.model = pick(a.r, plainModel, smallModel, boundModel)
		}
	}
	l.add(m)
	return true
}

// step is one exchange of a line.
func (a *agent) step(l *line) {
	if a.f["flipsys"] && a.chance(.4) {
		l.sysvar++
	}
	if !a.prompt(l) {
		return
	}
	if a.f["micro"] && len(l.msgs) > 12 && a.chance(.06) {
		a.micro(l)
	}
	reply := a.reply()
	side := a.f["side"] && a.chance(.15)
	if side && a.chance(.5) {
		a.side(l)
	}
	if a.f["fail"] && a.chance(.08) {
		if a.aborted(l, reply) {
			return
		}
	} else {
		a.emit(l, a.body(l, l.msgs), reply, nil)
	}
	if a.f["retry"] && a.chance(.08) {
		s := pick(a.r, .1, 1, 20, 310, 400, 900)
		a.wait(s, s)
		reply = a.reply()
		a.emit(l, a.body(l, l.msgs), reply, nil)
	}
	if a.f["par"] && a.chance(.12) {
		q := message{"user", []block{textBlock(a.prose(12))}, false}
		said := message{"assistant", []block{textBlock(a.prose(9))}, false}
		a.emit(l, a.body(l, append(slices.Clone(l.msgs), said, q)), []block{textBlock(a.prose(10))}, func(e *Event) { e.At = e.At.Add(a.seconds(0, 3)) })
	}
	if side {
		a.side(l)
	}
	a.wait(2, 30)
	if a.chance(.97) || !a.f["fork"] || len(l.msgs) <= 6 {
		l.add(message{"assistant", reply, false})
	}
}

// aborted sends a request that fails, and perhaps once more; true: the step is over.
func (a *agent) aborted(l *line, reply []block) bool {
	outcome := pick(a.r, Failed, Failed, Unknown, Unknown)
	a.emit(l, a.body(l, l.msgs), reply, func(e *Event) { e.Outcome = outcome })
	a.wait(2, 40)
	if n := len(l.msgs); outcome == Unknown && a.f["inter"] && a.chance(.6) {
		l.msgs = append(slices.Clone(l.msgs[:n-1]), l.msgs[n-1].plus(textBlock(a.prose(6))))
		return true
	}
	switch {
	case a.f["fallback"] && l.model != boundModel && a.chance(.5):
		b := a.body(l, l.msgs)
		b.model = smallModel
		a.emit(l, b, reply, nil)
	case a.chance(.7):
		a.emit(l, a.body(l, l.msgs), reply, nil)
	default:
		return true
	}
	return false
}

// On lists the features that are on.
func (f Features) On() []string {
	var on []string
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if f[k] {
			on = append(on, k)
		}
	}
	return on
}
