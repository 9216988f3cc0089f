package usage

import (
	"math"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// maxTokens is what an int can hold wherever tidemark runs, and far above what is ever billed. It stands for larger figures.
const maxTokens = 1<<31 - 1

// figures are the numbers of one usage object.
type figures struct {
	input, read, output        count
	creation, write5m, write1h count // creation is the sum of both lifetimes
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

// both is the sum of what was said.
func both(a, b count) count { return count{min(a.n+b.n, maxTokens), a.said || b.said} }

// rest makes the input what is left of a prompt that includes what was read and written. Of a prompt that does not, nothing is
// known.
func (f *figures) rest(prompt count) {
	short, long := f.writes()
	left := int64(prompt.n) - int64(f.read.n) - int64(short) - int64(long)
	f.input = count{int(max(0, left)), prompt.said && left >= 0}
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

// told reports whether the lifetimes are told apart.
func (f *figures) told() bool { return f.write5m.said || f.write1h.said }

// sum is the figures as usage. Those that do not tell the lifetimes apart are split as whole is.
func (f *figures) sum(whole *figures) pipeline.Usage {
	short, long := f.writes()
	if !f.told() {
		s, l := whole.writes()
		all := short + long
		long = int(int64(all) * int64(l) / max(1, int64(s)+int64(l)))
		short = all - long
	}
	return pipeline.Usage{
		Input: f.input.n, Read: f.read.n, Write5m: short, Write1h: long, Output: f.output.n,
		Merged: short > 0 && !f.told() && !whole.told(),
	}
}
