package archtest

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tidemark-dev/tidemark"

// root is the module's folder.
const root = "../.."

// file is one Go file of the module.
type file struct {
	path    string // from the root
	pkg     string // import path below the module, "" for the root
	imports []string
	ast     *ast.File
	lines   int
}

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func files(t *testing.T) (list []*file) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := &file{path: filepath.ToSlash(rel), pkg: filepath.ToSlash(filepath.Dir(rel)), ast: parsed, lines: bytes.Count(src, []byte("\n"))}
		for _, i := range parsed.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		list = append(list, f)
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("no Go files: %v", err)
	}
	return list
}

// bans say what a package must not import, and why. A trailing slash means the folder and all below it.
var bans = []struct{ pkg, imports, why string }{
	{"pipeline/transcript", "", "transcript is a leaf: it imports nothing of ours"},
	{"pipeline/cache", "", "cache is a leaf: it imports nothing of ours"},
	{"pipeline/identifier", "", "identifiers are a leaf: they import nothing of ours"},
	{"pipeline/breakpoint", "state/", "breakpoints are computed from the transcript alone"},
	{"pipeline/breakpoint", "filters/", "breakpoints know no filter"},
	{"state/", "pipeline", "the store knows no engine; of the pipeline it may know cache entries"},
	{"state/", "filters/", "the store knows no filter"},
	{"state/", "extproc/", "imports point downward"},
	{"filters/", "pipeline", "filters see a transcript, not who asks"},
	{"filters/", "pipeline/cache", "filters know no prices and no cache"},
	{"filters/", "pipeline/breakpoint", "filters know no breakpoints"},
	{"filters/", "state/", "filters are pure: nothing is stored"},
	{"filters/", "extproc/", "imports point downward"},
	{"filters/", "log/slog", "the engine logs"},
	{"pipeline/", "extproc/", "imports point downward"},
	{"pipeline/", "filters/all", "the list of filters is for cmd and tests"},
	{"pipeline/", "internal/summarize", "the engine asks for summaries whomever it is given"},
	{"extproc/", "filters/", "the adapter knows no filter"},
	{"extproc/", "pipeline/transcript", "the adapter knows no JSON"},
	{"extproc/", "encoding/json", "the adapter knows no JSON"},
	{"extproc/", "state/", "the adapter knows no store"},
	{"internal/identity", "pipeline", "identity is asked by the pipeline"},
	{"internal/coding", "", "content codings are a leaf: they import nothing of ours"},
	{"internal/access", "", "access is a leaf: it imports nothing of ours"},
	{"internal/restore/part", "pipeline", "parts of a text are a leaf: they know what an id is, and nothing else of ours"},
	{"internal/restore/part", "state/", "parts of a text are a leaf: they know what an id is, and nothing else of ours"},
	{"internal/restore", "filters/", "what is given back is nobody's decision"},
	{"internal/restore", "extproc/", "restore knows no Envoy"},
	{"internal/event", "", "events are a leaf: records that everybody may read"},
	{"internal/event/file", "pipeline/", "a file of events knows events"},
	{"internal/eventlog", "pipeline/", "what reads events back knows nothing else"},
	{"internal/board/", "pipeline/", "the page is made of events"},
	{"internal/board/", "state/", "the page is made of events"},
	{"internal/doctor", "pipeline/", "the doctor sees what anybody may see from outside"},
	{"internal/doctor", "state/", "the doctor sees what anybody may see from outside"},
	{"internal/simprovider/", "pipeline/", "the judges share no code with what they judge"},
	{"internal/simprovider/", "state/", "the judges share no code with what they judge"},
	{"internal/simprovider/", "filters/", "the judges share no code with what they judge"},
	{"internal/simprovider/", "extproc/", "the judges share no code with what they judge"},
	{"internal/simprovider/", "internal/usage", "the judges share no code with what they judge"},
	{"internal/simprovider/", "internal/coding", "the judges share no code with what they judge"},
}

