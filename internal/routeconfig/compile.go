package routeconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Route is what a route's config compiles to. It is immutable.
type Route struct {
	Config   *pipeline.Config
	Identity identity.Settings
	// Effective is the config with every default filled in, by key. It belongs to the Route. Nil if the config is bad.
	Effective map[string]any
}

// noFilters is how metrics call a list without a filter: what it does, its levers do.
const noFilters = "none"

// compile turns a raw config into a Route. With problems, the Route replays only, and whatever else was legible counts.
func (r *Resolver) compile(raw map[string]any) (*Route, Problems) {
	merged, name, problems := r.lay(raw)
	keys := DefaultKeys()
	decoded := Decode(merged, &keys)
	names, listed := r.filterNames(keys.Pipeline)
	certain := len(problems) == 0 && len(listed) == 0
	chain, components, built := r.build(names, merged["components"], certain)
	settings, identified := identitySettings(&keys, merged)
	roles, unmatched := keys.roles()
	if slices.ContainsFunc(decoded, func(p *Problem) bool { return len(p.Path) > 0 && p.Path[0] == "tools" }) {
		unmatched = nil // what could not be read has no name
	}
	problems = slices.Concat(problems, decoded, listed, built, identified, unmatched, keys.validate()).unique()
	if name == "" {
		name = cmp.Or(strings.Join(names, "+"), noFilters)
	}
	route := &Route{Identity: settings, Config: &pipeline.Config{
		Name: name, Mode: max(r.mode, keys.Mode), LegacyBinding: keys.Binding == BindingLegacy, Bad: len(problems) > 0,
	}}
	if route.Config.Bad {
		return route, problems
	}
	keys.Mode, keys.Pipeline, keys.Components = route.Config.Mode, names, nil
	route.Effective = Plain(&keys)
	route.Effective["pipeline"], route.Effective["components"] = names, components
	route.Config.Filters, route.Config.Hash = chain, hash(route.Effective)
	route.Config.Levers, route.Config.Moves, route.Config.Diagnostics = keys.levers(), keys.moves(), keys.Diagnostics
	route.Config.Withheld, route.Config.Holdout, route.Config.Inline = 1-keys.Rollout, keys.Holdout, bool(keys.Inline)
	route.Config.Roles = roles
	return route, nil
}

// lay lays the config over its base. name is how metrics call it, empty for one that stands alone.
func (r *Resolver) lay(raw map[string]any) (merged map[string]any, name string, problems Problems) {
	switch ref := raw["pipeline"].(type) {
	case nil:
		return overlay(r.base, raw), defaultName, nil
	case string:
		if ref == defaultName {
			return overlay(r.base, raw), defaultName, nil
		}
		if base, ok := r.named[ref]; ok {
			return overlay(base.raw, raw), ref, nil
		}
		raw = maps.Clone(raw)
		delete(raw, "pipeline")
		return overlay(r.base, raw), ref, Problems{{Path: []string{"pipeline"}, Text: "no pipeline of that name", Accepted: r.names(), Unknown: true}}
	}
	return raw, "", nil
}

// overlay lays the keys of top over base and shares nothing that is written to with either.
func overlay(base, top map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range top {
		_, named := v.(string)
		switch {
		case k == "pipeline" && named, v == nil && out[k] != nil: // the base is what it names; nothing is said
		case k == "components":
			out[k] = overlayComponents(out[k], v)
		default:
			out[k] = v
		}
	}
	return out
}

func overlayComponents(base, top any) any {
	b, ok := base.(map[string]any)
	t, fine := top.(map[string]any)
	if !ok || !fine {
		return top
	}
	out := maps.Clone(b)
	for name, keys := range t {
		under, ok := out[name].(map[string]any)
		over, fine := keys.(map[string]any)
		if !ok || !fine {
			out[name] = keys
			continue
		}
		out[name] = maps.Clone(under)
		maps.Copy(out[name].(map[string]any), over)
	}
	return out
}

