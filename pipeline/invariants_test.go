package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

const plainModel = "claude-sonnet-4-6"

// check plays random walks with both filters, every fresh read held, and looks at each.
func check(t *testing.T, look func(t *rapid.T, steps []step)) {
	t.Helper()
	c := config(t, "always")
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		steps := newWalker(t, c, plainModel).walk(rapid.IntRange(2, 14).Draw(t, "requests"))
		for _, s := range steps {
			changed += b2i(s.o.Body != nil)
		}
		look(t, steps)
	})
	if changed == 0 {
		t.Error("no body was ever changed: the walks prove nothing")
	}
}

// faultyFilter misbehaves as told.
type faultyFilter struct{ how string }

func (faultyFilter) Name() string { return "faulty" }

func (f faultyFilter) Propose(v *filters.View) []filters.Proposal {
	switch f.how {
	case "panic":
		panic("a filter of the test")
	case "foreign":
		return []filters.Proposal{{Result: 1 << 20, Gate: filters.FreshRead}}
	case "twice":
		if len(v.Candidates) > 0 {
			p := filters.Proposal{Result: v.Candidates[0].Result, Gate: filters.FreshRead}
			return []filters.Proposal{p, p}
		}
	}
	return nil // silence
}

// TestInvariant01_FallbackLadder: whatever goes wrong, exactly what is in force is replayed, and nothing new is decided.
func TestInvariant01_FallbackLadder(t *testing.T) {
	good := config(t, "always")
	faults := []string{"panic", "foreign", "twice", "silent", "bad", "bypass", "deadline", "store"}
	fell := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWalker(t, good, plainModel)
		store := &faulty{Store: w.store}
		w.store = store
		w.restart()
		for range rapid.IntRange(3, 10).Draw(t, "requests") {
			w.act()
			body := w.lines[w.cur].Body()
			fault := rapid.SampledFrom(faults).Draw(t, "fault")
			if rapid.Bool().Draw(t, "well") {
				w.send(body)
				continue
			}
			s := w.faulted(body, fault, store)
			if len(s.o.New) > 0 || s.o.Move != nil {
				t.Fatalf("%s: decided %v", fault, s.o.New)
			}
			inForce := known(w.steps[:len(w.steps)-1])
			for _, ch := range changes(t, s.in, s.out) {
				if now := fmt.Sprint(ch.after); !inForce[ch.call+now] {
					t.Fatalf("%s: %s is forwarded as nothing in force says", fault, ch.call)
				}
			}
			fell += b2i(s.o.Gate != "")
		}
	})
	if fell == 0 {
		t.Error("nothing ever fell down the ladder")
	}
}

// faulted sends one request while something is broken.
func (w *walker) faulted(body []byte, fault string, store *faulty) step {
	r := ask(body, w.c, w.at)
	c := *w.c
	ctx := context.Background()
	switch fault {
	case "bad":
		c.Bad = true
	case "bypass":
		r.Bypass = true
	case "store":
		store.fail = true
	case "deadline":
		past, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
		defer cancel()
		ctx = past
	default:
		c.Filters = append([]filters.Filter{faultyFilter{fault}}, w.c.Filters...)
	}
	r.Config = &c
	o := w.e.Request(ctx, r)
	store.fail = false
	s := step{in: body, out: body, o: o, at: w.at, line: w.cur}
	if o.Body != nil {
		s.out = o.Body
	}
	w.steps = append(w.steps, s)
	if fault == "store" && len(o.New) > 0 {
		w.t.Fatalf("decided without a store")
	}
	return s
}

// known is every replacement that was forwarded so far, by call.
func known(steps []step) map[string]bool {
	seen := map[string]bool{}
	for _, s := range steps {
		after := map[string]any{}
		for _, p := range blocks(mustParse(s.out)) {
			if id, ok := p.block["tool_use_id"].(string); ok {
				after[id] = p.block["content"]
				seen[id+fmt.Sprint(p.block["content"])] = true
			}
		}
	}
	return seen
}

