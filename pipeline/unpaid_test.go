package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// TestUnpaid: what a request that was answered with an error was the first to do is told of the one that repeats it, whatever it
// is, once; of one that was billed, or that asks for something else, nothing is.
func TestUnpaid(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(l *live, k *talk) // before the request that is answered first
		cause pipeline.Cause
		first pipeline.Basis // of what it leaves out for the first time
	}{
		{"a warm move", func(l *live, k *talk) { k.edit("e1", "/w/1") }, pipeline.CauseTidemark, pipeline.CacheReadMarginal},
		{"a cold move", func(l *live, k *talk) { k.edit("e1", "/w/1"); l.wait(20 * time.Minute) }, pipeline.CauseTTL, pipeline.CacheWriteMarginal},
		{"a pause", func(l *live, k *talk) { l.wait(20 * time.Minute) }, pipeline.CauseTTL, ""},
		{"another system prompt", func(_ *live, k *talk) { k.System[0].Set("text", "You are someone else.") }, pipeline.CauseClientSystem, ""},
		{"nothing", func(*live, *talk) {}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, statuses := range [][]int{{200, 200}, {529, 200, 200}, {500, 503, 200, 200}} {
				l := newLive(t, staleAtDepth(t, pipeline.Moves{Warm: true, Budget: 1, Horizon: 400}), simprovider.Policy{})
				k := l.talk()
				l.turn(k)
				for i := range 8 {
					l.turn(k.exchange(fmt.Sprint("r", i), "Read", readOf(fmt.Sprint("/w/", i)), fileOf(i)))
				}
				c.do(l, k.say("Go on."))
				paid := 0
				for _, status := range statuses {
					if paid > 0 {
						k.say("And on.")
					}
					l.ask(l.marks(k))
					if status != 200 {
						l.wait(2 * time.Second)
						l.observe(&pipeline.Response{Status: status})
						continue
					}
					l.ob = l.observe(l.answer())
					paid++
					var cause pipeline.Cause
					if x := l.ob.Loss; x != nil {
						cause = x.Cause
					}
					want, first := c.cause, c.first
					if paid > 1 {
						want, first = "", ""
					}
					if got := l.ob.Account.First.Basis(); cause != want || got != first {
						t.Errorf("%v: answer %d: loss %q, first removed %q, want %q and %q", statuses, paid, cause, got, want, first)
					}
				}
			}
		})
	}
}
