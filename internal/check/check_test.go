package check_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

func known() []routeconfig.Filter {
	specs := all.Specs()
	out := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		out[i] = routeconfig.Filter(s)
	}
	return out
}

// TestVectors runs testdata/*.txtar: the files of an archive are checked together, and "want" lists what is found, with the
// words "every filter" for the names of all.
func TestVectors(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir, want := t.TempDir(), ""
			var files []string
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				files = append(files, filepath.Join(dir, f.Name))
				if err := os.WriteFile(files[len(files)-1], f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := check.Files(files, known())
			if err != nil {
				t.Fatal(err)
			}
			every := strings.Join(all.Names(), ", ")
			var got strings.Builder
			for _, f := range r.Findings {
				fmt.Fprintln(&got, strings.Replace(strings.TrimPrefix(f.String(), dir+"/"), "accepted: "+every, "accepted: every filter", 1))
			}
			fmt.Fprintf(&got, "%d server configs, %d route configs, %d ext_proc filters\n", r.Servers, r.Routes, r.Filters)
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("%s\n%s", diff, got.String())
			}
		})
	}
}

// Every rule has a vector that breaks it.
func TestEveryRuleHasAVector(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, r := range []check.Rule{
		check.RouteConfig, check.ServerConfig, check.FilterOrder, check.BodyRewrite, check.BodyMode, check.HeaderMode, check.TrailerMode, check.Timeout,
		check.FailureMode, check.BufferLimit, check.Forwarding, check.Receiving, check.RetryDuplex, check.Upgrade, check.RouteName, check.Usage, check.ClusterProtocol, check.Stickiness,
	} {
		if !strings.Contains(all.String(), ": "+string(r)+": ") {
			t.Errorf("no vector breaks %s", r)
		}
	}
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := check.Files([]string{filepath.Join(dir, "none.yaml")}, known()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := check.Files([]string{file("broken.yaml", "a: [")}, known()); err == nil || !strings.Contains(err.Error(), "broken.yaml") {
		t.Error(err)
	}
	if _, err := check.Files([]string{file("other.yaml", "apiVersion: v1\nkind: Service\n"), file("empty.yaml", "")}, known()); !errors.Is(err, check.ErrNothing) {
		t.Error(err)
	}
}

// FuzzFiles: no document makes the check fail in another way than by an error, and findings lie within the file.
func FuzzFiles(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	}
	f.Add([]byte("a: &a {<<: [*a, *a], b: {<<: *a, filter_metadata: {tidemark: *a}}}"))
	filters := known()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := check.Files([]string{path}, filters)
		if err != nil {
			return
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, found := range r.Findings {
			if found.Line < 1 || found.Line > lines || found.Col < 1 || found.Message == "" {
				t.Fatalf("%v in %d lines", found, lines)
			}
		}
	})
}
