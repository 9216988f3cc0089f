package simprovider

import (
	"cmp"
	"slices"
	"time"
)

// lookback is how many positions a breakpoint looks back for an entry, its own included.
const lookback = 20

// Refresh says which entries a read renews.
type Refresh uint8

// Refreshes.
const (
	RefreshHit   Refresh = iota // the entry that was read
	RefreshMarks                // also live entries at breakpoints before it
	RefreshAll                  // also every live entry that is a prefix of it
)

// Policy settles what the provider's documentation leaves open about cache entries. Whoever relies on the cache must be
// right under each of them.
type Policy struct {
	Refresh Refresh
	// SkipBelow: a breakpoint before the hit that has no live entry gets none. Otherwise the entry is made, free of charge.
	SkipBelow bool
	// Upgrade: a 1h breakpoint on a live 5m entry that is read makes it a 1h entry.
	Upgrade bool
	// NoLift: lifting does not work. What is written behind a hit, or made again before it, is billed as its breakpoint says and
	// lives no longer than the entry that was hit: 1h on a 5m entry is useless after five minutes without a read.
	NoLift bool
}

// entry is one cached prefix. It lives through start + ttl and can be read from ready on.
type entry struct {
	ttl    time.Duration
	start  time.Time // of the request that wrote or last read it
	ready  time.Time // when the first response that wrote it began
	tokens int
	blocks []*block
}

func (e *entry) live(at time.Time) bool { return e != nil && !e.start.Add(e.ttl).Before(at) }

func (e *entry) readable(at time.Time) bool { return e.live(at) && !e.ready.After(at) }

func (e *entry) touch(at time.Time) {
	if at.After(e.start) {
		e.start = at
	}
}

// workspace holds the entries of one API key by the digest of their prefix.
type workspace struct {
	entries map[digest]*entry
	fresh   int // made since the dead ones were removed
}

// sweepAt is the number of entries that are made before dead ones are removed.
const sweepAt = 4096

// hit returns the block where the longest entry ends that a breakpoint of the prompt reaches, -1 without one.
func (w *workspace) hit(p *prompt, at time.Time) int {
	for _, m := range slices.Backward(p.marks) {
		for i := m.at; i >= 0 && p.position[m.at]-p.position[i] < lookback; i-- {
			if w.entries[p.prefix[i]].readable(at) {
				return i
			}
		}
	}
	return -1
}

// call reads and writes the cache for a prompt that arrived at the time at and whose response begins at first.
//
// Where lifetimes are mixed the bill is: A the longest hit, B the last 1h breakpoint after it, C the last breakpoint; A is
// read, B-A written for an hour, C-B for five minutes. Breakpoints below the minimum count for nothing.
func (w *workspace) call(p *prompt, minimum int, policy Policy, at, first time.Time) Usage {
	hit := w.hit(p, at)
	u := Usage{}
	if hit >= 0 {
		u.Read = p.size[hit]
		w.refresh(p, hit, policy.Refresh, at)
	}
	end := u.Read
	for _, m := range p.marks {
		size := p.size[m.at]
		if size < minimum {
			continue
		}
		if m.at > hit && m.ttl == long {
			u.Write1h = size - u.Read
		}
		end = max(end, size)
		w.mark(p, m, hit, policy, at, first)
	}
	u.Write5m = end - u.Read - u.Write1h
	u.Input = p.total() - end
	if w.fresh > sweepAt {
		w.sweep(at)
	}
	return u
}

func (w *workspace) refresh(p *prompt, hit int, how Refresh, at time.Time) {
	w.entries[p.prefix[hit]].touch(at)
	switch how {
	case RefreshHit:
	case RefreshMarks:
		for _, m := range p.marks {
			if e := w.entries[p.prefix[m.at]]; m.at < hit && e.live(at) {
				e.touch(at)
			}
		}
	case RefreshAll:
		for _, id := range p.prefix[:hit] {
			if e := w.entries[id]; e.live(at) {
				e.touch(at)
			}
		}
	}
}

// mark does what one breakpoint does: write an entry, or meet one that is there.
func (w *workspace) mark(p *prompt, m point, hit int, policy Policy, at, first time.Time) {
	e := w.entries[p.prefix[m.at]]
	below := m.at <= hit
	ttl := m.ttl
	if policy.NoLift && hit >= 0 {
		ttl = min(ttl, w.entries[p.prefix[hit]].ttl)
	}
	switch {
	case !e.live(at) && below && policy.SkipBelow:
	case !e.live(at):
		w.entries[p.prefix[m.at]] = &entry{ttl, at, first, p.size[m.at], p.blocks[: m.at+1 : m.at+1]}
		w.fresh++
	case below && policy.Upgrade:
		e.ttl = max(e.ttl, m.ttl)
	case !below: // somebody else is writing it, and it could not be read yet
		e.ttl = max(e.ttl, ttl)
		e.touch(at)
		if first.Before(e.ready) {
			e.ready = first
		}
	}
}

func (w *workspace) sweep(at time.Time) {
	w.fresh = 0
	for id, e := range w.entries {
		if !e.live(at) {
			delete(w.entries, id)
		}
	}
}

// Live is one live cache entry.
type Live struct {
	Tokens int           `json:"tokens"`
	Blocks int           `json:"blocks"` // of tools, system and messages together
	TTL    time.Duration `json:"ttl_ns"`
	Start  time.Time     `json:"start"` // of the request that wrote or last read it
	Ready  time.Time     `json:"ready"` // from when on it can be read
}

// list returns the live entries, longest first.
func (w *workspace) list(at time.Time) []Live {
	var out []Live
	for _, e := range w.entries {
		if e.live(at) {
			out = append(out, Live{e.tokens, len(e.blocks), e.ttl, e.start, e.ready})
		}
	}
	slices.SortFunc(out, func(a, b Live) int {
		return cmp.Or(-cmp.Compare(a.Tokens, b.Tokens), a.Start.Compare(b.Start), cmp.Compare(a.TTL, b.TTL))
	})
	return out
}

func (w *workspace) holds(text string, at time.Time) bool {
	for _, e := range w.entries {
		if e.live(at) && slices.ContainsFunc(e.blocks, func(b *block) bool { return slices.Contains(b.texts, text) }) {
			return true
		}
	}
	return false
}
