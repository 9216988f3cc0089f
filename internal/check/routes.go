package check

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// perRoute returns the ext_proc config of a route or virtual host, nil without one.
func perRoute(m *yaml.Node) (config *yaml.Node, disabled bool) {
	for name, v := range pairs(get(m, "typed_per_filter_config")) {
		kind, config := typed(v)
		switch {
		case kind == perRouteType:
			return config, isTrue(get(config, "disabled"))
		case strings.HasSuffix(kind, ".FilterConfig") && strings.Contains(name.Value, "ext_proc"):
			return config, isTrue(get(config, "disabled"))
		}
	}
	return nil, false
}

// overridden reports whether some route sets a processing mode of its own.
func (c *checker) overridden() (yes bool) {
	for _, d := range c.docs {
		walk(d.root, func(m *yaml.Node, _ []*yaml.Node) {
			if name, config := typed(m); name == perRouteType && get(config, "overrides", "processing_mode") != nil {
				yes = true
			}
		})
	}
	return yes
}

// judgeRoutes looks at the routes of a document.
func (c *checker) judgeRoutes(d *document) {
	walk(d.root, func(m *yaml.Node, up []*yaml.Node) {
		if name, config := typed(m); name == perRouteType {
			c.judgeOverrides(location{d, config}, c.filterOf(up))
		}
		if get(m, "match") != nil && get(m, "route") != nil {
			c.judgeRoute(d, m, up)
		}
	})
}

// judgeOverrides looks at what a route changes of the filter's config. f is nil if it is not known.
func (c *checker) judgeOverrides(l location, f *filter) {
	overrides := get(l.node, "overrides")
	if mode := get(overrides, "processing_mode"); mode != nil {
		c.judgeModes(l, mode, false)
		if f != nil {
			c.judgeFailOpen(l, mode, or(get(overrides, "failure_mode_allow"), get(f.node, "failure_mode_allow")), or(get(overrides, "grpc_service"), get(f.node, "grpc_service")))
			if !blind(f, get(f.node, "processing_mode")) { // else the filter itself is reported
				c.judgeUsage(l, f, mode)
			}
		}
	}
	options := get(overrides, "metadata_options")
	if len(c.viaSet) > 0 && options != nil && !lists(get(options, "forwarding_namespaces", "untyped"), namespace) {
		c.found(l.doc, options, Error, Forwarding, "forwarding_namespaces: {untyped: [tidemark]}", "the route's list of namespaces takes the place of the filter's, and tidemark is not in it")
	}
}

// judgeRoute looks at one route that leads upstream.
func (c *checker) judgeRoute(d *document, route *yaml.Node, up []*yaml.Node) {
	f := c.filterOf(up)
	config, disabled := perRoute(route)
	host := around(up, "routes")
	if config == nil && !disabled {
		config, disabled = perRoute(host)
	}
	if f == nil || disabled {
		return
	}
	processing := or(get(config, "overrides", "processing_mode"), get(f.node, "processing_mode"))
	c.judgeSilentTap(d, append(slices.Clone(up), route), f, processing)
	mode := bodyMode(processing)
	retry := get(route, "route", "retry_policy")
	if retry == nil {
		retry = get(host, "retry_policy")
	}
	if mode == fullDuplex && retry != nil {
		c.found(d, retry, Error, RetryDuplex, "request_body_mode: BUFFERED on routes that are retried", "in FULL_DUPLEX_STREAMED a retry sends the body twice")
	}
	if mode == buffered || mode == fullDuplex {
		c.upgrades(d, get(route, "route", "upgrade_configs"))
	}
	if mode == buffered && c.limits > 0 && c.configured(route) {
		c.judgeLimit(d, route, host, f)
	}
}

// filterOf is the ext_proc filter that a route runs through: that of the chain around it, or the only one there is.
func (c *checker) filterOf(up []*yaml.Node) *filter {
	hcm := around(up, "http_filters")
	for _, f := range c.filters {
		if hcm != nil && f.hcm == hcm {
			return f
		}
	}
	if hcm == nil && len(c.filters) == 1 {
		return c.filters[0]
	}
	return nil
}

// around is the nearest mapping that has the key.
func around(up []*yaml.Node, key string) *yaml.Node {
	for _, u := range slices.Backward(up) {
		if get(u, key) != nil {
			return u
		}
	}
	return nil
}

// configured reports whether the route says something about tidemark itself.
func (c *checker) configured(route *yaml.Node) bool {
	return mentions(get(route, "typed_per_filter_config"), namespace) || get(route, "metadata", "filter_metadata", namespace) != nil
}

// judgeLimit compares the buffer limit of a route with what bodies need and with what tidemark takes.
func (c *checker) judgeLimit(d *document, route, host *yaml.Node, f *filter) {
	var limit *yaml.Node
	for _, m := range []*yaml.Node{route, host, f.listener} {
		if limit == nil && m != nil {
			limit = limitOf(m)
		}
	}
	bytes, ok := number(limit)
	switch most := c.config().MaxBodyBytes; {
	case limit == nil:
		c.found(d, route, Warning, BufferLimit, "request_body_buffer_limit: 33554432", "the route has no buffer limit: bodies over 1 MiB are refused with 413")
	case ok && bytes < defaultLimit:
		c.found(d, limit, Warning, BufferLimit, "request_body_buffer_limit: 33554432", "the limit is below the size of many transcripts: they are refused with 413")
	case ok && bytes > uint64(most):
		c.found(d, limit, Warning, BufferLimit, "raise tidemark's max_body_bytes", "bodies over tidemark's max_body_bytes of %d pass untouched, and the provider's cache is lost with that", most)
	}
}

// judgeUpgrades looks at upgrades that the whole chain allows.
func (c *checker) judgeUpgrades(f *filter) {
	if m := bodyMode(get(f.node, "processing_mode")); m == buffered || m == fullDuplex {
		c.upgrades(f.doc, get(f.hcm, "upgrade_configs"))
	}
}

func (c *checker) upgrades(d *document, configs *yaml.Node) {
	for _, u := range items(configs) {
		enabled := get(u, "enabled")
		if get(u, "filters") != nil || enabled != nil && !isTrue(enabled) {
			continue
		}
		c.found(d, u, Warning, Upgrade, "ExtProcPerRoute {disabled: true} on routes that upgrade", "an upgrade to %s waits for the end of a body that has none", scalar(get(u, "upgrade_type")))
	}
}

// limitKeys are the keys of Envoy's buffer limits.
var limitKeys = []string{"request_body_buffer_limit", "per_request_buffer_limit_bytes", "per_connection_buffer_limit_bytes"}

// limited reports whether the mapping sets a limit for request bodies. A cluster's limit is one of responses.
func limited(m *yaml.Node) bool { return !isCluster(m) && limitOf(m) != nil }

func isCluster(m *yaml.Node) bool {
	return slices.ContainsFunc([]string{"load_assignment", "lb_policy", "connect_timeout", "eds_cluster_config"}, func(key string) bool {
		return get(m, key) != nil
	})
}

func limitOf(m *yaml.Node) *yaml.Node {
	for _, key := range limitKeys {
		if n := get(m, key); n != nil {
			return n
		}
	}
	return nil
}
