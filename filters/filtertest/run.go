package filtertest

import (
	"errors"
	"flag"
	"os"
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
	k := kitOf(t, name, ".")
	var list []*vector
	var seen []filters.Gate
	t.Run("vectors", func(t *testing.T) { list, seen = k.run(t, "testdata") })
	t.Run("common", func(t *testing.T) {
		gates, err := checkCommonGates(settings{spec: k.spec})
		seen = append(seen, gates...)
		report(t, err)
	})
	t.Run("gain", func(t *testing.T) { report(t, checkGain(list)) })
	t.Run("keys", func(t *testing.T) { report(t, checkShown(k.spec, list), checkRefusals(k.spec, list)) })
	t.Run("docs", func(t *testing.T) {
		tables, err := readTables("doc.go")
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkKeys(tables["Keys"], k.spec.Keys()), checkGates(tables["Gates"], k.gates, k.own, seen))
	})
	t.Run("properties", func(t *testing.T) { k.properties(t, list) })
	t.Run("memo", func(t *testing.T) { k.memo(t, list) })
	t.Run("allocations", func(t *testing.T) {
		f, err := settings{spec: k.spec}.filter()
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkAllocations(f))
	})
}

// Vectors runs the vectors of another directory on a filter of the list.
func Vectors(t *testing.T, name, dir string) {
	t.Helper()
	kitOf(t, name, ".").run(t, dir)
}

// kit is what is known of the filter under test.
type kit struct {
	spec  all.Spec
	gates []filters.Gate // that it may give: the closed list and its own
	own   []filters.Gate // that its package declares
}

// kitOf finds a filter of the list, whose source lies in a directory.
func kitOf(t *testing.T, name, dir string) *kit {
	t.Helper()
	spec, ok := all.Find(name)
	if !ok {
		t.Fatalf("filter %q is not in filters/all", name)
	}
	declared, err := Gates(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{spec: spec, gates: filters.Gates()}
	for _, c := range declared {
		k.own = append(k.own, c.Gate)
	}
	k.gates = append(k.gates, k.own...)
	return k
}

func report(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// run runs the vectors of a directory and returns them with the gates that they show.
func (k *kit) run(t *testing.T, dir string) (list []*vector, seen []filters.Gate) {
	t.Helper()
	if *update && os.Getenv("CI") != "" {
		t.Fatal("-update is refused in CI")
	}
	files, err := vectors.ReadDir(dir, form)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		v := &vector{File: file, spec: k.spec}
		list = append(list, v)
		t.Run(file.Name, func(t *testing.T) { seen = append(seen, k.runVector(t, v)...) })
	}
	return list, seen
}

func (k *kit) runVector(t *testing.T, v *vector) []filters.Gate {
	t.Helper()
	ix, parseErr := transcript.Parse([]byte(v.Sections[bodySection]), v.format())
	if parseErr == nil {
		defer ix.Release()
	}
	s, err := v.settings()
	if err != nil {
		t.Fatal(err)
	}
	_, buildErr := s.filter()
	switch v.expects() {
	case expectUnparsed:
		if v.format() == transcript.UnknownFormat && !errors.Is(parseErr, transcript.ErrFormat) || parseErr == nil {
			t.Fatalf("parse: %v, want an error", parseErr)
		}
	case expectBadConfig:
		if buildErr == nil {
			t.Fatal("the config is valid, want an error")
		}
		golden(t, v, errorSection, buildErr.Error())
	case expectProposals:
		if err := errors.Join(parseErr, buildErr); err != nil {
			t.Fatal(err)
		}
		return k.runProposals(t, v, ix)
	default:
		t.Fatalf("header expect: %q is not known; accepted: %s, %s, %s",
			v.Header["expect"], expectProposals, expectUnparsed, expectBadConfig)
	}
	return nil
}

func (k *kit) runProposals(t *testing.T, v *vector, ix *transcript.Index) (seen []filters.Gate) {
	t.Helper()
	s, err := v.settings()
	if err != nil {
		t.Fatal(err)
	}
	view, err := v.view(ix)
	if err != nil {
		t.Fatal(err)
	}
	proposals, err := checkView(s, k.gates, view)
	report(t, err)
	golden(t, v, proposalsSection, render(ix, proposals))
	v.carried, _ = checkSmaller(view, proposals)
	for i := range proposals {
		for _, gate := range []filters.Gate{proposals[i].Gate, proposals[i].Lesser} {
			if gate != "" {
				seen = append(seen, gate)
			}
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

// configs are the lawful configs of the vectors, and the default.
func (k *kit) configs(t *testing.T, list []*vector) []settings {
	t.Helper()
	found := []settings{{spec: k.spec}}
	for _, v := range list {
		s, err := v.settings()
		if err != nil {
			t.Fatal(err)
		}
		if v.expects() != expectBadConfig {
			found = append(found, s)
		}
	}
	return found
}

// properties checks drawn views under the filter's default config and under that of each of its vectors.
func (k *kit) properties(t *testing.T, list []*vector) {
	t.Helper()
	configs := k.configs(t, list)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(configs).Draw(t, "config")
		body := Sessions(AnyIDs).Draw(t, "session").Body()
		ix, err := transcript.Parse(body, transcript.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Release()
		if _, err := checkView(s, k.gates, DrawView(t, ix)); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
	})
}

// memo checks that what a filter keeps changes nothing of what it says.
func (k *kit) memo(t *testing.T, list []*vector) {
	t.Helper()
	configs := k.configs(t, list)
	rapid.Check(t, func(t *rapid.T) {
		f, err := rapid.SampledFrom(configs).Draw(t, "config").filter()
		if err == nil {
			err = checkMemo(t, f)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
