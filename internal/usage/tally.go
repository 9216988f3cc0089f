package usage

import (
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// name is what an id, a model or a reason looks like. They reach logs and state, so that nothing else is taken.
var name = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)

// tally collects what a response says, the last word on each.
type tally struct {
	id, model, miss string
	figures
	first      figures      // as the message began
	iterations gjson.Result // one for each sampling, as far as it was said
	tools      bool         // the provider ran tools of its own
	begun      bool         // a message was seen: what is not said of its usage is zero
	final      bool         // the usage is the provider's last word
}

// message takes a message of the Messages API: the body of a JSON response, or the one that message_start carries.
func (t *tally) message(m gjson.Result) {
	take(&t.id, m.Get("id"))
	take(&t.model, m.Get("model"))
	t.diagnostics(m.Get("diagnostics"))
	t.usage(m.Get("usage"))
	t.first = t.figures
	t.begun = t.begun || m.IsObject()
}

// delta takes a message_delta. Its usage is cumulative and leaves out what has not changed since message_start.
func (t *tally) delta(v gjson.Result) {
	t.diagnostics(v.Get("diagnostics"))
	u := v.Get("usage")
	t.usage(u)
	t.final = t.final || u.Get("output_tokens").Exists()
}

func (t *tally) usage(u gjson.Result) {
	t.take(u)
	if i := u.Get("iterations"); i.IsArray() {
		t.iterations = i
	}
	u.Get("server_tool_use").ForEach(func(_, n gjson.Result) bool {
		t.tools = t.tools || n.Num > 0
		return !t.tools
	})
}

// diagnostics takes the provider's word on why it read less from the cache than the request named as the previous one allowed.
// It is null if there is nothing to say, or nothing yet.
func (t *tally) diagnostics(d gjson.Result) { take(&t.miss, d.Get("cache_miss_reason.type")) }

func take(s *string, v gjson.Result) {
	if v.Type == gjson.String && name.MatchString(v.Str) {
		*s = v.Str
	}
}

// response is what was said. Usage without a prompt is none: no request has an empty one.
func (t *tally) response() pipeline.Response {
	r := pipeline.Response{Message: t.id, Model: t.model, Miss: t.miss}
	if !t.begun || !t.final || !t.input.said || !t.output.said {
		return r
	}
	all := t.sum(&t.figures)
	prompt, bill := t.samplings()
	switch {
	case bill == nil:
		r.Usage, r.Unclear = &all, t.tools || t.moved(&t.first) || t.iterations.Get("#").Num > 0
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
