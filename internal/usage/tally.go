package usage

import (
	"math"
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// maxTokens is more than any provider bills for one request; a larger figure is not taken for one.
const maxTokens = 1 << 40

// name is what an id, a model or a reason looks like. They reach logs and state, so that nothing else is taken.
var name = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)

// tally collects what a response says, the last word on each.
type tally struct {
	id, model, miss            string
	input, read, output        count
	creation, write5m, write1h count
	begun                      bool // a message was seen: what is not said of its usage is zero
	final                      bool // the usage is the provider's last word
}

// count is a number of tokens, if it was said.
type count struct {
	n    int
	said bool
}

// take takes a number that is one of tokens, and leaves out what is not.
func (c *count) take(v gjson.Result) {
	if v.Type == gjson.Number && v.Num >= 0 && v.Num <= maxTokens && v.Num == math.Trunc(v.Num) {
		*c = count{int(v.Num), true}
	}
}

// message takes a message of the Messages API: the body of a JSON response, or the one that message_start carries.
func (t *tally) message(m gjson.Result) {
	take(&t.id, m.Get("id"))
	take(&t.model, m.Get("model"))
	t.diagnostics(m.Get("diagnostics"))
	t.usage(m.Get("usage"))
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
	t.input.take(u.Get("input_tokens"))
	t.read.take(u.Get("cache_read_input_tokens"))
	t.creation.take(u.Get("cache_creation_input_tokens"))
	t.write5m.take(u.Get("cache_creation.ephemeral_5m_input_tokens"))
	t.write1h.take(u.Get("cache_creation.ephemeral_1h_input_tokens"))
	t.output.take(u.Get("output_tokens"))
}

// diagnostics takes the provider's word on why it read less from the cache than the request named as the previous one allowed.
// It is null if there is nothing to say, or nothing yet.
func (t *tally) diagnostics(d gjson.Result) { take(&t.miss, d.Get("cache_miss_reason.type")) }

func take(s *string, v gjson.Result) {
	if v.Type == gjson.String && name.MatchString(v.Str) {
		*s = v.Str
	}
}

func (t *tally) response() pipeline.Response {
	r := pipeline.Response{Message: t.id, Model: t.model, Miss: t.miss}
	if t.begun && t.final && t.input.said && t.output.said {
		short, long := t.writes()
		r.Usage = &pipeline.Usage{Input: t.input.n, Read: t.read.n, Write5m: short, Write1h: long, Output: t.output.n}
	}
	return r
}

// writes splits what was written to the cache by lifetime. The sum is the provider's total; where it names none, that of the
// parts.
func (t *tally) writes() (short, long int) {
	if !t.creation.said {
		return t.write5m.n, t.write1h.n
	}
	long = min(t.write1h.n, t.creation.n)
	return t.creation.n - long, long
}
