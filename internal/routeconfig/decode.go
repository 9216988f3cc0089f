package routeconfig

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Decode fills the struct that into points to, by its tags "config", strictly: an unknown key and a value of a wrong type
// are problems. What is right is filled in all the same. Keys that in does not hold keep their values.
//
// Envoy's YAML reader turns off, no, on and yes into booleans, and every number that is no 32-bit integer into a string.
// So an unquoted off is accepted where a word is, and a quoted number where a number is.
func Decode(in map[string]any, into any) Problems {
	problems := unknownKeys(in, reflect.TypeOf(into).Elem(), nil)
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: into, TagName: "config", Squash: true, IgnoreUntaggedFields: true,
		MatchName:  func(key, field string) bool { return key == field },
		DecodeHook: mapstructure.ComposeDecodeHookFunc(mapstructure.DecodeHookFuncValue(reset), mapstructure.DecodeHookFuncType(convert)),
	})
	if err == nil {
		err = d.Decode(in)
	}
	for _, e := range flatten(err) {
		problems = append(problems, typeProblem(e, in))
	}
	slices.SortStableFunc(problems, func(a, b *Problem) int { return slices.Compare(a.Path, b.Path) })
	return problems
}

// unknownKeys finds keys that no field of the struct type has.
func unknownKeys(in map[string]any, t reflect.Type, path []string) (problems Problems) {
	fields := map[string]reflect.Type{}
	var names []string
	for f := range fieldsOf(t) {
		fields[f.key], names = f.Type, append(names, f.key)
	}
	for key, v := range in {
		at := append(slices.Clone(path), key)
		ft, ok := fields[key]
		if !ok {
			problems = append(problems, &Problem{Path: at, Text: "unknown key", Accepted: names})
			continue
		}
		if sub, ok := v.(map[string]any); ok && ft.Kind() == reflect.Struct {
			problems = append(problems, unknownKeys(sub, ft, at)...)
		}
		if list, ok := v.([]any); ok && ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct {
			for i, e := range list {
				sub, _ := e.(map[string]any) // of another type: the decoder says so
				problems = append(problems, unknownKeys(sub, ft.Elem(), append(slices.Clip(at), fmt.Sprintf("[%d]", i)))...)
			}
		}
	}
	return problems
}

// reset makes lists and maps be replaced: left to itself, the decoder writes into those that hold the default.
func reset(from, to reflect.Value) (any, error) {
	if k := to.Kind(); (k == reflect.Slice || k == reflect.Map) && to.CanSet() {
		to.SetZero()
	}
	return from.Interface(), nil
}

// convert reads values of types that the decoder does not know, or knows too generously.
func convert(from, to reflect.Type, v any) (any, error) {
	switch to {
	case reflect.TypeFor[time.Duration]():
		return duration(v)
	case reflect.TypeFor[pipeline.Mode]():
		return mode(v)
	case reflect.TypeFor[Binding]():
		return binding(v)
	case reflect.TypeFor[Anonymous]():
		return anonymous(v)
	case reflect.TypeFor[Tenant]():
		return tenant(v)
	case reflect.TypeFor[pipeline.TTL]():
		return ttl(v)
	case reflect.TypeFor[Horizon]():
		return horizon(v)
	case reflect.TypeFor[transcript.ToolRole]():
		return role(v)
	case reflect.TypeFor[Switch]():
		return toggle(v)
	}
	switch {
	case to.Kind() >= reflect.Int && to.Kind() <= reflect.Int64:
		return whole(v)
	case to.Kind() == reflect.Float32 || to.Kind() == reflect.Float64:
		return number(v)
	case to.Kind() == reflect.String && to != reflect.TypeFor[string]() && from.Kind() == reflect.Bool:
		return word(v), nil
	}
	return v, nil
}

func duration(v any) (any, error) {
	if s, ok := v.(string); ok {
		if d, err := time.ParseDuration(s); err == nil {
			return d, nil
		}
	}
	return nil, errors.New("must be a duration with its unit, such as 150ms or 5m")
}

func mode(v any) (any, error) {
	if m, ok := ParseMode(word(v)); ok {
		return m, nil
	}
	return nil, unknownWord(v, modeNames)
}

func ttl(v any) (any, error) {
	if i := slices.Index(ttlNames, word(v)); i >= 0 {
		return pipeline.TTL(i), nil //nolint:gosec // an index of four names
	}
	return nil, unknownWord(v, ttlNames)
}

func role(v any) (any, error) {
	if i := slices.Index(roleNames, word(v)); i >= 0 {
		return transcript.ToolRole(i), nil //nolint:gosec // an index of eight names
	}
	return nil, unknownWord(v, roleNames)
}

