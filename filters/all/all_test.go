package all_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/filters/all"
)

// The order is that of the design: of two filters that would decide on one result, the first one does. Others may stand
// anywhere.
func TestNamesAreInPipelineOrder(t *testing.T) {
	order := []string{"readlifecycle", "readmaturation", "coref", "tiered", "shed"}
	names := slices.DeleteFunc(all.Names(), func(name string) bool { return !slices.Contains(order, name) })
	if diff := cmp.Diff(order[:len(names)], names); diff != "" || len(names) < 4 {
		t.Error(diff)
	}
}

func TestSpecs(t *testing.T) {
	for _, s := range all.Specs() {
		t.Run(s.Name, func(t *testing.T) {
			found, ok := all.Find(s.Name)
			if !ok || found.Summary != s.Summary || s.Summary == "" {
				t.Errorf("found %v, %q", ok, found.Summary)
			}
			f, err := s.Build(s.Default())
			if err != nil {
				t.Fatalf("the default config is refused: %v", err)
			}
			if f.Name() != s.Name {
				t.Errorf("the filter calls itself %q", f.Name())
			}
			if s.Default() == s.Default() {
				t.Error("two defaults are one struct")
			}
			if !reflect.DeepEqual(s.Default(), s.Default()) {
				t.Error("two defaults differ")
			}
			for _, wrong := range []any{nil, struct{}{}, &struct{}{}, reflect.Zero(reflect.TypeOf(s.Default())).Interface()} {
				if _, err := s.Build(wrong); err == nil {
					t.Errorf("a config of type %T is accepted", wrong)
				}
			}
		})
	}
	if _, ok := all.Find("nothing"); ok {
		t.Error("a filter that is not there was found")
	}
}

// Every filter has the common keys, first, and no key twice. One that acts on no single result has those of them that remain.
func TestKeys(t *testing.T) {
	for _, s := range all.Specs() {
		var names []string
		for _, k := range s.Keys() {
			if k.Name == "" || k.Doc == "" || k.Default == "" || slices.Contains(names, k.Name) {
				t.Errorf("%s: key %+v", s.Name, k)
			}
			names = append(names, k.Name)
		}
		common := []string{"enabled", "min_tokens", "marker_mode", "tools"}
		if _, embeds := reflect.TypeOf(s.Default()).Elem().FieldByName("Common"); !embeds {
			common = []string{"enabled", "marker_mode"}
		}
		if len(names) <= len(common) || !slices.Equal(names[:len(common)], common) {
			t.Errorf("%s: keys %v do not begin with %v", s.Name, names, common)
		}
	}
}
