package cache

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// A prefix of the test's world: the first cells blocks of one of a few transcripts, under one of a few keys. Transcripts
// share their beginning and part at parts. Cells 1 and 2 are tools and system, then two blocks a message.
type prefix struct {
	key, transcript int
	cells           int32
}

const worldKeys, worldCells = 2, 44

var parts = []int32{0, 9, 21} // the block from which on a transcript has its own bytes

func (p prefix) msg() int32 {
	if p.cells <= 2 {
		return p.cells - 3
	}
	return (p.cells - 3) / 2
}

// id is equal for prefixes of equal bytes.
func (p prefix) id() Digest {
	d := Digest{0: byte(p.cells), 1: 1}
	if p.transcript > 0 && p.cells >= parts[p.transcript] {
		d[2] = byte(p.transcript)
	}
	return d
}

func (p prefix) keyDigest() Digest { return Digest{0: byte(p.key), 15: 7} }

// within reports whether p is the beginning of o: same key, same bytes.
func (p prefix) within(o prefix) bool {
	return p.key == o.key && p.cells <= o.cells && p.id() == prefix{o.key, o.transcript, p.cells}.id()
}

func (p prefix) entry(ttl time.Duration, start time.Time) Entry {
	return Entry{Key: p.keyDigest(), ID: p.id(), Cells: p.cells, Msg: p.msg(), TTL: ttl, Start: start}
}

// world has every prefix that ends in a message; those in tools or system never change, so entries there may be dropped.
var world = func() (all []prefix) {
	for key := range worldKeys {
		for transcript := range parts {
			for cells := int32(3); cells <= worldCells; cells++ {
				all = append(all, prefix{key, transcript, cells})
			}
		}
	}
	return all
}()

// warm is the reference for what entries say of a prefix, straight from the definition: some live entry is a span that
// reaches as deep, or an exact prefix that the probe is the beginning of.
func warm(entries []Entry, probe prefix, now time.Time) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool {
		if now.After(e.Start.Add(e.TTL + max(e.TTL/10, time.Minute))) {
			return false
		}
		if e.Assumed {
			return probe.msg() <= e.Msg && (e.Key == Digest{} || e.Key == probe.keyDigest())
		}
		for transcript := range parts {
			p := prefix{probe.key, transcript, e.Cells}
			if p.keyDigest() == e.Key && p.id() == e.ID && probe.within(p) {
				return true
			}
		}
		return false
	})
}

func assertNoColder(t *rapid.T, what string, before, after []Entry, now time.Time, probes func(prefix) bool) {
	t.Helper()
	for _, at := range []time.Time{now, now.Add(3 * time.Minute), now.Add(20 * time.Minute), now.Add(65 * time.Minute)} {
		for _, p := range world {
			if probes(p) && warm(before, p, at) && !warm(after, p, at) {
				t.Fatalf("%s made %+v cold at +%v\nbefore %v\nafter  %v", what, p, at.Sub(now), before, after)
			}
		}
	}
}

func anywhere(prefix) bool { return true }

func drawPrefix(t *rapid.T) prefix {
	return prefix{
		key:        rapid.IntRange(0, worldKeys-1).Draw(t, "key"),
		transcript: rapid.IntRange(0, len(parts)-1).Draw(t, "transcript"),
		cells:      rapid.Int32Range(1, worldCells).Draw(t, "cells"),
	}
}

func drawTTL(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{Short, Long}).Draw(t, "ttl")
}

// drawEntries draws entries as Unite and Clip may meet them: dead and alive, in any order, some of them twice.
func drawEntries(most int) *rapid.Generator[[]Entry] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
		start := epoch.Add(-time.Duration(rapid.IntRange(-5, 80).Draw(t, "age")) * time.Minute)
		p, ttl := drawPrefix(t), drawTTL(t)
		if rapid.IntRange(0, 3).Draw(t, "form") == 0 {
			e := Entry{Assumed: true, Msg: p.msg(), TTL: ttl, Start: start}
			if rapid.Bool().Draw(t, "keyed") {
				e.Key = p.keyDigest()
			}
			return e
		}
		return p.entry(ttl, start)
	}), 0, most)
}

func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawEntries(60).Draw(t, "entries")
		folded := Fold(slices.Clone(in), epoch)
		if len(folded) > MaxEntries {
			t.Fatalf("%d entries are left", len(folded))
		}
		assertNoColder(t, "Fold", in, folded, epoch, anywhere)
		if len(in) <= MaxEntries && !cmp.Equal(in, folded) {
			t.Fatalf("%v became %v though there was room", in, folded)
		}
		if len(in) > MaxEntries {
			shuffled := Fold(rapid.Permutation(in).Draw(t, "shuffled"), epoch)
			if d := cmp.Diff(folded, shuffled); d != "" {
				t.Fatalf("the order of the entries matters: %s", d)
			}
		}
	})
}

