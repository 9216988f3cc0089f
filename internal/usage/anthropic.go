package usage

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// messages is the account of the Messages API, wherever it is served: Bedrock and Vertex answer with the same documents and
// events.
type messages struct {
	tally
	miss       string
	first      figures      // as the message began
	iterations gjson.Result // one for each sampling, as far as it was said
	begun      bool         // a message was seen: what is not said of its usage is zero
}

func (m *messages) document(v gjson.Result) {
	m.message(v)
	m.final = true
}

var start, delta = []byte(`"message_start"`), []byte(`"message_delta"`)

// event takes what an event says of usage. Most events are pieces of text, so that it first looks whether it can be one of the
// two that do.
func (m *messages) event(_ string, data []byte) {
	if !bytes.Contains(data, start) && !bytes.Contains(data, delta) || !json.Valid(data) {
		return
	}
	switch v := gjson.ParseBytes(data); v.Get("type").Str {
	case "message_start":
		m.message(v.Get("message"))
	case "message_delta":
		m.delta(v)
	}
}

// message takes a message: the body of a JSON response, or the one that message_start carries.
func (m *messages) message(v gjson.Result) {
	m.names(v.Get("id"), v.Get("model"))
	m.diagnostics(v.Get("diagnostics"))
	m.usage(v.Get("usage"))
	m.first = m.figures
	m.begun = m.begun || v.IsObject()
}

// delta takes a message_delta. Its usage is cumulative and leaves out what has not changed since message_start.
func (m *messages) delta(v gjson.Result) {
	m.diagnostics(v.Get("diagnostics"))
	u := v.Get("usage")
	m.usage(u)
	m.final = m.final || u.Get("output_tokens").Exists()
}

func (m *messages) usage(u gjson.Result) {
	m.take(u)
	if i := u.Get("iterations"); i.IsArray() {
		m.iterations = i
	}
	m.serverTools(u)
}

// take takes a usage object of the Messages API. Only the output is still growing after the first one.
func (f *figures) take(u gjson.Result) {
	f.input.correct(u.Get("input_tokens"))
	f.read.correct(u.Get("cache_read_input_tokens"))
	f.creation.correct(u.Get("cache_creation_input_tokens"))
	f.lifetimes(u.Get("cache_creation"))
	f.output.take(u.Get("output_tokens"))
}

// lifetimes takes the object in which the Messages API, and who passes it on, tells the lifetimes of writes apart.
func (f *figures) lifetimes(v gjson.Result) {
	f.write5m.correct(v.Get("ephemeral_5m_input_tokens"))
	f.write1h.correct(v.Get("ephemeral_1h_input_tokens"))
}

// diagnostics takes the provider's word on why it read less from the cache than the request named as the previous one allowed.
// It is null if there is nothing to say, or nothing yet.
func (m *messages) diagnostics(d gjson.Result) { take(&m.miss, d.Get("cache_miss_reason.type")) }

func (m *messages) response() pipeline.Response {
	r := pipeline.Response{Message: m.id, Model: m.model, Miss: m.miss}
	if !m.begun || !m.final || !m.input.said || !m.output.said {
		return r
	}
	all := m.sum(&m.figures)
	prompt, bill := m.samplings()
	switch {
	case bill == nil:
		r.Usage, r.Unclear = &all, m.tools || m.moved(&m.first) || m.iterations.Get("#").Num > 0
	case prompt == nil:
		r.Usage, r.Unclear = bill, true
	default:
		r.Usage = prompt
		if *bill != *prompt {
			prompt.Bill = bill
		}
	}
	if r.Usage.Prompt() == 0 {
		r.Usage, r.Unclear = nil, false
	}
	return r
}

// moved reports whether the prompt's figures differ by more than a twentieth of the prompt from those that it began with: the
// response then took more samplings than that one. Where it began with none, nothing has moved.
func (f *figures) moved(from *figures) bool {
	a, b := from.sum(from), f.sum(f)
	d := math.Abs(float64(b.Input-a.Input)) + math.Abs(float64(b.Read-a.Read)) +
		math.Abs(float64(b.Write5m+b.Write1h-a.Write5m-a.Write1h))
	return a.Prompt() > 0 && d*20 > float64(a.Prompt())
}

// samplings reads usage.iterations, in which the Messages API lists what each sampling of a response took: the usage of the first
// that is a message, whose prompt is what was asked, and the sum of all. The usage at the top level is the sum of the messages
// alone, without a compaction. Both are nil if there is no list that can be read, and the prompt if no message is in it. What
// another model took, as an advisor does, is billed at that model's rates and left out.
func (m *messages) samplings() (prompt, bill *pipeline.Usage) {
	readable := true
	var sum pipeline.Usage
	m.iterations.ForEach(func(_, v gjson.Result) bool {
		var f figures
		f.take(v)
		if readable = f.input.said && f.output.said; !readable {
			return false
		}
		kind, model := v.Get("type").Str, v.Get("model").Str
		if kind != "message" && model != "" && model != m.model {
			return true
		}
		u := f.sum(&m.figures)
		if kind == "message" && prompt == nil && u.Prompt() > 0 {
			prompt = &u
		}
		add(&sum, &u)
		return true
	})
	if !readable || sum.Prompt() == 0 {
		return nil, nil
	}
	return prompt, &sum
}

// add adds a usage to another.
func add(to, u *pipeline.Usage) {
	to.Input = min(to.Input+u.Input, maxTokens)
	to.Read = min(to.Read+u.Read, maxTokens)
	to.Write5m = min(to.Write5m+u.Write5m, maxTokens)
	to.Write1h = min(to.Write1h+u.Write1h, maxTokens)
	to.Output = min(to.Output+u.Output, maxTokens)
	to.Merged = to.Merged || u.Merged
}
