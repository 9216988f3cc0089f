package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/internal/quota"
)

var (
	key = state.SessionKey{Tenant: state.Digest{1}, Session: state.Digest{2}}
	at  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

func item(id string, size int64, expires uint64) quota.Item {
	return quota.Item{ID: id, Session: key, Size: size, Expires: expires}
}

// live is a branch that needs an original.
func live(branch uint64, id string) *state.Branch {
	return &state.Branch{
		ID: branch, Last: at, InForce: []state.Decision{{ID: id}}, Entries: []cache.Entry{{TTL: cache.Short, Start: at}},
	}
}

// reserve asks for room and returns who must go.
func reserve(t *testing.T, q *quota.Quota, size int64) (ids []string, err error) {
	t.Helper()
	victims, release, err := q.Reserve(key, &state.Branch{ID: 99, Last: at}, map[string]int64{"new": size})
	if err != nil {
		return nil, err
	}
	release()
	for _, v := range victims {
		ids = append(ids, v.ID)
	}
	return ids, nil
}

func TestPrune(t *testing.T) {
	q := quota.New(100)
	q.Keep(item("a", 50, 10))
	q.Keep(item("b", 20, 20))
	q.Keep(item("c", 30, 30))
	q.Renew(key.Tenant, "a", 25)
	q.Use(key.Tenant, "b", 5) // earlier than what is known
	q.Note(key, live(1, "c"), 15)
	if _, err := reserve(t, q, 80); !errors.Is(err, state.ErrFull) {
		t.Errorf("while a branch needs c: error %v", err)
	}
	q.Prune(19)
	if ids, err := reserve(t, q, 60); err != nil || len(ids) != 2 || ids[0] != "a" || ids[1] != "c" {
		t.Errorf("after the branch expired, and b was used: %v, %v", ids, err)
	}
	q.Prune(20)
	q.Keep(item("d", 100, 40))
	if ids, err := reserve(t, q, 1); err != nil || len(ids) != 1 || ids[0] != "d" {
		t.Errorf("after all others expired: %v, %v", ids, err)
	}
	if n := q.Evicted(); n != 3 {
		t.Errorf("%d evicted: what expired counts, too", n)
	}
}

// TestLowered: originals that were kept under a larger cap are no reason to refuse a commit that keeps none.
func TestLowered(t *testing.T) {
	q := quota.New(100)
	q.Keep(item("a", 150, 10))
	q.Note(key, live(1, "a"), 10)
	victims, release, err := q.Reserve(key, live(2, "a"), nil)
	if err != nil || len(victims) > 0 {
		t.Fatalf("%v, %v", victims, err)
	}
	release()
	if _, err := reserve(t, q, 0); !errors.Is(err, state.ErrFull) {
		t.Errorf("error %v", err)
	}
}

// TestUnderWay: what a commit refers to stays until it is over, and no longer.
func TestUnderWay(t *testing.T) {
	q := quota.New(100)
	q.Keep(item("a", 60, 10))
	_, release, err := q.Reserve(key, &state.Branch{Last: at, Cut: &state.Cut{IDs: []string{"a"}}}, map[string]int64{"b": 40})
	if err != nil {
		t.Fatal(err)
	}
	q.Keep(item("b", 40, 10))
	if _, err := reserve(t, q, 1); !errors.Is(err, state.ErrFull) {
		t.Errorf("while it is under way: error %v", err)
	}
	release()
	if ids, err := reserve(t, q, 61); err != nil || len(ids) != 2 {
		t.Errorf("once it is over: %v, %v", ids, err)
	}
}

func TestNone(t *testing.T) {
	q := quota.New(0)
	q.Keep(item("a", 1<<40, 10))
	q.Use(key.Tenant, "a", 10)
	q.Note(key, live(1, "a"), 10)
	q.Prune(20)
	if ids, err := reserve(t, q, 1<<40); err != nil || ids != nil || q.Evicted() != 0 {
		t.Errorf("%v, %v", ids, err)
	}
}
