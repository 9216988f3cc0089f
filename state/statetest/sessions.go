package statetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// testConcurrentCommits: of all who read a version, exactly one gets the next one.
func testConcurrentCommits(t *testing.T, s state.Store) {
	const writers, versions = 8, 6
	key := newKey()
	for version := range uint64(versions) {
		var winners, losers atomic.Int32
		together(writers, func(n int) {
			b := sample(1)
			b.Version, b.InForce[0].Tokens = version, 1000*int(version)+n
			switch _, err := s.Commit(context.Background(), key, b, []state.Original{original(key)}); {
			case err == nil:
				winners.Add(1)
			case errors.Is(err, state.ErrConflict):
				losers.Add(1)
			default:
				t.Errorf("writer %d: %v", n, err)
			}
		})
		if winners.Load() != 1 || losers.Load() != writers-1 {
			t.Fatalf("version %d: %d winners and %d losers", version, winners.Load(), losers.Load())
		}
		got := only(t, s, key)
		if got.Version != version+1 || uint64(got.InForce[0].Tokens)/1000 != version {
			t.Fatalf("version %d with a decision of %d", got.Version, got.InForce[0].Tokens)
		}
	}
}

// testConcurrentWrites: commits to some branches and merges into all of them, at once, lose nothing of each other.
func testConcurrentWrites(t *testing.T, s state.Store) {
	const writers, rounds = 6, 8
	key := newKey()
	together(writers, func(n int) {
		own := sample(uint64(n + 1))
		for round := range rounds {
			if _, err := s.Commit(context.Background(), key, own, nil); err != nil {
				t.Errorf("writer %d: commit: %v", n, err)
			}
			own.Version++
			other := sample(uint64((n+1)%writers + 1))
			other.Requests, other.InForce = 1000+round, nil
			other.Entries = []cache.Entry{{ID: state.Digest{byte(n), byte(round)}, TTL: cache.Long, Start: epoch}}
			if _, err := s.Merge(context.Background(), key, []*state.Branch{other}); err != nil {
				t.Errorf("writer %d: merge: %v", n, err)
			}
		}
	})
	got := load(t, s, key)
	if got.Stamp != 2*writers*rounds || len(got.Branches) != writers {
		t.Fatalf("stamp %d and %d branches", got.Stamp, len(got.Branches))
	}
	for _, b := range got.Branches {
		// A merge that came before the first commit stored the branch as it was, a version that was committed counts on.
		if b.Version != rounds || len(b.InForce) != 1 || b.Requests != 1000+rounds-1 || len(b.Entries) != rounds {
			t.Errorf("branch %d: version %d, %d decisions, %d requests, %d entries",
				b.ID, b.Version, len(b.InForce), b.Requests, len(b.Entries))
		}
	}
}

