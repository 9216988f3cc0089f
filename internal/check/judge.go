package check

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v4"
)

// Envoy's defaults.
const (
	defaultTimeout = 200 * time.Millisecond // message_timeout
	defaultLimit   = 1 << 20                // bytes of a body that is buffered
)

// Body modes of ext_proc.
const (
	buffered   = "BUFFERED"
	fullDuplex = "FULL_DUPLEX_STREAMED"
)

// judge looks at what was collected.
func (c *checker) judge() {
	elsewhere := c.overridden()
	for _, f := range c.filters {
		mode := get(f.node, "processing_mode")
		c.judgeModes(f.location, mode, elsewhere)
		c.judgeLife(f)
		c.judgeFailOpen(f.location, mode, get(f.node, "failure_mode_allow"), get(f.node, "grpc_service"))
		c.judgeUsage(f.location, f, mode)
		c.judgeNamespaces(f)
		c.judgeRouteName(f.location, get(f.node, "request_attributes"), "request_attributes: [xds.route_name]")
		c.judgeChain(f)
		c.judgeUpgrades(f)
		if c.limits == 0 && c.gwLimits == 0 && bodyMode(mode) == buffered {
			c.found(f.doc, f.node, Warning, BufferLimit, "request_body_buffer_limit: 33554432 on the routes",
				"no buffer limit is set anywhere: bodies over 1 MiB are refused with 413")
		}
	}
	if len(c.filters) > 0 && !c.copiesRoute {
		for _, l := range c.viaRoute {
			c.found(l.doc, l.node, Error, Forwarding, `initial_metadata: [{key: x-tidemark-route, value: "%METADATA(ROUTE:tidemark)%"}] on the ext_proc filter's grpc_service, or per-route set_metadata`,
				"route metadata does not reach tidemark by itself")
		}
	}
	for _, d := range c.docs {
		if !d.server {
			c.judgeRoutes(d)
		}
	}
	c.judgeClusters()
	c.judgeGateway()
}

func bodyMode(mode *yaml.Node) string {
	if m := scalar(get(mode, "request_body_mode")); m != "" {
		return m
	}
	return "NONE"
}

// judgeModes looks at a processing mode, of a filter or of a route that overrides it. elsewhere says that routes set body
// modes of their own.
func (c *checker) judgeModes(l location, mode *yaml.Node, elsewhere bool) {
	c.judgeResponseBody(l, get(mode, "response_body_mode"), get(mode, "response_trailer_mode"))
	at := l.node
	if n := get(mode, "request_body_mode"); n != nil {
		at = n
	}
	switch m := bodyMode(mode); m {
	case buffered:
		if n := get(mode, "request_header_mode"); scalar(n) == "SKIP" {
			c.found(l.doc, n, Error, HeaderMode, "request_header_mode: SEND", "without request headers tidemark knows neither path nor session and passes everything")
		}
	case fullDuplex:
		if scalar(get(mode, "request_trailer_mode")) != "SEND" {
			c.found(l.doc, at, Error, TrailerMode, "request_trailer_mode: SEND", "Envoy refuses FULL_DUPLEX_STREAMED without trailers: they may end a body")
		}
	case "NONE":
		if !elsewhere {
			c.found(l.doc, at, Warning, BodyMode, "request_body_mode: BUFFERED", "tidemark never sees a request body")
		}
	default:
		c.found(l.doc, at, Warning, BodyMode, "request_body_mode: BUFFERED", "bodies in mode %s pass untouched: a document cannot be changed piece by piece", m)
	}
}

// holdsBack reports whether a mode of response bodies, in Envoy's words or in those of Envoy Gateway, keeps a stream until it is
// complete.
func holdsBack(mode string) bool {
	return slices.Contains([]string{buffered, "BUFFERED_PARTIAL", "Buffered", "BufferedPartial"}, mode)
}

// judgeResponseBody looks at the modes of response bodies and trailers, nil where they are not there.
func (c *checker) judgeResponseBody(l location, body, trailers *yaml.Node) {
	switch m := scalar(body); {
	case holdsBack(m):
		c.found(l.doc, body, Warning, BodyMode, "STREAMED, in Envoy Gateway Streamed", "%s holds a response back until it is complete or fills the buffer: clients that stream wait for all of it", m)
	case m == fullDuplex && scalar(trailers) != "SEND":
		c.found(l.doc, body, Error, TrailerMode, "response_trailer_mode: SEND", "Envoy refuses a response body in FULL_DUPLEX_STREAMED without trailers: they may end a body")
	}
}

// judgeLife looks at what happens when tidemark is slow or gone.
func (c *checker) judgeLife(f *filter) {
	c.judgeTimeout(f.location, get(f.node, "message_timeout"), "message_timeout", bodyMode(get(f.node, "processing_mode")) == fullDuplex)
	if n := get(f.node, "failure_mode_allow"); !isTrue(n) {
		c.found(f.doc, or(n, f.node), Error, FailureMode, "failure_mode_allow: true", "failure_mode_allow is not true: while tidemark is down or restarts, every request fails")
	}
	if n := get(f.node, "observability_mode"); isTrue(n) {
		c.found(f.doc, n, Warning, BodyMode, "observability_mode: false", "in observability mode Envoy does not listen to answers")
	}
}

