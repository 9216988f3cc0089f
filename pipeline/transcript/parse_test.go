package transcript

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// parse reads a body that must be accepted, and checks every span of it.
func parse(t rapid.TB, body []byte) *Index {
	t.Helper()
	ix, err := Parse(body, Anthropic)
	if err != nil {
		t.Fatalf("%v in %s", err, clip(body))
	}
	check(t, ix)
	return ix
}

func TestParseEqualsReference(t *testing.T) {
	conversations := gentest.Conversation(gen.Options{Strange: true, Wild: true}, 6)
	rapid.Check(t, func(rt *rapid.T) {
		parse(rt, conversations.Draw(rt, "conversation").Body()).Release()
	})
}
