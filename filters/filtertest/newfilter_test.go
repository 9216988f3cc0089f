package filtertest

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/vectors"
)

// block is a block of code of the page, with the file that it is.
var block = regexp.MustCompile("(?ms)^```(go|text) (\\S+)\n(.*?)^```$")

// listFile is where the page's filter is entered.
const listFile = "filters/all/all.go"

// page is docs/new-filter.md laid out: its files in a directory, and an overlay that puts the Go files among them into the
// module. Nothing else of the module is touched.
type page struct {
	dir     string
	entry   string            // the lines for listFile: an import and an element of the list
	overlay map[string]string // path in the module → path in dir
}

func layOut(t *testing.T, root string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "new-filter.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 200 {
		t.Errorf("the page has %d lines, more than 200", n)
	}
	p := &page{dir: t.TempDir(), overlay: map[string]string{}}
	blocks := block.FindAllSubmatch(text, -1)
	if want := bytes.Count(text, []byte("```")); want != 2*len(blocks) {
		t.Errorf("%d of %d fences are blocks that name their file", 2*len(blocks), want)
	}
	for _, m := range blocks {
		kind, path, code := string(m[1]), string(m[2]), m[3]
		if path == listFile {
			p.entry = string(code)
			continue
		}
		if !strings.HasPrefix(path, "filters/dedupe/") {
			t.Errorf("%s is not in the filter's folder", path)
		}
		if kind == "go" {
			if form, err := format.Source(code); err != nil || !bytes.Equal(form, code) {
				t.Errorf("%s is not formatted (%v)", path, err)
			}
			p.overlay[filepath.Join(root, path)] = filepath.Join(p.dir, path)
		}
		p.write(t, path, code)
	}
	return p
}

func (p *page) write(t *testing.T, path string, data []byte) {
	t.Helper()
	to := filepath.Join(p.dir, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// enter adds the page's entry to the list of filters: the import, and the element at the end.
func (p *page) enter(t *testing.T, root string) {
	t.Helper()
	path := filepath.Join(root, listFile)
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported, element, ok := strings.Cut(p.entry, "\n")
	if name, err := strconv.Unquote(strings.TrimSpace(imported)); !ok || err != nil || strings.Count(element, "\n") != 1 {
		t.Fatalf("the entry %q is no import and one line (%s, %v)", p.entry, name, err)
	}
	at := func(pos token.Pos) int { return fset.Position(pos).Offset }
	first, end := at(file.Imports[len(file.Imports)-1].End()), -1
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Specs" {
			ast.Inspect(f, func(n ast.Node) bool {
				if list, ok := n.(*ast.CompositeLit); ok && end < 0 {
					end = at(list.Rbrace)
				}
				return true
			})
		}
	}
	if end < 0 {
		t.Fatal("Specs holds no list")
	}
	out := string(src[:first]) + "\n" + imported + string(src[first:end]) + strings.TrimLeft(element, "\t") + string(src[end:])
	p.write(t, listFile, []byte(out))
	p.overlay[path] = filepath.Join(p.dir, listFile)
}

// TestNewFilterPage builds the filter of docs/new-filter.md into the module and runs its test, which is the kit, where its
// files lie. The list's own test must hold too.
func TestNewFilterPage(t *testing.T) {
	root, err := vectors.Root()
	if err != nil {
		t.Fatal(err)
	}
	p := layOut(t, root)
	p.enter(t, root)
	overlay, err := json.Marshal(map[string]any{"Replace": p.overlay})
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "overlay.json", overlay)
	build := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(p.dir, "overlay.json"),
		"-c", "-o", p.dir, "./filters/dedupe", "./filters/all")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for pkg, dir := range map[string]string{"dedupe": filepath.Join(p.dir, "filters", "dedupe"), "all": p.dir} {
		test := exec.Command(filepath.Join(p.dir, pkg+".test"), "-test.v")
		test.Dir = dir
		out, err := test.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: Test")) {
			t.Errorf("test filters/%s: %v\n%s", pkg, err, out)
		}
	}
}