// TestInvariant01_Unreadable: a body that cannot be read is forwarded as it came.
func TestInvariant01_Unreadable(t *testing.T) {
	c := config(t, "always")
	rapid.Check(t, func(t *rapid.T) {
		body := bigMaker(t, plainModel).Conversation(3).Body()
		cut := body[:rapid.IntRange(0, len(body)-1).Draw(t, "cut")]
		o := newEngine(t, true).Request(context.Background(), ask(cut, c, epoch))
		if o.Body != nil || o.Gate != filters.Unparsed {
			t.Fatalf("a truncated body: %v, gate %q", o.Level, o.Gate)
		}
	})
}

// TestInvariant02_SpliceOnly: outside results and breakpoints every byte is the client's.
func TestInvariant02_SpliceOnly(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		for i, s := range steps {
			if s.o.Body == nil {
				continue
			}
			if a, b := skeleton(t, s.in), skeleton(t, s.out); a != b {
				n := 0
				for n < min(len(a), len(b)) && a[n] == b[n] {
					n++
				}
				t.Fatalf("request %d: bytes outside results and markers changed: %.200q became %.200q", i, a[max(0, n-60):], b[max(0, n-60):])
			}
		}
	})
}

// TestInvariant03_AppendOnly: what a breakpoint covered stays as it was forwarded, except at a declared move.
func TestInvariant03_AppendOnly(t *testing.T) {
	w := &world{hasher: transcript.NewHasher(bytes.Repeat([]byte("k"), 32))}
	check(t, func(t *rapid.T, steps []step) {
		last := map[uint64]sent{}
		for i, s := range steps {
			in, _, _ := w.view(s.in)
			now, _, _ := w.view(s.out)
			now.out, now.client, now.key = now.client, in.client, in.key
			prev, ok := last[s.o.Branch]
			if !ok {
				prev, ok = last[s.o.Parent]
			}
			if ok && s.o.Move == nil && prev.key == now.key {
				want := min(prev.covered, lcp(prev.client, now.client))
				if got := lcp(prev.out, now.out); got < want {
					t.Fatalf("request %d (%v): %d of %d covered blocks stand", i, s.o.Kind, got, want)
				}
			}
			if s.o.Undeclared {
				t.Fatalf("request %d: the engine saw an undeclared change", i)
			}
			last[s.o.Branch] = now
		}
	})
}

// TestInvariant04_DecideOnce: a decision stands byte for byte, whatever comes, as long as its result does.
func TestInvariant04_DecideOnce(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		decided := map[uint64]map[string]string{}
		for i, s := range steps {
			mine := map[string]string{}
			maps.Copy(mine, decided[s.o.Parent])
			maps.Copy(mine, decided[s.o.Branch])
			after := contents(s.out)
			for call, before := range contents(s.in) {
				key := call + "\x00" + before
				if was, ok := mine[key]; ok && after[call] != was && s.o.Kind != pipeline.KindFork {
					t.Fatalf("request %d (%v, gate %q): what stands for %s changed", i, s.o.Kind, s.o.Gate, call)
				}
				if after[call] != before {
					mine[key] = after[call]
				}
			}
			decided[s.o.Branch] = mine
		}
	})
}

// contents is the raw content of every result whose call id stands once.
// A lifetime that a lever raised inside of it is not what stands for it: TestInvariant10 is about that.
func contents(body []byte) map[string]string {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		return nil
	}
	defer ix.Release()
	m := map[string]string{}
	for i := range ix.Results {
		if r := &ix.Results[i]; !r.Ambiguous {
			m[strings.Clone(ix.CallID(r))] = strings.ReplaceAll(string(r.Content.Of(body)), `,"ttl":"1h"`, "")
		}
	}
	return m
}

// TestInvariant05_BranchesDoNotLeak: a decision that a branch takes after a fork is never seen on its sibling.
func TestInvariant05_BranchesDoNotLeak(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		parents := map[uint64]uint64{}
		allowed := map[uint64]map[string]bool{} // ids that a branch made or inherited
		for i, s := range steps {
			b := s.o.Branch
			if allowed[b] == nil {
				allowed[b], parents[b] = map[string]bool{}, s.o.Parent
				for id := range allowed[s.o.Parent] { // as they were when the fork was made
					allowed[b][id] = true
				}
			}
			for _, d := range s.o.New {
				allowed[b][d.ID] = true
			}
			for _, ch := range changes(t, s.in, s.out) {
				after, _ := text(ch.after)
				if id := idOf(after); !allowed[b][id] {
					t.Fatalf("request %d: branch %x replays %q, which it neither made nor inherited", i, b, id)
				}
			}
		}
	})
}

