package filters_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/filters"
)

var write = flag.Bool("write", false, "write docs/gates.md")

const page = "../docs/gates.md"

// TestGatesPage: docs/gates.md says of every gate what its constant says, and the list of gates is the list of constants.
func TestGatesPage(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "gate.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[filters.Gate]bool{}
	for _, g := range filters.Gates() {
		listed[g] = true
	}
	var b strings.Builder
	b.WriteString("# Gates\n\nA gate is a named reason for not acting: a label of `tidemark_gates_total`, a word in events, logs and access logs. The list is closed.\n" +
		"This page is generated from filters/gate.go (`go test ./filters -run Gates -write`).\n")
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		b.WriteString("\n## " + strings.TrimSuffix(strings.TrimSpace(g.Doc.Text()), ".") + "\n\n| gate | meaning |\n|---|---|\n")
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if !listed[filters.Gate(name)] {
				t.Errorf("Gates does not list %s", name)
			}
			delete(listed, filters.Gate(name))
			text := strings.TrimSpace(v.Comment.Text())
			if text == "" {
				t.Errorf("%s does not say what it means", name)
			}
			b.WriteString("| `" + name + "` | " + text + " |\n")
		}
	}
	b.WriteString("\n## Requests that no engine sees\n\nTheir outcome is `untouched`; the reason is a label of `tidemark_passed_total`: `path`, `method`, `content_type`, `content_encoding` (not tidemark's to read), " +
		"`no_body`, `no_headers`, `unsupported_mode`, `too_large`, `observability`, `fault`.\n")
	for g := range listed {
		t.Errorf("Gates lists %s, which is no constant", g)
	}
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
