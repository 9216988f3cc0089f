// Package vectors reads test vectors: one text archive per case, with a header that says what the case shows.
//
// A file is a txtar archive. Its comment is the header, one `key: value` a line; its files are the sections. A key or
// section that the reader does not know fails, and so does one that stands twice. Sections whose name ends in .json are
// expanded first, so that long texts need not be written out: `{{lines 200}}` is 200 lines of source and `{{repeat 9 "x"}}`
// is xxxxxxxxx, both as they stand inside a JSON string. Of every section exactly one final line feed is taken off, which
// the archive format always adds.
//
// The cases in testdata/lifecycle have typed readers here: [Breakpoints], [Prefixes], [Estimates], [NetCosts], [Replays] and
// [Sessions]. Those for the filters are read by filters/filtertest. It is for tests only.
package vectors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"
)

// Form says what a file may hold.
type Form struct{ Headers, Sections []string }

// File is one vector.
type File struct {
	Path     string
	Name     string // of the case: the file's name without its ending
	Header   map[string]string
	Sections map[string]string // expanded
	archive  *txtar.Archive
}

// Read reads one file. Every vector has the header shows.
func Read(path string, form Form) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(data, form)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.Path, f.Name = path, strings.TrimSuffix(filepath.Base(path), ".txtar")
	return f, nil
}

func parse(data []byte, form Form) (*File, error) {
	f := &File{Header: map[string]string{}, Sections: map[string]string{}, archive: txtar.Parse(data)}
	for line := range strings.Lines(string(f.archive.Comment)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("header line %q is no `key: value`", line)
		}
		if !slices.Contains(form.Headers, key) {
			return nil, fmt.Errorf("header %q is not known; accepted: %s", key, strings.Join(form.Headers, ", "))
		}
		if _, twice := f.Header[key]; twice {
			return nil, fmt.Errorf("header %q stands twice", key)
		}
		f.Header[key] = strings.TrimSpace(value)
	}
	if f.Header["shows"] == "" {
		return nil, errors.New("header shows is missing")
	}
	for _, s := range f.archive.Files {
		if !slices.Contains(form.Sections, s.Name) {
			return nil, fmt.Errorf("section %q is not known; accepted: %s", s.Name, strings.Join(form.Sections, ", "))
		}
		if _, twice := f.Sections[s.Name]; twice {
			return nil, fmt.Errorf("section %q stands twice", s.Name)
		}
		text, err := expand(s.Name, strings.TrimSuffix(string(s.Data), "\n"))
		if err != nil {
			return nil, err
		}
		f.Sections[s.Name] = text
	}
	return f, nil
}

var functions = template.FuncMap{
	"lines":  func(n int) string { return strings.Repeat(`line of source\n`, n) },
	"repeat": func(n int, s string) string { return strings.Repeat(s, n) },
}

func expand(name, text string) (string, error) {
	if !strings.HasSuffix(name, ".json") || !strings.Contains(text, "{{") {
		return text, nil
	}
	t, err := template.New(name).Funcs(functions).Parse(text)
	if err != nil {
		return "", fmt.Errorf("expand section: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", fmt.Errorf("expand section: %w", err)
	}
	return b.String(), nil
}

// ReadDir reads every vector of a directory, in the order of their names. A directory without any is an error.
func ReadDir(dir string, form Form) ([]*File, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no vectors in %s", dir)
	}
	files := make([]*File, len(paths))
	for i, p := range paths {
		if files[i], err = Read(p, form); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Rewrite replaces a section in the file, or adds it. The other sections stay as they are written.
func (f *File) Rewrite(section, text string) error {
	if text != "" {
		text += "\n"
	}
	data := []byte(text)
	i := slices.IndexFunc(f.archive.Files, func(s txtar.File) bool { return s.Name == section })
	if i < 0 {
		f.archive.Files = append(f.archive.Files, txtar.File{Name: section, Data: data})
	} else {
		f.archive.Files[i].Data = data
	}
	return os.WriteFile(f.Path, txtar.Format(f.archive), 0o644)
}

// Root is the directory of the module, found upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// need returns a section that the case cannot do without.
func (f *File) need(section string) ([]byte, error) {
	text, ok := f.Sections[section]
	if !ok {
		return nil, fmt.Errorf("%s: section %q is missing", f.Path, section)
	}
	return []byte(text), nil
}

// number returns a header as a number.
func (f *File) number(header string) (float64, error) {
	n, err := strconv.ParseFloat(f.Header[header], 64)
	if err != nil {
		return 0, fmt.Errorf("%s: header %s: %w", f.Path, header, err)
	}
	return n, nil
}
