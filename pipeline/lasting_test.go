package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

// What is in force or held on a branch must outlast everything that happens beside it.

// TestSideRequestsOnlyNoteEntries: whatever a side request asks, with whatever model and history, decisions and holds of the
// conversation stand.
func TestSideRequestsOnlyNoteEntries(t *testing.T) {
	c := config(t, "always")
	sides := map[string]func() *pipeline.Request{
		"bound model": func() *pipeline.Request {
			return ask(bytes.Replace(session(42), []byte(plainModel), []byte("claude-haiku-5-5"), 1), c, epoch)
		},
		"short history": func() *pipeline.Request { return ask(session(2), c, epoch) },
		"same body":     func() *pipeline.Request { return ask(session(42), c, epoch) },
		"count":         func() *pipeline.Request { r := ask(session(42), c, epoch); r.CountTokens = true; return r },
	}
	for name, side := range sides {
		t.Run(name, func(t *testing.T) {
			e := engineOn(t, memory.New(), time.Time{})
			ctx := context.Background()
			e.Request(ctx, ask(session(40), c, epoch))
			e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
			before := e.Request(ctx, ask(session(42), c, epoch.Add(cold+time.Minute)))
			r := side()
			r.Auxiliary, r.Now = !r.CountTokens, epoch.Add(cold+2*time.Minute)
			e.Request(ctx, r)
			after := e.Request(ctx, ask(session(43), c, epoch.Add(cold+3*time.Minute)))
			if after.Undeclared || after.Replays < before.Replays || after.Held < before.Held {
				t.Errorf("%d replays and %d holds, before %d and %d (undeclared %v)", after.Replays, after.Held, before.Replays, before.Held, after.Undeclared)
			}
		})
	}
}

// TestHoldsOutlastRewinds: a shorter body in between ends no hold.
func TestHoldsOutlastRewinds(t *testing.T) {
	held := map[bool]int{}
	for _, rewind := range []bool{false, true} {
		e, c := engineOn(t, memory.New(), time.Time{}), config(t, "always")
		ctx := context.Background()
		e.Request(ctx, ask(session(20), c, epoch))
		e.Request(ctx, ask(session(21), c, epoch.Add(time.Minute)))
		if rewind {
			e.Request(ctx, ask(session(19), c, epoch.Add(time.Minute+time.Second)))
		}
		held[rewind] = e.Request(ctx, ask(session(22), c, epoch.Add(2*time.Minute))).Held
	}
	if held[false] == 0 || held[true] != held[false] {
		t.Errorf("held %v", held)
	}
}

// TestFailedCommitLeavesOthersAlone: an engine whose commit failed takes back its own write, never what another replica has
// decided and forwarded since.
func TestFailedCommitLeavesOthersAlone(t *testing.T) {
	for name, fault := range map[string]statetest.Fault{"nothing written": statetest.Failing, "written": statetest.Unanswered} {
		t.Run(name, func(t *testing.T) {
			shared := memory.New()
			mine := statetest.NewFaulty(shared)
			a, b := engineOn(t, mine, time.Time{}), engineOn(t, shared, time.Time{})
			c, ctx := config(t, ""), context.Background()
			a.Request(ctx, ask(session(40), c, epoch))
			a.Flush(ctx)
			mine.Set(fault)
			if o := a.Request(ctx, ask(session(41), c, epoch.Add(cold))); len(o.New) > 0 || o.Body != nil {
				t.Fatalf("decided without a store: %v", o.New)
			}
			mine.Set(statetest.Healthy)
			first := b.Request(ctx, ask(session(42), c, epoch.Add(2*cold)))
			a.Flush(ctx)
			next := b.Request(ctx, ask(session(43), c, epoch.Add(2*cold+time.Minute)))
			if next.Replays != first.Replays+len(first.New) || next.Undeclared {
				t.Errorf("%d of %d decisions are replayed, undeclared %v", next.Replays, first.Replays+len(first.New), next.Undeclared)
			}
		})
	}
}

// TestTakenBackForkMatchesNothing: a fork whose commit landed too late leaves nothing behind that a later body could match.
func TestTakenBackForkMatchesNothing(t *testing.T) {
	for range 8 { // branch ids are random, and they break ties
		store := statetest.NewFaulty(memory.New())
		e, c := engineOn(t, store, time.Time{}), config(t, "")
		ctx := context.Background()
		e.Request(ctx, ask(session(40), c, epoch))
		e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
		forked := bytes.Replace(session(42), []byte("Step 38."), []byte("Step X."), 1)
		store.Set(statetest.Unanswered)
		f := e.Request(ctx, ask(forked, c, epoch.Add(2*cold)))
		store.Set(statetest.Healthy)
		e.Flush(ctx)
		if again := e.Request(ctx, ask(forked, c, epoch.Add(3*cold))); again.Replays < f.Replays {
			t.Fatalf("%d replays, %d before", again.Replays, f.Replays)
		}
	}
}

