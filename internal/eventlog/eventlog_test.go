package eventlog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/eventlog"
)

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func summary(t *testing.T, names ...string) *eventlog.Summary {
	t.Helper()
	s, err := eventlog.Summarize(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestSummaryOfScene(t *testing.T) {
	s := summary(t, write(t, "events.jsonl", eventtest.Lines(t, eventtest.Scene()...)))
	total := &s.Total
	if total.Requests != 10 || total.Side != 1 || len(s.Sessions) != 2 || s.Configs != 1 || s.Rejected != 0 || s.Spend.Calls != 1 || s.Events != len(eventtest.Scene()) {
		t.Errorf("%s", asJSON(t, s))
	}
	if o := &total.Observed; o.Responses != 10 || o.Read != 82000 || o.Write5m != 66400 || o.Input != 540 || o.Output != 1000 || !near(o.Cost, 82000*0.5e-6+66400*6.25e-6+540*5e-6+1000*25e-6) {
		t.Errorf("observed %s", asJSON(t, o))
	}
	// Worker left out 6000 written once and read twice, Clumsy 3000 read twice, for which it wrote at 0.03 what it had.
	m := &total.Modelled
	if m.Responses != 9 || !near(m.Removal, 6000*6.25e-6+2*6000*0.5e-6+2*3000*0.5e-6-0.03) || !near(m.Levers, 0.001) || !near(m.Reuse, 0.02) {
		t.Errorf("modelled %s", asJSON(t, m))
	}
	if !near(m.Baseline-m.Cost, m.Removal+m.Levers) || !near(m.Net, m.Baseline-m.Cost-m.Reuse) || !near(s.Net, m.Net-0.004) || m.Net >= 0 {
		t.Errorf("the account does not add up: %s, net %g", asJSON(t, m), s.Net)
	}
	if m.First.Basis != "BLENDED_MARGINAL" || m.Again.Basis != "CACHE_READ_MARGINAL" || m.Again.Read != 2*6000+3000 {
		t.Errorf("%s", asJSON(t, m))
	}
	if first := s.Sessions[0]; first.Session != eventtest.Clumsy || first.Modelled.Net >= 0 || s.Sessions[1].Lineages != 2 {
		t.Errorf("worst first: %s", asJSON(t, s.Sessions))
	}
	if e := &total.Estimated; e.Removed != 8700 || e.Replayed != 14600 || e.ByFilter["shed"] != 2800 || e.ByFilter["readlifecycle"] != 5900 || e.Restored != 1500 || e.Reused != 1500 {
		t.Errorf("estimated %s", asJSON(t, e))
	}
	if l := total.Losses; len(l) != 2 || l[0].Cause != "ttl" || l[1].Diagnostics != 1 {
		t.Errorf("losses %s", asJSON(t, l))
	}
	if v := total.Moves; len(v) != 2 || !near(v[0].Realised, 6000*6.25e-6+2*6000*0.5e-6) || v[0].Requests != 3 || !near(v[1].Realised, 2*3000*0.5e-6-0.03) || v[1].Requests != 2 {
		t.Errorf("moves %s", asJSON(t, v))
	}
	if total.Gates["readlifecycle.fresh_read"] != 2 {
		t.Errorf("%v", total.Gates)
	}
}

// Shadow figures stand for themselves.
func TestShadow(t *testing.T) {
	r := &event.Request{Head: event.Head{V: 1, Event: event.NameRequest, Key: "k", Mode: "shadow"}, Outcome: "identity", Undeclared: true, Desync: true, Gate: "no_session", Shadow: &event.Shadow{Outcome: "moved", Removed: 70}}
	s := summary(t, write(t, "events.jsonl", eventtest.Lines(t, r, r)))
	if h := s.Total.Shadow; h == nil || h.Requests != 2 || h.Removed != 140 || h.Outcomes["moved"] != 2 || s.Total.Estimated.Removed != 0 || s.Total.Undeclared != 2 || s.Total.Desync != 2 || s.Total.Gates["no_session"] != 2 {
		t.Errorf("%s", asJSON(t, s.Total))
	}
}

// However a log is cut into files, compressed or not, and in whatever order they are named, it says the same.
func TestFilesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := eventtest.Scene()
		if rapid.Bool().Draw(rt, "any") {
			events = rapid.SliceOfN(eventtest.Drawn(), 1, 20).Draw(rt, "events")
		}
		for i, e := range events {
			e.Of().Time = time.Unix(int64(i+1), 0).UTC()
		}
		want := summary(t, write(t, "all.jsonl", eventtest.Lines(t, events...)))
		var names []string
		for rest := events; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "n")
			data := eventtest.Lines(t, rest[:n]...)
			if rapid.Bool().Draw(rt, "zip") {
				data = zipped(t, data)
			}
			names = append(names, write(t, "part", data))
			rest = rest[n:]
		}
		got := summary(t, rapid.Permutation(names).Draw(rt, "names")...)
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// What is counted of sessions, and of events without one, is counted once in the total.
func TestSessionsAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := rapid.SliceOfN(eventtest.Drawn(), 0, 30).Draw(rt, "events")
		for _, e := range events {
			h := e.Of()
			h.Key = rapid.StringMatching("[ab][0-3]").Draw(rt, "key")
			h.Session, h.Tenant = h.Key[:1], "t"
			if u, ok := e.(*event.Usage); ok {
				u.Observed.Read %= 1000
				u.Observed.Cost = float64(u.Observed.Read)
				u.Modelled = &event.Account{Net: float64(u.Observed.Read % 7), First: event.Priced{Read: 1, Basis: "FULL_INPUT"}}
			}
			if l, ok := e.(*event.Loss); ok {
				l.USD = 1
			}
		}
		s := summary(t, write(t, "events.jsonl", eventtest.Lines(t, events...)))
		var requests, moves, losses, read int
		var cost, net float64
		for i, one := range s.Sessions {
			requests += one.Requests
			moves += len(one.Moves)
			read += one.Observed.Read
			cost += one.Observed.Cost
			net += one.Modelled.Net
			for _, l := range one.Losses {
				losses += l.Times
			}
			if i > 0 && s.Sessions[i-1].Modelled.Net > one.Modelled.Net {
				rt.Fatal("not worst first")
			}
		}
		all := 0
		for _, l := range s.Total.Losses {
			all += l.Times
		}
		t := &s.Total
		if requests != t.Requests || moves != len(t.Moves) || read != t.Observed.Read || cost != t.Observed.Cost || net != t.Modelled.Net || losses != all {
			rt.Fatalf("%+v", s)
		}
	})
}