// exempt are tools for tests that lie beside what they test.
var exempt = []string{"filters/filtertest", "filters/all"}

func TestImportsPointDownward(t *testing.T) {
	used := map[int]bool{}
	for _, f := range files(t) {
		if f.isTest() || slices.Contains(exempt, f.pkg) {
			continue
		}
		for i, b := range bans {
			if !within(f.pkg, b.pkg) {
				continue
			}
			used[i] = true
			for _, imp := range f.imports {
				if banned(imp, b.imports) {
					t.Errorf("%s imports %s: %s", f.path, imp, b.why)
				}
			}
		}
	}
	for i, b := range bans {
		if !used[i] {
			t.Errorf("no package is %s: the ban is dead", b.pkg)
		}
	}
}

func within(pkg, pattern string) bool {
	dir, below := strings.CutSuffix(pattern, "/")
	return pkg == dir || below && strings.HasPrefix(pkg, dir+"/")
}

// banned reports whether an import falls under a ban; an empty one stands for everything of ours.
func banned(imp, ban string) bool {
	ours, isOurs := strings.CutPrefix(imp, module)
	ours = strings.TrimPrefix(ours, "/")
	switch {
	case ban == "":
		return isOurs
	case isOurs:
		return within(ours, ban)
	}
	return imp == ban
}

// unaware are the folders that must know no filter by name, so that a new one touches its own folder and filters/all alone.
// Tools that score or show a filter may know it.
var unaware = []string{"filters/", "pipeline/", "state/", "extproc/"}

// TestNoFilterIsKnownByName keeps filters apart from each other and the engine apart from filters; all stand in filters/all.
func TestNoFilterIsKnownByName(t *testing.T) {
	list, listed, filter := files(t), 0, map[string]bool{}
	for _, f := range list {
		if strings.HasPrefix(f.pkg, "filters/") && !slices.Contains(exempt, f.pkg) {
			filter[module+"/"+f.pkg] = true
		}
	}
	for _, f := range list {
		for _, imp := range f.imports {
			switch {
			case f.isTest() || !filter[imp]:
			case f.pkg == "filters/all":
				listed++
			case slices.ContainsFunc(unaware, func(dir string) bool { return within(f.pkg, dir) }):
				t.Errorf("%s imports %s", f.path, imp)
			}
		}
	}
	if listed != len(filter) || listed == 0 {
		t.Errorf("filters/all lists %d of %d filters", listed, len(filter))
	}
}

// TestEveryPackageSaysWhatItIsFor wants exactly one package comment.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	docs := map[string][]string{}
	for _, f := range files(t) {
		if f.isTest() {
			continue
		}
		docs[f.pkg] = append(docs[f.pkg], "")
		if f.ast.Doc != nil {
			docs[f.pkg][len(docs[f.pkg])-1] = f.path
		}
	}
	for pkg, all := range docs {
		with := slices.DeleteFunc(all, func(s string) bool { return s == "" })
		if len(with) != 1 {
			t.Errorf("package %s has %d package comments: %v", pkg, len(with), with)
		}
	}
}

// TestFilesStaySmall: a file that needs more has a second idea in it.
func TestFilesStaySmall(t *testing.T) {
	for _, f := range files(t) {
		limit := 400
		if f.isTest() {
			limit = 700
		}
		if f.lines > limit {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, limit)
		}
	}
}

// TestDocsNameTestsThatExist: a promise in the docs that names its test must have it.
func TestDocsNameTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() {
				tests[fn.Name.Name] = true
			}
		}
	}
	name := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z0-9]\w*`)
	found := 0
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(docs, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(src))
		for n := 1; lines.Scan(); n++ {
			for _, test := range name.FindAllString(lines.Text(), -1) {
				found++
				if !tests[test] {
					t.Errorf("%s:%d names %s, which does not exist", path, n, test)
				}
			}
		}
	}
	if found == 0 {
		t.Error("the docs name no test at all")
	}
}

// TestDocsLinksResolve: a relative link leads to a file of the repository.
func TestDocsLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(src), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
