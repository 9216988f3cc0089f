package doctor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/doctor"
	"github.com/tidemark-dev/tidemark/internal/observe"
)

// TestRoutesByRDS: routes that come by RDS are judged with the filter that they run through, as in a mesh.
func TestRoutesByRDS(t *testing.T) {
	envoytest.Binary(t)
	for name, want := range map[string][]string{
		"{min_tokens: 200}": {},
		"{mintokens: 200}":  {"error route-config @ listener ingress, virtual host anthropic, route messages"},
	} {
		env := start(t, apart(t, config(t, false, "{min_tokens: 200}", name)))
		got := examine(t, doctor.Options{Envoy: "http://" + env.Admin, Admin: admin(t, observe.NewMetrics("v"), nil)})
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

// apart moves the routes of a config into a file that Envoy reads by RDS.
func apart(t *testing.T, config string) string {
	t.Helper()
	var root map[string]any
	if err := yaml.Unmarshal([]byte(config), &root); err != nil {
		t.Fatal(err)
	}
	listener := root["static_resources"].(map[string]any)["listeners"].([]any)[0].(map[string]any)
	chain := listener["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)
	hcm := chain["typed_config"].(map[string]any)
	routes := hcm["route_config"].(map[string]any)
	delete(hcm, "route_config")
	routes["name"], routes["@type"] = "elsewhere", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	file := filepath.Join(t.TempDir(), "rds.yaml")
	write(t, file, map[string]any{"resources": []any{routes}})
	hcm["rds"] = map[string]any{"route_config_name": "elsewhere", "config_source": map[string]any{"path_config_source": map[string]any{"path": file}}}
	root["node"] = map[string]any{"id": "test", "cluster": "test"}
	out, err := yaml.Dump(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func write(t *testing.T, file string, v any) {
	t.Helper()
	b, err := yaml.Dump(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
