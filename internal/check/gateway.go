package check

import (
	"strings"
)

// collectGateway finds Envoy Gateway's and Istio's own ways to say what Envoy's config says.
func (c *checker) collectGateway(d *document) {
	switch scalar(get(d.root, "kind")) {
	case "EnvoyExtensionPolicy":
		named := mentions(get(d.root, "metadata", "name"), namespace)
		for _, p := range items(get(d.root, "spec", "extProc")) {
			if named || mentions(p, namespace) {
				c.policies = append(c.policies, &policy{location{d, p}})
			}
		}
	case "ClientTrafficPolicy":
		if get(d.root, "spec", "connection", "bufferLimit") != nil {
			c.gwLimits++
		}
	case "EnvoyFilter":
		c.judgePatches(d)
	}
}

// judgePatches looks at where Istio is told to put the filter.
func (c *checker) judgePatches(d *document) {
	for _, p := range items(get(d.root, "spec", "configPatches")) {
		patch := get(p, "patch")
		name, _ := typed(get(patch, "value", "typed_config"))
		if name != extProcType || !mentions(get(patch, "value"), namespace) {
			continue
		}
		operation := get(patch, "operation")
		anchor := scalar(get(p, "match", "listener", "filterChain", "filter", "subFilter", "name"))
		switch scalar(operation) {
		case "INSERT_AFTER":
			if strings.HasSuffix(anchor, ".router") {
				c.found(d, operation, Error, FilterOrder, "operation: INSERT_BEFORE", "the filter would stand after the router and never run")
			}
		case "ADD":
			c.found(d, operation, Warning, FilterOrder, "operation: INSERT_BEFORE the router", "ADD does not say where: the filter may stand after the router")
		}
	}
}

// judgeGateway looks at the policies of Envoy Gateway.
func (c *checker) judgeGateway() {
	for _, p := range c.policies {
		body := get(p.node, "processingMode", "request", "body")
		switch scalar(body) {
		case "Buffered":
			if n := get(p.node, "failOpen"); !isTrue(n) {
				c.found(p.doc, or(n, p.node), Error, FailureMode, "failOpen: true", "failOpen is not true: while tidemark is down or restarts, every request fails")
			}
			if c.gwLimits == 0 {
				c.found(p.doc, body, Warning, BufferLimit, "ClientTrafficPolicy with connection.bufferLimit: 50Mi", "no ClientTrafficPolicy sets a buffer limit: Envoy Gateway refuses bodies over 32 KiB with 413")
			}
		case "FullDuplexStreamed":
			c.judgePolicyFailOpen(p, body)
		case "":
			c.found(p.doc, p.node, Warning, BodyMode, "processingMode: {request: {body: Buffered}}", "tidemark never sees a request body")
		default:
			c.found(p.doc, body, Warning, BodyMode, "body: Buffered", "bodies in mode %s pass untouched: a document cannot be changed piece by piece", scalar(body))
		}
		c.judgeResponseBody(p.location, get(p.node, "processingMode", "response", "body"), nil)
		c.judgeTimeout(p.location, get(p.node, "messageTimeout"), "messageTimeout", scalar(body) == "FullDuplexStreamed")
		c.judgePolicyNamespaces(p)
		c.judgeRouteName(p.location, get(p.node, "processingMode", "request", "attributes"), "processingMode: {request: {attributes: [xds.route_name]}}")
		c.judgePolicyUsage(p)
	}
}

func (c *checker) judgePolicyNamespaces(p *policy) {
	metadata := get(p.node, "metadata")
	if len(c.viaSet) > 0 && !lists(get(metadata, "accessibleNamespaces"), namespace) {
		c.found(p.doc, or(metadata, p.node), Error, Forwarding, "metadata: {accessibleNamespaces: [tidemark]}", "route configs in namespace tidemark do not reach tidemark")
	}
	if !lists(get(metadata, "writableNamespaces"), resultNamespace) {
		c.found(p.doc, or(metadata, p.node), Warning, Receiving, "metadata: {writableNamespaces: [tidemark.result]}", "results do not reach access logs")
	}
}
