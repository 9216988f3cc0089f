package usage

import (
	"math"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// maxTokens is what an int can hold wherever tidemark runs, and far above what is ever billed. It stands for larger figures.
const maxTokens = 1<<31 - 1

// figures are the numbers of one usage object, the last word on each.
type figures struct {
	input, read, output        count
	creation, write5m, write1h count
}

// count is a number of tokens, if it was said.
type count struct {
	n    int
	said bool
}

// take takes a number that is one of tokens, and leaves out what is not.
func (c *count) take(v gjson.Result) {
	if v.Type == gjson.Number && v.Num >= 0 && v.Num == math.Trunc(v.Num) {
		*c = count{int(min(v.Num, maxTokens)), true}
	}
}

// correct is take, but for a zero after another number: there are gateways that fill in what they do not know.
func (c *count) correct(v gjson.Result) {
	if v.Num != 0 || c.n == 0 {
		c.take(v)
	}
}

// take takes a usage object. Only the output is still growing after the first one.
func (f *figures) take(u gjson.Result) {
	f.input.correct(u.Get("input_tokens"))
	f.read.correct(u.Get("cache_read_input_tokens"))
	f.creation.correct(u.Get("cache_creation_input_tokens"))
	f.write5m.correct(u.Get("cache_creation.ephemeral_5m_input_tokens"))
	f.write1h.correct(u.Get("cache_creation.ephemeral_1h_input_tokens"))
	f.output.take(u.Get("output_tokens"))
}

// writes splits what was written to the cache by lifetime. The sum is the provider's total; where it names none, that of the
// parts.
func (f *figures) writes() (short, long int) {
	if !f.creation.said {
		return f.write5m.n, f.write1h.n
	}
	long = min(f.write1h.n, f.creation.n)
	return f.creation.n - long, long
}

// sum is the figures as usage. Those that do not tell the lifetimes apart are split as whole is.
func (f *figures) sum(whole *figures) pipeline.Usage {
	short, long := f.writes()
	if !f.write5m.said && !f.write1h.said {
		s, l := whole.writes()
		all := short + long
		long = int(int64(all) * int64(l) / max(1, int64(s)+int64(l)))
		short = all - long
	}
	return pipeline.Usage{Input: f.input.n, Read: f.read.n, Write5m: short, Write1h: long, Output: f.output.n}
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
func (t *tally) samplings() (prompt, bill *pipeline.Usage) {
	readable := true
	var sum pipeline.Usage
	t.iterations.ForEach(func(_, v gjson.Result) bool {
		var f figures
		f.take(v)
		if readable = f.input.said && f.output.said; !readable {
			return false
		}
		kind, model := v.Get("type").Str, v.Get("model").Str
		if kind != "message" && model != "" && model != t.model {
			return true
		}
		u := f.sum(&t.figures)
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
}