// idOf is the restore id that a marker names.
func idOf(marker string) string {
	_, rest, ok := strings.Cut(marker, "· id ")
	if !ok || len(rest) < 24 {
		return ""
	}
	return rest[:24]
}

// TestInvariant06_Pairs and 07: calls and results keep ids, order and adjacency, and nothing but text results that did not
// fail ever changes; a string stays a string, a list a list of one text block.
func TestInvariant06_Pairs(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		for _, s := range steps {
			a, b := blocks(parse(t, s.in)), blocks(parse(t, s.out))
			for i := range a {
				for _, k := range []string{"type", "id", "tool_use_id", "name"} {
					if !reflect.DeepEqual(a[i].block[k], b[i].block[k]) || a[i].msg != b[i].msg {
						t.Fatalf("block %d: %s changed", i, k)
					}
				}
			}
		}
	})
}

// TestInvariant07_NeverChanged compares values with the standard library's decoder.
func TestInvariant07_NeverChanged(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		for i, s := range steps {
			for _, ch := range changes(t, s.in, s.out) { // fails on anything else that changed
				if _, ok := text(ch.before); !ok || ch.failed {
					t.Fatalf("request %d: %s must not change", i, ch.call)
				}
				_, wasString := ch.before.(string)
				_, isString := ch.after.(string)
				if wasString != isString {
					t.Fatalf("request %d: %s changed its form", i, ch.call)
				}
				if parts, ok := ch.after.([]any); ok && len(parts) != 1 {
					t.Fatalf("request %d: %s became %d blocks", i, ch.call, len(parts))
				}
			}
		}
	})
}

// TestInvariant08_NeverLarger: every replacement saves at least 20 tokens.
func TestInvariant08_NeverLarger(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		for i, s := range steps {
			for _, ch := range changes(t, s.in, s.out) {
				before, _ := text(ch.before)
				after, _ := text(ch.after)
				if transcript.Est(before)-transcript.Est(after) < filters.MinGain || len(after) >= len(before) {
					t.Fatalf("request %d: %d bytes became %d", i, len(before), len(after))
				}
			}
			if _, added := marks(mustParse(s.out)); len(s.out) > len(s.in)+64*len(added) {
				t.Fatalf("request %d grew from %d to %d bytes", i, len(s.in), len(s.out))
			}
		}
	})
}

// TestInvariant09_PrefixBinding: on a bound model nothing but presence of breakpoints changes, also after a switch.
func TestInvariant09_PrefixBinding(t *testing.T) {
	c := config(t, "always")
	bound := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWalker(t, c, plainModel)
		for range rapid.IntRange(2, 10).Draw(t, "requests") {
			w.act()
			conv := w.lines[w.cur].Clone()
			conv.Model = rapid.SampledFrom([]string{plainModel, "claude-fable-5-2", "us.anthropic.claude-opus-5-5-v1:0"}).Draw(t, "model")
			drops := conv.Model != plainModel && rapid.Bool().Draw(t, "drop_block")
			if drops {
				conv.Extra = append(slices.Clone(conv.Extra), gen.Member{Key: "thinking", Value: gen.Object{
					{Key: "block_binding", Value: gen.Object{{Key: "prefix_mismatch_behavior", Value: "drop_block"}}},
				}})
			}
			s := w.send(conv.Body())
			if conv.Model == plainModel || drops {
				continue
			}
			bound++
			if !s.o.Bound || s.o.Held > 0 || len(s.o.New) > 0 || len(changes(t, s.in, s.out)) > 0 {
				t.Fatalf("%s: held %d, new %v", conv.Model, s.o.Held, s.o.New)
			}
		}
	})
	if bound == 0 {
		t.Error("no bound model was ever asked")
	}
}

