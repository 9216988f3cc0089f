package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// slow is a store whose commits wait until they are let go.
type slow struct {
	state.Store
	gate atomic.Pointer[chan struct{}] // nil: not slow
}

func (s *slow) Commit(ctx context.Context, k state.SessionKey, b *state.Branch, o []state.Original) (uint64, error) {
	if g := s.gate.Load(); g != nil {
		<-*g
	}
	return s.Store.Commit(ctx, k, b, o)
}

func engineOn(t *testing.T, store state.Store, start time.Time) *pipeline.Engine {
	t.Helper()
	e, err := pipeline.New(context.Background(), store, pipeline.Options{Flush: -1, Start: start, DeepProof: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// deadline is a context whose time is soon over.
func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

const cold = 3 * time.Hour

// TestSlowDisk: a commit that does not end in time costs the decision, not the reply; when it lands later it is taken back,
// as nobody has seen it, and what is forwarded stays the same.
func TestSlowDisk(t *testing.T) {
	store := &slow{Store: memory.New()}
	e, c := engineOn(t, store, time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	gate := make(chan struct{})
	store.gate.Store(&gate)
	o := e.Request(deadline(t, 50*time.Millisecond), ask(session(41), c, epoch.Add(cold)))
	if o.Body != nil || o.Gate != filters.StoreUnavailable || len(o.New) > 0 {
		t.Fatalf("gate %q, level %v, new %v", o.Gate, o.Level, o.New)
	}
	store.gate.Store(nil)
	close(gate) // the write lands now
	again := e.Request(ctx, ask(session(42), c, epoch.Add(cold+time.Minute)))
	if again.Body != nil || again.Undeclared {
		t.Fatalf("what was never forwarded is replayed: %v", again.Level)
	}
	e.Flush(ctx) // may still find the write running
	time.Sleep(10 * time.Millisecond)
	e.Flush(ctx)
	restarted := engineOn(t, store, epoch.Add(cold+2*time.Minute))
	after := restarted.Request(ctx, ask(session(43), c, epoch.Add(cold+3*time.Minute)))
	if after.Body != nil || after.Replays > 0 {
		t.Fatalf("a decision that was taken back is in force: %d", after.Replays)
	}
	if moved := restarted.Request(ctx, ask(session(44), c, epoch.Add(3*cold))); moved.Move == nil {
		t.Fatalf("nothing is decided any more: gate %q, %v", moved.Gate, moved.Gates)
	}
}

// TestTwoRequestsAtOnce: requests of one session that run together forward the same bytes for what they share, and no
// decision is made twice.
func TestTwoRequestsAtOnce(t *testing.T) {
	store := memory.New()
	e, c := engineOn(t, store, time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	body := session(41)
	outs := make([][]byte, 16)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			if o := e.Request(ctx, ask(body, c, epoch.Add(cold))); o.Body != nil {
				outs[i] = o.Body
			}
		})
	}
	for range 20 {
		e.Flush(ctx)
	}
	wg.Wait()
	for i := range outs {
		if outs[i] == nil || !bytes.Equal(outs[i], outs[0]) {
			t.Fatalf("request %d forwards other bytes", i)
		}
	}
}

// TestManySessionsAtOnce keeps sessions apart under load, with lazy writes between.
func TestManySessionsAtOnce(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "always")
	var wg sync.WaitGroup
	for s := range 8 {
		wg.Go(func() {
			for i := range 12 {
				r := ask(session(10+i), c, epoch.Add(time.Duration(i)*time.Minute))
				r.Tenant = fmt.Sprint(s)
				if o := e.Request(context.Background(), r); o.Undeclared || o.Desync {
					t.Errorf("session %d request %d: undeclared %v, desync %v", s, i, o.Undeclared, o.Desync)
				}
				e.Flush(context.Background())
			}
		})
	}
	wg.Wait()
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestSameRequestTwice: a retry is replayed, and decides nothing.
func TestSameRequestTwice(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	first := e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
	second := e.Request(ctx, ask(session(41), c, epoch.Add(2*cold)))
	if first.Move == nil || second.Gate != filters.Retry || !bytes.Equal(first.Body, second.Body) {
		t.Fatalf("move %v, then gate %q", first.Move, second.Gate)
	}
}

// TestSwitchedOnInMidSession: history that somebody else forwarded is assumed to be cached, until a pause proves it cold.
func TestSwitchedOnInMidSession(t *testing.T) {
	e, c := engineOn(t, memory.New(), epoch), config(t, "always")
	ctx := context.Background()
	for i := range 5 {
		o := e.Request(ctx, ask(session(40+i), c, epoch.Add(time.Duration(i)*time.Minute)))
		if o.Move != nil {
			t.Fatalf("request %d moved %v", i, o.Move)
		}
	}
	if o := e.Request(ctx, ask(session(45), c, epoch.Add(cold))); o.Move == nil {
		t.Fatalf("no move after a pause: gate %q, %v", o.Gate, o.Gates)
	}
}

// TestBadConfigInMidSession: what is in force is replayed while the route's config is broken, and goes on after it.
func TestBadConfigInMidSession(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	moved := e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
	bad := *c
	bad.Bad = true
	o := e.Request(ctx, ask(session(42), &bad, epoch.Add(cold+time.Minute)))
	if o.Gate != filters.BadConfig || o.Replays != len(moved.New) || o.Undeclared {
		t.Fatalf("gate %q, %d replays of %d", o.Gate, o.Replays, len(moved.New))
	}
	if o = e.Request(ctx, ask(session(43), c, epoch.Add(3*cold))); o.Replays != len(moved.New) || o.Move == nil {
		t.Fatalf("after it: %d replays, move %v", o.Replays, o.Move)
	}
}

// TestShadow: in shadow no byte changes, what would have been done is told, and a switch to active starts from what the
// provider really holds.
func TestShadow(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	dark := *c
	dark.Mode = pipeline.Shadow
	ctx := context.Background()
	for i, at := range []time.Duration{0, cold, cold + time.Minute} {
		o := e.Request(ctx, ask(session(40+i), &dark, epoch.Add(at)))
		if o.Body != nil || o.Gate != filters.Shadow || o.Shadow == nil {
			t.Fatalf("request %d: %v, gate %q", i, o.Level, o.Gate)
		}
		if i == 1 && (o.Shadow.Move == nil || o.Shadow.Body == nil) {
			t.Fatalf("request %d would have done nothing: %v", i, o.Shadow.Gates)
		}
	}
	if o := e.Request(ctx, ask(session(43), c, epoch.Add(cold+2*time.Minute))); o.Body != nil || o.Move != nil {
		t.Fatalf("active after shadow: %v while the cache is warm", o.Move)
	}
	if o := e.Request(ctx, ask(session(44), c, epoch.Add(3*cold))); o.Move == nil {
		t.Fatalf("active after shadow: no move after a pause: %v", o.Gates)
	}
}

// TestClockThatJumps: a clock that goes back makes everything warm; nothing moves and nothing is lost.
func TestClockThatJumps(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	moved := e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
	for i, at := range []time.Duration{-24 * time.Hour, time.Minute, -time.Hour} {
		o := e.Request(ctx, ask(session(42+i), c, epoch.Add(at)))
		if o.Move != nil || o.Undeclared || o.Replays != len(moved.New) {
			t.Fatalf("clock at %v: move %v, %d replays of %d", at, o.Move, o.Replays, len(moved.New))
		}
	}
}

// TestHoldEndsWithItsFilter: a read that no filter wants held any more is released verbatim, so that it does not stay out of
// the cache for ever.
func TestHoldEndsWithItsFilter(t *testing.T) {
	e := engineOn(t, memory.New(), time.Time{})
	holding, without := config(t, "always"), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(20), holding, epoch))
	if o := e.Request(ctx, ask(session(21), holding, epoch.Add(time.Minute))); o.Held == 0 {
		t.Fatalf("nothing is held: %v", o.Gates)
	}
	o := e.Request(ctx, ask(session(22), without, epoch.Add(2*time.Minute)))
	if o.Held != 0 || o.Breakpoints.Stripped != 0 {
		t.Fatalf("%d are held without a filter", o.Held)
	}
}

