package filtertest

import (
	"errors"
	"flag"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

var update = flag.Bool("update", false, "rewrite the goldens of vectors instead of comparing them")

// Run tests a filter of the list with its own vectors, and everything else that holds for every filter. The working
// directory must be the filter's package, as it is in a test of that package.
func Run(t *testing.T, name string) {
	t.Helper()
	spec, ok := all.Find(name)
	if !ok {
		t.Fatalf("filter %q is not in filters/all", name)
	}
	var seen []filters.Gate
	t.Run("vectors", func(t *testing.T) { seen = run(t, spec, "testdata") })
	t.Run("docs", func(t *testing.T) { docs(t, spec, seen) })
	t.Run("contract", func(t *testing.T) {
		property(t, spec, func(f filters.Filter, v *filters.View) error { return checkContract(v, f.Propose(v)) })
	})
	t.Run("allocations", func(t *testing.T) { allocations(t, spec) })
}

// Vectors runs the vectors of another directory on a filter of the list.
func Vectors(t *testing.T, name, dir string) {
	t.Helper()
	spec, ok := all.Find(name)
	if !ok {
		t.Fatalf("filter %q is not in filters/all", name)
	}
	run(t, spec, dir)
}

// Pure checks that the filter is a pure function of the view (invariant 16), on drawn sessions.
func Pure(t *testing.T, name string) {
	t.Helper()
	spec, ok := all.Find(name)
	if !ok {
		t.Fatalf("filter %q is not in filters/all", name)
	}
	property(t, spec, checkPure)
}

// run runs the vectors of a directory and returns the gates that they show.
func run(t *testing.T, spec all.Spec, dir string) (seen []filters.Gate) {
	t.Helper()
	if *update && os.Getenv("CI") != "" {
		t.Fatal("-update is refused in CI")
	}
	files, err := vectors.ReadDir(dir, form)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(file.Name, func(t *testing.T) {
			seen = append(seen, runVector(t, &vector{File: file, spec: spec})...)
		})
	}
	return seen
}

func runVector(t *testing.T, v *vector) []filters.Gate {
	t.Helper()
	body := []byte(v.Sections[bodySection])
	ix, parseErr := transcript.Parse(body, v.format())
	if parseErr == nil {
		defer ix.Release()
	}
	f, buildErr := v.filter()
	switch v.Header["expect"] {
	case expectUnparsed:
		if v.format() == transcript.UnknownFormat && !errors.Is(parseErr, transcript.ErrFormat) || parseErr == nil {
			t.Fatalf("parse: %v, want an error", parseErr)
		}
	case expectBadConfig:
		if buildErr == nil {
			t.Fatal("the config is valid, want an error")
		}
		golden(t, v, errorSection, buildErr.Error())
	case "", expectProposals:
		if err := errors.Join(parseErr, buildErr); err != nil {
			t.Fatal(err)
		}
		return runProposals(t, v, f, ix)
	default:
		t.Fatalf("header expect: %q is not known; accepted: %s, %s, %s",
			v.Header["expect"], expectProposals, expectUnparsed, expectBadConfig)
	}
	return nil
}

func runProposals(t *testing.T, v *vector, f filters.Filter, ix *transcript.Index) (seen []filters.Gate) {
	t.Helper()
	view, err := v.view(ix)
	if err != nil {
		t.Fatal(err)
	}
	proposals := f.Propose(view)
	if err := checkContract(view, proposals); err != nil {
		t.Error(err)
	}
	if err := checkPure(f, view); err != nil {
		t.Error(err)
	}
	golden(t, v, proposalsSection, render(ix, proposals))
	for i := range proposals {
		if proposals[i].Gate != "" {
			seen = append(seen, proposals[i].Gate)
		}
	}
	return seen
}

// golden compares a section with what was found, or rewrites it.
func golden(t *testing.T, v *vector, section, got string) {
	t.Helper()
	want, ok := v.Sections[section]
	switch {
	case *update && (got != want || !ok):
		if err := v.Rewrite(section, got); err != nil {
			t.Fatal(err)
		}
	case !ok:
		t.Errorf("section %s is missing; got:\n%s", section, got)
	case got != want:
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", v.Header["shows"], got, want)
	}
}

// docs compares doc.go with the config struct and with the gates that the vectors showed.
func docs(t *testing.T, spec all.Spec, seen []filters.Gate) {
	t.Helper()
	found, err := readTables("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkKeys(found["Keys"], spec.Keys()); err != nil {
		t.Error(err)
	}
	listed := make([]filters.Gate, 0, len(found["Gates"]))
	for _, row := range found["Gates"] {
		gate := filters.Gate(row[0])
		listed = append(listed, gate)
		if !slices.Contains(filters.Gates(), gate) {
			t.Errorf("gate %s of doc.go is not in the closed list", gate)
		}
		if !slices.Contains(seen, gate) {
			t.Errorf("gate %s of doc.go has no vector", gate)
		}
	}
	for _, gate := range seen {
		if !slices.Contains(listed, gate) {
			t.Errorf("gate %s is missing in doc.go", gate)
		}
	}
}

// property checks drawn views under the filter's default config and under that of each of its vectors.
func property(t *testing.T, spec all.Spec, check func(filters.Filter, *filters.View) error) {
	t.Helper()
	build := []filters.Filter{}
	files, err := vectors.ReadDir("testdata", form)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		v := &vector{File: file, spec: spec}
		if v.Header["expect"] == expectBadConfig {
			continue
		}
		f, err := v.filter()
		if err != nil {
			t.Fatal(err)
		}
		build = append(build, f)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(build).Draw(t, "config")
		s := Sessions(AnyIDs).Draw(t, "session")
		ix, err := transcript.Parse(s.Body(), transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Release()
		if err := check(f, DrawView(t, ix)); err != nil {
			t.Fatalf("%v\n%s", err, s.Body())
		}
	})
}
