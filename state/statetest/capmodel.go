package statetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// capModel is what the contract says of originals and their cap, word for word and without any thought of cost.
type capModel struct {
	max       int
	originals []*state.Original // the least recently used first
	branches  map[state.SessionKey]map[uint64]*state.Branch
	evicted   int64
}

func (m *capModel) find(id string) int {
	return slices.IndexFunc(m.originals, func(o *state.Original) bool { return o.ID == id })
}

// use makes an original the most recently used one.
func (m *capModel) use(i int) *state.Original {
	o := m.originals[i]
	m.originals = append(slices.Delete(m.originals, i, i+1), o)
	return o
}

// needed reports whether an original may not go for a commit.
func (m *capModel) needed(o *state.Original, b *state.Branch, writes []state.Original) bool {
	if o.Fate != state.Kept || slices.Contains(b.InForceIDs(), o.ID) {
		return true
	}
	if slices.ContainsFunc(writes, func(w state.Original) bool { return w.ID == o.ID }) {
		return true
	}
	for key, branches := range m.branches {
		for _, stored := range branches {
			if key.Tenant == o.Session.Tenant && stored.Alive(b.Last) && slices.Contains(stored.InForceIDs(), o.ID) {
				return true
			}
		}
	}
	return false
}

func (m *capModel) commit(key state.SessionKey, b *state.Branch, originals []state.Original) error {
	var writes []state.Original
	for i := range originals {
		if at := m.find(originals[i].ID); at < 0 || m.originals[at].Fate == state.Kept {
			writes = append(writes, *kept(&originals[i]))
		}
	}
	if len(writes) > 0 {
		var left []*state.Original
		size := 0
		for _, o := range m.originals {
			written := slices.ContainsFunc(writes, func(w state.Original) bool { return w.ID == o.ID })
			if o.Session.Tenant == key.Tenant && o.Fate != state.Withdrawn && !written {
				size += o.Size
			}
		}
		for i := range writes {
			size += writes[i].Size
		}
		evicted := 0
		for _, o := range m.originals {
			if size > m.max && o.Session.Tenant == key.Tenant && !m.needed(o, b, writes) {
				size -= o.Size
				evicted++
				continue
			}
			left = append(left, o)
		}
		if size > m.max {
			return state.ErrFull
		}
		m.originals, m.evicted = left, m.evicted+int64(evicted)
	}
	for i := range writes {
		if at := m.find(writes[i].ID); at >= 0 {
			m.originals = slices.Delete(m.originals, at, at+1)
		}
		m.originals = append(m.originals, &writes[i])
	}
	stored := m.branches[key][b.ID]
	if stored == nil && b.Version != 0 || stored != nil && b.Version != stored.Version {
		return state.ErrConflict
	}
	m.put(key, state.Next(stored, b))
	return nil
}

func (m *capModel) merge(key state.SessionKey, b *state.Branch) {
	if stored := m.branches[key][b.ID]; stored != nil {
		b = state.Unite(stored, b, b.Last)
	}
	m.put(key, b)
}

func (m *capModel) put(key state.SessionKey, b *state.Branch) {
	if m.branches[key] == nil {
		m.branches[key] = map[uint64]*state.Branch{}
	}
	m.branches[key][b.ID] = b
}

// capWorld is a store beside the model of what it must do.
type capWorld struct {
	store   Capped
	model   *capModel
	keys    []state.SessionKey
	evicted int64 // before
}

// testCapModel drives the store and the model through the same calls and compares what they have after each.
func testCapModel(t *testing.T, s Capped) {
	rapid.Check(t, func(t *rapid.T) {
		first, foreign := newKey(), newKey()
		beside := first
		beside.Session[0]++
		w := &capWorld{
			store: s, keys: []state.SessionKey{first, beside, foreign}, evicted: s.Evicted(),
			model: &capModel{max: 60, branches: map[state.SessionKey]map[uint64]*state.Branch{}},
		}
		t.Repeat(map[string]func(*rapid.T){
			"": w.compare, "commit": w.commit, "again": w.commit, "merge": w.merge,
			"read": w.read, "seal": w.seal, "withdraw": w.withdraw,
		})
	})
}

