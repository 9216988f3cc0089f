package routeconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// TestSeedPresetsHaveTheSeedsDefaults: a seed's preset runs that seed's filter alone, with the values that the seed states.
func TestSeedPresetsHaveTheSeedsDefaults(t *testing.T) {
	r, _ := resolver(t)
	type own struct {
		filter string
		keys   map[string]any
	}
	seeds := map[string]own{
		"seed-000": {"readlifecycle", map[string]any{
			"min_tokens": 100, "stale": true, "superseded": true, "bash_edits": false, "stale_at_depth": false, "cold_cache": false, "marker_mode": "full",
		}},
		"seed-001": {"tiered", map[string]any{
			"window": 8, "stub_distance": 20, "max_chars": 300, "browser_window": 3, "summary_min_chars": 2000, "max_attempts_per_pass": 2,
		}},
		"seed-002": {"shed", map[string]any{"budget": 48_000}},
		"seed-003": {"readmaturation", map[string]any{"quiesce_turns": 5, "max_hold_turns": 25, "min_size_bytes": 2048, "hold": "always"}},
		"seed-004": {"coref", map[string]any{
			"min_tokens": 300, "cut_unreferenced": true, "cut_closed": false, "min_later_turns": 8, "open_reps": 3, "closed_dist": 12,
			"keep_head_chars": 96, "min_batch_frac": 0.05, "rewrite_budget": 3, "break_even": true, "marker_mode": "full",
		}},
	}
	found := 0
	for _, p := range routeconfig.Presets() {
		if !strings.HasPrefix(p.Name, "seed-") {
			continue
		}
		found++
		route, c := r.Resolve("r", routeconfig.Sources{Name: p.Name}), seeds[p.Name]
		if names(route) != c.filter {
			t.Errorf("%s runs %q, want %q", p.Name, names(route), c.filter)
			continue
		}
		all, _ := route.Effective["components"].(map[string]any)[c.filter].(map[string]any)
		got := map[string]any{}
		for key := range c.keys {
			got[key] = all[key]
		}
		if diff := cmp.Diff(c.keys, got); diff != "" {
			t.Errorf("%s: %s", p.Name, diff)
		}
	}
	if found < 4 {
		t.Errorf("%d presets of seeds", found)
	}
}
