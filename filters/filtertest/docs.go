package filtertest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
)

// tables are the rows of a package comment's preformatted blocks, by the heading that they stand under.
type tables map[string][][]string

var columns = regexp.MustCompile(`\s{2,}`)

// readTables reads the package comment of a file. Columns are two or more blanks apart.
func readTables(path string) (tables, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	return tablesOf(file)
}

func tablesOf(file *ast.File) (tables, error) {
	found, heading := tables{}, ""
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		switch b := block.(type) {
		case *comment.Heading:
			heading = plainText(b.Text)
		case *comment.Code:
			for line := range strings.Lines(strings.TrimSpace(b.Text)) {
				found[heading] = append(found[heading], columns.Split(strings.TrimSpace(line), 3))
			}
		}
	}
	for _, h := range []string{"Keys", "Gates"} {
		if len(found[h]) == 0 {
			return nil, fmt.Errorf("no table under the heading %s", h)
		}
	}
	return found, nil
}

func plainText(words []comment.Text) string {
	var b strings.Builder
	for _, w := range words {
		if p, ok := w.(comment.Plain); ok {
			b.WriteString(string(p))
		}
	}
	return b.String()
}

// checkKeys compares the table of keys with the config struct: names in the same order, and their defaults.
func checkKeys(rows [][]string, keys []all.Key) error {
	if len(rows) != len(keys) {
		return fmt.Errorf("doc.go lists %d keys, the config has %d", len(rows), len(keys))
	}
	for i, k := range keys {
		switch row := rows[i]; {
		case k.Name == "" || k.Doc == "":
			return fmt.Errorf("key %d of the config, %q, has no name or no doc", i, k.Name)
		case len(row) != 3:
			return fmt.Errorf("row %q of doc.go is not name, default and meaning", row)
		case row[0] != k.Name || row[1] != k.Default:
			return fmt.Errorf("doc.go says %s %s, the config %s %s", row[0], row[1], k.Name, k.Default)
		}
	}
	return nil
}

// checkGates compares the table of gates with those that were seen and with those that the filter declares; each must be of
// the closed list.
func checkGates(rows [][]string, closed, own, seen []filters.Gate) error {
	var errs []error
	listed := make([]filters.Gate, 0, len(rows))
	for _, row := range rows {
		gate := filters.Gate(row[0])
		listed = append(listed, gate)
		if !slices.Contains(closed, gate) {
			errs = append(errs, fmt.Errorf("gate %s of doc.go is not in the closed list", gate))
		}
		if !slices.Contains(seen, gate) {
			errs = append(errs, fmt.Errorf("gate %s of doc.go has no vector", gate))
		}
	}
	for _, gate := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(own, seen)))) {
		if !slices.Contains(listed, gate) {
			errs = append(errs, fmt.Errorf("gate %s is missing in doc.go", gate))
		}
	}
	return errors.Join(errs...)
}
