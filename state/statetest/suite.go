package statetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/state"
)

// epoch is the time of what the suite writes by hand.
var epoch = time.Date(2026, 11, 29, 12, 0, 0, 123_456_789, time.UTC)

// Run checks the contract on stores that open returns, each of them empty. It closes them.
func Run(t *testing.T, open func(t *testing.T) state.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, state.Store)
	}{
		{"Secret", testSecret},
		{"RoundTrip", testRoundTrip},
		{"MergeStoresWhatIsNew", testMergeStoresWhatIsNew},
		{"MergeNeverDecides", testMergeNeverDecides},
		{"CommitUnites", testCommitUnites},
		{"CommitOverMerged", testCommitOverMerged},
		{"Conflict", testConflict},
		{"ConcurrentCommits", testConcurrentCommits},
		{"ConcurrentWrites", testConcurrentWrites},
		{"Stamps", testStamps},
		{"Invariant12_Isolation", testIsolation},
		{"Heads", testHeads},
		{"Originals", testOriginals},
		{"Listing", testListing},
		{"Owner", testOwner},
		{"Moved", testMoved},
		{"Seal", testSeal},
		{"Withdraw", testWithdraw},
		{"WithdrawRaces", testWithdrawRaces},
		{"LargeRecords", testLargeRecords},
		{"Ownership", testOwnership},
		{"UTC", testUTC},
		{"Recent", testRecent},
		{"Context", testContext},
		{"Closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			c.test(t, s)
		})
	}
}

var fresh atomic.Uint64

// newKey returns a session of a tenant that no other call returned.
func newKey() state.SessionKey {
	var k state.SessionKey
	binary.BigEndian.PutUint64(k.Tenant[:], fresh.Add(1))
	k.Session[7] = 1
	return k
}

// must returns a value of a call that has to succeed.
func must[V any](v V, err error) func(rapid.TB) V {
	return func(t rapid.TB) V {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

func load(t rapid.TB, s state.Store, key state.SessionKey) state.Session {
	t.Helper()
	return must(s.Load(context.Background(), key))(t)
}

func commit(t rapid.TB, s state.Store, key state.SessionKey, b *state.Branch, originals ...state.Original) uint64 {
	t.Helper()
	return must(s.Commit(context.Background(), key, b, originals))(t)
}

func merge(t rapid.TB, s state.Store, key state.SessionKey, branches ...*state.Branch) uint64 {
	t.Helper()
	return must(s.Merge(context.Background(), key, branches))(t)
}

// heads returns the sessions with a head in a fixed order.
func heads(t rapid.TB, s state.Store, tenant state.Digest, head [2]state.Digest) []state.SessionKey {
	t.Helper()
	keys := must(s.Heads(context.Background(), tenant, head))(t)
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b state.SessionKey) int {
		return cmp.Or(bytes.Compare(a.Tenant[:], b.Tenant[:]), bytes.Compare(a.Session[:], b.Session[:]))
	})
	return keys
}

// only returns the session's one branch.
func only(t rapid.TB, s state.Store, key state.SessionKey) *state.Branch {
	t.Helper()
	found := load(t, s, key).Branches
	if len(found) != 1 {
		t.Fatalf("%d branches, want one", len(found))
	}
	return found[0]
}

// assertEqual compares in depth. A time equals the same instant in another zone.
func assertEqual(t rapid.TB, what string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) { // much faster than the difference, and nearly always true
		return
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func assertError(t rapid.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: error %v, want %v", what, got, want)
	}
}

// sample is a branch with something in every field.
func sample(id uint64) *state.Branch {
	return &state.Branch{
		ID: id, Parent: 7, Key: state.Digest{1},
		Chain: []state.Digest{{1, 1}, {2, 2}, {3, byte(id)}},
		InForce: []state.Decision{{
			Ref: state.ResultRef{Call: "toolu_1", Block: state.Digest{5}}, Msg: 2, Content: []byte(`"[tidemark …]"`),
			Out: state.Digest{6}, Filter: "tiered", Verdict: "tier1", ID: "0123456789abcdef01234567",
			Tokens: 900, MarkerTokens: 40, At: epoch,
		}},
		Held:     []state.Hold{{Ref: state.ResultRef{Call: "toolu_2", Block: state.Digest{8}}, Turn: 3}},
		Frontier: state.Frontier{ID: state.Digest{9}, Cells: 12},
		Requests: 4, Moves: 1, Last: epoch, Ledger: state.Ledger{Ratio: 0.25, Premium: -1.5, Braked: true, Message: "msg_1", Summaries: 3, Settled: 1},
	}
}

// original is what the decision of sample stands for.
func original(key state.SessionKey) state.Original {
	return state.Original{
		ID: "0123456789abcdef01234567", Session: key, Call: "toolu_1", Tool: "Read",
		Content: []byte(`"a\u0000\ud800 b"`), SHA256: [32]byte{4}, At: epoch, About: "Read of a.go", Filter: "tiered",
	}
}

