package filters_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters/filtertest"
)

var write = flag.Bool("write", false, "write docs/gates.md")

const page = "../docs/gates.md"

// folders are this package's and those of the filters.
func folders(t *testing.T) []string {
	t.Helper()
	below, err := filepath.Glob("*/doc.go")
	if err != nil || len(below) == 0 {
		t.Fatalf("no filters: %v", err)
	}
	dirs := []string{"."}
	for _, path := range below {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

// TestGatesPage: docs/gates.md says of every gate what its constant says.
func TestGatesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Gates\n\nA gate is a named reason for not acting: a label of `tidemark_gates_total`, a word in events, logs and access logs. The list is closed.\n" +
		"This page is generated from filters/gate.go and from the filters (`go test ./filters -run Gates -write`).\n")
	heading := ""
	for _, dir := range folders(t) {
		gates, err := filtertest.Gates(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gates {
			if g.Heading != heading {
				heading = g.Heading
				title, note, _ := strings.Cut(heading, ". ")
				if note != "" {
					note = "\n" + note + ".\n"
				}
				b.WriteString("\n## " + title + "\n" + note + "\n| gate | meaning |\n|---|---|\n")
			}
			b.WriteString("| `" + string(g.Gate) + "` | " + g.Meaning + " |\n")
		}
	}
	b.WriteString("\n## Requests that no engine sees\n\nTheir outcome is `untouched`; the reason is a label of `tidemark_passed_total`: `path`, `method`, `content_type`, `content_encoding`, `model`, `wrapped` " +
		"(not tidemark's to read), `encoded_invalid`, `encoded_limit` (the body could not be decoded), `no_body`, `no_headers`, `unsupported_mode`, `too_large`, `observability`, `fault`.\n")
	if *write {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the code says (%v): run go test ./filters -run Gates -write", page, err)
	}
}
