package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// says adds an exchange whose call looks for a word.
func says(k *talk, id, word string) *talk {
	return k.exchange(id, "Grep", gen.Object{{Key: "pattern", Value: word}}, "no matches")
}

// TestUsedAgain: what the model uses of a cut, and was shown nowhere else, is counted once.
func TestUsedAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(k *talk) *talk
		want bool
	}{
		{"a file that was read in the span", func(k *talk) *talk { return k.read("u1", "/w/gone.go") }, true},
		{"an identifier of the span", func(k *talk) *talk { return says(k, "u1", "errGoneAway") }, true},
		{"in words", func(k *talk) *talk { return k.say("as errGoneAway says") }, true},
		{"a file that was read behind it too", func(k *talk) *talk { return k.read("u1", "/w/both.go") }, false},
		{"nothing of it", func(k *talk) *talk { return says(k, "u1", "errNew77") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k := newCutScene(t, shedding(t)), newTalk()
			k.exchange("g", "Read", gen.Object{{Key: "file_path", Value: "/w/gone.go"}}, "return errGoneAway // from /w/both.go\n"+code)
			for i := range 8 {
				k.read(fmt.Sprintf("r%d", i), fmt.Sprintf("/w/f%d", i))
			}
			k.read("b", "/w/both.go").read("c", "/w/c.go")
			s.send(k, pipeline.KindNew, "all")
			s.wait(cold)
			k.read("x1", "/w/x1")
			from := shedFrom(t, s.c, k)
			s.send(k, pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			if len(s.o.Reused) != 0 {
				t.Errorf("the cut itself: %v", s.o.Reused)
			}
			for i := range 3 { // what it reads of a transcript in one request is bounded
				s.send(k.read(fmt.Sprintf("w%d", i), "/w/w"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			}
			s.send(c.use(k), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			if n := s.o.Reused[shed.Name]; n > 0 != c.want {
				t.Errorf("%d tokens used again, want %v", n, c.want)
			}
			s.send(says(k, "u2", "errGoneAway"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
			if n := s.o.Reused[shed.Name]; n > 0 == c.want && c.want {
				t.Errorf("%d tokens once more", n)
			}
		})
	}
}
