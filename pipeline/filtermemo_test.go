package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// recaller decides nothing. It keeps how many messages it has seen, and notes what was kept when it was asked.
type recaller struct {
	kept   []int32 // -1: nothing
	panics bool
}

func (*recaller) Name() string { return "recaller" }

func (f *recaller) Propose(v *filters.View) (all []filters.Proposal) {
	v.Memo(f.Name(), func(kept filters.Memo) filters.Memo {
		if f.panics {
			panic("in the middle of a change")
		}
		if kept == nil {
			f.kept = append(f.kept, -1)
		} else {
			f.kept = append(f.kept, kept.Messages())
		}
		return seen(len(v.Index.Messages) - 1)
	})
	for _, c := range v.Candidates {
		if c.Open {
			all = append(all, filters.Proposal{Result: c.Result, Gate: filters.NotIndexed})
		}
	}
	return all
}

// seen is a memo of so many messages.
type seen int32

func (n seen) Messages() int32 { return int32(n) }
func (n seen) Size() int       { return 4 }

// What a filter keeps comes back on the same branch while the transcript begins with the same messages, and never else.
func TestFilterMemo(t *testing.T) {
	f := &recaller{}
	s := newScene(t, &pipeline.Config{Filters: []filters.Filter{f}})
	expect := func(what string, want ...int32) {
		t.Helper()
		if !slices.Equal(f.kept, want) {
			t.Fatalf("%s: kept %v, want %v", what, f.kept, want)
		}
		f.kept = nil
	}
	k := s.talk().read("a", "/w/a")
	s.send(k, pipeline.KindNew, "")
	expect("first request", -1)
	first := k.copy()
	s.send(k.read("b", "/w/b"), pipeline.KindContinue, "")
	expect("next turn", int32(len(first.Messages))-1)
	before := len(k.Messages)
	k.Messages[before-1].Blocks = append(k.Messages[before-1].Blocks, s.talk().Messages[0].Blocks[0])
	s.send(k.read("c", "/w/c"), pipeline.KindContinue, "")
	expect("the last message changed, which nothing was kept of", int32(before)-1)
	s.send(first.read("d", "/w/d"), pipeline.KindFork, "")
	expect("fork", -1)
	s.send(k.read("e", "/w/e"), pipeline.KindContinue, "")
	expect("the branch that was forked from", int32(len(k.Messages))-3)
	s.session = "other"
	s.send(k.read("f", "/w/f"), pipeline.KindContinue, "")
	expect("another session", -1)
	s.session = "s"
	s.e.ForgetBodies()
	s.send(k.read("g", "/w/g"), pipeline.KindContinue, "")
	expect("memory lost", -1)
	f.panics = true
	s.send(k.read("h", "/w/h"), pipeline.KindContinue, "")
	f.panics = false
	s.wait(time.Second)
	s.send(k.read("i", "/w/i"), pipeline.KindContinue, "")
	expect("after a panic", -1)
}
