package routeconfig_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

func known() []routeconfig.Filter {
	specs := all.Specs()
	out := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		out[i] = routeconfig.Filter(s)
	}
	return out
}

// resolver returns one whose server config has the pipeline "coding", and the errors that it reports.
func resolver(tb testing.TB) (*routeconfig.Resolver, func() []string) {
	tb.Helper()
	var mu sync.Mutex
	var reported []string
	r, problems := routeconfig.New(routeconfig.Options{
		Filters: known(),
		Pipelines: map[string]map[string]any{"coding": {
			"pipeline":   []any{"readlifecycle", "readmaturation"},
			"components": map[string]any{"readlifecycle": map[string]any{"min_tokens": 400, "bash_edits": true}},
			"tenant":     "acme",
		}},
		Default: map[string]any{"session_headers": []any{"X-Conversation"}},
		OnError: func(route string, from routeconfig.Source, err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, fmt.Sprintf("%s %s %v", route, from, err))
		},
	})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return reported
	}
}

func metadata(tb testing.TB, m map[string]any) *structpb.Struct {
	tb.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// wrong is what is wrong with the text of x-tidemark-route.
func wrong(r *routeconfig.Resolver, text string) routeconfig.Problems {
	_, ps := r.CheckJSON(text)
	return ps
}

func names(r *routeconfig.Route) string {
	out := make([]string, len(r.Config.Filters))
	for i, f := range r.Config.Filters {
		out[i] = f.Name()
	}
	return strings.Join(out, " ")
}

func TestFirstSourceThatIsThereCounts(t *testing.T) {
	r, _ := resolver(t)
	md := metadata(t, map[string]any{"pipeline": []any{"readmaturation"}})
	text := `{"pipeline": ["readmaturation", "readlifecycle"]}`
	for _, c := range []struct {
		sources routeconfig.Sources
		name    string
		filters string
	}{
		{routeconfig.Sources{Metadata: md, JSON: text, Name: "coding"}, "readmaturation", "readmaturation"},
		{routeconfig.Sources{Metadata: &structpb.Struct{}, JSON: text, Name: "coding"}, "readmaturation+readlifecycle", "readmaturation readlifecycle"},
		{routeconfig.Sources{JSON: " {} ", Name: "coding"}, "coding", "readlifecycle readmaturation"},
		{routeconfig.Sources{JSON: "null", Name: "  "}, "default", "readlifecycle tiered"},
		{routeconfig.Sources{}, "default", "readlifecycle tiered"},
		{routeconfig.Sources{Name: "default"}, "default", "readlifecycle tiered"},
		{routeconfig.Sources{JSON: `{"pipeline": "default", "tenant": "a"}`}, "default", "readlifecycle tiered"},
	} {
		got := r.Resolve("route", c.sources)
		if got.Config.Name != c.name || names(got) != c.filters || got.Config.Bad {
			t.Errorf("%v: got %q with %q, bad %t", c.sources, got.Config.Name, names(got), got.Config.Bad)
		}
	}
}

func TestBases(t *testing.T) {
	r, _ := resolver(t)
	lifecycle := func(text string) map[string]any {
		route := r.Resolve("route", routeconfig.Sources{JSON: text})
		if route.Config.Bad {
			t.Fatalf("%s is bad: %v", text, wrong(r, text))
		}
		return route.Effective["components"].(map[string]any)["readlifecycle"].(map[string]any)
	}
	over := lifecycle(`{"pipeline": "coding", "components": {"readlifecycle": {"min_tokens": 50}}}`)
	if over["min_tokens"] != 50 || over["bash_edits"] != true {
		t.Errorf("keys of a component are not laid over one by one: %v", over)
	}
	alone := lifecycle(`{"pipeline": ["readlifecycle"]}`)
	if alone["min_tokens"] != 100 || alone["bash_edits"] != false {
		t.Errorf("a list does not stand alone: %v", alone)
	}
	shadow := r.Resolve("route", routeconfig.Sources{JSON: `{"mode": "shadow"}`})
	if shadow.Config.Mode != pipeline.Shadow || names(shadow) != "readlifecycle tiered" || shadow.Config.Name != "default" {
		t.Errorf("without a pipeline the default is not the base: %+v", shadow.Config)
	}
	if diff := cmp.Diff([]string{"x-conversation"}, shadow.Identity.SessionHeaders); diff != "" {
		t.Errorf("session headers of the default: %s", diff)
	}
}

// A preset is laid over what the operator's default says of who asks and how far tidemark may go; a pipeline of the server's own
// stands alone, and so does one that has a preset's name.
func TestPresetsKeepTheOperatorsKeys(t *testing.T) {
	for _, base := range []map[string]any{{}, {"pipeline": "observe"}, {"pipeline": []any{}, "ttl": "1h"}} {
		operator := map[string]any{
			"tenant": map[string]any{"header": "X-Team"}, "session_headers": []any{"X-Conv"}, "mode": "shadow", "binding": "legacy", "resigned": true,
			"anonymous": "prefix",
		}
		maps.Copy(operator, base)
		r, problems := routeconfig.New(routeconfig.Options{
			Filters: known(), Default: operator, Pipelines: map[string]map[string]any{"own": {"pipeline": []any{}}, "deep": {"pipeline": []any{}}},
		})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		want := identity.Settings{TenantHeader: "x-team", SessionHeaders: []string{"x-conv"}, Anonymous: true, Resigned: true}
		for _, p := range routeconfig.Presets() {
			if p.Name == "deep" {
				continue
			}
			for _, s := range []routeconfig.Sources{{Name: p.Name}, {JSON: fmt.Sprintf(`{"pipeline": %q}`, p.Name)}} {
				got := r.Resolve("route", s)
				if diff := cmp.Diff(want, got.Identity); diff != "" || got.Config.Mode != pipeline.Shadow || !got.Config.LegacyBinding {
					t.Errorf("%s: %+v %s", p.Name, got.Config, diff)
				}
			}
		}
		lossless := r.Resolve("route", routeconfig.Sources{Name: "lossless"})
		if lossless.Config.Levers.TTL != pipeline.AutoTTL || len(lossless.Config.Filters) > 0 {
			t.Errorf("other keys of the default reach a preset: %+v", lossless.Config)
		}
		for _, name := range []string{"own", "deep"} {
			if got := r.Resolve("route", routeconfig.Sources{Name: name}); got.Config.Mode != pipeline.Active || got.Identity.TenantHeader != "" {
				t.Errorf("%s does not stand alone: %+v", name, got)
			}
		}
		if got := r.Resolve("route", routeconfig.Sources{JSON: `{"pipeline": "lossless", "tenant": "b"}`}); got.Identity.Tenant != "b" || got.Identity.TenantHeader != "" {
			t.Errorf("a route's own tenant does not count: %+v", got.Identity)
		}
	}
}

func TestIdentitySettings(t *testing.T) {
	r, _ := resolver(t)
	for text, want := range map[string]identity.Settings{
		`{"pipeline": [], "tenant": "a", "resigned": true}`:               {Tenant: "a", Resigned: true, SessionHeaders: identity.DefaultSessionHeaders()},
		`{"pipeline": [], "tenant": {"header": "X-Tenant"}}`:              {TenantHeader: "x-tenant", SessionHeaders: identity.DefaultSessionHeaders()},
		`{"pipeline": "coding", "session_headers": []}`:                   {Tenant: "acme", SessionHeaders: []string{}},
		`{"pipeline": [], "anonymous": "prefix"}`:                         {Anonymous: true, SessionHeaders: identity.DefaultSessionHeaders()},
		`{"pipeline": [], "anonymous": false}`:                            {SessionHeaders: identity.DefaultSessionHeaders()},
		`{"pipeline": ["nope"], "tenant": "a", "session_headers": ["b"]}`: {Tenant: "a", SessionHeaders: []string{"b"}}, // bad, and yet legible
	} {
		if diff := cmp.Diff(want, r.Resolve("route", routeconfig.Sources{JSON: text}).Identity); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// keys are those that a route config accepts besides its filters'.
const keys = "pipeline, components, mode, binding, tenant, resigned, session_headers, tools, anonymous, ttl, ttl_regret, place, warm, min_gain_frac, rewrite_budget, " +
	"min_turns_between_moves, horizon, raw_guard, beyond_window, brake, inline_restore, rollout, holdout, diagnostics"

// presetNames are the names that a resolver lists of presets, the default left out.
func presetNames() string {
	var names []string
	for _, p := range routeconfig.Presets() {
		if p.Name != "default" {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func TestProblemsNameKeyPlaceAndAccepted(t *testing.T) {
	r, _ := resolver(t)
	every := strings.Join(all.Names(), ", ")
	for text, want := range map[string]string{
		`{"pipelin": ["readlifecycle"]}`:                                       `pipelin: unknown key; accepted: ` + keys,
		`{"pipeline": ["readlifecycle", "reedmaturation"]}`:                    `pipeline[1]: unknown filter "reedmaturation"; accepted: ` + every,
		`{"pipeline": ["readlifecycle", "readlifecycle"]}`:                     `pipeline[1]: filter "readlifecycle" stands twice`,
		`{"pipeline": [7]}`:                                                    `pipeline[0]: must be the name of a filter; accepted: ` + every,
		`{"pipeline": 7}`:                                                      `pipeline: must be a list of filters or the name of a pipeline`,
		`{"pipeline": "coder"}`:                                                `pipeline: no pipeline of that name; accepted: default, coding, ` + presetNames(),
		`{"pipeline": ["readlifecycle"], "components": {"readmaturation":{}}}`: `components.readmaturation: the filter is not in the pipeline; accepted: readlifecycle`,
		`{"components": {"sched": {}}}`:                                        `components.sched: unknown filter; accepted: ` + every,
		`{"components": {"readlifecycle": []}}`:                                `components.readlifecycle: must be a mapping of the filter's keys`,
		`{"components": []}`:                                                   `components: must be a mapping, not a list`,
		`{"components": {"readlifecycle": {"min_tokens": 1.5}}}`:               `components.readlifecycle.min_tokens: must be a whole number`,
		`{"components": {"readlifecycle": {"min_tokens": true}}}`:              `components.readlifecycle.min_tokens: must be a whole number`,
		`{"components": {"readlifecycle": {"min_tokens": {}}}}`:                `components.readlifecycle.min_tokens: must be a number, not a mapping`,
		`{"components": {"readlifecycle": {"stale": "yes"}}}`:                  `components.readlifecycle.stale: must be true or false, not a string`,
		`{"components": {"readlifecycle": {"tools": "Read"}}}`:                 `components.readlifecycle.tools: must be a list`,
		`{"components": {"readlifecycle": {"tools": ["Read", 1]}}}`:            `components.readlifecycle.tools[1]: must be a string, not a number`,
		`{"mode": "actve"}`:                                                    `mode: "actve" is not one of the known words; accepted: active, shadow, off`,
		`{"mode": true}`:                                                       `mode: "on" is not one of the known words; accepted: active, shadow, off`,
		`{"binding": "strict"}`:                                                `binding: "strict" is not one of the known words; accepted: model, legacy`,
		`{"anonymous": "session"}`:                                             `anonymous: "session" is not one of the known words; accepted: off, prefix`,
		`{"anonymous": true}`:                                                  `anonymous: "on" is not one of the known words; accepted: off, prefix`,
		`{"tenant": 17}`:                                                       `tenant: must be a name (quoted if it looks like a number) or {header: name}`,
		`{"tenant": {"heder": "x-tenant"}}`:                                    `tenant.heder: unknown key; accepted: header | tenant.header: must be the name of a header`,
		`{"tenant": {"header": 5}}`:                                            `tenant.header: must be a string, not a number`,
		`{"resigned": "true"}`:                                                 `resigned: must be true or false, not a string`,
		`{"session_headers": ["a b"]}`:                                         `session_headers[0]: must be the name of a header`,
		`{"a.b": 1, "mode": "x"}`: `a.b: unknown key; accepted: ` + keys +
			` | mode: "x" is not one of the known words; accepted: active, shadow, off`,
		`[]`:     `read JSON: json: cannot unmarshal array into Go value of type map[string]interface {}`,
		`{} {}`:  `read JSON: something after the object`,
		`{"mode`: `read JSON: unexpected EOF`,
	} {
		if got := fmt.Sprint(wrong(r, text).Err()); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// Each filter checks its own values; the place of what it refuses is known all the same.
func TestProblemsOfAFilterHaveAPlace(t *testing.T) {
	r, _ := resolver(t)
	ps := wrong(r, `{"pipeline": ["readlifecycle"], "components": {"readlifecycle": {"marker_mode": "ful"}}}`)
	if len(ps) != 1 || ps[0].Place() != "components.readlifecycle.marker_mode" {
		t.Error(ps)
	}
}

// What Envoy's YAML reader makes of an unquoted off, a fraction and a number of more than 32 bits.
func TestValuesAsEnvoyWritesThem(t *testing.T) {
	r, _ := resolver(t)
	route := r.Resolve("route", routeconfig.Sources{Metadata: metadata(t, map[string]any{
		"mode":       false,
		"components": map[string]any{"readlifecycle": map[string]any{"marker_mode": false, "min_tokens": "5000000000"}},
	})})
	keys, _ := route.Effective["components"].(map[string]any)["readlifecycle"].(map[string]any)
	if route.Config.Mode != pipeline.Off || keys["marker_mode"] != "off" || keys["min_tokens"] != 5_000_000_000 {
		t.Errorf("%v %v", route.Config, keys)
	}
}

func TestRouteCanOnlyNarrowTheServersMode(t *testing.T) {
	for server := pipeline.Active; server <= pipeline.Off; server++ {
		r, problems := routeconfig.New(routeconfig.Options{Filters: known(), Mode: server})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for route := pipeline.Active; route <= pipeline.Off; route++ {
			for _, extra := range []string{"", `, "nope": 1`} { // also where the config is bad
				got := r.Resolve("r", routeconfig.Sources{JSON: fmt.Sprintf(`{"mode": %q%s}`, route, extra)}).Config
				if got.Mode != max(server, route) || got.Bad != (extra != "") {
					t.Errorf("server %s, route %s: %s, bad %t", server, route, got.Mode, got.Bad)
				}
			}
		}
	}
}

func TestBadConfigReplaysAndIsReportedOnce(t *testing.T) {
	r, reported := resolver(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				for _, s := range []routeconfig.Sources{{JSON: `{"mod": 1}`}, {Name: "nope"}, {JSON: "{"}} {
					if c := r.Resolve("chat", s).Config; !c.Bad || len(c.Filters) > 0 {
						t.Errorf("%v is not replay only", s)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := reported(); len(got) != 3 {
		t.Errorf("reported %q", got)
	}
	if r.Resolve("chat", routeconfig.Sources{}).Config.Bad {
		t.Error("the default turned bad")
	}
}

func TestCompiledOncePerDistinctConfig(t *testing.T) {
	r, _ := resolver(t)
	one := metadata(t, map[string]any{"mode": "shadow", "binding": "legacy", "tenant": "a"})
	a := r.Resolve("a", routeconfig.Sources{Metadata: one})
	b := r.Resolve("b", routeconfig.Sources{Metadata: metadata(t, one.AsMap())})
	if a != b {
		t.Error("the same config was compiled twice")
	}
	if !a.Config.LegacyBinding {
		t.Error("binding was lost")
	}
}

func TestServerConfigProblemsHavePaths(t *testing.T) {
	_, problems := routeconfig.New(routeconfig.Options{
		Filters: known(),
		Pipelines: map[string]map[string]any{
			"a": {"pipeline": "b"},
			"b": {"pipeline": []any{"readlifecycle"}, "mode": "on"},

			"default": {"pipeline": []any{}},
		},
		Default: map[string]any{"pipeline": "c"},
	})
	want := "pipelines.a.pipeline: must be a list of filters" +
		" | pipelines.b.mode: \"on\" is not one of the known words; accepted: active, shadow, off" +
		" | pipelines.default: the name is that of the server's default" +
		" | default.pipeline: no pipeline of that name; accepted: default, b, " + presetNames()
	if got := problems.Err().Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A config that only spells out defaults is the same config.
func TestHashIsOfTheEffectiveConfig(t *testing.T) {
	r, _ := resolver(t)
	hash := func(text string) string { return r.Resolve("r", routeconfig.Sources{JSON: text}).Config.Hash }
	a := hash(`{"pipeline": ["readlifecycle"]}`)
	b := hash(`{"mode": "active", "components": {"readlifecycle": {"min_tokens": 100, "stale": true}}, "pipeline": ["readlifecycle"]}`)
	c := hash(`{"pipeline": ["readlifecycle"], "components": {"readlifecycle": {"min_tokens": 101}}}`)
	if a != b || a == c || a == "" {
		t.Errorf("%s %s %s", a, b, c)
	}
}

// No config, whatever its shape, changes the defaults that later configs start from.
func TestDefaultsAreNotShared(t *testing.T) {
	r, _ := resolver(t)
	text := `{"pipeline": ["readlifecycle", "readmaturation"]}`
	before := r.Resolve("r", routeconfig.Sources{JSON: text})
	rapid.Check(t, func(t *rapid.T) {
		globs := rapid.SliceOf(rapid.StringMatching(`!?[A-Za-z*]{1,8}`)).Draw(t, "tools")
		n := rapid.IntRange(0, 1000).Draw(t, "min_tokens")
		b, _ := json.Marshal(map[string]any{"pipeline": "coding", "components": map[string]any{"readlifecycle": map[string]any{"tools": globs, "min_tokens": n}}})
		if ps := wrong(r, string(b)); len(ps) > 0 {
			t.Fatal(ps)
		}
		fresh, problems := routeconfig.New(routeconfig.Options{Filters: known()})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		after := fresh.Resolve("r", routeconfig.Sources{JSON: text})
		if !reflect.DeepEqual(before.Effective["components"], after.Effective["components"]) {
			t.Fatalf("defaults changed: %v", after.Effective)
		}
	})
}

func FuzzRouteConfig(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"pipeline": "coding", "components": {"readlifecycle": {"min_tokens": 5, "tools": ["a", "!b"]}}}`,
		`{"mode": false, "tenant": {"header": "x"}, "session_headers": ["a"], "binding": "legacy", "resigned": true}`,
		`{"pipeline": [null, {}, []], "components": {"readmaturation": {"hold": false}}, "": {"": 1}}`,
	} {
		f.Add(s)
	}
	r, _ := resolver(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		problems := wrong(r, text)
		a := r.Resolve("r", routeconfig.Sources{JSON: text})
		if strings.TrimSpace(text) == "" || strings.TrimSpace(text) == "{}" || strings.TrimSpace(text) == "null" {
			return // not there
		}
		if a.Config.Bad != (len(problems) > 0) {
			t.Fatalf("bad is %t, problems are %v", a.Config.Bad, problems)
		}
		var raw map[string]any
		if json.Unmarshal([]byte(text), &raw) != nil || a.Config.Bad || len(raw) == 0 {
			return
		}
		again, _ := resolver(t)
		s, err := structpb.NewStruct(raw)
		if err != nil {
			return // a string that no protobuf can hold
		}
		if b := again.Resolve("r", routeconfig.Sources{Metadata: s}); a.Config.Hash != b.Config.Hash {
			t.Fatalf("hash %s by JSON, %s by metadata", a.Config.Hash, b.Config.Hash)
		}
	})
}
