package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
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
	return edit(t, config, func(hcm map[string]any) {
		routes := hcm["route_config"].(map[string]any)
		delete(hcm, "route_config")
		routes["name"], routes["@type"] = "elsewhere", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
		hcm["rds"] = map[string]any{"route_config_name": "elsewhere", "config_source": resource(t, routes)}
	})
}

// discovered moves the ext_proc filter of a config into a file that Envoy reads by ECDS.
func discovered(t *testing.T, config string) string {
	t.Helper()
	return edit(t, config, func(hcm map[string]any) {
		for _, f := range hcm["http_filters"].([]any) {
			f := f.(map[string]any)
			typed := f["typed_config"].(map[string]any)
			if kind := typed["@type"].(string); strings.HasSuffix(kind, ".ExternalProcessor") {
				delete(f, "typed_config")
				f["config_discovery"] = map[string]any{"type_urls": []any{kind}, "config_source": resource(t, map[string]any{
					"@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "name": f["name"], "typed_config": typed,
				})}
			}
		}
	})
}

// edit changes the connection manager of a config.
func edit(t *testing.T, config string, change func(hcm map[string]any)) string {
	t.Helper()
	var root map[string]any
	if err := yaml.Unmarshal([]byte(config), &root); err != nil {
		t.Fatal(err)
	}
	listener := root["static_resources"].(map[string]any)["listeners"].([]any)[0].(map[string]any)
	chain := listener["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)
	change(chain["typed_config"].(map[string]any))
	root["node"] = map[string]any{"id": "test", "cluster": "test"}
	out, err := yaml.Dump(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// resource is a source of one resource, in a file.
func resource(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	b, err := yaml.Dump(map[string]any{"resources": []any{v}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "resource.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"path_config_source": map[string]any{"path": file}}
}

// TestFilterByECDS: so is a filter that comes by ECDS.
func TestFilterByECDS(t *testing.T) {
	envoytest.Binary(t)
	for mode, want := range map[string][]string{
		"BUFFERED": {},
		"STREAMED": {"warning body-mode @ " + chain},
	} {
		env := start(t, discovered(t, config(t, false, "request_body_mode: BUFFERED", "request_body_mode: "+mode)))
		got := examine(t, doctor.Options{Envoy: "http://" + env.Admin, Admin: admin(t, observe.NewMetrics("v"), nil)})
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}
