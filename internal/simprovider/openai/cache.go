package openai

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Lifetimes of entries that the provider promises.
const (
	lifeMemory = 5 * time.Minute // of in_memory, since the last use; up to lifeMemoryMost
	lifeDay    = 24 * time.Hour  // of 24h, at the most
	lifePoint  = 30 * time.Minute
)

// Breakpoints that count, of models that have them.
const (
	maxWrites   = 4  // in one request; the implicit one is one of them
	firstMarks  = 2  // explicit ones from the start that are looked up
	latestMarks = 50 // and from the end
	latestEnds  = 20 // earlier ends of messages that are looked up
)

// Policy settles what the provider's documentation leaves open about cache entries. Whoever relies on the cache must be
// right under each of them. Requests are counted from 1.
type Policy struct {
	// AnyKey: what was written under another prompt_cache_key can be read. Otherwise the key parts the cache.
	AnyKey bool
	// Misrouted reports whether a request comes to a machine that holds nothing: it reads nothing and leaves nothing behind.
	Misrouted func(request int) bool
	// Evicted says what the account loses before a request: every entry of more than so many tokens.
	Evicted func(request int) (tokens int, evicted bool)
	// Memory is how long an in_memory entry lives after its last use, 5 minutes to an hour; 0 is 5 minutes.
	Memory time.Duration
	// Day is how long a 24h entry lives after its last use; 0 is 24 hours.
	Day time.Duration
	// Beyond is how much longer than 30 minutes an entry of a breakpoint lives.
	Beyond time.Duration
	// RefreshAll: a read renews every live entry that is a prefix of the one that was read, not that one alone.
	RefreshAll bool
	// SkipBelow: a breakpoint before the hit that has no live entry gets none. Otherwise the entry is made, free of charge.
	SkipBelow bool
}

// entry is one cached prefix. It lives through start + life and can be read from ready on.
type entry struct {
	life   time.Duration
	start  time.Time // of the request that wrote or last read it
	ready  time.Time // when the first response that wrote it began
	tokens int
	blocks []*block
}

func (e *entry) live(at time.Time) bool { return e != nil && !e.start.Add(e.life).Before(at) }

func (e *entry) readable(at time.Time) bool { return e.live(at) && !e.ready.After(at) }

func (e *entry) touch(life time.Duration, at, first time.Time) {
	if e.life = max(e.life, life); at.After(e.start) {
		e.start = at
	}
	if first.Before(e.ready) {
		e.ready = first
	}
}

// place names an entry: the part of the cache that a prompt_cache_key leads to, and the prefix.
type place struct {
	key    string
	prefix simkit.Digest
}

// account holds the entries of one API key.
type account struct {
	entries map[place]*entry
	fresh   int // made since the dead ones were removed
}

// sweepAt is the number of entries that are made before dead ones are removed.
const sweepAt = 1 << 16

// visit is one request as the cache sees it.
type visit struct {
	*account
	key       string
	life      time.Duration
	policy    Policy
	at, first time.Time
}

func (v *visit) find(prefix simkit.Digest) *entry { return v.entries[place{v.key, prefix}] }

// write makes an entry, or renews the one that is there.
func (v *visit) write(prefix simkit.Digest, tokens int, blocks []*block) {
	if e := v.find(prefix); e.live(v.at) {
		e.touch(v.life, v.at, v.first)
		return
	}
	v.entries[place{v.key, prefix}] = &entry{v.life, v.at, v.first, tokens, blocks}
	v.fresh++
}

// walk reads and writes the cache for a prompt of a model without breakpoints: what was sent before is read in whole steps,
// from the start up to the first step that is missing.
func (v *visit) walk(p *prompt, step int) Usage {
	hit := v.covered(p)
	if hit*step < minimum {
		hit = 0
	}
	u := Usage{Read: hit * step, Input: p.total() - hit*step}
	if p.total() < minimum {
		return u
	}
	for i, prefix := range p.steps {
		v.write(prefix, (i+1)*step, p.blocks[:p.whole[i]:p.whole[i]])
	}
	return u
}

// covered is how many steps of a prompt can be read.
func (v *visit) covered(p *prompt) int {
	for i, prefix := range p.steps {
		if !v.find(prefix).readable(v.at) {
			return i
		}
	}
	return len(p.steps)
}

