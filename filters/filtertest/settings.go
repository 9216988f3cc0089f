package filtertest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
)

// settings are a filter's config: its defaults with keys of a vector's own.
type settings struct {
	spec all.Spec
	keys map[string]any
}

// config is a fresh config struct. Unknown keys and wrong types fail.
func (s settings) config() (any, error) {
	c := s.spec.Default()
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: c, TagName: "config", ErrorUnused: true, ZeroFields: true, DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	})
	if err == nil {
		err = d.Decode(s.keys)
	}
	if err != nil {
		return nil, fmt.Errorf("header config: %w", err)
	}
	return c, nil
}

// filter builds the filter.
func (s settings) filter() (filters.Filter, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	return s.spec.Build(c)
}

// common returns the common keys, nil where the config does not embed them: a filter that acts on no single result has some of
// them only.
func (s settings) common() (*filters.Common, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	if f := reflect.ValueOf(config).Elem().FieldByName("Common"); f.IsValid() {
		c, _ := reflect.TypeAssert[*filters.Common](f.Addr())
		return c, nil
	}
	return nil, nil //nolint:nilnil // see above
}

// with returns settings in which a key has a value, or no value of its own if that is nil. The path of a key that stands in
// another one has a dot.
func (s settings) with(path string, value any) settings {
	keys := maps.Clone(s.keys)
	if keys == nil {
		keys = map[string]any{}
	}
	name, rest, nested := strings.Cut(path, ".")
	switch {
	case nested:
		inner, _ := keys[name].(map[string]any)
		keys[name] = settings{keys: inner}.with(rest, value).keys
	case value == nil:
		delete(keys, name)
	default:
		keys[name] = value
	}
	return settings{s.spec, keys}
}

// paths lists the keys that have values.
func (s settings) paths() (found []string) {
	for name, value := range s.keys {
		inner, ok := value.(map[string]any)
		if !ok {
			found = append(found, name)
			continue
		}
		for _, path := range (settings{keys: inner}).paths() {
			found = append(found, name+"."+path)
		}
	}
	return found
}

// key is one key of a config struct, which holds no others.
type key struct {
	path string
	kind reflect.Type
}

// Names of the common keys that are tried.
const (
	enabledKey = "enabled"
	toolsKey   = "tools"
	minKey     = "min_tokens"
	modeKey    = "marker_mode"
)

// ownKeys lists the keys of a filter's config beside the common ones.
func ownKeys(spec all.Spec) []key {
	return slices.DeleteFunc(keysIn(reflect.TypeOf(spec.Default()).Elem(), ""), func(k key) bool {
		return slices.Contains([]string{enabledKey, toolsKey, minKey, modeKey}, k.path)
	})
}

func keysIn(t reflect.Type, prefix string) (found []key) {
	for f := range t.Fields() {
		name, squash := strings.CutSuffix(f.Tag.Get("config"), ",squash")
		switch {
		case squash:
			found = append(found, keysIn(f.Type, prefix)...)
		case f.Type.Kind() == reflect.Struct:
			found = append(found, keysIn(f.Type, prefix+name+".")...)
		default:
			found = append(found, key{prefix + name, f.Type})
		}
	}
	return found
}

// names lists the names of a filter's keys, common ones and those inside of others included.
func names(spec all.Spec) (found []string) {
	for _, k := range spec.Keys() {
		found = append(found, k.Name)
	}
	for _, k := range ownKeys(spec) {
		found = append(found, strings.Split(k.path, ".")...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
