package cache

import (
	"math"
	"time"
)

// Billed is what the provider said of one outbound's prompt, in tokens.
type Billed struct {
	Read, Write5m, Write1h int
	Minimum                int // tokens below which a prefix is not cached
	Automatic              int // tokens of the whole prompt where the provider caches by itself; else 0
	Step                   int // tokens of which such a read is a multiple
}

// through is the number of tokens up to the outbound's last breakpoint.
func (b Billed) through() int { return b.Read + b.Write5m + b.Write1h }

// Confirm takes the provider's word on an outbound with these marks, in the order of the prompt, that arrived at the time
// at under key. What was written is certain from then on; what was read was there, and is there again for as long as it was
// written for. met holds, by id, the entries whose prefix was a part of the outbound, and when they were last sent before. The
// entries are changed in place.
//
// Nothing read and nothing written says that nothing is cached (a prompt below the provider's minimum, or no caching at all):
// then nothing becomes certain.
func Confirm(entries []Entry, key Digest, marks []Mark, met map[Digest]time.Time, b Billed, at time.Time) []Entry {
	if len(marks) == 0 || b.through() == 0 {
		return entries
	}
	tail := marks[len(marks)-1]
	if b.Automatic > 0 {
		return confirmAutomatic(entries, key, tail, met, b, at)
	}
	hit := int32(-1) // cells that were read; unknown if nothing known is of that size
	for i := range entries {
		e := &entries[i]
		if e.Assumed || e.Key != key || b.Read == 0 || int(e.Tokens) != b.Read || e.Cells > tail.Cells {
			continue
		}
		if last, ok := met[e.ID]; ok { // prefixes of the same size are not the same
			e.read(at, last)
			hit = max(hit, e.Cells)
		}
	}
	for _, m := range marks {
		e := find(entries, key, m.ID)
		if e == nil || e.Thoughts != m.Thoughts {
			continue
		}
		if m == tail {
			e.Tokens = int32(min(b.through(), math.MaxInt32))
		}
		switch {
		case m == tail && b.Write5m+b.Write1h == 0:
			e.read(at, met[m.ID])
		case b.wrote(m, tail, hit):
			e.written(m.TTL, b, at)
		}
	}
	return entries
}

// confirmAutomatic is Confirm where the provider caches by itself: what it read covers every entry that is no longer, up to a step;
// that it wrote the rest it says only where writing costs.
func confirmAutomatic(entries []Entry, key Digest, tail Mark, met map[Digest]time.Time, b Billed, at time.Time) []Entry {
	for i := range entries {
		e := &entries[i]
		if e.Assumed || e.Key != key || e.Tokens == 0 || int(e.Tokens) >= b.Read+max(b.Step, 1) {
			continue
		}
		if last, ok := met[e.ID]; ok && b.Read > 0 {
			e.read(at, last)
		}
	}
	if e := find(entries, key, tail.ID); e != nil && e.Thoughts == tail.Thoughts {
		e.Tokens = int32(min(b.Automatic, math.MaxInt32))
		if b.Write5m+b.Write1h > 0 {
			e.written(tail.TTL, b, at)
		}
	}
	return entries
}

// wrote reports whether, beyond doubt, the outbound wrote the prefix of a mark. All marks behind the hit did; where that is not
// known the last one did. Sizes by weight may be wrong by a factor: scripts and escapes differ in what a token holds.
func (b Billed) wrote(m, tail Mark, hit int32) bool {
	switch {
	case m == tail:
		return b.through() >= b.Minimum
	case b.Read > 0:
		return hit >= 0 && m.Cells > hit
	}
	return tail.Weight > 0 && int64(m.Weight)*int64(b.through()) >= 2*int64(b.Minimum)*int64(tail.Weight)
}

// written notes that the provider wrote the entry for a request that arrived at the time at and asked for a TTL.
func (e *Entry) written(ttl time.Duration, b Billed, at time.Time) {
	if !e.SureAlive(at) {
		e.SureTTL = ttl
		if b.Write1h == 0 && b.Write5m > 0 {
			e.SureTTL = min(e.SureTTL, Short) // whatever was asked for
		}
	}
	e.Sure = later(e.Sure, at)
}

// read notes that the provider read the entry for a request that arrived at the time at, and that it was sent last before at
// the time last, zero if never. Where nobody knows for how long it was written, it is the shortest time.
func (e *Entry) read(at, last time.Time) {
	if e.Sure.IsZero() || !e.SureAlive(at) {
		e.SureTTL = Short
		if e.TTL > Short && !last.IsZero() && !e.Sure.IsZero() && last.Add(Short+Slack(Short)).Before(at) {
			e.SureTTL = e.TTL // nothing that was written for five minutes would have been there
		}
	}
	e.Sure = later(e.Sure, at)
}

func find(entries []Entry, key, id Digest) *Entry {
	for i := range entries {
		if e := &entries[i]; !e.Assumed && e.Key == key && e.ID == id {
			return e
		}
	}
	return nil
}