// writes returns the blocks that a request writes entries for: its latest explicit breakpoints, and the implicit one.
func (p *prompt) writes(explicit bool) []int {
	if explicit || len(p.ends) == 0 {
		return p.marks[max(0, len(p.marks)-maxWrites):]
	}
	list := append(slices.Clone(p.marks[max(0, len(p.marks)-maxWrites+1):]), p.ends[len(p.ends)-1])
	slices.Sort(list)
	return slices.Compact(list)
}

// lookups returns the blocks where a request looks for an entry.
func (p *prompt) lookups(explicit bool) []int {
	list := slices.Clone(p.marks)
	if n := len(list); n > firstMarks+latestMarks {
		list = slices.Delete(list, firstMarks, n-latestMarks)
	}
	if !explicit && len(p.ends) > 0 {
		list = append(list, p.ends[max(0, len(p.ends)-latestEnds-1):]...)
	}
	if !explicit && p.head >= 0 {
		list = append(list, p.head)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// hit returns the block where the longest entry ends that a prompt reaches, -1 without one.
func (v *visit) hit(p *prompt, explicit bool) int {
	for _, at := range slices.Backward(p.lookups(explicit)) {
		if v.find(p.prefix[at]).readable(v.at) {
			return at
		}
	}
	return -1
}

// points reads and writes the cache for a prompt of a model with breakpoints.
func (v *visit) points(p *prompt, explicit bool) Usage {
	hit, u := v.hit(p, explicit), Usage{}
	if hit >= 0 {
		u.Read = p.size[hit]
		v.renew(p, hit)
	}
	end := u.Read
	for _, at := range p.writes(explicit) {
		size := p.size[at]
		if size < minimum || at <= hit && v.policy.SkipBelow || at < hit && v.find(p.prefix[at]).live(v.at) {
			continue
		}
		end = max(end, size)
		v.write(p.prefix[at], size, p.blocks[:at+1:at+1])
	}
	u.Write, u.Input = end-u.Read, p.total()-end
	return u
}

func (v *visit) renew(p *prompt, hit int) {
	first := hit
	if v.policy.RefreshAll {
		first = 0
	}
	for _, prefix := range p.prefix[first : hit+1] {
		if e := v.find(prefix); e.live(v.at) {
			e.touch(v.life, v.at, e.ready)
		}
	}
}

func (a *account) sweep(at time.Time) {
	if a.fresh <= sweepAt {
		return
	}
	a.fresh = 0
	for id, e := range a.entries {
		if !e.live(at) {
			delete(a.entries, id)
		}
	}
}

// evict removes every entry of more than so many tokens.
func (a *account) evict(tokens int) {
	for id, e := range a.entries {
		if e.tokens > tokens {
			delete(a.entries, id)
		}
	}
}

// Live is one live cache entry.
type Live struct {
	Tokens int           `json:"tokens"`
	Blocks int           `json:"blocks"` // of tools, instructions and items together, as far as it holds them as a whole
	Key    string        `json:"key,omitempty"`
	Life   time.Duration `json:"life_ns"`
	Start  time.Time     `json:"start"` // of the request that wrote or last read it
	Ready  time.Time     `json:"ready"` // from when on it can be read
}

// list returns the longest live entries, longest first. Entries that come in steps are many: of those that a request wrote or
// read together only the longest is listed.
func (a *account) list(at time.Time) []Live {
	longest := map[Live]*entry{}
	for id, e := range a.entries {
		if !e.live(at) {
			continue
		}
		same := Live{Key: id.key, Life: e.life, Start: e.start, Ready: e.ready}
		if longest[same] == nil || longest[same].tokens < e.tokens {
			longest[same] = e
		}
	}
	out := make([]Live, 0, len(longest))
	for l, e := range longest {
		l.Tokens, l.Blocks = e.tokens, len(e.blocks)
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y Live) int {
		return cmp.Or(-cmp.Compare(x.Tokens, y.Tokens), x.Start.Compare(y.Start), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Life, y.Life))
	})
	return out
}

func (a *account) holds(text string, at time.Time) bool {
	for _, e := range a.entries {
		if e.live(at) && slices.ContainsFunc(e.blocks, func(b *block) bool { return slices.Contains(b.texts, text) }) {
			return true
		}
	}
	return false
}
