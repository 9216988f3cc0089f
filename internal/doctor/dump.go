package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// dump is the part of Envoy's config_dump that matters, put together as a bootstrap has it.
type dump struct {
	listeners []tree          // those with an ext_proc filter, route configs in place
	clusters  map[string]tree // those that an ext_proc filter asks
	rejected  []string        // updates of listeners and routes that Envoy could not use
}

// tree is decoded JSON.
type tree = map[string]any

// section is one part of a config_dump; which of the fields are there depends on its type.
type section struct {
	StaticListeners []struct {
		Listener json.RawMessage `json:"listener"`
	} `json:"static_listeners"`
	DynamicListeners []struct {
		Name        string `json:"name"`
		ActiveState struct {
			Listener json.RawMessage `json:"listener"`
		} `json:"active_state"`
		ErrorState refusal `json:"error_state"`
	} `json:"dynamic_listeners"`
	StaticClusters        []clusterState `json:"static_clusters"`
	DynamicActiveClusters []clusterState `json:"dynamic_active_clusters"`
	StaticRouteConfigs    []routeState   `json:"static_route_configs"`
	DynamicRouteConfigs   []routeState   `json:"dynamic_route_configs"`
	EcdsFilters           []struct {
		EcdsFilter json.RawMessage `json:"ecds_filter"`
		ErrorState refusal         `json:"error_state"`
	} `json:"ecds_filters"`
}

type clusterState struct {
	Cluster json.RawMessage `json:"cluster"`
}

type routeState struct {
	RouteConfig json.RawMessage `json:"route_config"`
	ErrorState  refusal         `json:"error_state"`
}

// refusal is why an update could not be used.
type refusal struct {
	Details string `json:"details"`
}

// parseDump reads a config_dump. Listeners without an ext_proc filter, and clusters and routes that none of them speaks of, are
// left out before they are decoded.
func parseDump(text []byte) (*dump, error) {
	var all struct {
		Configs []section `json:"configs"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read config_dump: %w", err)
	}
	d := &dump{clusters: map[string]tree{}}
	n := named{map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}}
	var listeners []json.RawMessage
	for i := range all.Configs {
		s := &all.Configs[i]
		for _, l := range s.StaticListeners {
			listeners = append(listeners, l.Listener)
		}
		for _, l := range s.DynamicListeners {
			listeners = append(listeners, l.ActiveState.Listener)
			d.refused("listener "+l.Name, l.ErrorState)
		}
		for _, r := range slices.Concat(s.StaticRouteConfigs, s.DynamicRouteConfigs) {
			n.routes[nameOf(r.RouteConfig)] = r.RouteConfig
			d.refused("routes "+nameOf(r.RouteConfig), r.ErrorState)
		}
		for _, c := range slices.Concat(s.StaticClusters, s.DynamicActiveClusters) {
			n.clusters[nameOf(c.Cluster)] = c.Cluster
		}
		for _, f := range s.EcdsFilters {
			n.filters[nameOf(f.EcdsFilter)] = f.EcdsFilter
			d.refused("filter "+nameOf(f.EcdsFilter), f.ErrorState)
		}
	}
	for _, l := range listeners {
		if !bytes.Contains(l, []byte("ext_proc.v3.ExternalProcessor")) {
			continue
		}
		t, err := decode(l)
		if err != nil {
			return nil, fmt.Errorf("read listener: %w", err)
		}
		if err := d.link(t, n); err != nil {
			return nil, err
		}
		d.listeners = append(d.listeners, t)
	}
	return d, nil
}

func (d *dump) refused(what string, r refusal) {
	if r.Details != "" {
		d.rejected = append(d.rejected, what+": "+oneLine([]byte(r.Details)))
	}
}

// decode reads an object with its numbers as they stand.
func decode(text []byte) (tree, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var t tree
	err := dec.Decode(&t)
	return t, err
}

func nameOf(text json.RawMessage) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(text, &named) // what is no object has no name
	return named.Name
}

// named are the parts of a dump that others speak of by name.
type named struct{ routes, filters, clusters map[string]json.RawMessage }

// link puts route configs that come by RDS, and filters that come by ECDS, where they are named, and keeps the clusters that ext_proc
// filters ask. What is put in names no other of its kind, and is not asked to: one that named itself would have no end.
func (d *dump) link(v any, n named) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := d.link(e, n); err != nil {
				return err
			}
		}
	case tree:
		for _, e := range v {
			if err := d.link(e, n); err != nil {
				return err
			}
		}
		return d.linkOne(v, n)
	}
	return nil
}

// linkOne puts in what v itself names.
func (d *dump) linkOne(v tree, n named) error {
	if rds, ok := v["rds"].(tree); ok && v["route_config"] == nil {
		t, err := d.linked(n.routes[word(rds["route_config_name"])], named{clusters: n.clusters})
		if err != nil {
			return fmt.Errorf("read routes: %w", err)
		}
		if t != nil {
			v["route_config"] = t
		}
	}
	if v["config_discovery"] != nil && v["typed_config"] == nil {
		t, err := d.linked(n.filters[word(v["name"])], named{routes: n.routes, clusters: n.clusters})
		if err != nil {
			return fmt.Errorf("read filter: %w", err)
		}
		if t != nil {
			v["typed_config"] = t["typed_config"]
		}
	}
	if grpc, ok := v["envoy_grpc"].(tree); ok {
		name := word(grpc["cluster_name"])
		if text, ok := n.clusters[name]; ok && d.clusters[name] == nil {
			t, err := decode(text)
			if err != nil {
				return fmt.Errorf("read cluster: %w", err)
			}
			d.clusters[name] = t
		}
	}
	return nil
}

// linked is what a text holds, with what it names put in; nil for none.
func (d *dump) linked(text json.RawMessage, n named) (tree, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	t, err := decode(text)
	if err != nil {
		return nil, err
	}
	return t, d.link(t, n)
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

// sources are the dump's texts to check: one for each listener, and one for all clusters.
func (d *dump) sources() ([]check.Source, error) {
	var out []check.Source
	for i, l := range d.listeners {
		b, err := json.MarshalIndent(tree{"listeners": []any{l}}, "", " ")
		if err != nil {
			return nil, fmt.Errorf("write listener: %w", err)
		}
		out = append(out, check.Source{Name: fmt.Sprintf("listeners/%d", i), Data: b})
	}
	clusters := make([]any, 0, len(d.clusters))
	for _, c := range d.clusters {
		clusters = append(clusters, c)
	}
	slices.SortFunc(clusters, func(a, b any) int {
		return strings.Compare(word(a.(tree)["name"]), word(b.(tree)["name"]))
	})
	b, err := json.MarshalIndent(tree{"clusters": clusters}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write clusters: %w", err)
	}
	return append(out, check.Source{Name: "clusters", Data: b}), nil
}
