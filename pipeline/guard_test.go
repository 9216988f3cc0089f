package pipeline_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// forgets lets the provider have read nothing n times, and returns how often the branch was said to be braked.
func (l *live) forgets(k *talk, n int) (braked int) {
	l.Helper()
	for range n {
		l.saw = rereads(0)
		l.small(k, 1)
		braked += b2i(l.ob.Braked)
	}
	l.saw = nil
	return braked
}

// TestBrake: a branch whose reads fall short without a cause decides nothing new.
func TestBrake(t *testing.T) {
	begin := func(t *testing.T, brake bool) (*live, *talk) {
		t.Helper()
		c := config(t, "")
		c.Moves.Brake = brake
		l := newLive(t, c, simprovider.Policy{})
		k := l.talk()
		l.turn(k)
		l.stale(k, 0)
		l.small(k, 1)
		l.shortened("r0")
		return l, k
	}
	t.Run("two short reads", func(t *testing.T) {
		l, k := begin(t, true)
		l.forgets(k, 1)
		l.stale(k, 1)
		l.small(k, 1)
		l.shortened("r0 r1") // one is none, and the pause is no second
		if n := l.forgets(k, 3); n != 1 {
			t.Errorf("said to be braked %d times", n)
		}
		l.stale(k, 2)
		l.small(k, 1)
		l.shortened("r0 r1") // what is in force stays
		if l.o.Gate != filters.Brake || l.o.Level != pipeline.Replayed || len(l.o.New) > 0 {
			t.Errorf("gate %q, %v", l.o.Gate, l.o.Level)
		}
		l.turn(k, auxiliary)
		l.shortened("r0 r1")
		f := k.cut(len(k.Messages) - 2)
		l.wait(cold)
		l.turn(f.say("Go that way."))
		l.shortened("r0 r1 r2") // a fork is free again
		if l.o.Kind != forks || l.o.Gate != "" {
			t.Errorf("kind %v, gate %q", l.o.Kind, l.o.Gate)
		}
		l.e.Flush(t.Context())
		l.restart()
		l.wait(cold)
		l.turn(k.say("And on."))
		l.shortened("r0 r1")
		if l.o.Gate != filters.Brake {
			t.Errorf("after a restart gate %q", l.o.Gate)
		}
	})
	t.Run("a good read in between", func(t *testing.T) {
		l, k := begin(t, true)
		for range 3 {
			if l.forgets(k, 1) > 0 {
				t.Fatal("braked")
			}
			l.small(k, 1)
		}
	})
	t.Run("lapses, moves and the client's changes", func(t *testing.T) {
		l, k := begin(t, true)
		l.saw = rereads(0)
		for i := range 3 {
			l.wait(20 * time.Minute)
			l.small(k, 1)
			l.stale(k, i+1)
			l.turn(k.system(strings.Repeat(fmt.Sprintf("You are agent %d. ", i), 1500)).say("Go on."))
			if l.ob.Braked {
				t.Fatal("braked")
			}
		}
		l.saw = nil
	})
	t.Run("a lapse of a part", func(t *testing.T) {
		l, k := begin(t, true)
		l.saw = func(r *pipeline.Response) { // the head, which is expected, is not there either
			u := r.Usage
			*u = pipeline.Usage{Write1h: 9000, Write5m: u.Prompt() - 9000}
		}
		for range 4 {
			l.wait(20 * time.Minute)
			k.say("Go on.").Mark(gen.Short)
			k.System[len(k.System)-1].Marker = gen.Long
			if l.marked(k); l.ob.Braked {
				t.Fatal("braked")
			}
		}
		if l.ob.Expected < 4000 {
			t.Errorf("expected %d", l.ob.Expected)
		}
	})
	t.Run("a change of the client's", func(t *testing.T) {
		l, k := begin(t, true)
		l.small(k, 1)
		f := k.copy()
		f.block(1, 0).Set("text", "Let me look.")
		l.saw = rereads(0)
		l.turn(f.say("Go on."))
		if l.o.Kind != forks || l.ob.Expected < 4000 {
			t.Fatalf("kind %v, expected %d", l.o.Kind, l.ob.Expected)
		}
		if n := l.forgets(f, 1); n > 0 {
			t.Error("braked by a change and one short read")
		}
		if n := l.forgets(f, 1); n != 1 {
			t.Error("not braked by two short reads")
		}
	})
	t.Run("brake: false", func(t *testing.T) {
		l, k := begin(t, false)
		l.forgets(k, 4)
		l.stale(k, 1)
		l.small(k, 1)
		l.shortened("r0 r1")
	})
}

// windowed begins a conversation with a model whose prompts may have so many tokens: reads of one file, which are superseded,
// or of many, which are not.
func windowed(t *testing.T, moves pipeline.Moves, model string, window, reads int, superseded bool) (*live, *talk) {
	t.Helper()
	l := newLive(t, staleAtDepth(t, moves), simprovider.Policy{})
	l.model = model
	l.priced(cache.Override{Model: model, Window: window})
	k := l.talk()
	l.turn(k)
	for i := range reads {
		file := "/w/a"
		if !superseded {
			file = fmt.Sprint("/w/", i)
		}
		l.turn(k.read(fmt.Sprintf("r%02d", i), file))
		if l.o.Move != nil {
			t.Fatalf("moved at %d tokens", l.res.Prompt)
		}
	}
	return l, k
}

const many = 10

// supersededReads lists the calls of many reads of one file but for the newest.
func supersededReads() string {
	var calls []string
	for i := range many - 1 {
		calls = append(calls, fmt.Sprintf("r%02d", i))
	}
	return strings.Join(calls, " ")
}

