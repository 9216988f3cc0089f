package routeconfig_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestLeversAndMoves(t *testing.T) {
	r, _ := resolver(t)
	levers := pipeline.Levers{Regret: 0.01}
	moves := pipeline.Moves{MinGain: 0.05, Budget: 3, Spacing: 8, RawGuard: true, Brake: true}
	for text, change := range map[string]func(c *pipeline.Config){
		`{"pipeline": []}`: func(*pipeline.Config) {},
		`{"pipeline": [], "ttl": "lift", "ttl_regret": 0.2, "place": true, "diagnostics": 1}`: func(c *pipeline.Config) {
			c.Levers, c.Diagnostics = pipeline.Levers{TTL: pipeline.LiftTTL, Regret: 0.2, Place: true}, 1
		},
		`{"pipeline": [], "warm": true, "min_gain_frac": 0, "rewrite_budget": 1, "min_turns_between_moves": 0, "horizon": 40}`: func(c *pipeline.Config) {
			c.Moves.Warm, c.Moves.MinGain, c.Moves.Budget, c.Moves.Spacing, c.Moves.Horizon = true, 0, 1, 0, 40
		},
		`{"pipeline": [], "rollout": 0.25, "holdout": 0.1, "inline_restore": "on"}`: func(c *pipeline.Config) {
			c.Withheld, c.Holdout, c.Inline = 0.75, 0.1, true
		},
		`{"pipeline": [], "ttl": "1h", "raw_guard": false, "beyond_window": true, "brake": "off"}`: func(c *pipeline.Config) {
			c.Levers.TTL, c.Moves.RawGuard, c.Moves.BeyondWindow, c.Moves.Brake = pipeline.HourTTL, false, true, false
		},
		`{"ttl_regret": 0.5, "horizon": "calls"}`: func(c *pipeline.Config) { c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.5} }, // over the default
	} {
		want := &pipeline.Config{Levers: levers, Moves: moves}
		change(want)
		route, ps := r.CheckJSON(text)
		if len(ps) > 0 {
			t.Errorf("%s: %v", text, ps.Err())
			continue
		}
		got := &pipeline.Config{
			Levers: route.Config.Levers, Moves: route.Config.Moves, Diagnostics: route.Config.Diagnostics,
			Withheld: route.Config.Withheld, Holdout: route.Config.Holdout, Inline: route.Config.Inline,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// A list without filters is a pipeline: its levers act.
func TestLeversWithoutFilters(t *testing.T) {
	r, _ := resolver(t)
	c := r.Resolve("r", routeconfig.Sources{JSON: `{"pipeline": [], "ttl": "auto"}`}).Config
	if c.Bad || len(c.Filters) > 0 || c.Levers.TTL != pipeline.AutoTTL || c.Name != "none" || c.Hash == "" {
		t.Errorf("%+v", c)
	}
}

// A config that cannot be used changes no breakpoints and moves nothing, whatever of it is legible.
func TestBadConfigHasNoLevers(t *testing.T) {
	r, _ := resolver(t)
	for _, text := range []string{`{"ttl": "auto", "warm": true, "diagnostics": 1, "nope": 1}`, `{"ttl_regret": 2}`, `{`} {
		c := r.Resolve("r", routeconfig.Sources{JSON: text}).Config
		if !c.Bad || c.Levers != (pipeline.Levers{}) || c.Moves != (pipeline.Moves{}) || c.Diagnostics != 0 {
			t.Errorf("%s: %+v", text, c)
		}
	}
}

func TestProblemsOfLeversAndMoves(t *testing.T) {
	r, _ := resolver(t)
	for text, want := range map[string]string{
		`{"ttl": "2h"}`:                    `ttl: "2h" is not one of the known words; accepted: keep, 1h, auto, lift`,
		`{"ttl": 3600}`:                    `ttl: "3600" is not one of the known words; accepted: keep, 1h, auto, lift`,
		`{"ttl": true}`:                    `ttl: "on" is not one of the known words; accepted: keep, 1h, auto, lift`,
		`{"ttl_regret": 1.5}`:              `ttl_regret: 1.5 is out of range; accepted: 0 to 1`,
		`{"ttl_regret": "-0.5"}`:           `ttl_regret: -0.5 is out of range; accepted: 0 to 1`,
		`{"ttl_regret": "1 %"}`:            `ttl_regret: must be a number`,
		`{"ttl_regret": true}`:             `ttl_regret: must be a number`,
		`{"min_gain_frac": 5}`:             `min_gain_frac: 5 is out of range; accepted: 0 to 1`,
		`{"diagnostics": 2}`:               `diagnostics: 2 is out of range; accepted: 0 to 1`,
		`{"rewrite_budget": -1}`:           `rewrite_budget: -1 is out of range; accepted: 0 to 1000000`,
		`{"rewrite_budget": 0.5}`:          `rewrite_budget: must be a whole number`,
		`{"min_turns_between_moves": 1e9}`: `min_turns_between_moves: 1000000000 is out of range; accepted: 0 to 1000000`,
		`{"horizon": 0}`:                   `horizon: "0" is no horizon; accepted: calls, 1 to 1000000`,
		`{"horizon": "turns"}`:             `horizon: "turns" is no horizon; accepted: calls, 1 to 1000000`,
		`{"horizon": 2.5}`:                 `horizon: "2.5" is no horizon; accepted: calls, 1 to 1000000`,
		`{"warm": "yes"}`:                  `warm: "yes" is not one of the known words; accepted: true, false, on, off`,
		`{"brake": 1}`:                     `brake: must be true or false, not a number`,
		`{"place": [], "raw_guard": "no", "ttl_regret": 7}`: `place: must be true or false, not a list` +
			` | raw_guard: "no" is not one of the known words; accepted: true, false, on, off | ttl_regret: 7 is out of range; accepted: 0 to 1`,
	} {
		if got := fmt.Sprint(wrong(r, text).Err()); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// Numbers that no JSON holds come by metadata.
func TestSharesThatAreNoNumbers(t *testing.T) {
	r, _ := resolver(t)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, key := range []string{"ttl_regret", "min_gain_frac", "diagnostics", "rewrite_budget", "horizon"} {
			if c := r.Resolve("r", routeconfig.Sources{Metadata: metadata(t, map[string]any{key: v})}).Config; !c.Bad {
				t.Errorf("%s: %v is accepted", key, v)
			}
		}
	}
}

// Every way in which Envoy and people write a switch, a word and a number is the same config.
func TestSpellingsOfLevers(t *testing.T) {
	r, _ := resolver(t)
	a := r.Resolve("r", routeconfig.Sources{Metadata: metadata(t, map[string]any{
		"warm": "on", "brake": "off", "raw_guard": false, "ttl_regret": "0.02", "rewrite_budget": "4", "horizon": "30", "diagnostics": "0.5",
	})}).Config
	b := r.Resolve("r", routeconfig.Sources{JSON: `{"warm": true, "brake": false, "raw_guard": "off", "ttl_regret": 0.02, "rewrite_budget": 4, "horizon": 30, "diagnostics": 0.5}`}).Config
	if a.Bad || a.Hash != b.Hash || !a.Moves.Warm || a.Moves.Brake || a.Moves.RawGuard || a.Moves.Horizon != 30 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// What a config compiles to says everything: compiled again, it is the same, whatever the values are.
func TestEffectiveConfigIsAConfig(t *testing.T) {
	r, _ := resolver(t)
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(map[string]any{
			"pipeline": []any{"readlifecycle"}, "ttl": rapid.SampledFrom([]string{"keep", "1h", "auto", "lift"}).Draw(t, "ttl"),
			"ttl_regret": rapid.Float64Range(0, 1).Draw(t, "regret"), "min_gain_frac": rapid.Float64Range(0, 1).Draw(t, "gain"),
			"diagnostics": rapid.Float64Range(0, 1).Draw(t, "diagnostics"), "rewrite_budget": rapid.IntRange(0, 1_000_000).Draw(t, "budget"),
			"min_turns_between_moves": rapid.IntRange(0, 1_000_000).Draw(t, "spacing"),
			"horizon":                 rapid.SampledFrom([]any{"calls", 1, 1_000_000}).Draw(t, "horizon"),
			"place":                   rapid.Bool().Draw(t, "place"), "warm": rapid.Bool().Draw(t, "warm"), "raw_guard": rapid.Bool().Draw(t, "guard"),
			"beyond_window": rapid.Bool().Draw(t, "beyond"), "brake": rapid.Bool().Draw(t, "brake"),
		})
		if err != nil {
			t.Fatal(err)
		}
		one, ps := r.CheckJSON(string(text))
		if len(ps) > 0 {
			t.Fatal(ps.Err())
		}
		effective, err := json.Marshal(one.Effective)
		if err != nil {
			t.Fatal(err)
		}
		two, ps := r.CheckJSON(string(effective))
		if len(ps) > 0 || two.Config.Hash != one.Config.Hash || two.Config.Moves != one.Config.Moves || two.Config.Levers != one.Config.Levers {
			t.Fatalf("%s: %v\n%+v\n%+v", effective, ps.Err(), one.Config, two.Config)
		}
	})
}

func TestPresets(t *testing.T) {
	r, problems := routeconfig.New(routeconfig.Options{Filters: known()})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, p := range routeconfig.Presets() {
		route := r.Resolve("r", routeconfig.Sources{Name: p.Name})
		if p.Name == "default" {
			route = r.Default()
		}
		if route.Config.Bad || route.Config.Name != p.Name || p.Summary == "" || p.Reason == "" {
			t.Errorf("%+v %+v", p, route.Config)
		}
		text, err := json.Marshal(p.Config)
		if err != nil {
			t.Fatal(err)
		}
		if alone, ps := r.CheckJSON(string(text)); len(ps) > 0 || alone.Config.Hash != route.Config.Hash {
			t.Errorf("%s is not its config: %v", p.Name, ps.Err())
		}
		if sheds := strings.Contains(names(route), "shed"); sheds != (p.Name == "deep" || p.Name == "seed-002") {
			t.Errorf("%s runs %s", p.Name, names(route))
		}
		seed, harmless := strings.HasPrefix(p.Name, "seed-"), route.Config.Moves.Brake && route.Config.Moves.RawGuard && !route.Config.Moves.Warm
		warm := p.Name == "seed-002" || p.Name == "seed-004" // their originals change what is cached
		if route.Config.Moves.Warm != warm || route.Config.Levers.Place || seed == harmless {
			t.Errorf("%s: %+v %+v", p.Name, route.Config.Levers, route.Config.Moves)
		}
	}
}

func TestPresetsAreBases(t *testing.T) {
	r, _ := resolver(t)
	route, ps := r.CheckJSON(`{"pipeline": "seed-003", "components": {"readmaturation": {"max_hold_turns": 9}}}`)
	if len(ps) > 0 || route.Config.Name != "seed-003" || names(route) != "readmaturation" {
		t.Fatalf("%v %+v", ps, route.Config)
	}
	keys, _ := route.Effective["components"].(map[string]any)["readmaturation"].(map[string]any)
	if keys["max_hold_turns"] != 9 || keys["quiesce_turns"] != 5 || keys["hold"] != "always" {
		t.Error(keys)
	}
}

func TestPipelineOfAPresetsNameTakesItsPlace(t *testing.T) {
	r, problems := routeconfig.New(routeconfig.Options{
		Filters:   known(),
		Pipelines: map[string]map[string]any{"lossless": {"pipeline": []any{"readmaturation"}, "ttl": "1h"}},
		Default:   map[string]any{"pipeline": "lossless", "brake": false},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, route := range []*routeconfig.Route{r.Resolve("r", routeconfig.Sources{Name: "lossless"}), r.Default()} {
		if names(route) != "readmaturation" || route.Config.Levers.TTL != pipeline.HourTTL || route.Config.Name != "lossless" {
			t.Errorf("%+v", route.Config)
		}
	}
}

// A preset whose filters are not there is no pipeline of the server; the others are.
func TestPresetsNeedTheirFilters(t *testing.T) {
	some := slices.DeleteFunc(known(), func(f routeconfig.Filter) bool { return f.Name == "readmaturation" })
	r, problems := routeconfig.New(routeconfig.Options{Filters: some})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := `pipeline: no pipeline of that name; accepted: default, ` + strings.Replace(presetNames(), ", seed-003", "", 1)
	if got := fmt.Sprint(wrong(r, `{"pipeline": "seed-003"}`).Err()); got != want {
		t.Error(got)
	}
}

// Of what no rule but its age speaks against, the default touches nothing nearer than 20 turns (design §7).
func TestDefaultLeavesTheLastTurnsAlone(t *testing.T) {
	r, problems := routeconfig.New(routeconfig.Options{Filters: known()})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	keys, _ := r.Default().Effective["components"].(map[string]any)["tiered"].(map[string]any)
	if keys["window"] != 20 || keys["browser_window"] != 0 {
		t.Error(keys)
	}
}

// A key that holds keys of its own is read as strictly as the others, durations and quoted numbers included.
func TestKeysWithinAKey(t *testing.T) {
	r, _ := resolver(t)
	of := func(summarizer string) (*routeconfig.Route, routeconfig.Problems) {
		return r.CheckJSON(`{"pipeline": ["tiered"], "components": {"tiered": {"summarizer": ` + summarizer + `}}}`)
	}
	route, ps := of(`{"url": "http://127.0.0.1:8080/v1/messages", "api": "anthropic", "model": "small", "timeout": "5s", "max_input_tokens": "4000"}`)
	if len(ps) > 0 {
		t.Fatal(ps.Err())
	}
	got := route.Effective["components"].(map[string]any)["tiered"].(map[string]any)["summarizer"]
	want := map[string]any{"url": "http://127.0.0.1:8080/v1/messages", "api": "anthropic", "model": "small", "timeout": "5s", "max_input_tokens": 4000}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for in, want := range map[string]string{
		`{"timeout": 5}`:    "components.tiered.summarizer.timeout: must be a duration with its unit, such as 150ms or 5m",
		`{"key": "sk-1"}`:   "components.tiered.summarizer.key: unknown key; accepted: url, api, model, timeout, max_input_tokens",
		`{"api": "gemini"}`: `components.tiered.summarizer: api: "gemini" is not known; accepted: openai, anthropic`,
		`[]`:                "components.tiered.summarizer: must be a mapping",
	} {
		if _, ps := of(in); len(ps) != 1 || ps[0].String() != want {
			t.Errorf("%s: %v, want %s", in, ps, want)
		}
	}
}

// What a route says of tools reaches the engine as a table; every element is read as strictly as the other keys.
func TestTools(t *testing.T) {
	r, _ := resolver(t)
	route, ps := r.CheckJSON(`{"pipeline": ["readlifecycle"], "tools": [{"name": "kb_*", "role": "read", "path": "uri", "from": "first", "to": "count"},
		{"name": "run", "role": "shell", "command": "script"}, {"name": "x"}]}`)
	if len(ps) > 0 {
		t.Fatal(ps.Err())
	}
	e := transcript.Explain(route.Config.Roles, transcript.Chat, "KB_get", `{"uri":"a","first":2}`, "", false)
	if e.Facts.Role != transcript.Read || e.Facts.Path != "a" || e.Facts.Range.String() != "from 2" || e.Row != "rule kb_*" {
		t.Errorf("%+v", e)
	}
	want := map[string]any{"name": "kb_*", "role": "read", "path": "uri", "from": "first", "to": "count", "command": ""}
	list, _ := route.Effective["tools"].([]any)
	if len(list) != 3 {
		t.Fatal(list)
	}
	if d := cmp.Diff(want, list[0]); d != "" {
		t.Error(d)
	}
	text, err := json.Marshal(route.Effective)
	if err != nil {
		t.Fatal(err)
	}
	if again, ps := r.CheckJSON(string(text)); len(ps) > 0 || again.Config.Hash != route.Config.Hash {
		t.Errorf("%v: %s", ps.Err(), cmp.Diff(route.Effective, again.Effective))
	}
	if none, _ := r.CheckJSON(`{"pipeline": ["readlifecycle"]}`); none.Config.Roles != nil || none.Config.Hash == route.Config.Hash {
		t.Errorf("%+v", none.Config)
	}
	const words = "other, read, edit, write, shell, search, list, browser"
	for in, want := range map[string]string{
		`[{"name": "a", "role": "reader"}]`:         `tools[0].role: "reader" is not one of the known words; accepted: ` + words,
		`[{"name": "a", "role": 1}]`:                `tools[0].role: "1" is not one of the known words; accepted: ` + words,
		`[{"name": "a"}, {"name": "a", "args": 1}]`: `tools[1].args: unknown key; accepted: name, role, path, from, to, command`,
		`[{"name": "a", "path": ["b"]}]`:            `tools[0].path: must be a string, not a list`,
		`[{"role": "read"}]`:                        `tools[0].name: "" is no pattern of names`,
		`[{"name": "a["}, {"name": "b"}]`:           `tools[0].name: "a[" is no pattern of names`,
		`{"name": "a"}`:                             `tools: must be a list`,
		`["a"]`:                                     `tools[0]: must be a mapping`,
	} {
		route, ps := r.CheckJSON(`{"pipeline": [], "tools": ` + in + `}`)
		if got := fmt.Sprint(ps.Err()); got != want || !route.Config.Bad || route.Config.Roles != nil {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}