// kept returns an original as it comes back from the store that keeps it.
func kept(o *state.Original) *state.Original {
	c := *o
	c.Fate, c.Size = state.Kept, len(o.Content)
	return &c
}

func testSecret(t *testing.T, s state.Store) {
	first := must(s.Secret(context.Background()))(t)
	if len(first) != 32 || slices.Equal(first, make([]byte, 32)) {
		t.Fatalf("secret %x", first)
	}
	was := slices.Clone(first)
	clear(first)
	assertEqual(t, "second secret", must(s.Secret(context.Background()))(t), was)
}

func testRoundTrip(t *testing.T, s state.Store) {
	rapid.Check(t, func(t *rapid.T) {
		key := newKey()
		b := Branches().Draw(t, "branch")
		originals := Originals(key).Draw(t, "originals")
		was := b.Clone()
		commit(t, s, key, b, originals...)
		assertEqual(t, "the branch that was passed", b, was)
		want := b.Clone()
		want.Version = 1
		assertEqual(t, "loaded branch", only(t, s, key), want)
		for i := range originals {
			assertEqual(t, "original", must(s.Original(context.Background(), originals[i].ID))(t), kept(&originals[i]))
		}
	})
}

func testMergeStoresWhatIsNew(t *testing.T, s state.Store) {
	rapid.Check(t, func(t *rapid.T) {
		key := newKey()
		b := Branches().Draw(t, "branch")
		b.Version = rapid.Uint64Max(1<<40).Draw(t, "version")
		merge(t, s, key, b)
		assertEqual(t, "merged branch", only(t, s, key), b)
	})
}

func testMergeNeverDecides(t *testing.T, s state.Store) {
	rapid.Check(t, func(t *rapid.T) {
		key := newKey()
		stored, seen := Branches().Draw(t, "stored"), Branches().Draw(t, "seen")
		seen.ID = stored.ID
		commit(t, s, key, stored)
		before := only(t, s, key)
		merge(t, s, key, seen)
		after := only(t, s, key)
		assertEqual(t, "branch", after, state.Unite(before, seen, seen.Last))
		after.Key, after.Chain, after.Entries, after.Frontier = before.Key, before.Chain, before.Entries, before.Frontier
		after.Requests, after.Moves, after.Last, after.Ledger = before.Requests, before.Moves, before.Last, before.Ledger
		assertEqual(t, "all but activity", after, before)
	})
}

func testCommitUnites(t *testing.T, s state.Store) {
	rapid.Check(t, func(t *rapid.T) {
		key := newKey()
		stored, b := Branches().Draw(t, "stored"), Branches().Draw(t, "next")
		b.ID, b.Version = stored.ID, 1
		commit(t, s, key, stored)
		before := only(t, s, key)
		commit(t, s, key, b)
		after := only(t, s, key)
		assertEqual(t, "branch", after, state.Next(before, b))
		assertEqual(t, "decisions", after.InForce, b.InForce)
		assertEqual(t, "holds", after.Held, b.Held)
		if after.Version != 2 {
			t.Fatalf("version %d, want 2", after.Version)
		}
	})
}

// testCommitOverMerged: a branch that was only merged so far has no committed version yet.
func testCommitOverMerged(t *testing.T, s state.Store) {
	key := newKey()
	b := sample(1)
	merge(t, s, key, b)
	commit(t, s, key, b)
	if got := only(t, s, key).Version; got != 1 {
		t.Errorf("version %d, want 1", got)
	}
}

func testConflict(t *testing.T, s state.Store) {
	ctx := context.Background()
	key := newKey()
	b := sample(1)
	b.Version = 3
	_, err := s.Commit(ctx, key, b, nil)
	assertError(t, "a version of nothing", err, state.ErrConflict)
	assertEqual(t, "session", load(t, s, key), state.Session{})

	b.Version = 0
	stamp := commit(t, s, key, b)
	for _, version := range []uint64{0, 2, 1 << 63} {
		loser := sample(1)
		loser.Version, loser.Requests, loser.InForce = version, 99, nil
		loser.Chain = []state.Digest{{7}, {7}}
		o := original(key)
		o.ID = string(rune('a' + version%26))
		_, err := s.Commit(ctx, key, loser, []state.Original{o})
		assertError(t, "a stale version", err, state.ErrConflict)
		assertEqual(t, "original of the loser", must(s.Original(ctx, o.ID))(t), kept(&o))
	}
	want := sample(1)
	want.Version = 1
	assertEqual(t, "session", load(t, s, key), state.Session{Stamp: stamp, Branches: []*state.Branch{want}})
	if found := heads(t, s, key.Tenant, [2]state.Digest{{7}, {7}}); len(found) > 0 {
		t.Errorf("the losers left heads: %v", found)
	}
}
