package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// cutter is a filter that cuts as told, whatever is in force.
type cutter struct {
	cut func(v *filters.View) filters.Cut
}

func (cutter) Name() string { return shed.Name }

func (c cutter) Propose(v *filters.View) (list []filters.Proposal) {
	cut := c.cut(v)
	list = append(list, filters.Proposal{
		Result: filters.Transcript, Action: filters.Drop, Verdict: "cut", Verb: "cut", Mode: filters.Full,
		Policy: filters.Policy{Cold: true}, Cut: &cut,
	})
	for _, c := range v.Candidates {
		if c.Open {
			list = append(list, filters.Proposal{Result: c.Result, Gate: filters.BeyondCut})
		}
	}
	return list
}

func cutting(cut func(v *filters.View) filters.Cut) *pipeline.Config {
	return &pipeline.Config{Name: "cutter", Filters: []filters.Filter{cutter{cut}}}
}

// TestCutsThatAreRefused: what a filter proposes is cut only between the head and an exchange that was forwarded, forward of the
// cut in force, and never through a pair.
func TestCutsThatAreRefused(t *testing.T) {
	for name, cut := range map[string]func(v *filters.View) filters.Cut{
		"another head":     func(*filters.View) filters.Cut { return filters.Cut{Head: 2, Next: 15} },
		"through a pair":   func(*filters.View) filters.Cut { return filters.Cut{Head: 0, Next: 14} },
		"what is fresh":    func(v *filters.View) filters.Cut { return filters.Cut{Head: 0, Next: int32(len(v.Index.Messages)) - 1} },
		"beyond the end":   func(v *filters.View) filters.Cut { return filters.Cut{Head: 0, Next: int32(len(v.Index.Messages))} },
		"nothing":          func(*filters.View) filters.Cut { return filters.Cut{Head: 0, Next: 1} },
		"before its head":  func(*filters.View) filters.Cut { return filters.Cut{Head: 0, Next: 0} },
		"the same again":   func(v *filters.View) filters.Cut { return *v.Cut },
		"less than before": func(v *filters.View) filters.Cut { return filters.Cut{Head: 0, Next: v.Cut.Next - 2} },
	} {
		t.Run(name, func(t *testing.T) {
			s, k, from := cutAfterPause(t, shedding(t))
			s.c = cutting(cut)
			s.wait(cold)
			s.send(k.read("y1", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			if len(s.o.New) > 0 || s.o.Move != nil {
				t.Errorf("new %+v, move %+v", s.o.New, s.o.Move)
			}
		})
	}
}

// TestCutGrowsAsItBegan: whatever a filter asks for, what a cut left out stays so, and what it kept.
func TestCutGrowsAsItBegan(t *testing.T) {
	next := int32(9)
	s := newCutScene(t, cutting(func(*filters.View) filters.Cut { return filters.Cut{Head: 0, Next: next, KeepHuman: next == 9} }))
	k := long(3).say("Now the other one.").read("s1", "/w/s1").read("s2", "/w/s2").read("s3", "/w/s3").read("s4", "/w/s4")
	s.send(k, pipeline.KindNew, "all")
	s.wait(cold)
	s.send(k.read("x1", "/w/x1"), pipeline.KindContinue, "0+ 7 8 9"+rest(9, len(k.Messages)))
	next = 13 // and no human is to be kept
	s.wait(cold)
	s.send(k.read("x2", "/w/x2"), pipeline.KindContinue, "0+ 7 8 13"+rest(13, len(k.Messages)))
	o, err := s.store.Original(context.Background(), s.o.New[0].ID)
	if err != nil || string(o.Content) != "["+strings.Join(messagesOf(s.in)[9:13], ",")+"]" {
		t.Errorf("what is kept is not what went now: %v", err)
	}
}

// TestCutWithItsEndTwice: where the message behind the cut stands once more, the first one is its end: transcripts grow at theirs.
func TestCutWithItsEndTwice(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	s.c = &pipeline.Config{Name: "none"}
	f := k.copy()
	f.Messages = append(slices.Clip(f.Messages), f.Messages[from:from+2]...)
	s.send(f, pipeline.KindContinue, sentFrom(from, len(f.Messages)))
	s.send(k.read("y1", "/w/y"), pipeline.KindFork, sentFrom(from, len(k.Messages)))
}

// TestCutWithAnotherHead: where the first message of a human is another one it is another conversation, or the cut is void.
func TestCutWithAnotherHead(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	s.c = &pipeline.Config{Name: "none"}
	f := k.copy()
	f.block(0, 0).Set("text", "Fix another one.")
	s.send(f, pipeline.KindNew, "all")
	longer := k.copy()
	longer.Messages[0].Blocks = append(slices.Clip(longer.Messages[0].Blocks), gen.Text("And be quick."))
	s.send(longer, pipeline.KindNew, "all")
	s.send(k.read("y1", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
}
