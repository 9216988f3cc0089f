package check

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// noFailOpen is what is said of a filter that fails requests in spite of its failure mode.
const noFailOpen = "in full duplex Envoy gives the body away as it comes, and cannot fail open unless it knows beforehand that tidemark is down: %s"

// judgeFailOpen looks at whether requests in full duplex pass while tidemark is down: Envoy must have found out by health
// checks, and must not panic over it and ask all the same. mode is that of a filter, or of a route that overrides it.
func (c *checker) judgeFailOpen(l location, mode, allow, service *yaml.Node) {
	if bodyMode(mode) != fullDuplex || !isTrue(allow) {
		return
	}
	name := scalar(get(service, "envoy_grpc", "cluster_name"))
	at, ok := c.clusters[name]
	cluster := at.node
	var lack string
	switch {
	case name == "":
		lack = "its grpc_service is no cluster"
	case !ok:
		lack = fmt.Sprintf("cluster %q is not in these files", name)
	case len(items(get(cluster, "health_checks"))) == 0:
		lack = fmt.Sprintf("cluster %q has no health checks", name)
	case !isZero(get(cluster, "common_lb_config", "healthy_panic_threshold")):
		lack = fmt.Sprintf("cluster %q asks unhealthy hosts too, by its panic threshold", name)
	default:
		return
	}
	c.found(l.doc, get(mode, "request_body_mode"), Warning, FailureMode,
		"request_body_mode: BUFFERED, or health_checks: [{grpc_health_check: {}}] and common_lb_config: {healthy_panic_threshold: {value: 0}} on the cluster", noFailOpen, lack)
}

// isZero reports whether a percentage is there and zero, which is also what an empty one means.
func isZero(percent *yaml.Node) bool {
	if value := get(percent, "value"); value != nil {
		v, err := strconv.ParseFloat(scalar(value), 64)
		return err == nil && v == 0
	}
	return percent != nil
}

// judgePolicyFailOpen is judgeFailOpen for a policy of Envoy Gateway.
func (c *checker) judgePolicyFailOpen(p *policy, body *yaml.Node) {
	if !isTrue(get(p.node, "failOpen")) {
		return
	}
	health := get(p.node, "backendSettings", "healthCheck")
	var lack string
	switch {
	case get(health, "active") == nil:
		lack = "the backend has no active health check"
	case scalar(get(health, "panicThreshold")) != "0":
		lack = "it asks unhealthy backends too, by the panic threshold"
	default:
		return
	}
	c.found(p.doc, body, Warning, FailureMode, "body: Buffered, or backendSettings: {healthCheck: {active: {type: GRPC}, panicThreshold: 0}}", noFailOpen, lack)
}