// TestRawGuard: near the window the client is left to see its own size.
func TestRawGuard(t *testing.T) {
	t.Run("nothing new is decided, and what is in force is replayed", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{RawGuard: true}, plainModel, 19_000, 3, true)
		l.wait(cold)
		l.small(k, 1)
		l.shortened("r00 r01")
		for i := range 5 {
			l.turn(k.read(fmt.Sprint("n", i), "/w/n"))
		}
		l.wait(cold)
		l.small(k, 1)
		l.shortened("r00 r01")
		if l.o.Gate != filters.RawGuard || l.o.Level != pipeline.Replayed {
			t.Errorf("gate %q, %v, %d tokens", l.o.Gate, l.o.Level, l.res.Prompt)
		}
	})
	t.Run("without it the same is decided", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{}, plainModel, 19_000, 3, true)
		for i := range 5 {
			l.turn(k.read(fmt.Sprint("n", i), "/w/n"))
		}
		l.wait(cold)
		l.small(k, 1)
		l.shortened("n0 n1 n2 n3 r00 r01")
	})
	t.Run("far from the window it says nothing", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{RawGuard: true}, plainModel, 60_000, 3, true)
		l.wait(cold)
		l.small(k, 1)
		l.shortened("r00 r01")
	})
	t.Run("a window that is a mistake guards nothing", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{RawGuard: true}, plainModel, 8000, 3, true)
		l.wait(cold)
		l.ask(l.marks(k.say("Go on.")))
		l.shortened("r00 r01")
	})
}

// TestBeyondWindow: one move makes room, or none.
func TestBeyondWindow(t *testing.T) {
	const window = 23_000
	for _, c := range []struct {
		name  string
		moves pipeline.Moves
	}{
		{"it makes room", pipeline.Moves{BeyondWindow: true}},
		{"it wins over the raw guard", pipeline.Moves{BeyondWindow: true, RawGuard: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, k := windowed(t, c.moves, plainModel, window, many, true)
			for range 40 {
				if l.turn(k.say(strings.Repeat("Go on. ", 40))); l.o.Move != nil {
					break
				}
				l.shortened("")
				if l.res.Prompt > window {
					t.Fatalf("%d tokens (gate %q, %v)", l.res.Prompt, l.o.Gate, l.o.Gates)
				}
			}
			if l.o.Move == nil || l.o.Move.Kind != pipeline.Solvency || l.o.Move.Filter != "readlifecycle" {
				t.Fatalf("move %+v", l.o.Move)
			}
			l.shortened(supersededReads())
			if l.res.Prompt > window*6/10 {
				t.Errorf("%d tokens are left of a window of %d", l.res.Prompt, window)
			}
			if l.ob.Loss == nil || l.ob.Loss.Cause != pipeline.CauseTidemark {
				t.Errorf("loss %+v", l.ob.Loss)
			}
			l.small(k, 1)
			if l.o.Move != nil {
				t.Error("it moved twice")
			}
		})
	}
	t.Run("nothing is cut if it would not be enough", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{BeyondWindow: true}, plainModel, 20_000, 6, false)
		l.turn(k.edit("e0", "/w/0"))
		short := 0
		for range 8 {
			l.turn(k.say(strings.Repeat("Go on. ", 200)))
			if !bytes.Equal(l.in, l.out) || l.o.Move != nil {
				t.Fatalf("move %v", l.o.Move)
			}
			short += l.o.Gates[pipeline.FilterGate{Filter: "readlifecycle", Gate: filters.WindowShort}]
		}
		if short == 0 {
			t.Errorf("%d tokens, gates %v", l.res.Prompt, l.o.Gates)
		}
	})
	t.Run("a bound model is never cut", func(t *testing.T) {
		l, k := windowed(t, pipeline.Moves{BeyondWindow: true}, "claude-opus-5-5", window, many, true)
		for range 12 {
			l.turn(k.say(strings.Repeat("Go on. ", 40)))
			if !bytes.Equal(l.in, l.out) || l.o.Move != nil {
				t.Fatalf("move %v", l.o.Move)
			}
		}
		if l.res.Prompt < window*95/100 {
			t.Errorf("%d tokens are not near the window", l.res.Prompt)
		}
	})
	t.Run("a move that leaves too little is none", admitsNothing)
}

// admitsNothing: a move that would make room, each of whose proposals is refused, leaves what the replay alone would have left.
func admitsNothing(t *testing.T) {
	t.Helper()
	l := newLive(t, staleAtDepth(t, pipeline.Moves{BeyondWindow: true}), simprovider.Policy{})
	l.priced(cache.Override{Model: plainModel, Window: 8200})
	k := l.talk()
	k.System = []gen.Block{gen.Text(strings.Repeat("You are a coding agent. ", 625))}
	l.turn(k)
	l.turn(k.exchange("r0", "Read", gen.Object{{Key: "file_path", Value: "/w/a"}}, code+code+code+code[:1500]))
	l.turn(k.edit("e0", "/w/a"))
	for range 6 {
		l.turn(k.say("Go on."))
		if !bytes.Equal(l.in, l.out) || l.o.Move != nil || l.o.Undeclared {
			t.Fatalf("move %v", l.o.Move)
		}
	}
	if n := l.o.Gates[pipeline.FilterGate{Filter: "readlifecycle", Gate: filters.SmallPrompt}]; n != 1 {
		t.Errorf("%d tokens, gates %v", l.res.Prompt, l.o.Gates)
	}
	l.small(k, 1)
	if l.ob.Loss != nil {
		t.Errorf("lost %+v", *l.ob.Loss)
	}
}
