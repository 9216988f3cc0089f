package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever a session calls itself, its bodies go to a folder of its own directly below the one that was asked for.
func TestBundlesStayApart(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "out")
	names := []string{
		"scene", "scene", "scene-2", "", ".", "..", "/", "../scene", "a/b", "c/b", "a\x00b", "\x00", strings.Repeat("x", 300), "scene",
	}
	seen := map[string]bool{}
	for _, name := range names {
		b, err := newBundle(root, name)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(b.dir) != root || seen[b.dir] || strings.HasPrefix(filepath.Base(b.dir), ".") {
			t.Errorf("%q goes to %s", name, b.dir)
		}
		seen[b.dir] = true
	}
	if !seen[filepath.Join(root, "scene")] || !seen[filepath.Join(root, "scene-2")] {
		t.Errorf("got %v", seen)
	}
	for dir, want := range map[string]int{parent: 1, root: len(names)} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%s holds %d entries, want %d: %v", dir, len(entries), want, err)
		}
	}
}
