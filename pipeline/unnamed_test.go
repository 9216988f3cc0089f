package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// unnamed is a Gemini body whose calls have no ids.
type unnamed struct{ body string }

func newUnnamed() unnamed {
	return unnamed{fmt.Sprintf(`{"systemInstruction":{"parts":[{"text":%s}]},"tools":[{"functionDeclarations":[{"name":"read_file"},{"name":"replace"}]}],
		"contents":[{"role":"user","parts":[{"text":"Fix it."}]}`, quoted(strings.Repeat("You are an agent. ", 1600)))}
}

func (n unnamed) call(tool, args, output, behind string) unnamed {
	return unnamed{n.body + fmt.Sprintf(`,{"role":"model","parts":[{"functionCall":{"name":%q,"args":%s}}]},{"role":"user","parts":[{"functionResponse":{"name":%[1]q,"response":{"output":%[3]s}}}%[4]s]}`,
		tool, args, quoted(output), behind)}
}

func (n unnamed) read(path string) unnamed {
	return n.call("read_file", fmt.Sprintf(`{"absolute_path":%q}`, path), path+code, "")
}

func (n unnamed) edit(path string) unnamed {
	return n.call("replace", fmt.Sprintf(`{"file_path":%q,"old_string":"a","new_string":"b"}`, path), "Successfully modified file: "+path+" (1 replacements).", "")
}

func (n unnamed) say(text string) unnamed {
	return unnamed{n.body + fmt.Sprintf(`,{"role":"model","parts":[{"text":"Yes."}]},{"role":"user","parts":[{"text":%q}]}`, text)}
}

// TestInvariant05_PlacesAreNoNames: where results have no ids they are known by their place, and in another history another result
// stands in a place, though it says the same: a decision on the one is none on the other, not on a fork's first request and not on
// a later one. In the same history it stands.
func TestInvariant05_PlacesAreNoNames(t *testing.T) {
	e, c, at := newEngine(t, true), config(t, ""), epoch
	send := func(n unnamed, kind pipeline.Kind, markers int) {
		t.Helper()
		at = at.Add(time.Second)
		r := ask([]byte(n.body+"]}"), c, at)
		r.Format, r.Model = transcript.Gemini, plainModel
		o := e.Request(context.Background(), r)
		if got := strings.Count(string(o.Body), "[tidemark "); o.Kind != kind || got != markers || o.Undeclared {
			t.Errorf("%v with %d markers, want %v with %d; gate %q, undeclared %t", o.Kind, got, kind, markers, o.Gate, o.Undeclared)
		}
	}
	base := newUnnamed().read("/w/x").say("Now a.")
	old := base.read("/w/a").edit("/w/a").read("/w/b").read("/w/a")
	send(base, pipeline.KindNew, 0)
	send(old, pipeline.KindContinue, 0)
	at = at.Add(cold)
	send(old.say("And?"), pipeline.KindContinue, 1)
	at = at.Add(time.Minute)
	fork := base.say("No, look again.").read("/w/a")
	send(fork, pipeline.KindFork, 0)
	send(fork.say("Next."), pipeline.KindContinue, 0)
	send(old.say("And?").say("Go on."), pipeline.KindContinue, 1)

	// The client adds words to the message in which the result stands: the call that it answers is the same.
	words := base.call("read_file", `{"absolute_path":"/w/a"}`, "/w/a"+code, `,{"text":"Hurry."}`).edit("/w/a")
	send(words, pipeline.KindFork, 1)
	send(words.say("Next."), pipeline.KindContinue, 1)
}