func horizon(v any) (any, error) {
	if v == horizonCalls {
		return Horizon(0), nil
	}
	if n, err := whole(v); err == nil {
		if calls, err := strconv.Atoi(fmt.Sprint(n)); err == nil && calls > 0 && calls <= maxCount {
			return Horizon(calls), nil
		}
	}
	return nil, &valueError{fmt.Sprintf("%.40q is no horizon", fmt.Sprint(v)), []string{horizonCalls, fmt.Sprintf("1 to %d", maxCount)}}
}

func toggle(v any) (any, error) {
	switch s, ok := v.(string); {
	case !ok:
		return v, nil
	case s == "on" || s == "off":
		return s == "on", nil
	}
	return nil, unknownWord(v, []string{"true", "false", "on", "off"})
}

func binding(v any) (any, error) {
	switch b := Binding(word(v)); b {
	case BindingModel, BindingLegacy:
		return b, nil
	}
	return nil, unknownWord(v, []string{string(BindingModel), string(BindingLegacy)})
}

func anonymous(v any) (any, error) {
	switch a := Anonymous(word(v)); a {
	case AnonymousOff, AnonymousPrefix:
		return a, nil
	}
	return nil, unknownWord(v, []string{string(AnonymousOff), string(AnonymousPrefix)})
}

func tenant(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return Tenant{Name: v}, nil
	case map[string]any:
		return v, nil
	}
	return nil, errors.New("must be a name (quoted if it looks like a number) or {header: name}")
}

// word is the text of a value that stands for a word.
func word(v any) string {
	switch v {
	case true:
		return "on"
	case false:
		return "off"
	}
	s, _ := v.(string)
	return s
}

// valueError is what is wrong with a value, and what would be accepted.
type valueError struct {
	text     string
	accepted []string
}

func (e *valueError) Error() string { return e.text }

// unknownWord says that a value is none of the words of a list.
func unknownWord(v any, words []string) error {
	text := word(v)
	if text == "" {
		text = fmt.Sprint(v)
	}
	return &valueError{fmt.Sprintf("%.40q is not one of the known words", text), words}
}

// whole accepts an integral number of any type, and its text.
func whole(v any) (any, error) {
	err := errors.New("must be a whole number")
	switch x := v.(type) {
	case float64:
		if x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
			return nil, err
		}
		return int64(x), nil
	case string:
		n, fault := strconv.ParseInt(x, 10, 64)
		if fault != nil {
			return nil, err
		}
		return n, nil
	case bool:
		return nil, err
	}
	return v, nil
}

func number(v any) (any, error) {
	err := errors.New("must be a number")
	switch x := v.(type) {
	case string:
		f, fault := strconv.ParseFloat(x, 64)
		if fault != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, err
		}
		return f, nil
	case bool:
		return nil, err
	}
	return v, nil
}

// flatten takes joined errors apart, whatever the decoder wraps them in.
func flatten(err error) []error {
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	parts := joined.Unwrap()
	all := make([]error, 0, len(parts))
	for _, e := range parts {
		all = append(all, flatten(e)...)
	}
	return all
}

func typeProblem(err error, in map[string]any) *Problem {
	p := &Problem{Text: err.Error()}
	if at, ok := errors.AsType[*mapstructure.DecodeError](err); ok {
		p.Path, p.Text = segments(at.Name(), in), at.Unwrap().Error()
	}
	var value *valueError
	var kind *mapstructure.UnconvertibleTypeError
	switch {
	case errors.As(err, &value):
		p.Accepted = value.accepted
	case errors.As(err, &kind):
		p.Text = fmt.Sprintf("must be %s, not %s", kindName(kind.Expected.Kind()), kindName(reflect.ValueOf(kind.Value).Kind()))
	case strings.Contains(p.Text, "must be an array or slice"):
		p.Text = "must be a list"
	case strings.Contains(p.Text, "expected a map"):
		p.Text = "must be a mapping"
	}
	return p
}

func kindName(k reflect.Kind) string {
	names := map[reflect.Kind]string{
		reflect.Bool: "true or false", reflect.String: "a string", reflect.Slice: "a list", reflect.Map: "a mapping", reflect.Struct: "a mapping",
	}
	if n, ok := names[k]; ok {
		return n
	}
	return "a number"
}

// segments splits the decoder's name of a value into keys. It writes a key of a map as [key] and joins fields by dots; keys
// may hold dots themselves, so the input is asked.
func segments(name string, in any) []string {
	m, _ := in.(map[string]any)
	best, rest := "", ""
	for k := range m {
		for _, form := range []string{k, "[" + k + "]"} {
			after, ok := strings.CutPrefix(name, form)
			if ok && len(k) >= len(best) && (after == "" || after[0] == '.' || after[0] == '[') {
				best, rest = k, strings.TrimPrefix(after, ".")
			}
		}
	}
	switch {
	case m == nil, best == "":
		return strings.FieldsFunc(strings.ReplaceAll(name, "[", ".["), func(r rune) bool { return r == '.' })
	case rest == "":
		return []string{best}
	}
	return append([]string{best}, segments(rest, m[best])...)
}
