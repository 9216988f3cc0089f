package cache

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"
)

// Digest is a keyed 128-bit hash. It is an alias so that the leaf packages share it without importing each other.
type Digest = [16]byte

// TTLs that a breakpoint may ask for, and the most entries that one branch keeps.
const (
	Short      = 5 * time.Minute
	Long       = time.Hour
	MaxEntries = 16
)

// Entry is one prefix that the provider may hold.
//
// An exact entry names a prefix by its id. An assumed entry is a span that nobody saw being written but that must be
// expected: it covers every prefix through message Msg, whatever its bytes. Without a key it holds for every key.
type Entry struct {
	Key     Digest        // model, system and tools; zero in an assumed entry that holds for every key
	ID      Digest        // prefix id: running hash over the outbound's blocks
	Cells   int32         // number of hashed blocks in the prefix: two prefixes with equal ids have equal cells
	Msg     int32         // message that holds the prefix's last block, -1 in system, -2 in tools
	Assumed bool          // a span through Msg instead of an exact prefix
	TTL     time.Duration // the longest that its marker ever carried
	Start   time.Time     // arrival of the request that last wrote or read it

	Weight   int32         `cbor:",omitzero"` // of the prefix, in characters as the tokenizer feels them; 0 if unknown
	Thoughts int32         `cbor:",omitzero"` // thinking blocks in the prefix: the id leaves them out, the provider's prefix does not
	Tokens   int32         `cbor:",omitzero"` // of the prefix as the provider counted them, 0 if unknown
	Sure     time.Time     `cbor:",omitzero"` // arrival of the last request that wrote or read it by the provider's own word; zero: none
	SureTTL  time.Duration `cbor:",omitzero"` // how long it lives from Sure on
}

// Slack is how much longer than its TTL an entry counts as alive: providers are not exact, and clocks differ.
func Slack(ttl time.Duration) time.Duration { return max(time.Minute, ttl/10) }

// Alive reports whether the provider may still hold the entry. A clock that ran backwards makes it alive.
func (e *Entry) Alive(now time.Time) bool { return !e.Expires().Before(now) }

// Expires is the last moment at which Alive is true.
func (e *Entry) Expires() time.Time {
	life := e.TTL + Slack(e.TTL)
	if life < e.TTL { // beyond what a Duration holds: a TTL without a known bound stays warm
		life = math.MaxInt64
	}
	return e.Start.Add(life)
}

// Under reports whether the entry says anything of prompts under a key.
func (e *Entry) Under(key Digest) bool { return e.Key == key || e.Assumed && e.Key == Digest{} }

// same reports whether both stand for the same prefix, or for the same span.
func (e *Entry) same(o *Entry) bool {
	if e.Assumed || o.Assumed {
		return e.Assumed == o.Assumed && e.Msg == o.Msg && e.Key == o.Key
	}
	return e.Key == o.Key && e.ID == o.ID
}

// join makes e cover what o covers for as long as either does. Equal prefixes may end in different messages, as a client
// may split a message in two.
func (e *Entry) join(o *Entry) {
	e.Start, e.TTL, e.Msg = later(e.Start, o.Start), max(e.TTL, o.TTL), max(e.Msg, o.Msg)
	if c := o.Sure.Compare(e.Sure); c > 0 || c == 0 && o.SureTTL > e.SureTTL {
		e.Sure, e.SureTTL = o.Sure, o.SureTTL
	}
	if cmp.Or(cmp.Compare(o.Weight, e.Weight), cmp.Compare(o.Thoughts, e.Thoughts)) > 0 {
		e.Weight, e.Thoughts = o.Weight, o.Thoughts
	}
	e.Tokens = max(e.Tokens, o.Tokens)
}

// add joins x to the entry of the same prefix or span, or appends it.
func add(entries []Entry, x Entry) []Entry {
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.same(&x) }); i >= 0 {
		entries[i].join(&x)
		return entries
	}
	return append(entries, x)
}

// renew is add for something that is written at now: what is gone by then leaves no trace.
func renew(entries []Entry, x Entry, now time.Time) []Entry {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.same(&x) })
	if i >= 0 && !entries[i].Alive(now) {
		entries[i] = x
		return entries
	}
	return add(entries, x)
}

// Mark is a breakpoint of an outbound: where it lies and what it asks for.
type Mark struct {
	ID    Digest
	Cells int32
	Msg   int32
	TTL   time.Duration

	Weight, Thoughts int32 // of the prefix, as in Entry
}