// TestNoSession and other bodies that are nobody's.
func TestRequestGates(t *testing.T) {
	c := config(t, "")
	body := session(3)
	for gate, change := range map[filters.Gate]func(*pipeline.Request){
		filters.NoSession:    func(r *pipeline.Request) { r.Session = "" },
		filters.ClientSigned: func(r *pipeline.Request) { r.ClientSigned = true },
		filters.DeltaBody: func(r *pipeline.Request) {
			r.Body = bytes.Replace(body, []byte(`{"model"`), []byte(`{"thread":{"type":"create"},"model"`), 1)
		},
		filters.SideRequest: func(r *pipeline.Request) { r.CountTokens = true },
		filters.Bypass:      func(r *pipeline.Request) { r.Bypass = true },
		filters.NoPipeline:  func(r *pipeline.Request) { r.Config = &pipeline.Config{} },
		filters.Off:         func(r *pipeline.Request) { r.Config = &pipeline.Config{Mode: pipeline.Off} },
		filters.Unparsed:    func(r *pipeline.Request) { r.Body = body[:len(body)-1] },
	} {
		r := ask(body, c, epoch)
		change(r)
		o := engineOn(t, memory.New(), time.Time{}).Request(context.Background(), r)
		if o.Gate != gate || o.Body != nil || o.Gates[pipeline.FilterGate{Gate: gate}] != 1 {
			t.Errorf("gate %q, want %q (%v)", o.Gate, gate, o.Gates)
		}
	}
}

// TestTooManyBranches: with 64 branches alive another one is not remembered, and gets the original.
func TestTooManyBranches(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	ctx := context.Background()
	for i := range 66 {
		r := ask(bytes.Replace(session(2), []byte("Fix the limiter."), fmt.Appendf(nil, "Task %d.", i), 1), c, epoch.Add(time.Duration(i)*time.Second))
		o := e.Request(ctx, r)
		if want := filters.Gate(""); i >= 64 {
			want = filters.TooManyBranches
			if o.Gate != want || o.Body != nil {
				t.Fatalf("branch %d: gate %q", i, o.Gate)
			}
		} else if o.Gate != want {
			t.Fatalf("branch %d: gate %q", i, o.Gate)
		}
	}
	r := ask(bytes.Replace(session(2), []byte("Fix the limiter."), []byte("Task 99."), 1), c, epoch.Add(cold))
	if o := e.Request(ctx, r); o.Gate != "" {
		t.Fatalf("dead branches make no room: gate %q", o.Gate)
	}
}

// TestDeferredTool: a tool that is not in the prompt yet changes no prefix, so the conversation goes on and stays warm.
func TestDeferredTool(t *testing.T) {
	e, c := engineOn(t, memory.New(), time.Time{}), config(t, "")
	ctx := context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	for deferred, kind := range map[string]pipeline.Kind{"true": pipeline.KindContinue, "false": pipeline.KindFork} {
		body := bytes.Replace(session(41), []byte(`"tools":[`), []byte(`"tools":[{"name":"Later","defer_loading":`+deferred+`,"input_schema":{}},`), 1)
		if o := e.Request(ctx, ask(body, c, epoch.Add(time.Minute))); o.Kind != kind || o.Move != nil {
			t.Errorf("defer_loading %s: %v", deferred, o.Kind)
		}
	}
}