// TestInvariant10_BreakpointLaw: at most four, never more than the client's and one, 1h before 5m, none where none may be.
func TestInvariant10_BreakpointLaw(t *testing.T) {
	moved := 0
	check(t, func(t *rapid.T, steps []step) {
		for i, s := range steps {
			before, _ := marks(parse(t, s.in))
			after, on := marks(parse(t, s.out))
			if len(after) > max(4, len(before)) || len(after) > len(before)+1 {
				t.Fatalf("request %d: %d breakpoints became %d", i, len(before), len(after))
			}
			if sorted(before) && !sorted(after) {
				t.Fatalf("request %d: a 1h breakpoint stands after a 5m one: %v", i, after)
			}
			for _, b := range on {
				if kind := b["type"]; (kind == "thinking" || kind == "redacted_thinking" || kind == "text" && b["text"] == "") && s.o.Breakpoints.Anchored+s.o.Breakpoints.Kept > 0 {
					if !contains(s.in, b) {
						t.Fatalf("request %d: breakpoint on a %v block", i, kind)
					}
				}
			}
			moved += s.o.Breakpoints.Anchored + s.o.Breakpoints.Kept
		}
	})
	if moved == 0 {
		t.Error("no breakpoint was ever set")
	}
}

// contains reports whether the client's body already had the marker on such a block.
func contains(in []byte, b map[string]any) bool {
	bare := func(b map[string]any) map[string]any { // its mark may have been raised since
		b = maps.Clone(b)
		delete(b, "cache_control")
		return b
	}
	_, on := marks(mustParse(in))
	for _, o := range on {
		if reflect.DeepEqual(bare(o), bare(b)) {
			return true
		}
	}
	return false
}

func sorted(ttls []string) bool {
	short := false
	for _, ttl := range ttls {
		if ttl != "1h" {
			short = true
		} else if short {
			return false
		}
	}
	return true
}

// TestInvariant11_Recoverable: when a marker leaves, its original is in the store, byte for byte.
func TestInvariant11_Recoverable(t *testing.T) {
	c := config(t, "always")
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWalker(t, c, plainModel)
		for range rapid.IntRange(8, 22).Draw(t, "requests") {
			w.act()
			s := w.send(w.lines[w.cur].Body())
			before := contents(s.in)
			for _, ch := range changes(t, s.in, s.out) {
				marker, _ := text(ch.after)
				o, err := w.store.Original(context.Background(), idOf(marker))
				if err != nil || string(o.Content) != before[ch.call] && before[ch.call] != "" || sha256.Sum256(o.Content) != o.SHA256 {
					t.Fatalf("original of %s: %v", ch.call, err)
				}
				n++
			}
		}
	})
	t.Logf("%d markers", n)
	if n == 0 {
		t.Error("nothing was ever replaced")
	}
}

// TestInvariant12_Isolation: tenants and sessions share nothing: the same bodies lead to the same decisions under other
// ids, and hostile session ids are as good as any.
func TestInvariant12_Isolation(t *testing.T) {
	c := config(t, "")
	rapid.Check(t, func(t *rapid.T) {
		store := keyed{memory.New()}
		e, err := pipeline.New(context.Background(), store, pipeline.Options{Flush: -1, DeepProof: true})
		if err != nil {
			t.Fatal(err)
		}
		hostile := rapid.SampledFrom([]string{"../../etc/passwd", "a\x00b", strings.Repeat("x", 250), "s", "'; drop", "{}"}).Draw(t, "session")
		ids := map[string]string{}
		for _, who := range [][2]string{{"t1", "s"}, {"t2", "s"}, {"t1", hostile + "!"}} {
			for i, n := range []int{40, 41} {
				r := ask(session(n), c, epoch.Add(time.Duration(i)*3*time.Hour))
				r.Tenant, r.Session = who[0], who[1]
				r.Body = bytes.Replace(r.Body, []byte("Fix the limiter."), []byte("Fix it for "+quotedInner(who[1])), 1) // else a resumed session
				o := e.Request(context.Background(), r)
				for _, d := range o.New {
					if prev, ok := ids[d.ID]; ok {
						t.Fatalf("id %s of %v is also %s's", d.ID, who, prev)
					}
					ids[d.ID] = fmt.Sprint(who)
				}
			}
		}
		if len(ids) < 30 {
			t.Fatalf("only %d decisions", len(ids))
		}
	})
}