func (w *capWorld) key(t *rapid.T) state.SessionKey {
	return rapid.SampledFrom(w.keys).Draw(t, "session")
}

// original draws one of few originals of a session.
func (w *capWorld) original(t *rapid.T, key state.SessionKey) state.Original {
	n := rapid.IntRange(0, 5).Draw(t, "original")
	return numbered(key, n, 7*n)
}

// branch draws one of few branches of a session, which may need originals of every session.
func (w *capWorld) branch(t *rapid.T) *state.Branch {
	var ids []string
	for range rapid.IntRange(0, 3).Draw(t, "in force") {
		ids = append(ids, w.original(t, w.key(t)).ID)
	}
	b := dead(rapid.Uint64Range(1, 3).Draw(t, "branch"))
	b.Last = epoch.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "minutes")) * time.Minute)
	if rapid.Bool().Draw(t, "cut") {
		b.Cut = &state.Cut{IDs: ids, At: epoch}
	} else {
		for _, id := range ids {
			b.InForce = append(b.InForce, state.Decision{ID: id, At: epoch})
		}
	}
	if rapid.Bool().Draw(t, "live") {
		b.Entries = []cache.Entry{{ID: state.Digest{1}, TTL: cache.Short, Start: b.Last}}
	}
	return b
}

func (w *capWorld) commit(t *rapid.T) {
	key, b := w.key(t), w.branch(t)
	if stored := w.model.branches[key][b.ID]; stored != nil && rapid.IntRange(0, 5).Draw(t, "stale") > 0 {
		b.Version = stored.Version
	}
	var originals []state.Original
	for range rapid.IntRange(0, 3).Draw(t, "originals") {
		o := w.original(t, key)
		if !slices.ContainsFunc(originals, func(p state.Original) bool { return p.ID == o.ID }) {
			originals = append(originals, o)
		}
	}
	_, err := w.store.Commit(context.Background(), key, b, originals)
	if want := w.model.commit(key, b, originals); !errors.Is(err, want) || err != nil && want == nil {
		t.Fatalf("commit: error %v, want %v", err, want)
	}
}

func (w *capWorld) merge(t *rapid.T) {
	key, b := w.key(t), w.branch(t)
	merge(t, w.store, key, b)
	w.model.merge(key, b)
}

func (w *capWorld) read(t *rapid.T) {
	id := w.original(t, w.key(t)).ID
	o, err := w.store.Original(context.Background(), id)
	if i := w.model.find(id); i >= 0 {
		assertEqual(t, "original", o, w.model.use(i))
		return
	}
	assertError(t, "an original that is not there", err, state.ErrNotFound)
}

func (w *capWorld) seal(t *rapid.T) {
	id, sealed := w.original(t, w.key(t)).ID, rapid.Bool().Draw(t, "sealed")
	err := w.store.Seal(context.Background(), id, sealed)
	i := w.model.find(id)
	switch {
	case i < 0:
		assertError(t, "seal of nothing", err, state.ErrNotFound)
	case w.model.originals[i].Fate == state.Withdrawn:
		assertError(t, "seal of a tombstone", err, state.ErrWithdrawn)
	case sealed:
		w.model.originals[i].Fate = state.Sealed
	default:
		w.model.originals[i].Fate = state.Kept
	}
}

func (w *capWorld) withdraw(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("else most are tombstones soon")
	}
	key := w.key(t)
	want := 0
	for _, o := range w.model.originals {
		if o.Session == key && o.Fate != state.Withdrawn {
			*o = o.Tombstone()
			want++
		}
	}
	assertEqual(t, "withdrawn", must(w.store.Withdraw(context.Background(), key))(t), want)
}

func (w *capWorld) compare(t *rapid.T) {
	assertEqual(t, "evicted", w.store.Evicted()-w.evicted, w.model.evicted)
	for _, key := range w.keys {
		want := []state.Original{}
		for _, o := range w.model.originals {
			if o.Session == key {
				want = append(want, o.Listed())
			}
		}
		got := append([]state.Original{}, must(w.store.Originals(context.Background(), key))(t)...)
		assertEqual(t, "list", got, state.Latest(want))
		stored := load(t, w.store, key).Branches
		assertEqual(t, "branches", stored, state.Recent(slices.Collect(maps.Values(w.model.branches[key]))))
	}
}
