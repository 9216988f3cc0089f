// Package gentest binds package gen to rapid, so that what gen makes shrinks and is drawn again from a failure file.
package gentest

import (
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// Source draws from t.
func Source(t *rapid.T) gen.Source { return source{t} }

type source struct{ t *rapid.T }

func (s source) IntN(n int) int {
	if n <= 1 {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(s.t, "choice")
}

// Conversation generates conversations of up to the given number of turns. A failure prints the body, not the choices.
func Conversation(o gen.Options, turns int) *rapid.Generator[*gen.Conversation] {
	return rapid.Custom(func(t *rapid.T) *gen.Conversation {
		m := gen.New(Source(t), o)
		return m.Conversation(rapid.IntRange(0, turns).Draw(t, "turns"))
	})
}

// Comparable generates conversations on which every format agrees, in all the dialects: what is done to one of them does not
// depend on the format that it is written in, as far as the formats know the same levers.
func Comparable(o gen.Options, turns int) *rapid.Generator[*gen.Conversation] {
	o.Dialects, o.Comparable, o.Strange = true, true, false
	return Conversation(o, turns)
}