// judgeTimeout compares Envoy's patience with tidemark's deadline. In full duplex Envoy has no timer.
func (c *checker) judgeTimeout(l location, n *yaml.Node, key string, untimed bool) {
	if untimed {
		return
	}
	timeout, ok := duration(n)
	if n == nil {
		timeout, ok = defaultTimeout, true
	}
	switch deadline := c.deadline(); {
	case ok && timeout <= deadline:
		c.found(l.doc, or(n, l.node), Error, Timeout, key+": 5s", "%s is %v and tidemark's deadline %v: Envoy sends the original where a decision stands, and the provider's cache is lost", key, timeout, deadline)
	case n == nil:
		c.found(l.doc, l.node, Warning, Timeout, key+": 5s", "%s is not set: Envoy's 200ms include the transfer and trip on big bodies", key)
	}
}

// judgeNamespaces looks at what is sent to tidemark and back besides the body.
func (c *checker) judgeNamespaces(f *filter) {
	options := get(f.node, "metadata_options")
	if len(c.viaSet) > 0 && !lists(get(options, "forwarding_namespaces", "untyped"), namespace) {
		c.found(f.doc, or(options, f.node), Error, Forwarding, "metadata_options: {forwarding_namespaces: {untyped: [tidemark]}}", "route configs in namespace tidemark do not reach tidemark")
	}
	if !lists(get(options, "receiving_namespaces", "untyped"), resultNamespace) {
		c.found(f.doc, or(options, f.node), Warning, Receiving, "metadata_options: {receiving_namespaces: {untyped: [tidemark.result]}}", "results do not reach access logs")
	}
}

// judgeRouteName looks at whether tidemark learns the names of routes. attributes are those that Envoy sends.
func (c *checker) judgeRouteName(l location, attributes *yaml.Node, fix string) {
	if len(c.config().OffRoutes) > 0 && !lists(attributes, "xds.route_name") {
		c.found(l.doc, or(attributes, l.node), Error, RouteName, fix, "the server's off_routes do nothing: the names of routes do not reach tidemark")
	}
}

func lists(n *yaml.Node, want string) bool {
	return slices.ContainsFunc(items(n), func(e *yaml.Node) bool { return scalar(e) == want })
}

// or is the first node that is there.
func or(n, fallback *yaml.Node) *yaml.Node {
	if n != nil {
		return n
	}
	return fallback
}

// judgeChain looks at the filters around tidemark's.
func (c *checker) judgeChain(f *filter) {
	chain := items(get(f.hcm, "http_filters"))
	at := slices.IndexFunc(chain, func(e *yaml.Node) bool {
		_, config := typed(get(e, "typed_config"))
		return config == f.node
	})
	if at < 0 {
		return
	}
	setMetadata := -1
	for i, e := range chain {
		name, config := typed(get(e, "typed_config"))
		switch {
		case name == setMetadataType && setMetadata < 0:
			setMetadata = i
		case name == routerType && i < at:
			c.found(f.doc, chain[at], Error, FilterOrder, "move it before the router", "the filter stands after the router and never runs")
		case name == awsSigningType && i < at:
			c.found(f.doc, chain[at], Error, FilterOrder, "move it before aws_request_signing", "the body is changed after it was signed: the provider refuses the request")
		case name == extProcType && i < at && bodyMode(get(config, "processing_mode")) != "NONE":
			c.otherProcessor(f, chain[at], e)
		case name == aiManagerType:
			c.protocolManager(f, chain[at], config, i < at)
		}
	}
	switch {
	case len(c.viaSet) == 0:
	case setMetadata < 0:
		c.found(f.doc, chain[at], Error, FilterOrder, "add envoy.filters.http.set_metadata before it", "routes say their config by set_metadata, but the chain has no such filter")
	case setMetadata > at:
		c.found(f.doc, chain[setMetadata], Error, FilterOrder, "move it before the ext_proc filter", "set_metadata runs after tidemark was asked: route configs do not reach it")
	}
}

func (c *checker) otherProcessor(f *filter, ours, theirs *yaml.Node) {
	if mentions(theirs, "ai-gateway", "ai_gateway", "aigateway", "aigw") {
		c.found(f.doc, ours, Error, FilterOrder, "move it before the gateway's ext_proc filter", "the AI gateway keeps its own copy of the body: what a filter after it changes is dropped")
		return
	}
	c.found(f.doc, ours, Warning, FilterOrder, "move it before the other ext_proc filter", "another ext_proc filter sees the body first: what it keeps is not what is sent")
}

// protocolManager looks at an ai_protocol_manager in the chain. It reads the usage of responses, for which it must stand after
// tidemark, and it writes requests anew unless it is told not to.
func (c *checker) protocolManager(f *filter, ours, config *yaml.Node, before bool) {
	if before && wantsMetadata(f) {
		c.found(f.doc, ours, Error, FilterOrder, "move it before ai_protocol_manager", "responses run through the chain in reverse: the usage is not there yet when tidemark is asked")
	}
	n := get(config, "request_handling")
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	if mode := scalar(get(n, "reserialize_body")); mode != "DISABLE" && mode != "1" { // Envoy also reads an enum by its number
		c.found(f.doc, n, Error, BodyRewrite, "no request_handling, or reserialize_body: DISABLE in it", "ai_protocol_manager writes the body anew, and the provider's cache does not know it again")
	}
}

// wantsMetadata reports whether a filter is to be told the usage by metadata.
func wantsMetadata(f *filter) bool {
	return scalar(get(f.node, "processing_mode", "response_trailer_mode")) == "SEND" ||
		lists(get(f.node, "metadata_options", "forwarding_namespaces", "typed"), usageNamespace)
}
