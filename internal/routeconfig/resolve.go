package routeconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// maxCompiled is how many distinct configs are kept compiled. A fleet has one per kind of route.
const maxCompiled = 512

// defaultName is the name of the server's default, as if it were one of its pipelines.
const defaultName = "default"

// Source says where a route's config came from.
type Source string

// Sources, in the order in which they count.
const (
	FromMetadata Source = "metadata" // dynamic metadata, namespace tidemark
	FromJSON     Source = "json"     // gRPC initial metadata x-tidemark-route
	FromName     Source = "name"     // gRPC initial metadata x-tidemark-pipeline
)

// Sources are what a request carries of its route's config. An empty value counts as not there.
type Sources struct {
	Metadata *structpb.Struct
	JSON     string
	Name     string
}

// Options of a Resolver.
type Options struct {
	Filters   []Filter                  // in the order of the docs
	Pipelines map[string]map[string]any // named route configs; their pipeline is a list. One of a preset's name takes its place
	Default   map[string]any            // the server's default, laid over BuiltIn
	Mode      pipeline.Mode             // the operator's: a route can only narrow it
	// OnError is told of every distinct config that cannot be used, once while it stays in memory. Nil: nobody is told.
	OnError func(route string, from Source, err error)
}

// Resolver finds the compiled config of a request's route.
type Resolver struct {
	filters  []Filter
	mode     pipeline.Mode
	named    map[string]named
	base     map[string]any
	fallback *Route
	onError  func(string, Source, error)

	mu   sync.Mutex // held while a config is compiled, so that each is compiled and reported once
	seen *lru.Cache[key, *Route]
}

type named struct {
	raw   map[string]any
	route *Route
}

type key struct {
	from Source
	text string
}

// New compiles the server's part of the config. The paths of problems start with pipelines or default.
func New(o Options) (*Resolver, Problems) {
	r := &Resolver{filters: o.Filters, mode: o.Mode, onError: o.OnError, named: map[string]named{}}
	r.seen, _ = lru.New[key, *Route](maxCompiled) // fails for sizes below 1
	r.presets(nil, nil)                           // the server's default may name one
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(o.Pipelines)) {
		raw := o.Pipelines[name]
		if name == defaultName {
			problems = append(problems, &Problem{Path: []string{"pipelines", name}, Text: "the name is that of the server's default"})
			continue
		}
		if _, ok := raw["pipeline"].([]any); !ok {
			problems = append(problems, &Problem{Path: []string{"pipelines", name, "pipeline"}, Text: "must be a list of filters"})
			continue
		}
		route, ps := r.compile(raw)
		route.Config.Name = name
		r.named[name] = named{raw, route}
		problems = append(problems, ps.Under("pipelines", name)...)
	}
	r.base = BuiltIn()
	merged, name, ps := r.lay(o.Default)
	problems = append(problems, ps.Under(defaultName)...)
	r.base = merged
	r.presets(merged, o.Pipelines)
	if r.fallback, ps = r.compile(merged); name == "" {
		name = defaultName
	}
	r.fallback.Config.Name = name
	return r, append(problems, ps.Under(defaultName)...)
}

// Resolve returns the route's config. It never fails: a config that cannot be used gives a Route that replays only. route
// is the route's name, for reports.
func (r *Resolver) Resolve(route string, s Sources) *Route {
	if len(s.Metadata.GetFields()) > 0 {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.Metadata)
		if err != nil { // a string that is no UTF-8
			text = []byte(s.Metadata.String())
		}
		return r.cached(route, key{FromMetadata, string(text)}, func() (map[string]any, error) { return s.Metadata.AsMap(), nil })
	}
	if text := strings.TrimSpace(s.JSON); text != "" && text != "{}" && text != "null" {
		return r.cached(route, key{FromJSON, text}, func() (map[string]any, error) { return parse(text) })
	}
	if name := strings.TrimSpace(s.Name); name != "" {
		if name == defaultName {
			return r.fallback
		}
		if n, ok := r.named[name]; ok {
			return n.route
		}
		return r.cached(route, key{FromName, name}, func() (map[string]any, error) { return map[string]any{"pipeline": name}, nil })
	}
	return r.fallback
}

// Default is the config of routes that say nothing.
func (r *Resolver) Default() *Route { return r.fallback }

// Check compiles a raw config and says what is wrong with it.
func (r *Resolver) Check(raw map[string]any) (*Route, Problems) { return r.compile(raw) }

// CheckJSON is Check for the text of x-tidemark-route. The Route is nil if the text is no JSON object.
func (r *Resolver) CheckJSON(text string) (*Route, Problems) {
	raw, err := parse(text)
	if err != nil {
		return nil, Problems{{Text: err.Error()}}
	}
	return r.compile(raw)
}

// cached returns the compiled config, compiling it at first sight.
func (r *Resolver) cached(route string, k key, read func() (map[string]any, error)) *Route {
	if c, ok := r.seen.Get(k); ok {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.seen.Get(k); ok {
		return c
	}
	raw, err := read()
	c, problems := r.compile(raw)
	if err != nil { // raw is empty, and what was compiled is the default: only who and how far counts of it
		c = &Route{Identity: c.Identity, Config: &pipeline.Config{Name: c.Config.Name, Mode: c.Config.Mode, LegacyBinding: c.Config.LegacyBinding, Bad: true}}
	} else {
		err = problems.Err()
	}
	if err != nil && r.onError != nil {
		r.onError(route, k.from, err)
	}
	r.seen.Add(k, c)
	return c
}

// parse reads the text of x-tidemark-route.
func parse(text string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: something after the object")
	}
	return raw, nil
}

func (r *Resolver) filter(name string) *Filter {
	i := slices.IndexFunc(r.filters, func(f Filter) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &r.filters[i]
}

func (r *Resolver) filterList() []string {
	names := make([]string, len(r.filters))
	for i := range r.filters {
		names[i] = r.filters[i].Name
	}
	return names
}

func (r *Resolver) names() []string {
	return append([]string{defaultName}, slices.Sorted(maps.Keys(r.named))...)
}
