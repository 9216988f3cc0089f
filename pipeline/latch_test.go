package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// A verdict may change until a move makes it a decision, and never after that.

func object(key string, value any) gen.Object { return gen.Object{{Key: key, Value: value}} }

// TestLaterEvidenceBringsNothingBack: a result that nothing referred to is left out at the first cold moment and stays out,
// however often its identifiers are used afterwards. One that is used before that moment stays.
func TestLaterEvidenceBringsNothingBack(t *testing.T) {
	keys := coref.Default()
	keys.MinLaterTurns = 2
	f, err := coref.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	survey := func(k *talk, id, word string) *talk {
		return k.exchange(id, "Bash", object("command", "make report"), word+"\n"+strings.Repeat("plain words of a report\n", 200))
	}
	s := newScene(t, &pipeline.Config{Name: "coref", Filters: []filters.Filter{f}})
	k := newTalk()
	s.send(k, pipeline.KindNew, "")
	s.send(survey(k, "a", "maxRetryCount"), pipeline.KindContinue, "")
	s.send(survey(k, "b", "minRetryDelay"), pipeline.KindContinue, "")
	for i := range 4 {
		s.send(k.say(fmt.Sprint("Go on ", i)), pipeline.KindContinue, "")
	}
	s.send(k.say("The limit is minRetryDelay."), pipeline.KindContinue, "") // b is used in time
	s.wait(cold)
	s.send(k.say("Go on."), pipeline.KindContinue, "a")
	if s.o.Move == nil || s.o.New[0].Verdict != coref.Unreferenced {
		t.Fatalf("move %v, new %v", s.o.Move, s.o.New)
	}
	for i := range 4 {
		s.send(k.say(fmt.Sprint("Look at maxRetryCount again ", i)), pipeline.KindContinue, "a")
	}
	s.wait(cold)
	s.send(k.say("And on."), pipeline.KindContinue, "a")
	if s.o.Move != nil || s.o.Replays != 1 {
		t.Errorf("move %v, %d replays", s.o.Move, s.o.Replays)
	}
	s.restart()
	s.send(k.say("And on again."), pipeline.KindContinue, "a")
}

// TestLostVerdictIsNotMadeAgain: where the state is lost nobody can tell what was decided. Until a pause proves it cold, all is sent.
func TestLostVerdictIsNotMadeAgain(t *testing.T) {
	keys := coref.Default()
	keys.MinLaterTurns = 2
	f, err := coref.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, &pipeline.Config{Name: "coref", Filters: []filters.Filter{f}})
	k := newTalk().exchange("a", "Bash", object("command", "make report"), "maxRetryCount\n"+strings.Repeat("plain words of a report\n", 200))
	s.send(k.say("Go on.").say("And on.").say("Once more."), pipeline.KindNew, "")
	s.wait(cold)
	s.send(k.say("Go on again."), pipeline.KindContinue, "a")
	s.lose()
	s.send(k.say("And again."), pipeline.KindNew, "")
	s.send(k.say("And on."), pipeline.KindContinue, "")
}

// TestOpenResultMayAge: what coref leaves open, as it is in use, tiered may shorten by its age.
func TestOpenResultMayAge(t *testing.T) {
	keys := tiered.Default()
	keys.Window, keys.StubDistance = 2, 4
	aging, err := tiered.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, &pipeline.Config{Name: "both", Filters: []filters.Filter{pipelineOf(t, coref.Name).Filters[0], aging}})
	k := newTalk().exchange("a", "Bash", object("command", "make report"), "maxRetryCount\n"+strings.Repeat("plain words of a report\n", 200))
	for i := range 3 {
		k.exchange(fmt.Sprint("n", i), "Bash", object("command", "grep maxRetryCount"), "ok")
	}
	s.send(k, pipeline.KindNew, "")
	s.wait(cold)
	s.send(k.say("The limit is maxRetryCount."), pipeline.KindContinue, "a")
	if s.o.Gates[pipeline.FilterGate{Filter: coref.Name, Gate: filters.OpenResult}] == 0 || s.o.New[0].Filter != tiered.Name {
		t.Errorf("gates %v, new %v", s.o.Gates, s.o.New)
	}
}

// TestExcerptNeverBecomesFacts: a result that was shortened to an excerpt keeps these bytes when its distance grows, while
// one that is first looked at from as far away keeps nothing but facts of its call.
func TestExcerptNeverBecomesFacts(t *testing.T) {
	keys := tiered.Default()
	keys.Window, keys.StubDistance = 2, 4
	f, err := tiered.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	run := func(k *talk, id string) *talk {
		return k.exchange(id, "Bash", object("command", "go test ./..."), strings.Repeat(id+" is a line of output\n", 200))
	}
	made := func(s *scene) string {
		var all []string
		for _, d := range s.o.New {
			all = append(all, d.Call+" "+d.Verdict)
		}
		return strings.Join(all, ", ")
	}
	s := newScene(t, &pipeline.Config{Name: "tiered", Filters: []filters.Filter{f}})
	k := newTalk()
	s.send(k, pipeline.KindNew, "")
	for _, id := range []string{"a", "b", "c", "d"} {
		s.send(run(k, id), pipeline.KindContinue, "")
	}
	s.wait(cold)
	s.send(k.say("Go on."), pipeline.KindContinue, "a b") // c and d are the newest two
	if got := made(s); got != "a tier2, b tier2" {
		t.Fatalf("decided %s", got)
	}
	for _, id := range []string{"e", "f", "g", "h", "i"} {
		s.send(run(k, id), pipeline.KindContinue, "a b")
	}
	s.wait(cold)
	s.send(k.say("And on."), pipeline.KindContinue, "a b c d e f g") // what stands for a and b is what stood: send looks
	if got := made(s); got != "c tier1, d tier1, e tier1, f tier2, g tier2" {
		t.Errorf("decided %s", got)
	}
}

// TestIdenticalRereadStays: a read that shows the same text as one that was replaced is a result of its own: it stays, so that
// one full copy of the file is left.
func TestIdenticalRereadStays(t *testing.T) {
	s := newScene(t, config(t, ""))
	reread := func(k *talk, id string) *talk { return k.exchange(id, "Read", object("file_path", "/w/a"), code) }
	k := reread(newTalk(), "a")
	s.send(k, pipeline.KindNew, "")
	s.send(reread(k, "b"), pipeline.KindContinue, "")
	s.wait(cold)
	s.send(k.say("Go on."), pipeline.KindContinue, "a")
	for i := range 3 {
		s.send(k.say(fmt.Sprint("And on ", i)), pipeline.KindContinue, "a")
	}
	s.e.Flush(t.Context())
	s.restart()
	s.wait(cold)
	s.send(reread(k, "c"), pipeline.KindContinue, "a b")
}
