package check

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// httpOptionsType is what a cluster says its protocol by.
const httpOptionsType = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// judgeClusters looks at the clusters that filters and routes ask, as far as they are known. Each is looked at once.
func (c *checker) judgeClusters() {
	seen := map[*yaml.Node]bool{}
	for _, f := range c.filters {
		name := scalar(get(f.node, "grpc_service", "envoy_grpc", "cluster_name"))
		if at, ok := c.clusters[name]; ok && !seen[at.node] {
			seen[at.node] = true
			c.judgeCluster(at, name)
		}
	}
}

func (c *checker) judgeCluster(at location, name string) {
	if !speaksHTTP2(at.node) {
		c.found(at.doc, at.node, Error, ClusterProtocol,
			"typed_extension_protocol_options with HttpProtocolOptions: {explicit_http_config: {http2_protocol_options: {}}}",
			"cluster %q speaks HTTP/1.1: gRPC needs HTTP/2, and every stream to tidemark fails", name)
	}
	if hosts := hosts(at.node); hosts > 1 && !sticky(at.node) {
		c.found(at.doc, at.node, Warning, Stickiness, "lb_policy: RING_HASH or MAGLEV with a hash_policy of the session's header",
			"cluster %q spreads requests over %d hosts: a request finds its decisions only where its session's state is", name, hosts)
	}
}

// speaksHTTP2 reports whether a cluster's requests go by HTTP/2.
func speaksHTTP2(cluster *yaml.Node) bool {
	if get(cluster, "http2_protocol_options") != nil {
		return true
	}
	for _, v := range pairs(get(cluster, "typed_extension_protocol_options")) {
		if kind, options := typed(v); kind == httpOptionsType {
			return get(options, "explicit_http_config", "http2_protocol_options") != nil || get(options, "auto_config") != nil ||
				get(options, "use_downstream_protocol_config", "http2_protocol_options") != nil
		}
	}
	return false
}

// hosts is how many addresses a cluster names.
func hosts(cluster *yaml.Node) (n int) {
	for _, e := range items(get(cluster, "load_assignment", "endpoints")) {
		n += len(items(get(e, "lb_endpoints")))
	}
	return n
}

// sticky reports whether a cluster sends equal requests to the same host.
func sticky(cluster *yaml.Node) bool {
	if slices.Contains([]string{"RING_HASH", "MAGLEV"}, scalar(get(cluster, "lb_policy"))) {
		return true
	}
	for _, p := range items(get(cluster, "load_balancing_policy", "policies")) {
		kind, _ := typed(get(p, "typed_extension_config", "typed_config"))
		if strings.HasSuffix(kind, ".RingHash") || strings.HasSuffix(kind, ".Maglev") {
			return true
		}
	}
	return false
}
