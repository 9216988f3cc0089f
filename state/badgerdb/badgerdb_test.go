package badgerdb

import (
	"testing"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

func TestConformance(t *testing.T) {
	statetest.Run(t, func(t *testing.T) state.Store { return mustOpen(t, t.TempDir()) })
}

func TestReopen(t *testing.T) {
	statetest.Reopen(t, func(t *testing.T, place string) state.Store { return mustOpen(t, place) })
}

func mustOpen(t *testing.T, dir string) *DB {
	t.Helper()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
