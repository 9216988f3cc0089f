package filtertest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
)

// GateConst is a constant of type [filters.Gate] as the source declares it.
type GateConst struct {
	Gate    filters.Gate
	Heading string // comment of the block of constants that it stands in, without a full stop
	Meaning string // comment of its own line
}

// Gates reads the gates that a package declares: the closed list of package filters, or those of one filter alone. They are
// in the order of the source, files by name. Test files are left out.
func Gates(dir string) ([]GateConst, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var found []GateConst
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		gates, err := gatesOf(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found = append(found, gates...)
	}
	return found, nil
}

func gatesOf(file *ast.File) (found []GateConst, err error) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || !isGate(v.Type) {
				continue
			}
			c := GateConst{Heading: sentence(g.Doc), Meaning: sentence(v.Comment)}
			if c.Gate, err = wordOf(v); err != nil {
				return nil, err
			}
			if c.Heading == "" || c.Meaning == "" {
				return nil, fmt.Errorf("gate %s or the block that it stands in has no comment", c.Gate)
			}
			found = append(found, c)
		}
	}
	return found, nil
}

// wordOf is the gate that a constant stands for.
func wordOf(v *ast.ValueSpec) (filters.Gate, error) {
	if len(v.Values) == 1 {
		if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			word, err := strconv.Unquote(lit.Value)
			return filters.Gate(word), err
		}
	}
	return "", fmt.Errorf("gate %s is not written as one string", v.Names[0].Name)
}

// isGate reports whether a type is Gate, as package filters or a filter spells it.
func isGate(t ast.Expr) bool {
	if s, ok := t.(*ast.SelectorExpr); ok {
		t = s.Sel
	}
	name, ok := t.(*ast.Ident)
	return ok && name.Name == "Gate"
}

func sentence(c *ast.CommentGroup) string {
	return strings.TrimSuffix(strings.TrimSpace(c.Text()), ".")
}
