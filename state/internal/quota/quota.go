// Package quota counts the bytes that the originals of each tenant take, and says which of them make room for others.
//
// It keeps the promise that [state.Store] makes of its cap: the least recently used ones go first, and none goes that a live
// branch has in force, that a commit under way refers to, or that is sealed. A store tells it of everything that it writes,
// and is told what to remove; nothing here is durable. Times come from branches, expiry from the store: what is said to
// expire is forgotten by [Quota.Prune] alone. A nil *Quota caps nothing, and remembers nothing.
package quota

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// Quota is safe for concurrent use.
type Quota struct {
	max int64

	mu      sync.Mutex
	tenants map[state.Digest]*tenant
	evicted int64
}

// Item is an original as the quota knows it.
type Item struct {
	ID      string
	Session state.SessionKey
	Size    int64 // bytes of its content
	Sealed  bool
	Expires uint64 // when the store forgets it, in seconds since 1970
}

type tenant struct {
	bytes    int64
	items    map[string]*list.Element // of *Item
	order    *list.List               // the least recently used first
	branches map[branchKey]*branch
	needed   map[string][]*branch // by ids that branches have in force
	pinned   map[string]int       // by ids that commits under way refer to
}

type branchKey struct {
	session state.Digest
	id      uint64
}

type branch struct {
	ids     []string // in force
	until   time.Time
	expires uint64
}

// New returns a quota of so many bytes for each tenant, nil for none.
func New(perTenant int64) *Quota {
	if perTenant <= 0 {
		return nil
	}
	return &Quota{max: perTenant, tenants: map[state.Digest]*tenant{}}
}

// of returns what is known of a tenant, made at first use. The lock must be held.
func (q *Quota) of(id state.Digest) *tenant {
	t := q.tenants[id]
	if t == nil {
		t = &tenant{
			items: map[string]*list.Element{}, order: list.New(),
			branches: map[branchKey]*branch{}, needed: map[string][]*branch{}, pinned: map[string]int{},
		}
		q.tenants[id] = t
	}
	return t
}

// Keep notes an original that was written, in the place of what was known of its id. It is the most recently used one.
func (q *Quota) Keep(i Item) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.of(i.Session.Tenant)
	t.forget(i.ID)
	t.items[i.ID] = t.order.PushBack(&i)
	t.bytes += i.Size
}

// Use notes that an original was used, and that it expires at the given time if that is later than what was known.
func (q *Quota) Use(owner state.Digest, id string, expires uint64) {
	q.change(owner, id, func(t *tenant, e *list.Element, i *Item) {
		t.order.MoveToBack(e)
		i.Expires = max(i.Expires, expires)
	})
}

// Renew notes that an original expires later, without being used.
func (q *Quota) Renew(owner state.Digest, id string, expires uint64) {
	q.change(owner, id, func(_ *tenant, _ *list.Element, i *Item) { i.Expires = max(i.Expires, expires) })
}

// Seal notes that an original was sealed, or its seal lifted.
func (q *Quota) Seal(owner state.Digest, id string, sealed bool) {
	q.change(owner, id, func(_ *tenant, _ *list.Element, i *Item) { i.Sealed = sealed })
}

// Forget notes that an original, or its content, is gone.
func (q *Quota) Forget(owner state.Digest, id string) {
	q.change(owner, id, func(t *tenant, _ *list.Element, _ *Item) { t.forget(id) })
}

// change calls f for an original that is known.
func (q *Quota) change(owner state.Digest, id string, f func(*tenant, *list.Element, *Item)) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.tenants[owner]; t != nil {
		if e := t.items[id]; e != nil {
			f(t, e, item(e))
		}
	}
}

func (t *tenant) forget(id string) {
	if e := t.items[id]; e != nil {
		t.bytes -= item(e).Size
		t.order.Remove(e)
		delete(t.items, id)
	}
}

