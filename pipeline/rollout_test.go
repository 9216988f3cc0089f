package pipeline_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// TestRollout: a rollout of so much decides on that share of sessions, drawn once; one that grows keeps whom it has. The others are
// metered, the held-out ones are not even that, and what is in force is replayed whatever becomes of the shares.
func TestRollout(t *testing.T) {
	at := func(withheld, holdout float64) *pipeline.Config {
		c := config(t, "")
		c.Withheld, c.Holdout = withheld, holdout
		return c
	}
	s := newScene(t, nil)
	gate := func(c *pipeline.Config, session int) filters.Gate {
		s.c, s.session = c, fmt.Sprint("session ", session)
		k := newTalk()
		if out := s.asks(k); !bytes.Equal(out, k.Body()) {
			t.Fatal("a first request was changed")
		}
		if metered := s.o.Shadow != nil; metered != (s.o.Gate == filters.Rollout) {
			t.Fatalf("gate %q, metered %v", s.o.Gate, metered)
		}
		want := map[filters.Gate]string{filters.Rollout: pipeline.GroupWithheld, filters.Holdout: pipeline.GroupHoldout, "": pipeline.GroupActive}[s.o.Gate]
		if c.Withheld == 0 && c.Holdout == 0 {
			want = ""
		}
		if s.o.Group != want {
			t.Fatalf("gate %q, group %q", s.o.Gate, s.o.Group)
		}
		return s.o.Gate
	}
	const sessions = 400
	share := func(c *pipeline.Config, g filters.Gate) (in []bool, n int) {
		s.restart() // what was asked before is forgotten
		for i := range sessions {
			in = append(in, gate(c, i) == g)
			n += b2i(in[i])
		}
		return in, n
	}
	third, n := share(at(2.0/3, 0), "")
	if n < sessions/3-40 || n > sessions/3+40 {
		t.Errorf("%d of %d sessions", n, sessions)
	}
	half, m := share(at(0.5, 0), "")
	out, held := share(at(0.5, 0.25), filters.Holdout)
	if m <= n || held < sessions/4-40 || held > sessions/4+40 {
		t.Errorf("%d, then %d; %d are held out", n, m, held)
	}
	both := 0
	for i := range sessions {
		if third[i] && !half[i] {
			t.Errorf("session %d was taken out by a larger share", i)
		}
		both += b2i(half[i] && out[i])
	}
	if both < sessions/8-40 || both > sessions/8+40 {
		t.Errorf("%d of %d sessions are in both shares, which are drawn for themselves", both, sessions)
	}
	for _, g := range []filters.Gate{"", filters.Rollout} {
		if _, n := share(at(float64(b2i(g != "")), 0), g); n != sessions {
			t.Errorf("%d of %d sessions at the end of the scale", n, sessions)
		}
	}
}

// TestWithheldReplays: a session that is taken out of the rollout, or held out, keeps what is in force and gets nothing new.
func TestWithheldReplays(t *testing.T) {
	for _, c := range []*pipeline.Config{{Withheld: 1}, {Holdout: 1}} {
		s, k := begun(t)
		out := config(t, "")
		out.Withheld, out.Holdout = c.Withheld, c.Holdout
		s.c = out
		s.wait(cold)
		s.send(k.edit("c2", "/w/c"), goesOn, "a1 b1")
		if len(s.o.New) > 0 || (s.o.Shadow == nil) != (c.Withheld == 0) {
			t.Errorf("new %v, shadow %v", s.o.New, s.o.Shadow)
		}
		s.c = config(t, "")
		s.wait(cold)
		s.send(k.say("Go on."), goesOn, "a1 b1 c1")
	}
}
