package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const clientsPage = "docs/clients.md"

// named is a test that a page names, with the case of it that it means.
var named = regexp.MustCompile("`(Test[A-Z0-9]\\w*)(?:/([^`]+))?`")

// TestClientsPage: every cell of docs/clients.md that says that something works names a test that exists, and a case that the
// sources know.
func TestClientsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, clientsPage))
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, names := range testsByFile(t) {
		tests = append(tests, names...)
	}
	texts := sourceTexts(t)
	cells := 0
	for n, line := range strings.Split(string(page), "\n") {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			cells++
			if !slices.Contains(tests, m[1]) {
				t.Errorf("%s:%d: there is no %s", clientsPage, n+1, m[1])
			}
			if m[2] != "" && !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, `"`+m[2]+`"`) }) {
				t.Errorf("%s:%d: %s knows no case %q", clientsPage, n+1, m[1], m[2])
			}
		}
	}
	if cells < 80 {
		t.Errorf("%d cells name a test", cells)
	}
}

// sourceTexts are the texts of all files in which cases of tests are named.
func sourceTexts(t *testing.T) (texts []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "testdata/results.json") {
			text, err := os.ReadFile(path)
			texts = append(texts, string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