func TestUnite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawEntries(24).Draw(t, "a"), drawEntries(24).Draw(t, "b")
		inA, inB := slices.Clone(a), slices.Clone(b)
		ab, ba := Unite(a, b, epoch), Unite(b, a, epoch)
		if !cmp.Equal(a, inA) || !cmp.Equal(b, inB) {
			t.Fatal("Unite changed what it was given")
		}
		if len(ab) > MaxEntries {
			t.Fatalf("%d entries are left", len(ab))
		}
		assertNoColder(t, "Unite", append(inA, inB...), ab, epoch, anywhere)
		if d := cmp.Diff(sorted(ab), sorted(ba)); d != "" {
			t.Fatalf("Unite is not commutative: %s", d)
		}
		for i := range ab {
			for j := range i {
				if ab[i].same(&ab[j]) {
					t.Fatalf("%v and %v stand for the same", ab[i], ab[j])
				}
			}
		}
	})
}

func sorted(entries []Entry) []Entry { return slices.SortedFunc(slices.Values(entries), compare) }

func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, n := drawEntries(MaxEntries).Draw(t, "entries"), rapid.Int32Range(0, 25).Draw(t, "n")
		was := slices.Clone(in)
		several := rapid.Bool().Draw(t, "several")
		clipped := Clip(in, n, several)
		if !cmp.Equal(in, was) {
			t.Fatal("Clip changed what it was given")
		}
		assertNoColder(t, "Clip", in, clipped, epoch, func(p prefix) bool { return p.msg() < n || several && p.msg() == n })
		for _, e := range clipped {
			if e.Msg > n {
				t.Fatalf("%v reaches beyond the first %d messages and the one behind them", e, n)
			}
		}
	})
}

func TestRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawEntries(MaxEntries).Draw(t, "entries")
		was := slices.Clone(in)
		start := epoch.Add(time.Duration(rapid.IntRange(-90, 10).Draw(t, "start")) * time.Minute)
		out := Restart(in, start)
		if !cmp.Equal(in, was) {
			t.Fatal("Restart changed what it was given")
		}
		for i, e := range out {
			want := in[i]
			if want.Start.Before(start) {
				want.Start = start
			}
			if !cmp.Equal(e, want) {
				t.Fatalf("%v became %v", in[i], e)
			}
		}
	})
}

func TestAlive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.Custom(func(t *rapid.T) time.Time {
			return epoch.Add(time.Duration(rapid.IntRange(-200, 200).Draw(t, "minutes")) * time.Minute)
		})
		e := Entry{TTL: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "ttl")), Start: minutes.Draw(t, "start")}
		if rapid.Bool().Draw(t, "usual") {
			e.TTL = drawTTL(t)
		}
		now, earlier := minutes.Draw(t, "now"), minutes.Draw(t, "earlier")
		if earlier.After(now) {
			now, earlier = earlier, now
		}
		if !e.Alive(e.Start) || !e.Alive(e.Start.Add(e.TTL)) {
			t.Fatalf("%v is dead within its TTL", e)
		}
		if !e.Alive(e.Expires()) || e.Alive(e.Expires().Add(1)) {
			t.Fatalf("%v: %v is not the last moment of its life", e, e.Expires())
		}
		younger, longer := e, e
		younger.Start = e.Start.Add(time.Minute)
		longer.TTL += min(time.Minute, math.MaxInt64-e.TTL)
		for _, o := range []Entry{younger, longer} {
			if e.Alive(now) && !o.Alive(now) {
				t.Fatalf("%v is alive and %v is not", e, o)
			}
		}
		if e.Alive(now) && !e.Alive(earlier) {
			t.Fatalf("%v came alive between %v and %v", e, earlier, now)
		}
	})
}

// provider is a cache that forgets nothing early: every prefix that was written or read, with the TTL that it was given.
type provider struct {
	held   []Entry
	folded map[int]bool // what the branch no longer knows one by one: a span has the life that it had when it arose
}

