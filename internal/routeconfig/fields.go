package routeconfig

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
)

// field is a field of a config struct and its key.
type field struct {
	reflect.StructField

	key   string
	index []int
}

// fieldsOf yields the tagged fields of a config struct, those of embedded structs in their place.
func fieldsOf(t reflect.Type) iter.Seq[field] {
	return func(yield func(field) bool) { walkFields(t, nil, yield) }
}

func walkFields(t reflect.Type, index []int, yield func(field) bool) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if !walkFields(f.Type, at, yield) {
				return false
			}
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("config"), ",")
		if key != "" && !yield(field{f, key, at}) {
			return false
		}
	}
	return true
}

// Key describes one key of a config struct, for docs and for messages.
type Key struct {
	Name    string // dotted, of nested structs too
	Doc     string
	Default any // value of the key in the struct, in the form of JSON
}

// Describe lists the keys of the config struct that p points to, in their order.
func Describe(p any) []Key {
	v := reflect.ValueOf(p).Elem()
	var keys []Key
	for f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		if f.Type.Kind() == reflect.Struct && f.Tag.Get("doc") == "" { // a section
			for _, k := range Describe(fv.Addr().Interface()) {
				k.Name = f.key + "." + k.Name
				keys = append(keys, k)
			}
			continue
		}
		keys = append(keys, Key{Name: f.key, Doc: f.Tag.Get("doc"), Default: plain(fv)})
	}
	return keys
}

// Plain returns the config struct that p points to as maps, lists and scalars, by key.
func Plain(p any) map[string]any {
	v := reflect.ValueOf(p).Elem()
	out := map[string]any{}
	for f := range fieldsOf(v.Type()) {
		out[f.key] = plain(v.FieldByIndex(f.index))
	}
	return out
}

func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case Tenant:
		if x.Header != "" {
			return map[string]any{"header": x.Header}
		}
		return x.Name
	case Horizon:
		if x == 0 {
			return horizonCalls
		}
		return int(x)
	case fmt.Stringer: // a mode, a lifetime, a duration
		return x.String()
	}
	switch k := v.Kind(); {
	case k == reflect.String:
		return v.String()
	case k == reflect.Bool:
		return v.Bool()
	case k == reflect.Pointer && v.IsNil():
		return nil
	case k == reflect.Pointer:
		return plain(v.Elem())
	case k == reflect.Struct:
		return Plain(v.Addr().Interface())
	case k == reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case k == reflect.Map && v.IsNil():
		return map[string]any{}
	}
	return v.Interface()
}
