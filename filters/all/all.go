// Package all is the list of the filters, in pipeline order. Whoever builds pipelines from config imports it; filters and
// the pipeline do not.
//
// To build a filter from config: take its [Spec], fill what Default returns by a strict decoder that reads the struct tag
// "config" (embedded structs are tagged ",squash"), and hand it to Build, which checks the values.
package all

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/filters/tiered"
)

// Spec is what config, docs and tests need to know of a filter.
type Spec struct {
	Name    string
	Summary string // one line for people
	// Default returns a pointer to a fresh config struct that holds the default of every key.
	Default func() any
	// Build makes the filter from a pointer that Default returned. The error names the key whose value cannot be used and
	// what is accepted. A filter whose enabled key is false is built too: it answers with the gate disabled.
	Build func(config any) (filters.Filter, error)
}

// Specs returns every filter in pipeline order: of two that would decide on one result, the first one does.
func Specs() []Spec {
	return []Spec{
		of(readlifecycle.Name, "replaces reads of files that were modified or read again later",
			readlifecycle.Default, readlifecycle.New),
		of(readmaturation.Name, "holds fresh reads out of the cache while their file is in use, then replaces them",
			readmaturation.Default, readmaturation.New),
		of(coref.Name, "replaces results of which no later turn used anything",
			coref.Default, coref.New),
		of(tiered.Name, "shortens results with their distance from the newest turn: an excerpt first, then facts of the call",
			tiered.Default, tiered.New),
		of(shed.Name, "cuts the stale middle out of a transcript that has outgrown its budget",
			shed.Default, shed.New),
	}
}

// Find returns the filter of that name.
func Find(name string) (Spec, bool) {
	for _, s := range Specs() {
		if s.Name == name {
			return s, true
		}
	}
	return Spec{}, false
}

// Names returns the names of all filters, in pipeline order.
func Names() []string {
	specs := Specs()
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return names
}

// of ties a filter's own config type to the untyped Spec.
func of[C any](name, summary string, fresh func() C, build func(C) (filters.Filter, error)) Spec {
	return Spec{
		Name:    name,
		Summary: summary,
		Default: func() any { c := fresh(); return &c },
		Build: func(config any) (filters.Filter, error) {
			c, ok := config.(*C)
			if !ok || c == nil {
				return nil, fmt.Errorf("config of %s is %T, not %T", name, config, c)
			}
			return build(*c)
		},
	}
}

// Key is one key of a filter's config.
type Key struct {
	Name    string
	Doc     string // what it does, in half a sentence
	Default string // as it is written in YAML
}

// Keys returns the filter's keys in the order of its config struct.
func (s Spec) Keys() []Key { return keysOf(reflect.ValueOf(s.Default()).Elem()) }

func keysOf(v reflect.Value) (keys []Key) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, squash := strings.CutSuffix(field.Tag.Get("config"), ",squash")
		if squash {
			keys = append(keys, keysOf(v.Field(i))...)
			continue
		}
		keys = append(keys, Key{Name: name, Doc: field.Tag.Get("doc"), Default: written(v.Field(i))})
	}
	return keys
}

// written is a value as YAML has it on one line.
func written(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.String && v.Len() == 0:
		return `""`
	case v.Kind() != reflect.Struct:
		return fmt.Sprint(v.Interface())
	}
	members := make([]string, 0, v.NumField())
	for _, k := range keysOf(v) {
		members = append(members, k.Name+": "+k.Default)
	}
	return "{" + strings.Join(members, ", ") + "}"
}
