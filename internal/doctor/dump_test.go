package doctor

import (
	"strings"
	"testing"
)

// TestRoutesThatNameRoutes: an answer whose route configs name themselves or one another ends, and what it says is read.
func TestRoutesThatNameRoutes(t *testing.T) {
	const listener = `{"listener": {"type": "ext_proc.v3.ExternalProcessor", "rds": {"route_config_name": "a"}}}`
	for name, routes := range map[string]string{
		"itself":    `{"route_config": {"name": "a", "rds": {"route_config_name": "a"}}}`,
		"a circle":  `{"route_config": {"name": "a", "rds": {"route_config_name": "b"}}}, {"route_config": {"name": "b", "in": [{"rds": {"route_config_name": "a"}}]}}`,
		"a cluster": `{"route_config": {"name": "a", "x": {"envoy_grpc": {"cluster_name": "c"}, "rds": {"route_config_name": "a"}}}}`,
	} {
		d, err := parseDump([]byte(`{"configs": [{"static_listeners": [` + listener + `], "static_route_configs": [` + routes +
			`], "static_clusters": [{"cluster": {"name": "c"}}]}]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sources, err := d.sources()
		if err != nil || len(d.listeners) != 1 || !strings.Contains(string(sources[0].Data), `"route_config"`) || (name == "a cluster") != (d.clusters["c"] != nil) {
			t.Errorf("%s: %v: %v, %s", name, err, d.clusters, sources[0].Data)
		}
	}
}

// TestFiltersThatNameFilters: the same of filters that come by ECDS.
func TestFiltersThatNameFilters(t *testing.T) {
	const listener = `{"listener": {"http_filters": [{"name": "f", "config_discovery": {"type_urls": ["ext_proc.v3.ExternalProcessor"]}}]}}`
	for name, filters := range map[string]string{
		"itself":    `{"ecds_filter": {"name": "f", "typed_config": {"in": {"name": "f", "config_discovery": {}}}}}`,
		"a circle":  `{"ecds_filter": {"name": "f", "typed_config": {"name": "g", "config_discovery": {}}}}, {"ecds_filter": {"name": "g", "typed_config": {"name": "f", "config_discovery": {}}}}`,
		"a cluster": `{"ecds_filter": {"name": "f", "typed_config": {"x": {"envoy_grpc": {"cluster_name": "c"}}}}}`,
		"nothing":   `{"ecds_filter": []}, {}`,
	} {
		d, err := parseDump([]byte(`{"configs": [{"static_listeners": [` + listener + `]}, {"ecds_filters": [` + filters + `]}, {"static_clusters": [{"cluster": {"name": "c"}}]}]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sources, err := d.sources()
		if err != nil || strings.Contains(string(sources[0].Data), `"typed_config"`) != (name != "nothing") || (name == "a cluster") != (d.clusters["c"] != nil) {
			t.Errorf("%s: %v: %v, %s", name, err, d.clusters, sources[0].Data)
		}
	}
}
