package gemini

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// prompt is the value sequence that the model is given: model → tools → system instruction → contents.
type prompt struct {
	parts  []*part
	prefix []simkit.Digest // of the prompt through each part
	size   []int           // tokens of the prompt through each part
}

func (p *prompt) total() int {
	if len(p.size) == 0 {
		return 0
	}
	return p.size[len(p.size)-1]
}

// prompt returns what the model is given for a request.
func (s *Sim) prompt(r *request) *prompt {
	p := &prompt{}
	chain := simkit.Sum([]byte("model " + r.model))
	add := func(list []*part) {
		for _, x := range list {
			chain = chain.Step(x.value)
			p.parts, p.prefix, p.size = append(p.parts, x), append(p.prefix, chain), append(p.size, p.total()+x.tokens)
		}
	}
	add(r.tools)
	add(r.system)
	turn := simkit.Sum([]byte("content"))
	for _, c := range r.contents {
		chain = chain.Step(turn)
		add(c.parts)
	}
	return p
}

// defaultLife is how long the simulator keeps what was sent, if nobody says otherwise. The provider promises nothing.
const defaultLife = 5 * time.Minute

// Policy settles what the provider leaves open about its implicit cache. Whoever relies on the cache must be right under each.
type Policy struct {
	// Life is how long a beginning can be read after it was sent last; 0 is 5 minutes.
	Life time.Duration
	// Missed reports whether a request, counted from 1, reads nothing though it could: hits are not promised.
	Missed func(request int) bool
}

func (p Policy) life() time.Duration {
	if p.Life > 0 {
		return p.Life
	}
	return defaultLife
}

// entry is the beginning of a prompt that was sent. It can be read from ready on.
type entry struct {
	start  time.Time // of the request that sent it last
	ready  time.Time // when the first answer to one began
	tokens int
	parts  []*part
}

// account holds what one account sent, by the digest of the beginning.
type account struct {
	entries map[simkit.Digest]*entry
	fresh   int // made since the dead ones were removed
}

// sweepAt is the number of entries that are made before dead ones are removed.
const sweepAt = 1 << 16

func (e *entry) live(p Policy, at time.Time) bool {
	return e != nil && !e.start.Add(p.life()).Before(at)
}

// covered is how many tokens of a prompt can be read.
func (a *account) covered(p *prompt, policy Policy, at time.Time) int {
	for i, prefix := range slices.Backward(p.prefix) {
		if e := a.entries[prefix]; e.live(policy, at) && !e.ready.After(at) {
			return p.size[i]
		}
	}
	return 0
}

// visit reads and writes the cache for a prompt that arrives at the time at and whose answer begins at first. It returns how many
// tokens were read.
func (a *account) visit(p *prompt, minimum int, policy Policy, request int, at, first time.Time) int {
	read := a.covered(p, policy, at)
	if policy.Missed != nil && policy.Missed(request) {
		read = 0
	}
	for i, prefix := range p.prefix {
		if p.size[i] < minimum {
			continue
		}
		e := a.entries[prefix]
		if !e.live(policy, at) {
			a.entries[prefix] = &entry{at, first, p.size[i], p.parts[: i+1 : i+1]}
			a.fresh++
			continue
		}
		if at.After(e.start) {
			e.start = at
		}
		if first.Before(e.ready) {
			e.ready = first
		}
	}
	if a.fresh > sweepAt {
		a.sweep(policy, at)
	}
	return read
}

func (a *account) sweep(policy Policy, at time.Time) {
	a.fresh = 0
	for id, e := range a.entries {
		if !e.live(policy, at) {
			delete(a.entries, id)
		}
	}
}

// Live is a live beginning.
type Live struct {
	Tokens int       `json:"tokens"`
	Parts  int       `json:"parts"` // of tools, system instruction and contents together
	Start  time.Time `json:"start"` // of the request that sent it last
	Ready  time.Time `json:"ready"` // from when on it can be read
}

// list returns the live beginnings, longest first; of those that requests sent together only the longest.
func (a *account) list(policy Policy, at time.Time) []Live {
	longest := map[[2]time.Time]*entry{}
	for _, e := range a.entries {
		same := [2]time.Time{e.start, e.ready}
		if e.live(policy, at) && (longest[same] == nil || longest[same].tokens < e.tokens) {
			longest[same] = e
		}
	}
	out := make([]Live, 0, len(longest))
	for _, e := range longest {
		out = append(out, Live{e.tokens, len(e.parts), e.start, e.ready})
	}
	slices.SortFunc(out, func(x, y Live) int {
		return cmp.Or(-cmp.Compare(x.Tokens, y.Tokens), x.Start.Compare(y.Start), x.Ready.Compare(y.Ready))
	})
	return out
}

func (a *account) holds(text string, policy Policy, at time.Time) bool {
	for _, e := range a.entries {
		if e.live(policy, at) && slices.ContainsFunc(e.parts, func(x *part) bool { return slices.Contains(x.texts, text) }) {
			return true
		}
	}
	return false
}
