package badgerdb

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/state"
)

// A store whose directory is gone closes all the same: Badger would try for ever to write what it has in memory.
func TestCloseWithoutDirectory(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.patience = 300 * time.Millisecond
	if _, err := d.Commit(context.Background(), state.SessionKey{}, &state.Branch{ID: 1, Chain: []state.Digest{{1}, {2}}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil {
		t.Error("closed without an error, although nothing can have been written")
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}