func quotedInner(s string) string { q := quoted(s); return q[1 : len(q)-1] }

// TestInvariant13_Attributable: every change belongs to one decision with filter, verdict and id.
func TestInvariant13_Attributable(t *testing.T) {
	check(t, func(t *rapid.T, steps []step) {
		made := map[string]pipeline.DecisionMade{}
		for i, s := range steps {
			for _, d := range s.o.New {
				if d.Filter == "" || !d.Hold && (d.Verdict == "" || d.ID == "") {
					t.Fatalf("request %d: %+v names no filter, verdict or id", i, d)
				}
				made[d.ID] = d
			}
			replaced := changes(t, s.in, s.out)
			for _, ch := range replaced {
				marker, _ := text(ch.after)
				if d, ok := made[idOf(marker)]; !ok || d.Call != ch.call {
					t.Fatalf("request %d: %s is no decision's", i, ch.call)
				}
			}
			if fresh := len(s.o.New); len(replaced) != s.o.Replays+fresh-holds(s.o) {
				t.Fatalf("request %d: %d changes, %d replays and %d new ones", i, len(replaced), s.o.Replays, fresh)
			}
		}
	})
}

func holds(o *pipeline.Outcome) (n int) {
	for _, d := range o.New {
		n += b2i(d.Hold)
	}
	return n
}

// TestInvariant14_Bounded: hostile shapes are forwarded as they came, with a gate, and cost no more memory than they have
// bytes many times over.
func TestInvariant14_Bounded(t *testing.T) {
	c := config(t, "always")
	for name, body := range map[string]string{
		"depth":  `{"messages":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}",
		"blocks": `{"messages":[{"role":"user","content":[` + strings.Repeat(`{},`, 1_000_000) + `{}]}]}`,
		"large":  `{"messages":[{"role":"user","content":"` + strings.Repeat("a", 65<<20) + `"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := newEngine(t, false).Request(context.Background(), ask([]byte(body), c, epoch))
			if o.Gate != filters.Unparsed || o.Body != nil {
				t.Fatalf("gate %q, %v", o.Gate, o.Level)
			}
		})
	}
	t.Run("30MB", func(t *testing.T) {
		big := bytes.Replace(session(60), []byte("Fix the limiter."), bytes.Repeat([]byte("a"), 30<<20), 1)
		o := newEngine(t, false).Request(context.Background(), ask(big, c, epoch))
		if o.Gate != "" || o.Kind != pipeline.KindNew {
			t.Fatalf("gate %q, %v", o.Gate, o.Kind)
		}
	})
}

// TestInvariant16_Pure: same bodies, same state, same config give the same bytes, on every replica and after every restart.
func TestInvariant16_Pure(t *testing.T) {
	c := config(t, "always")
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		a := newWalker(t, c, plainModel)
		a.calm = true
		steps := a.walk(rapid.IntRange(2, 12).Draw(t, "requests"))
		store := keyed{memory.New()}
		var replicas []*pipeline.Engine
		for range 2 {
			e, err := pipeline.New(context.Background(), store, pipeline.Options{Flush: -1})
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, e)
		}
		for i, s := range steps {
			e := replicas[rapid.IntRange(0, 1).Draw(t, "replica")]
			o := e.Request(context.Background(), ask(s.in, a.c, s.at))
			e.Flush(context.Background())
			out := s.in
			if o.Body != nil {
				out = o.Body
			}
			if !bytes.Equal(out, s.out) {
				t.Fatalf("request %d: another replica forwards other bytes (%v %q, was %v %q)", i, o.Kind, o.Gate, s.o.Kind, s.o.Gate)
			}
			changed += b2i(o.Body != nil)
		}
	})
	if changed == 0 {
		t.Error("no body was ever changed")
	}
}