// Note records that an outbound with these marks was sent under key at now. Each mark writes or reads the entry that ends
// there. Reading one refreshes it, perhaps through a deeper one, so every shorter live entry whose prefix is a part of the
// outbound counts as refreshed too; held reports whether that is so for an exact entry, and of a span it must be expected. The entries are changed in place.
func Note(entries []Entry, key Digest, marks []Mark, held func(*Entry) bool, now time.Time) []Entry {
	if len(marks) == 0 {
		return entries
	}
	var top int32 = -1
	if n := len(marks) - MaxEntries; n > 0 { // more than any provider takes: those that would not be kept are a span at once
		if x := span(key, marks[:n], now); x.Msg >= 0 {
			entries = fold(entries, x)
		}
		marks = marks[n:]
	}
	for _, m := range marks {
		top = max(top, m.Cells)
		entries = renew(entries, Entry{Key: key, ID: m.ID, Cells: m.Cells, Msg: m.Msg, TTL: m.TTL, Start: now, Weight: m.Weight, Thoughts: m.Thoughts}, now)
	}
	for i := range entries {
		e := &entries[i]
		if e.Under(key) && e.Alive(now) && e.Start.Before(now) && (e.Assumed || e.Cells <= top && held(e)) {
			e.Start = now
		}
	}
	return Fold(entries, now)
}

// span covers all of what marks, in the order of the prompt, stand for.
func span(key Digest, marks []Mark, now time.Time) Entry {
	x := Entry{Key: key, Msg: marks[len(marks)-1].Msg, Start: now}
	for _, m := range marks {
		x.TTL = max(x.TTL, m.TTL)
	}
	return x
}

// Assume adds the span that must be expected through message msg. The entries are changed in place.
func Assume(entries []Entry, msg int32, ttl time.Duration, now time.Time) []Entry {
	return Fold(renew(entries, Entry{Assumed: true, Msg: msg, TTL: ttl, Start: now}, now), now)
}

// Clip returns the entries as a fork sees them that shares only the first n messages: clipped to that, never dropped. A span that
// exact entries were folded into, or will be, keeps the message behind those too: they may end within it, where both still are alike.
// So does every span if that message is one of several blocks: what is cached of unknown history may end at any of them.
func Clip(entries []Entry, n int32, several bool) []Entry {
	var out []Entry
	for _, e := range entries {
		deepest := n
		if e.Assumed && e.Key == (Digest{}) && !several {
			deepest--
		}
		e.Msg = min(e.Msg, deepest)
		out = add(out, e)
	}
	return out
}

// Fold brings entries down to MaxEntries, in place: dead ones go first, then exact ones fold into an assumed span, which errs
// towards warm: of those that were not sent for the longest time the shallowest. Behind a cut what is sent is not as deep as
// what was sent before it, and must stay. The result does not depend on the order of the entries.
func Fold(entries []Entry, now time.Time) []Entry {
	if len(entries) <= MaxEntries {
		return entries
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return !e.Alive(now) })
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(boolCmp(a.Assumed, b.Assumed), a.Start.Compare(b.Start), compare(a, b))
	})
	for len(entries) > MaxEntries && !entries[0].Assumed {
		x := entries[0]
		entries = entries[1:]
		if x.Msg >= 0 { // nothing above the messages ever changes, so an entry there proves nothing
			entries = fold(entries, x)
		}
	}
	if len(entries) > MaxEntries { // spans alone: one as deep as the deepest and as young as the youngest covers them
		deep := entries[0]
		deep.Key = Digest{}
		for _, e := range entries {
			deep.join(&e)
		}
		entries = []Entry{deep}
	}
	return entries
}

// compare puts exact entries before spans and shallow ones before deep ones. Equal entries alone compare as equal.
func compare(a, b Entry) int {
	return cmp.Or(boolCmp(a.Assumed, b.Assumed), cmp.Compare(a.Cells, b.Cells), cmp.Compare(a.Msg, b.Msg),
		bytes.Compare(a.Key[:], b.Key[:]), bytes.Compare(a.ID[:], b.ID[:]),
		a.Start.Compare(b.Start), cmp.Compare(a.TTL, b.TTL), a.Sure.Compare(b.Sure), cmp.Compare(a.SureTTL, b.SureTTL),
		cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Thoughts, b.Thoughts), cmp.Compare(a.Tokens, b.Tokens))
}

// fold takes the exact entry x into the first span of its key, or makes it one.
func fold(entries []Entry, x Entry) []Entry {
	span := Entry{Key: x.Key, Assumed: true, Msg: x.Msg, TTL: x.TTL, Start: x.Start}
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.Assumed && e.Key == x.Key }); i >= 0 {
		span.join(&entries[i])
		entries = slices.Delete(entries, i, i+1)
	}
	return add(entries, span) // grown, it may have become another one
}

// Unite merges what two writers know of the same branch: every entry with its latest start and longest TTL.
func Unite(a, b []Entry, now time.Time) []Entry {
	var out []Entry
	for _, entries := range [][]Entry{a, b} {
		for _, e := range entries {
			out = add(out, e)
		}
	}
	return Fold(out, now)
}

// Restart counts entries that a store returned from the start of this process: what was stored lazily may lag.
func Restart(entries []Entry, start time.Time) []Entry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Start = later(out[i].Start, start)
	}
	return out
}

// SureAlive reports whether, by the provider's own word, it holds the entry.
func (e *Entry) SureAlive(now time.Time) bool {
	return !e.Assumed && !e.Sure.IsZero() && !e.Sure.Add(e.SureTTL).Before(now)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func boolCmp(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