// TestReusedCallID: a decision stands for the result that it was made for, not for a later one of the same id and content;
// nor does a hold.
func TestReusedCallID(t *testing.T) {
	for _, hold := range []string{"", "always"} {
		e, c := engineOn(t, memory.New(), time.Time{}), config(t, hold)
		ctx := context.Background()
		e.Request(ctx, ask(session(40), c, epoch))
		e.Request(ctx, ask(session(41), c, epoch.Add(cold)))
		for i := range 4 {
			r := ask(reused(41, i), c, epoch.Add(cold+time.Duration(i+1)*time.Minute))
			r.Bypass = i == 1
			o := e.Request(ctx, r)
			if o.Undeclared || o.Gate == filters.Panic {
				t.Fatalf("hold %q, request %d: undeclared %v, gate %q", hold, i, o.Undeclared, o.Gate)
			}
		}
	}
}

// reused is a session whose first call comes once more at the end, with n exchanges of text after it.
func reused(exchanges, n int) []byte {
	s := strings.Replace(string(session(exchanges)), `,"cache_control":{"type":"ephemeral"}}]}]}`, `}]}`, 1)
	s += `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_00000","name":"Read","input":{"file_path":"/w/src/file0.go"}}]}` +
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_00000","content":` + quoted("0"+code) + `}]}`
	for i := range n {
		s += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"text","text":"t%d"}]},{"role":"user","content":[{"type":"text","text":"u%d"}]}`, i, i)
	}
	end := strings.TrimSuffix(s, "}]}")
	return []byte(end + `,"cache_control":{"type":"ephemeral"}}]}]}`)
}

// TestEvictedSession: a session that memory has dropped before its activity was stored is found all the same.
func TestEvictedSession(t *testing.T) {
	e, err := pipeline.New(context.Background(), memory.New(), pipeline.Options{Flush: -1, Sessions: 2, DeepProof: true})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := config(t, ""), context.Background()
	e.Request(ctx, ask(session(40), c, epoch))
	e.Request(ctx, ask(session(41), c, epoch.Add(time.Minute)))
	e.Flush(ctx)
	alive := ask(session(41), c, epoch.Add(5*time.Minute)) // refreshes the cache; what was noted waits to be written
	alive.Auxiliary = true
	e.Request(ctx, alive)
	for i := range 2 {
		r := ask(session(2), c, epoch.Add(5*time.Minute))
		r.Session, r.Tenant = fmt.Sprint("x", i), "other"
		e.Request(ctx, r)
	}
	if o := e.Request(ctx, ask(session(42), c, epoch.Add(9*time.Minute))); o.Move != nil {
		t.Errorf("moved from %d although the cache was refreshed four minutes ago", o.Move.From)
	}
}

// keeper remembers what was committed.
type keeper struct {
	state.Store
	seen []*state.Branch
}

func (k *keeper) Commit(ctx context.Context, key state.SessionKey, b *state.Branch, o []state.Original) (uint64, error) {
	k.seen = append(k.seen, b)
	return k.Store.Commit(ctx, key, b, o)
}

// TestNothingAliasesTheBody: bodies may be overwritten once their request has been answered.
func TestNothingAliasesTheBody(t *testing.T) {
	k := &keeper{Store: memory.New()}
	e, c := engineOn(t, k, time.Time{}), config(t, "always")
	ctx := context.Background()
	var made []pipeline.DecisionMade
	for i, body := range [][]byte{session(40), session(41)} {
		made = append(made, e.Request(ctx, ask(body, c, epoch.Add(time.Duration(i)*cold))).New...)
		copy(body, bytes.Repeat([]byte("#"), len(body)))
	}
	text := fmt.Sprint(made)
	for _, b := range k.seen {
		text += fmt.Sprint(b.InForce, b.Held)
		for _, d := range b.InForce {
			text += string(d.Content)
		}
	}
	if len(made) == 0 || strings.Contains(text, "#") {
		t.Errorf("%d decisions; something points into a body that is gone", len(made))
	}
}