// Where all that is left out goes by moves, what moves realised is all that removal came to, whatever was forked when.
func TestMovesRealiseRemoval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var events []event.Event
		left := map[string]int{}
		var lineages []string
		want := 0.0
		for n := range rapid.IntRange(1, 30).Draw(rt, "requests") {
			h := event.Head{V: 1, Time: time.Unix(int64(n), 0), Key: fmt.Sprint(n), Session: "s", N: n}
			r := &event.Request{Head: h}
			if r.Lineage = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "lineage"); !slices.Contains(lineages, r.Lineage) {
				if len(lineages) > 0 && rapid.Bool().Draw(rt, "forked") {
					r.Parent = rapid.SampledFrom(lineages).Draw(rt, "parent")
					left[r.Lineage] = left[r.Parent]
				}
				lineages = append(lineages, r.Lineage)
			}
			u := &event.Usage{Head: r.Head, Modelled: &event.Account{}}
			r.Event, u.Event = event.NameRequest, event.NameUsage
			if left[r.Lineage] > 0 {
				u.Modelled.Again.USD = rapid.Float64Range(0, 1).Draw(rt, "again")
			}
			u.Modelled.Removal = u.Modelled.Again.USD
			events = append(events, r)
			moves := rapid.Bool().Draw(rt, "moves")
			if moves {
				r.Sizes.Removed = rapid.IntRange(1, 1000).Draw(rt, "removed")
				left[r.Lineage] += r.Sizes.Removed
				m := &event.Move{Head: r.Head, Removed: r.Sizes.Removed}
				m.Event = event.NameMove
				u.Modelled.Removal += rapid.Float64Range(-1, 1).Draw(rt, "move")
				events = append(events, m)
			}
			switch {
			case rapid.Bool().Draw(rt, "billed"):
			case moves && rapid.Bool().Draw(rt, "sent again"): // it was answered with an error, and so decides nothing any more
				again := &event.Request{Head: r.Head}
				again.Key += " again"
				u.Key, u.Moved = again.Key, r.Key
				events = append(events, again)
			default:
				continue
			}
			events = append(events, u)
			want += u.Modelled.Removal
		}
		got := 0.0
		for _, m := range summary(t, write(t, "events.jsonl", eventtest.Lines(t, events...))).Total.Moves {
			got += m.Realised
		}
		if !near(got, want) {
			rt.Fatalf("got %g, want %g", got, want)
		}
	})
}

