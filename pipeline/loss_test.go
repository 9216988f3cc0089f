package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// lost checks the cause of the last request's loss, empty for none; who is the filter, or the message.
func (l *live) lost(what string, cause pipeline.Cause, who string) {
	l.Helper()
	got, by := pipeline.Cause(""), ""
	if x := l.ob.Loss; x != nil {
		got, by = x.Cause, x.Filter
		if x.Cause == pipeline.CauseClientHistory {
			by = fmt.Sprint(x.Message)
		}
		if x.Tokens < 1000 || x.Tokens > through(l.ob.Usage) {
			l.Errorf("%s: %d tokens lost of %d", what, x.Tokens, through(l.ob.Usage))
		}
	}
	if got != cause || by != who {
		l.Errorf("%s: lost by %q %q, want %q %q (kind %v, read %d, wrote %d)", what, got, by, cause, who, l.o.Kind, l.ob.Usage.Read, l.ob.Usage.Write5m)
	}
}

// TestLosses plays a session in which every cause of a loss comes once.
func TestLosses(t *testing.T) {
	l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{})
	l.c.Moves.Warm = false
	k := l.talk()
	l.turn(k)
	l.lost("first", pipeline.CauseFirst, "")
	for i := range 6 {
		l.turn(k.read(fmt.Sprint("r", i), fmt.Sprint("/w/", i)))
		l.lost("grown", "", "")
	}
	l.wait(20 * time.Minute)
	l.small(k, 1)
	l.lost("a pause", pipeline.CauseTTL, "")
	l.small(k, 1)
	l.lost("after the pause", "", "")

	l.turn(k.system(strings.Repeat("You are a careful agent. ", 1500)).say("Go on."))
	l.lost("another system prompt", pipeline.CauseClientSystem, "")
	k.Tools = append(slices.Clip(k.Tools), gen.Block{Members: gen.Object{{Key: "name", Value: "Bash"}, {Key: "input_schema", Value: gen.Object{{Key: "type", Value: "object"}}}}})
	l.turn(k.say("Go on."))
	l.lost("another tool", pipeline.CauseClientTools, "")
	k.Model = "claude-sonnet-4-5"
	l.turn(k.say("Go on."))
	l.lost("another model", pipeline.CauseClientModel, "")
	l.small(k, 1)
	l.lost("after all that", "", "")

	k.block(3, 0).Set("text", "Let me look at it.")
	l.turn(k.say("Go on."))
	l.lost("another past", pipeline.CauseClientHistory, "3")
	l.small(k, 1)
	l.lost("after that", "", "")

	l.saw = rereads(0)
	l.small(k, 1)
	l.lost("the provider forgot", pipeline.CauseProvider, "")
	l.saw = nil
	l.small(k, 1)
	l.lost("the provider remembers", "", "")

	l.turn(k.edit("e1", "/w/1"))
	l.lost("an edit", "", "")
	l.c.Moves.Warm = true
	l.small(k, 1)
	if l.o.Move == nil || l.o.Move.Kind != pipeline.Warm {
		l.Fatalf("move %v, gates %v", l.o.Move, l.o.Gates)
	}
	l.lost("a warm move", pipeline.CauseTidemark, "readlifecycle")
	l.small(k, 1)
	l.lost("after the move", "", "")

	k.say("Go on.").Unmark()
	l.saw = func(r *pipeline.Response) { *r.Usage = pipeline.Usage{Input: r.Usage.Prompt()} }
	l.marked(k)
	if x := l.ob.Loss; x == nil || x.Cause != pipeline.CauseUnknown {
		l.Errorf("no breakpoints: %+v", x)
	}
}

// TestHoldIsNoLoss: what is kept out of the cache was not expected to be read.
func TestHoldIsNoLoss(t *testing.T) {
	l := newLive(t, config(t, "always"), simprovider.Policy{})
	k := l.talk()
	l.turn(k)
	held := 0
	for i := range 3 {
		l.turn(k.read(fmt.Sprint("r", i), fmt.Sprint("/w/", i)))
		held = max(held, l.o.Held)
		l.lost("held", "", "")
	}
	for range 9 {
		l.small(k, 1)
		l.lost("maturing", "", "")
	}
	if held < 2 || l.o.Held > 0 {
		t.Errorf("%d reads were held, %d are", held, l.o.Held)
	}
}

// TestProviderNamesCause: the provider's own diagnosis stands for ours, in whatever it names, and makes no loss of none.
func TestProviderNamesCause(t *testing.T) {
	for miss, want := range map[string]pipeline.Loss{
		"model_changed":              {Cause: pipeline.CauseClientModel, Diagnostics: true},
		"system_changed":             {Cause: pipeline.CauseClientSystem, Diagnostics: true},
		"tools_changed":              {Cause: pipeline.CauseClientTools, Diagnostics: true},
		"messages_changed":           {Cause: pipeline.CauseClientHistory, Diagnostics: true},
		"previous_message_not_found": {Cause: pipeline.CauseProvider},
		"":                           {Cause: pipeline.CauseProvider},
	} {
		t.Run(miss, func(t *testing.T) {
			l := newLive(t, lifting(pipeline.KeepTTL), simprovider.Policy{})
			k := l.talk()
			l.small(k, 2)
			l.saw = func(r *pipeline.Response) { r.Miss = miss }
			if l.small(k, 1); l.ob.Loss != nil {
				t.Errorf("a loss of nothing: %+v", *l.ob.Loss)
			}
			l.saw = func(r *pipeline.Response) { rereads(0)(r); r.Miss = miss }
			l.small(k, 1)
			if l.ob.Loss == nil {
				t.Fatal("no loss")
			}
			got := *l.ob.Loss
			got.Tokens = 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
