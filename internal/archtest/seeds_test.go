package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const seedsPage = "docs/seeds.md"

var (
	seedRow  = regexp.MustCompile(`^\| (\d{3})\.(\d+) \|`)
	linked   = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)
	isTest   = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)[A-Z0-9]\w*$`)
	sentence = regexp.MustCompile(`\pL{2,}.*\pL{2,}.*\pL{2,}`)
)

// TestSeedsPage: every statement of docs/seeds.md is shown by a test that exists or a vector that is run, or the page says
// why not.
func TestSeedsPage(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(root, seedsPage))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByFile(t)
	rows := map[string]int{}
	for n, line := range strings.Split(string(src), "\n") {
		m := seedRow.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| 0") {
				t.Errorf("%s:%d is no row: %s", seedsPage, n+1, line)
			}
			continue
		}
		if rows[m[1]]++; m[2] != fmt.Sprint(rows[m[1]]) {
			t.Errorf("%s:%d is row %s.%s, want %d", seedsPage, n+1, m[1], m[2], rows[m[1]])
		}
		if err := checkSeedRow(strings.Split(strings.Trim(line, "| "), " | "), tests); err != nil {
			t.Errorf("%s:%d: %v", seedsPage, n+1, err)
		}
	}
	for _, seed := range []string{"000", "001", "002", "003", "004"} {
		if rows[seed] < 30 {
			t.Errorf("%d statements of seed %s", rows[seed], seed)
		}
	}
	if len(rows) != 5 {
		t.Errorf("%d seeds", len(rows))
	}
}

// testsByFile is the names of tests by file, from the root.
func testsByFile(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() {
				found[f.path] = append(found[f.path], fn.Name.Name)
			}
		}
	}
	return found
}

// checkSeedRow looks at number, statement, verdict and proof of a statement.
func checkSeedRow(cells []string, tests map[string][]string) error {
	if len(cells) != 4 {
		return fmt.Errorf("%d columns", len(cells))
	}
	shown := 0
	for _, m := range linked.FindAllStringSubmatch(cells[3], -1) {
		if strings.HasPrefix(m[2], "#") {
			continue
		}
		file := path.Join(path.Dir(seedsPage), m[2])
		switch {
		case isTest.MatchString(m[1]):
			if !slices.Contains(tests[file], m[1]) {
				return fmt.Errorf("%s is not in %s", m[1], file)
			}
			shown++
		case strings.HasSuffix(file, ".txtar"):
			if err := checkVector(m[1], file); err != nil {
				return err
			}
			shown++
		case !strings.HasSuffix(file, ".md"):
			return fmt.Errorf("%s is neither a test nor a vector nor a page", m[2])
		}
	}
	says := sentence.MatchString(linked.ReplaceAllString(cells[3], ""))
	switch {
	case !sentence.MatchString(cells[1]):
		return fmt.Errorf("no statement: %q", cells[1])
	case cells[2] == "same" && shown == 0:
		return fmt.Errorf("%s is shown by nothing", cells[0])
	case cells[2] == "differs" && !says, cells[2] == "not here" && !says:
		return fmt.Errorf("%s gives no reason", cells[0])
	case !slices.Contains([]string{"same", "differs", "not here"}, cells[2]):
		return fmt.Errorf("%q is no verdict", cells[2])
	}
	return nil
}

// checkVector: a vector is called by its name and lies where a test runs it.
func checkVector(name, file string) error {
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		return err
	}
	if base := strings.TrimSuffix(path.Base(file), ".txtar"); path.Base(name) != base {
		return fmt.Errorf("%s is called %s", file, name)
	}
	for _, dir := range []string{"filters/*/testdata/*", "testdata/lifecycle/*/*"} {
		if ok, err := path.Match(dir, file); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is run by nothing", file)
}
