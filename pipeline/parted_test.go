package pipeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// staleCold replaces stale reads that the provider does not hold.
func staleCold(t *testing.T) *pipeline.Config {
	t.Helper()
	f, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Config{Name: "cold", Filters: []filters.Filter{f}}
}

// TestPartedMessage: of a message in the middle of unknown history the client changes what comes last. What stands before that in
// the same message may be cached as much as the messages before it.
func TestPartedMessage(t *testing.T) {
	l := newLive(t, staleCold(t), simprovider.Policy{})
	elsewhere := func(k *talk) {
		k.Mark(gen.Short)
		l.at = l.at.Add(time.Second)
		l.sim.Call(k.Body(), l.header, l.at)
	}
	k := l.talk()
	elsewhere(k)
	k.exchange("a1", "Read", readOf("/w/1"), fileOf(1))
	call, answer := &k.Messages[1], &k.Messages[2]
	call.Blocks = append(call.Blocks, gen.Call("b1", "Read", readOf("/w/2")))
	answer.Blocks = append(answer.Blocks, gen.Result("b1", fileOf(2)))
	elsewhere(k)
	answer.Blocks = append(slices.Clip(answer.Blocks), gen.Text("And look at the third."))
	elsewhere(k.edit("e1", "/w/1"))
	elsewhere(k.say("Go on."))
	l.turn(k)
	*k.block(2, 2) = gen.Text("Leave the third.")
	if l.turn(k); l.o.Kind != pipeline.KindFork || l.o.Move != nil {
		t.Errorf("%v, %v moves what the provider holds", l.o.Kind, l.o.Move)
	}
}

// TestMergedThenRewound: a client makes one message of two, which changes no prefix. What was cached before is kept alive by what
// follows, and a rewind finds it again when its entries have been folded.
func TestMergedThenRewound(t *testing.T) {
	for turns := 10; turns <= 20; turns++ {
		l := newLive(t, staleCold(t), simprovider.Policy{Refresh: simprovider.RefreshAll})
		k := l.talk()
		l.turn(k)
		l.turn(k.exchange("a0", "Read", readOf("/w/0"), fileOf(0)))
		k.Messages = append(slices.Clip(k.Messages), gen.Message{Role: "user", Blocks: []gen.Block{gen.Text("Quick.")}})
		l.turn(k)
		for i := range 6 {
			l.wait(30 * time.Second)
			l.turn(k.exchange(fmt.Sprint("r", i), "Read", readOf("/w/1"), fileOf(i)))
		}
		back := len(k.Messages) - 3
		merge(k)
		for range turns {
			l.wait(time.Minute)
			l.turn(k.say("Go on."))
		}
		l.turn(k.cut(back).edit("e1", "/w/1"))
		if read := l.res.Usage.Read; l.o.Kind != pipeline.KindFork || l.o.Move != nil || read < 20_000 {
			t.Errorf("after %d turns: %v, %v, %d read", turns, l.o.Kind, l.o.Move, read)
		}
	}
}

// merge makes one message of the third and the fourth.
func merge(k *talk) {
	k.Messages[2].Blocks = append(slices.Clip(k.Messages[2].Blocks), k.Messages[3].Blocks...)
	k.Messages = slices.Delete(slices.Clone(k.Messages), 3, 4)
}

// TestMergedAutomatic: the same where the provider finds any beginning again. The fork itself must know what is cached behind the
// message that grew.
func TestMergedAutomatic(t *testing.T) {
	s := newScene(t, deepConfig(t, 0))
	k := s.talk()
	send := func() *pipeline.Outcome {
		s.at = s.at.Add(time.Second)
		r := ask(k.As(gen.Gemini), s.c, s.at)
		r.Format, r.Model = transcript.Gemini, "gemini-2.5-pro"
		return s.e.Request(t.Context(), r)
	}
	send()
	k.exchange("a0", "Read", readOf("/w/0"), fileOf(0))
	send()
	k.Messages = append(slices.Clip(k.Messages), gen.Message{Role: "user", Blocks: []gen.Block{gen.Text("Quick.")}})
	for i := range 4 {
		send()
		k.exchange(fmt.Sprint("r", i), "Read", readOf("/w/1"), fileOf(i))
	}
	send()
	merge(k)
	k.edit("e1", "/w/1")
	if o := send(); o.Kind != pipeline.KindFork || o.Move != nil || o.Sizes.Sent > 1000 {
		t.Errorf("%v, %v moves what the provider holds, %+v", o.Kind, o.Move, o.Sizes)
	}
}