// together runs f(0) … f(n-1) at the same time and waits for them.
func together(n int, f func(int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func testStamps(t *testing.T, s state.Store) {
	ctx := context.Background()
	key, beside := newKey(), newKey()
	assertStamp := func(want uint64) {
		t.Helper()
		assertEqual(t, "stamp", must(s.Stamp(ctx, key))(t), want)
		assertEqual(t, "stamp of the session", load(t, s, key).Stamp, want)
	}
	assertStamp(0)
	assertEqual(t, "stamp of a merge of nothing", merge(t, s, key), uint64(0))
	assertStamp(0)
	b := sample(1)
	var last uint64
	for i := range uint64(3) {
		b.Version = i
		assertEqual(t, "stamp of a commit", commit(t, s, key, b), last+1)
		assertStamp(last + 1)
		assertEqual(t, "stamp of a merge", merge(t, s, key, sample(1), sample(2), sample(2)), last+2)
		last += 2
		assertStamp(last)
	}
	_, err := s.Commit(ctx, key, sample(1), nil)
	assertError(t, "a stale version", err, state.ErrConflict)
	assertStamp(last)
	commit(t, s, beside, sample(1))
	assertStamp(last)
}

func testIsolation(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	mine := sample(1)
	stamp := commit(t, s, key, mine)
	for i := range 16 {
		for _, of := range []func(*state.SessionKey) *state.Digest{
			func(k *state.SessionKey) *state.Digest { return &k.Tenant },
			func(k *state.SessionKey) *state.Digest { return &k.Session },
		} {
			other := key
			of(&other)[i] ^= 0x80
			assertEqual(t, "another session", load(t, s, other), state.Session{})
			assertEqual(t, "stamp of another session", must(s.Stamp(ctx, other))(t), uint64(0))
			theirs := sample(1)
			theirs.Key = state.Digest{byte(i), 0xff}
			commit(t, s, other, theirs)
			theirs.Version = 1
			assertEqual(t, "their branch", only(t, s, other), theirs)
		}
	}
	mine.Version = 1
	assertEqual(t, "my session", load(t, s, key), state.Session{Stamp: stamp, Branches: []*state.Branch{mine}})
}

func testHeads(t *testing.T, s state.Store) {
	tenant := newKey().Tenant
	session := func(n byte) state.SessionKey { return state.SessionKey{Tenant: tenant, Session: state.Digest{n}} }
	head := [2]state.Digest{{1, 1}, {2, 2}}
	assertHeads := func(what string, tenant state.Digest, head [2]state.Digest, want ...state.SessionKey) {
		t.Helper()
		assertEqual(t, what, heads(t, s, tenant, head), want)
	}
	assertHeads("heads of nothing", tenant, head)

	commit(t, s, session(1), sample(1))
	merge(t, s, session(2), sample(1), sample(2))
	short := sample(3)
	short.Chain = short.Chain[:1]
	commit(t, s, session(3), short)
	foreign := state.SessionKey{Tenant: newKey().Tenant, Session: state.Digest{1}}
	commit(t, s, foreign, sample(1))
	assertHeads("heads", tenant, head, session(1), session(2))
	assertHeads("heads of another tenant", foreign.Tenant, head, foreign)
	for _, other := range [][2]state.Digest{{{2, 2}, {1, 1}}, {{1, 1}, {}}, {{}, {}}, {{1, 1}, {1, 1}}} {
		assertHeads("heads of other messages", tenant, other)
	}

	// The client replaced its history: the session is still found by what it began with.
	moved := sample(1)
	moved.Version, moved.Last, moved.Chain = 1, epoch.Add(time.Minute), []state.Digest{{8}, {9}}
	commit(t, s, session(1), moved)
	assertHeads("old heads", tenant, head, session(1), session(2))
	assertHeads("new heads", tenant, [2]state.Digest{{8}, {9}}, session(1))

	longer := sample(3)
	longer.Last = epoch.Add(time.Minute)
	merge(t, s, session(3), longer)
	assertHeads("heads after the second message", tenant, head, session(1), session(2), session(3))
}

func testOriginals(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	ids := append([]string{"0123456789abcdef01234567"}, hostile...)
	for _, id := range ids {
		_, err := s.Original(ctx, id)
		assertError(t, "an unknown id", err, state.ErrNotFound)
	}
	all := make([]state.Original, 0, len(ids))
	for i, id := range ids {
		o := original(key)
		o.ID, o.Call, o.Tool, o.Content = id, id, id, append([]byte(id), byte(i))
		all = append(all, o)
	}
	commit(t, s, key, sample(1), all...)
	for i := range all {
		assertEqual(t, "original", must(s.Original(ctx, all[i].ID))(t), kept(&all[i]))
	}
	for _, id := range []string{"0", "\x00\x00", "/a", "0123456789abcdef0123456"} {
		_, err := s.Original(ctx, id)
		assertError(t, "an id next to one that is known", err, state.ErrNotFound)
	}
}

// testLargeRecords: what a body of tens of megabytes may leave behind, in one commit.
func testLargeRecords(t *testing.T, s state.Store) {
	key := newKey()
	b := sample(1)
	for i := range 50_000 {
		b.Chain = append(b.Chain, state.Digest{byte(i), byte(i >> 8), 1})
	}
	sizes := []int{0, 1 << 10, 1 << 20, 3 << 20, 9 << 20}
	all := make([]state.Original, 0, len(sizes))
	for i, size := range sizes {
		o := original(key)
		o.ID = string(rune('A' + i))
		o.Content = bytes.Repeat([]byte{byte('a' + i)}, size)
		all = append(all, o)
		b.InForce = append(b.InForce, state.Decision{ID: o.ID, Content: bytes.Repeat([]byte{'m'}, 40<<10), At: epoch})
	}
	commit(t, s, key, b, all...)
	const others = 5 // together more than one transaction may take
	many := make([]*state.Branch, 0, others)
	for id := range uint64(others) {
		m := sample(id + 2)
		m.Chain = b.Chain
		many = append(many, m)
	}
	merge(t, s, key, many...)
	for i := range all {
		assertEqual(t, "original", must(s.Original(context.Background(), all[i].ID))(t), kept(&all[i]))
	}
	got := load(t, s, key).Branches
	if len(got) != 1+others {
		t.Fatalf("%d branches, want %d", len(got), 1+others)
	}
	b.Version = 1
	assertEqual(t, "branch", got[0], b)
}

// testOwnership: nothing that went in or came out is shared with what is stored.
func testOwnership(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	committed, merged, o := sample(1), sample(2), original(key)
	for _, b := range []*state.Branch{committed, merged} {
		b.Entries = []cache.Entry{{ID: state.Digest{1}, TTL: cache.Short, Start: epoch}}
	}
	commit(t, s, key, committed, o)
	merge(t, s, key, merged)
	want := load(t, s, key)
	spoil := func(branches ...*state.Branch) {
		for _, b := range branches {
			b.Chain[0], b.Held[0].Turn, b.Entries[0].Cells, b.InForce[0].Tokens = state.Digest{99}, 99, 99, 99
			clear(b.InForce[0].Content)
			b.ID, b.Requests = 99, 99
		}
	}
	spoil(committed, merged)
	clear(o.Content)
	assertEqual(t, "session after what went in was changed", load(t, s, key), want)
	spoil(load(t, s, key).Branches...)
	assertEqual(t, "session after what came out was changed", load(t, s, key), want)

	clear(must(s.Original(ctx, o.ID))(t).Content)
	intact := original(key)
	assertEqual(t, "original", must(s.Original(ctx, o.ID))(t), kept(&intact))
	must(s.Heads(ctx, key.Tenant, [2]state.Digest{{1, 1}, {2, 2}}))(t)[0] = state.SessionKey{}
	assertEqual(t, "heads", must(s.Heads(ctx, key.Tenant, [2]state.Digest{{1, 1}, {2, 2}}))(t), []state.SessionKey{key})
}

// testUTC: what is stored has no zone and no monotonic clock of this machine.
func testUTC(t *testing.T, s state.Store) {
	key := newKey()
	local := time.Now().In(time.FixedZone("zone", -3*3600)) // with a monotonic clock, which must not come back
	b, o := sample(1), original(key)
	b.Last, b.InForce[0].At, o.At = local, local, local
	b.Entries = []cache.Entry{{Start: local}}
	commit(t, s, key, b, o)
	got := only(t, s, key)
	at := must(s.Original(context.Background(), o.ID))(t).At
	for _, back := range []time.Time{got.Last, got.InForce[0].At, got.Entries[0].Start, at} {
		if want := local.Round(0).UTC(); back != want {
			t.Errorf("%#v came back as %#v", want, back)
		}
	}
}

func testRecent(t *testing.T, s state.Store) {
	key := newKey()
	for i := range uint64(state.MaxBranches + 10) {
		b := sample(i + 1)
		b.Last = epoch.Add(time.Duration(i*5%(state.MaxBranches+10)) * time.Second)
		merge(t, s, key, b)
	}
	got := load(t, s, key).Branches
	if len(got) != state.MaxBranches {
		t.Fatalf("%d branches, want %d", len(got), state.MaxBranches)
	}
	for i, b := range got {
		if want := epoch.Add(time.Duration(state.MaxBranches+9-i) * time.Second); !b.Last.Equal(want) {
			t.Fatalf("branch %d is of %v, want %v", i, b.Last, want)
		}
	}
}

// calls makes one call of each kind.
func calls(ctx context.Context, s state.Store, key state.SessionKey) map[string]error {
	errs := map[string]error{}
	_, errs["secret"] = s.Secret(ctx)
	_, errs["load"] = s.Load(ctx, key)
	_, errs["stamp"] = s.Stamp(ctx, key)
	_, errs["commit"] = s.Commit(ctx, key, sample(1), []state.Original{original(key)})
	_, errs["merge"] = s.Merge(ctx, key, []*state.Branch{sample(1)})
	_, errs["heads"] = s.Heads(ctx, key.Tenant, [2]state.Digest{{1, 1}, {2, 2}})
	_, errs["original"] = s.Original(ctx, original(key).ID)
	_, errs["owner"] = s.Owner(ctx, original(key).ID)
	_, errs["originals"] = s.Originals(ctx, key)
	errs["seal"] = s.Seal(ctx, original(key).ID, true)
	_, errs["withdraw"] = s.Withdraw(ctx, key)
	return errs
}

func testContext(t *testing.T, s state.Store) {
	key := newKey()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for call, err := range calls(over, s, key) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context canceled", call, err)
		}
	}
	assertEqual(t, "session", load(t, s, key), state.Session{})
	_, err := s.Original(context.Background(), original(key).ID)
	assertError(t, "original", err, state.ErrNotFound)
}

func testClosed(t *testing.T, s state.Store) {
	key := newKey()
	commit(t, s, key, sample(1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for call, err := range calls(context.Background(), s, key) {
		if err == nil || errors.Is(err, state.ErrConflict) || errors.Is(err, state.ErrNotFound) {
			t.Errorf("%s on a closed store: error %v", call, err)
		}
	}
}