// filterNames reads the list of filters.
func (r *Resolver) filterNames(v any) (names []string, problems Problems) {
	list, ok := v.([]any)
	if !ok {
		if v != nil {
			problems = Problems{{Path: []string{"pipeline"}, Text: "must be a list of filters or the name of a pipeline"}}
		}
		return nil, problems
	}
	for i, v := range list {
		at := []string{"pipeline", fmt.Sprintf("[%d]", i)}
		name, ok := v.(string)
		switch {
		case !ok:
			problems = append(problems, &Problem{Path: at, Text: "must be the name of a filter", Accepted: r.filterList()})
		case r.filter(name) == nil:
			problems = append(problems, &Problem{Path: at, Text: fmt.Sprintf("unknown filter %q", name), Accepted: r.filterList()})
		case slices.Contains(names, name):
			problems = append(problems, &Problem{Path: at, Text: fmt.Sprintf("filter %q stands twice", name)})
		default:
			names = append(names, name)
		}
	}
	return names, problems
}

// build makes the filters and returns their effective config by name. Where the list is not certain, a filter with keys
// counts as listed, so that one mistake is not reported twice.
func (r *Resolver) build(names []string, v any, certain bool) (chain []filters.Filter, effective map[string]any, problems Problems) {
	components, _ := v.(map[string]any) // of another type: Decode said so
	for _, name := range slices.Sorted(maps.Keys(components)) {
		at := []string{"components", name}
		switch {
		case r.filter(name) == nil:
			problems = append(problems, &Problem{Path: at, Text: "unknown filter", Accepted: r.filterList()})
		case !slices.Contains(names, name) && !certain:
			names = append(names, name)
		case !slices.Contains(names, name):
			problems = append(problems, &Problem{Path: at, Text: "the filter is not in the pipeline", Accepted: names})
		}
	}
	effective = map[string]any{}
	for _, name := range names {
		f := r.filter(name)
		config, ps := component(f, components[name])
		if len(ps) == 0 {
			built, err := f.Build(config)
			if err != nil {
				ps = Problems{valueProblem(err, config)}
			}
			chain, effective[name] = append(chain, built), Plain(config)
		}
		problems = append(problems, ps.Under("components", name)...)
	}
	return chain, effective, problems
}

// component fills a filter's config.
func component(f *Filter, v any) (config any, problems Problems) {
	config = f.Default()
	switch v := v.(type) {
	case nil:
		return config, nil
	case map[string]any:
		return config, Decode(v, config)
	}
	return config, Problems{{Text: "must be a mapping of the filter's keys"}}
}

// valueProblem places the error of a filter, which starts with the key.
func valueProblem(err error, config any) *Problem {
	key, text, ok := strings.Cut(err.Error(), ": ")
	if ok && slices.ContainsFunc(Describe(config), func(k Key) bool { return k.Name == key }) {
		return &Problem{Path: strings.Split(key, "."), Text: text}
	}
	return &Problem{Text: err.Error()}
}

func identitySettings(keys *Keys, merged map[string]any) (s identity.Settings, problems Problems) {
	s = identity.Settings{
		Tenant: keys.Tenant.Name, TenantHeader: strings.ToLower(keys.Tenant.Header), Resigned: keys.Resigned, Anonymous: keys.Anonymous == AnonymousPrefix,
	}
	if _, ok := merged["tenant"].(map[string]any); ok && !httpguts.ValidHeaderFieldName(s.TenantHeader) {
		s.TenantHeader = ""
		problems = append(problems, &Problem{Path: []string{"tenant", "header"}, Text: "must be the name of a header"})
	}
	s.SessionHeaders = make([]string, 0, len(keys.SessionHeaders))
	for i, name := range keys.SessionHeaders {
		if !httpguts.ValidHeaderFieldName(name) {
			problems = append(problems, &Problem{Path: []string{"session_headers", fmt.Sprintf("[%d]", i)}, Text: "must be the name of a header"})
			continue
		}
		s.SessionHeaders = append(s.SessionHeaders, strings.ToLower(name))
	}
	return s, problems
}

// hash names an effective config. Maps are written in the order of their keys.
func hash(effective map[string]any) string {
	b, err := json.Marshal(effective)
	if err != nil { // Plain returns nothing but strings, booleans, numbers, lists and maps
		b = fmt.Appendf(nil, "%v", effective)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
