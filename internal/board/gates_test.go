package board

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated")

// TestGatesOfThePage: the page explains gates in the words of docs/gates.md, and knows all of them.
func TestGatesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	want.WriteString("// Generated from docs/gates.md (go test ./internal/board -run TestGatesOfThePage -update).\n\nexport const gates = {\n")
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.+) \\|$").FindAllSubmatch(page, -1)
	if len(rows) < 60 {
		t.Fatalf("docs/gates.md lists %d gates", len(rows))
	}
	for _, row := range rows {
		text, err := json.Marshal(string(row[2]))
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString("  " + string(row[1]) + ": " + string(text) + ",\n")
	}
	want.WriteString("};\n")
	const path = "web/gates.js"
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("%s differs from docs/gates.md: run this test with -update (%v)", path, err)
	}
}
