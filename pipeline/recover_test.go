package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/badgerdb"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// evicting is a store with a cap.
type evicting interface {
	state.Store
	Evicted() int64
}

// TestInvariant11_EveryMarkerRestores: whatever becomes of a session, its store and its originals, every marker that leaves stands for
// the exact original, or for one that is gone by what was announced: an operator withdrew or sealed it, or the cap evicted it while
// its branch was dead. It never stands for another one's content.
func TestInvariant11_EveryMarkerRestores(t *testing.T) {
	stores := map[string]func(t *rapid.T, maxOriginals int64) (evicting, func() evicting){
		"memory": func(_ *rapid.T, most int64) (evicting, func() evicting) {
			s := memory.Capped(most)
			return s, func() evicting { return s }
		},
		"badger": func(t *rapid.T, most int64) (evicting, func() evicting) {
			dir := outer.TempDir()
			open := func() evicting {
				s, err := badgerdb.Open(dir, badgerdb.Options{MaxOriginals: most})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			t.Cleanup(func() { _ = s.Close() })
			return s, func() evicting {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open()
				return s
			}
		},
	}
	r := &recovery{}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			outer = t
			configs := []*pipeline.Config{deepConfig(t, 0), deepConfig(t, 1000), deepConfig(t, 1000)}
			rapid.Check(t, func(t *rapid.T) { r.play(t, pick(t, "filters", configs...), open) })
		})
	}
	if r.whole == 0 || r.spans == 0 || r.withdrawn == 0 || r.sealed == 0 || r.evicted == 0 || r.full == 0 {
		t.Errorf("the walks prove nothing: %+v", r)
	}
}

// outer is the test that folders belong to.
var outer *testing.T

// recovery counts what markers stood for.
type recovery struct{ whole, spans, withdrawn, sealed, evicted, full int }

func (r *recovery) play(t *rapid.T, c *pipeline.Config, open func(*rapid.T, int64) (evicting, func() evicting)) {
	most := pick[int64](t, "cap", 0, 20_000, 40_000)
	store, reopen := open(t, most)
	w := newRide(t, c, transcript.Anthropic)
	w.store = store
	w.restart()
	ctx := context.Background()
	lost := map[string]state.Fate{} // what an operator did
	w.lines = nil
	sessions := []string{"s", "another", "a third"}
	for range sessions {
		c := w.m.Conversation(1)
		c.System = append(c.System, gen.Text(strings.Repeat("Work with care. ", 1700)))
		w.lines = append(w.lines, c)
	}
	gone := int64(0)
	for range rapid.IntRange(8, 24).Draw(t, "requests") {
		w.cur = rapid.IntRange(0, len(sessions)-1).Draw(t, "session") // of the same tenant
		session := sessions[w.cur]
		w.at = w.at.Add(time.Second)
		switch pick(t, "operator", "", "", "", "", "", "", "", "withdraw", "seal", "reopen") {
		case "withdraw":
			key := w.e.SessionKey("t", session)
			all, err := store.Originals(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Withdraw(ctx, key); err != nil {
				t.Fatal(err)
			}
			for i := range all {
				lost[all[i].ID] = state.Withdrawn
			}
		case "seal":
			all, err := store.Originals(ctx, w.e.SessionKey("t", session))
			if err != nil {
				t.Fatal(err)
			}
			if len(all) > 0 && lost[all[0].ID] != state.Withdrawn {
				if err := store.Seal(ctx, all[0].ID, true); err != nil {
					t.Fatal(err)
				}
				lost[all[0].ID] = state.Sealed
			}
		case "reopen":
			w.e.Flush(ctx)
			gone += store.Evicted()
			store = reopen()
			w.store = store
			w.restart()
		}
		if w.m.Turn(w.lines[w.cur]); rapid.IntRange(0, 2).Draw(t, "night") == 0 {
			w.at = w.at.Add(2 * time.Hour)
		}
		w.lines[w.cur].Unmark()
		w.lines[w.cur].Mark(gen.Short)
		q := ask(w.lines[w.cur].Body(), w.c, w.at)
		q.Session = session
		s := step{in: q.Body, o: w.e.Request(ctx, q)}
		if s.out = s.o.Body; s.out == nil {
			s.out = s.in
		}
		r.full += s.o.Gates[pipeline.FilterGate{Gate: filters.StoreFull}]
		r.judge(t, s, store, lost, gone+store.Evicted())
		r.evicted += b2i(store.Evicted() > 0)
	}
}

// judge looks up every marker of an outbound.
func (r *recovery) judge(t *rapid.T, s step, store evicting, lost map[string]state.Fate, evicted int64) {
	in, err := transcript.Parse(s.in, transcript.Anthropic)
	if err != nil {
		return // strange bodies pass as they came
	}
	defer in.Release()
	came := map[string][]byte{} // by call
	for i := range in.Results {
		came[in.CallID(&in.Results[i])] = in.Results[i].Content.Of(s.in)
	}
	for _, m := range idIn.FindAllSubmatch(s.out, -1) {
		id := string(m[1])
		o, err := store.Original(context.Background(), id)
		switch {
		case errors.Is(err, state.ErrNotFound):
			if evicted == 0 || s.o.New != nil && decidedID(s.o, id) {
				t.Fatalf("the original %s is gone, and %d were evicted", id, evicted)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		if o.Fate != lost[id] || (o.Fate == state.Withdrawn) != (len(o.Content) == 0) {
			t.Fatalf("%s is %v with %d bytes, not %v", id, o.Fate, len(o.Content), lost[id])
		}
		r.withdrawn += b2i(o.Fate == state.Withdrawn)
		r.sealed += b2i(o.Fate == state.Sealed)
		if o.Fate == state.Withdrawn {
			continue
		}
		if o.Call == "" { // whole messages, as they came with the request that left them out
			if decidedID(s.o, id) {
				r.spans += whole(t, s.in, o.Content)
			}
			continue
		}
		if want, ok := came[o.Call]; ok && !bytes.Equal(o.Content, want) {
			t.Fatalf("%s holds %.100q, not %.100q", id, o.Content, want)
		}
		r.whole++
	}
}

// whole checks that an original is a list of messages of the body, byte for byte and in order.
func whole(t *rapid.T, body, original []byte) int {
	list := gjson.ParseBytes(original)
	at := 0
	for _, m := range list.Array() {
		i := bytes.Index(body[at:], []byte(m.Raw))
		if i < 0 {
			t.Fatalf("no message of the body is %.100q", m.Raw)
		}
		at += i + len(m.Raw)
	}
	if !list.IsArray() || at == 0 {
		t.Fatalf("%.100q is no list of messages", original)
	}
	return 1
}

func decidedID(o *pipeline.Outcome, id string) bool {
	for _, d := range o.New {
		if d.ID == id {
			return true
		}
	}
	return false
}
