package simagent

import "slices"

// side traffic of a client.
func (a *agent) side(l *line) {
	kind := pick(a.r, "title", "warm", "compact", "count", "ask")
	if kind == "title" {
		b := &body{model: smallModel, system: []block{textBlock("Write a title.")}, messages: []message{{"user", []block{textBlock(a.prose(50))}, true}}, maxTokens: 512, marks: map[[2]int]marker{{-1, 0}: "5m"}}
		a.emit(l, b, []block{textBlock("A title")}, nil)
		return
	}
	if n := len(l.msgs); n == 0 || l.msgs[n-1].role != "user" {
		return
	}
	switch kind {
	case "warm":
		b := a.body(l, l.msgs)
		b.maxTokens = 1
		a.emit(l, b, nil, nil)
	case "count":
		a.emit(l, a.body(l, l.msgs), nil, func(e *Event) { e.Count = true })
	default:
		q := message{"user", []block{textBlock(a.prose(90))}, false}
		a.emit(l, a.body(l, append(slices.Clone(l.msgs), q)), []block{textBlock(a.prose(200))}, func(e *Event) {
			if kind == "compact" {
				e.Class = "compaction"
			}
		})
	}
}

// compact is the client's own compaction: it asks for a summary and goes on from that.
func (a *agent) compact(l *line) {
	var tail []message
	if a.chance(.3) {
		for i := len(l.msgs) - 4; i < len(l.msgs); i++ {
			if l.msgs[i].human {
				tail = l.msgs[i:]
				break
			}
		}
	}
	a.now = a.now.Add(a.pause(false))
	class := pick(a.r, "", "compaction")
	a.emit(l, a.body(l, append(slices.Clone(l.msgs), message{"user", []block{textBlock(a.prose(100))}, true})), []block{textBlock(a.prose(300))}, func(e *Event) { e.Class = class })
	a.wait(10, 60)
	l.msgs = append([]message{{"user", []block{textBlock(a.prose(200 + a.r.IntN(500)))}, true}}, tail...)
	if l.msgs[len(l.msgs)-1].role == "assistant" {
		l.add(message{"user", []block{textBlock(a.prose(12))}, true})
	}
}

// micro is the client's micro-compaction: old results are cleared.
func (a *agent) micro(l *line) {
	type at struct{ m, b int }
	var all []at
	msgs := slices.Clone(l.msgs)
	for i, m := range msgs {
		for j, b := range m.blocks {
			if b.kind == "result" && b.size > 200 {
				all = append(all, at{i, j})
			}
		}
	}
	from := 0
	if a.chance(.4) {
		from = len(all) / 2
	}
	for _, p := range all[min(from, max(0, len(all)-3)):max(0, len(all)-3)] {
		m := msgs[p.m]
		m.blocks = slices.Clone(m.blocks)
		m.blocks[p.b] = resultBlock(m.blocks[p.b].use.id, "[Old tool result content cleared]", false)
		msgs[p.m] = m
	}
	l.msgs = msgs
}