// Note notes a branch that was stored.
func (q *Quota) Note(key state.SessionKey, b *state.Branch, expires uint64) {
	if q == nil {
		return
	}
	var until time.Time
	for i := range b.Entries {
		if at := b.Entries[i].Expires(); at.After(until) {
			until = at
		}
	}
	ids := b.InForceIDs()
	q.mu.Lock()
	defer q.mu.Unlock()
	t, at := q.of(key.Tenant), branchKey{key.Session, b.ID}
	known := t.branches[at]
	if known != nil && len(b.Entries) > 0 && slices.Equal(known.ids, ids) { // nearly always: decisions are rare
		known.until, known.expires = until, expires
		return
	}
	t.drop(at)
	if len(b.Entries) == 0 || len(ids) == 0 { // it needs nothing
		return
	}
	known = &branch{ids, until, expires}
	t.branches[at] = known
	for _, id := range ids {
		t.needed[id] = append(t.needed[id], known)
	}
}

func (t *tenant) drop(at branchKey) {
	known := t.branches[at]
	if known == nil {
		return
	}
	delete(t.branches, at)
	for _, id := range known.ids {
		left := slices.DeleteFunc(t.needed[id], func(b *branch) bool { return b == known })
		if len(left) == 0 {
			delete(t.needed, id)
		} else {
			t.needed[id] = left
		}
	}
}

// Reserve makes room for originals that a commit of b is about to write, by their ids. It returns those that must be
// removed first and counts them as evicted, or fails with [state.ErrFull] and changes nothing. Until release is called,
// nothing that the commit refers to is evicted.
func (q *Quota) Reserve(key state.SessionKey, b *state.Branch, sizes map[string]int64) (victims []Item, release func(), err error) {
	if q == nil {
		return nil, func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.of(key.Tenant)
	pins := b.InForceIDs()
	bytes := t.bytes
	for id, size := range sizes {
		pins = append(pins, id)
		bytes += size
		if e := t.items[id]; e != nil {
			bytes -= item(e).Size
		}
	}
	t.pin(pins, 1)
	release = func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		t.pin(pins, -1)
	}
	if len(sizes) == 0 { // what is there already, a smaller cap than before included, is no reason to refuse a commit
		return nil, release, nil
	}
	for e := t.order.Front(); e != nil && bytes > q.max; e = e.Next() {
		if i := item(e); !i.Sealed && t.pinned[i.ID] == 0 && !t.alive(i.ID, b.Last) {
			victims = append(victims, *i)
			bytes -= i.Size
		}
	}
	if bytes > q.max {
		t.pin(pins, -1)
		return nil, nil, state.ErrFull
	}
	for i := range victims {
		t.forget(victims[i].ID)
	}
	q.evicted += int64(len(victims))
	return victims, release, nil
}

func (t *tenant) pin(ids []string, n int) {
	for _, id := range ids {
		if t.pinned[id] += n; t.pinned[id] == 0 {
			delete(t.pinned, id)
		}
	}
}

// alive reports whether a branch that is alive has the original in force.
func (t *tenant) alive(id string, now time.Time) bool {
	return slices.ContainsFunc(t.needed[id], func(b *branch) bool { return !b.until.Before(now) })
}

// Evicted is how many originals were evicted.
func (q *Quota) Evicted() int64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.evicted
}

// Bytes is what the originals of all tenants take; false where nothing is capped, as then nobody counts.
func (q *Quota) Bytes() (n int64, ok bool) {
	if q == nil {
		return 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.tenants {
		n += t.bytes
	}
	return n, true
}

// Prune forgets what has expired at a time in seconds since 1970.
func (q *Quota) Prune(now uint64) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, t := range q.tenants {
		for original, e := range t.items {
			if item(e).Expires <= now {
				t.forget(original)
			}
		}
		for at, b := range t.branches {
			if b.expires <= now {
				t.drop(at)
			}
		}
		if len(t.items)+len(t.branches)+len(t.pinned) == 0 {
			delete(q.tenants, id)
		}
	}
}

func item(e *list.Element) *Item { return e.Value.(*Item) } //nolint:forcetypeassert // nothing else is put into the list