// Broken lines, events of later versions and compressed files that end too early take nothing else away.
func TestUnread(t *testing.T) {
	lines := eventtest.Lines(t, eventtest.Scene()...)
	want := summary(t, write(t, "events.jsonl", lines))
	text := string(lines[:len(lines)/2])
	text = text[:strings.LastIndexByte(text, '\n')+1] + "{\"v\":1,\"ev\n{\"v\":9,\"event\":\"usage\"}\nnonsense\n" + string(lines)[strings.LastIndexByte(text, '\n')+1:] + `{"v":1,"event":"us`
	path := write(t, "events.jsonl", []byte(text))
	got := summary(t, path)
	if got.Unread.Later != 1 || got.Unread.Broken != 3 || len(got.Unread.Faults) != 3 || got.Unread.Faults[0].File != path {
		t.Errorf("%s", asJSON(t, got.Unread))
	}
	got.Unread = want.Unread
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
		t.Error(diff)
	}
	z := zipped(t, lines)
	if s := summary(t, write(t, "events.jsonl.gz", z[:len(z)-20])); s.Unread.Broken == 0 || s.Events == 0 {
		t.Errorf("%d events, %s", s.Events, asJSON(t, s.Unread))
	}
	if s := summary(t, write(t, "many", bytes.Repeat([]byte("x\n"), 1000))); s.Unread.Broken != 1000 || len(s.Unread.Faults) > 20 {
		t.Errorf("%s", asJSON(t, s.Unread))
	}
	if _, err := eventlog.Summarize([]string{filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	z[20] ^= 0xff
	z[30] ^= 0xff
	if _, err := eventlog.Summarize([]string{write(t, "broken.gz", z)}); err == nil {
		t.Error("broken compression is not told")
	}
}

func TestIs(t *testing.T) {
	scene := eventtest.Lines(t, eventtest.Scene()...)
	for name, c := range map[string]struct {
		data []byte
		want bool
	}{
		"events": {scene, true}, "zipped": {zipped(t, scene), true}, "cut off at the start": {scene[20:], true}, "later": {[]byte(`{"v":7,"event":"dream"}`), true},
		"session": {[]byte(`{"api":"anthropic","model":"m","messages":[]}`), false}, "pretty": {[]byte("{\n\"api\":\n1\n}\n"), false}, "empty": {nil, false},
		"zipped session": {zipped(t, []byte(`{"api":"anthropic"}`)), false}, "broken": {[]byte{0x1f, 0x8b, 1}, false},
	} {
		if got := eventlog.Is(write(t, "file", c.data)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if eventlog.Is(t.TempDir()) || eventlog.Is("/no/such/file") {
		t.Error("a folder holds no events")
	}
}