// send writes a prefix for every breakpoint of an outbound and refreshes what the outbound begins with.
func (v *provider) send(marks []prefix, ttls []time.Duration, now time.Time) {
	for i := range v.held {
		e := &v.held[i]
		reads := func(p prefix) bool {
			return !e.Assumed && e.Key == p.keyDigest() && e.Cells <= p.cells && e.ID == beginning(p, e.Cells)
		}
		if !v.folded[i] && !now.After(e.Start.Add(e.TTL)) && slices.ContainsFunc(marks, reads) {
			e.Start = later(e.Start, now)
		}
	}
	for i, p := range marks {
		v.held = append(v.held, p.entry(ttls[i], now))
	}
}

func (v *provider) forget(known []Entry) {
	for i := range v.held {
		v.folded[i] = v.folded[i] || !slices.ContainsFunc(known, func(k Entry) bool { return k.same(&v.held[i]) })
	}
}

func beginning(p prefix, cells int32) Digest { return prefix{p.key, p.transcript, cells}.id() }

// TestUpperBound drives one branch through requests, pauses, restarts and merges with what was stored of it a while ago,
// and checks that whatever the provider holds is warm by the entries.
func TestUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		var entries, stored []Entry
		v := provider{folded: map[int]bool{}}
		request := func(t *rapid.T) {
			n := rapid.IntRange(1, 4).Draw(t, "marks")
			tail := drawPrefix(t)
			marks, ttls, noted := make([]prefix, 0, n), make([]time.Duration, 0, n), make([]Mark, 0, n)
			for range n {
				p := prefix{tail.key, tail.transcript, rapid.Int32Range(1, tail.cells).Draw(t, "at")}
				ttl := drawTTL(t)
				marks, ttls = append(marks, p), append(ttls, ttl)
				noted = append(noted, Mark{ID: p.id(), Cells: p.cells, Msg: p.msg(), TTL: ttl})
			}
			v.send(marks, ttls, now)
			held := func(e *Entry) bool { return e.ID == beginning(tail, e.Cells) }
			entries = Note(entries, tail.keyDigest(), noted, held, now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": request,
			"pause": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
			},
			"assume": func(t *rapid.T) {
				msg, ttl := rapid.Int32Range(0, 20).Draw(t, "msg"), drawTTL(t)
				v.held = append(v.held, Entry{Assumed: true, Msg: msg, TTL: ttl, Start: now})
				entries = Assume(entries, msg, ttl, now)
			},
			"restart": func(*rapid.T) { entries = Restart(entries, now) },
			"store":   func(*rapid.T) { stored = slices.Clone(entries) },
			"merge":   func(*rapid.T) { entries = Unite(stored, entries, now) },
			"": func(t *rapid.T) {
				if len(entries) > MaxEntries {
					t.Fatalf("%d entries", len(entries))
				}
				v.forget(entries)
				assertNoColder(t, "the history", v.held, entries, now, anywhere)
			},
		})
	})
}

func TestNoteWritesAnewWhatIsGone(t *testing.T) {
	p := prefix{cells: 9}
	m := []Mark{{ID: p.id(), Cells: p.cells, Msg: p.msg(), TTL: Short}}
	later := epoch.Add(2 * time.Hour)
	got := Note([]Entry{p.entry(Long, epoch)}, p.keyDigest(), m, func(*Entry) bool { return true }, later)
	if want := []Entry{p.entry(Short, later)}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v: the hour of an entry that is gone does not come back", got, want)
	}
	got = Note([]Entry{p.entry(Long, later.Add(-time.Minute))}, p.keyDigest(), m, func(*Entry) bool { return true }, later)
	if want := []Entry{p.entry(Long, later)}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v: reading an entry refreshes it and keeps its hour", got, want)
	}
}

// However many breakpoints a body has, few entries are made, and all that they may have written counts as cached.
func TestNoteOfManyMarks(t *testing.T) {
	for _, n := range []int{MaxEntries, MaxEntries + 1, 50_000} {
		marks := make([]Mark, n)
		for i := range marks {
			marks[i] = Mark{ID: Digest{byte(i), byte(i >> 8), byte(i >> 16)}, Cells: int32(i) + 1, Msg: int32(i), TTL: Short}
		}
		marks[0].TTL = Long
		entries := Note(nil, Digest{1}, marks, func(*Entry) bool { return false }, time.Unix(0, 0))
		if len(entries) > MaxEntries {
			t.Fatalf("%d marks make %d entries", n, len(entries))
		}
		for _, m := range marks {
			if !slices.ContainsFunc(entries, func(e Entry) bool {
				return e.ID == m.ID && !e.Assumed && e.TTL >= m.TTL || e.Assumed && e.Msg >= m.Msg && e.TTL >= m.TTL
			}) {
				t.Fatalf("of %d marks that at message %d left nothing", n, m.Msg)
			}
		}
	}
}
