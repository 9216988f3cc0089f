package filtertest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// checkShown returns which of the filter's own keys no vector shows, nil if each does something in one: without it, all else
// the same, the filter says something else or asks the view something else. The common keys need no vectors.
func checkShown(spec all.Spec, list []*vector) error {
	shown := map[string]bool{}
	for _, v := range list {
		if v.expects() != expectProposals {
			continue
		}
		if err := v.shows(shown); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	var errs []error
	for _, k := range ownKeys(spec) {
		if !shown[k.path] {
			errs = append(errs, fmt.Errorf("key %s: no vector shows what it does", k.path))
		}
	}
	return errors.Join(errs...)
}

// shows enters the keys that the vector shows.
func (v *vector) shows(shown map[string]bool) error {
	s, err := v.settings()
	if err != nil {
		return err
	}
	f, err := s.filter()
	if err != nil {
		return err
	}
	ix, err := transcript.Parse([]byte(v.Sections[bodySection]), v.format())
	if err != nil {
		return err
	}
	defer ix.Release()
	view, err := v.view(ix)
	if err != nil {
		return err
	}
	with := ask(f, view)
	for _, path := range s.paths() {
		// Where the rest of the config is not lawful alone, that shows something only if this key is what is missed.
		f, err := s.with(path, nil).filter()
		if err == nil && !reflect.DeepEqual(with, ask(f, view)) || err != nil && strings.Contains(err.Error(), last(path)+":") {
			shown[path] = true
		}
	}
	return nil
}

// last is a key without those that it lies in.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// odd are values that a key of a kind may refuse.
func odd(t reflect.Type) []any {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return []any{-1 << 40, -1, 0, 1 << 40}
	case reflect.Float64:
		return []any{-1.0, 2.0, math.NaN(), math.Inf(1)}
	case reflect.String:
		return []any{"no such word"}
	case reflect.Slice:
		return []any{[]any{""}, []any{"no such word"}}
	default:
		return nil
	}
}

// checkRefusals returns which of the filter's own keys refuses a value although no vector shows that, or refuses one without
// naming a key.
func checkRefusals(spec all.Spec, list []*vector) error {
	var refused []string
	for _, v := range list {
		if v.expects() != expectBadConfig {
			continue
		}
		s, err := v.settings()
		if err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		refused = append(refused, s.paths()...)
	}
	anyKey := regexp.MustCompile(`\b(` + strings.Join(names(spec), "|") + `)\b`)
	var errs []error
	for _, k := range ownKeys(spec) {
		own := regexp.MustCompile(`\b` + last(k.path) + `\b`)
		for _, value := range odd(k.kind) {
			c, err := settings{spec: spec}.with(k.path, value).config()
			if err != nil {
				continue // of another type
			}
			switch _, err = spec.Build(c); {
			case err == nil:
			case !anyKey.MatchString(err.Error()):
				errs = append(errs, fmt.Errorf("key %s: the error names no key: %w", k.path, err))
			case own.MatchString(err.Error()) && !slices.Contains(refused, k.path):
				errs = append(errs, fmt.Errorf("key %s: no vector shows that %v is refused", k.path, value))
				refused = append(refused, k.path)
			}
		}
	}
	return errors.Join(errs...)
}
