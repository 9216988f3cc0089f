package check

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// usageNamespace is where ai_protocol_manager puts the usage that it reads from responses.
const usageNamespace = "envoy.ai.token_usage"

// untapped is what is said of a filter that does not see responses.
const untapped = "%s cannot check itself: tidemark does not see what the provider bills, and a cache that behaves otherwise than expected costs unnoticed"

// unchecked is what a route does that only usage can check, empty for nothing.
func unchecked(r *routeconfig.Route) string {
	switch {
	case r == nil || r.Config.Bad || r.Config.Mode == pipeline.Off:
	case r.Config.Levers.TTL != pipeline.KeepTTL:
		return fmt.Sprintf("ttl: %s", r.Config.Levers.TTL)
	case r.Config.Moves.Brake && len(r.Config.Filters) > 0:
		return "brake: true"
	}
	return ""
}

// needsUsage is what a route, or the server's default, does that only usage can check.
func (c *checker) needsUsage() string {
	if what := unchecked(c.routes.Default()); what != "" && c.unchecked == "" {
		return what + " (the server's default)"
	}
	return c.unchecked
}

// judgeUsage looks at whether tidemark learns what the provider billed for what it changed. mode is that of the filter f, or
// of a route that overrides it.
func (c *checker) judgeUsage(l location, f *filter, mode *yaml.Node) {
	what := c.needsUsage()
	if what == "" || !blind(f, mode) {
		return
	}
	c.found(l.doc, or(mode, l.node), Warning, Usage,
		"response_header_mode: SEND with allow_mode_override: true or response_body_mode: STREAMED, or ai_protocol_manager with response_trailer_mode: SEND", untapped, what)
}

// blind reports whether tidemark changes requests and does not learn what they cost.
func blind(f *filter, mode *yaml.Node) bool {
	m := bodyMode(mode)
	return (m == buffered || m == fullDuplex) && !tapsBody(f, mode) && !tapsTrailers(f, mode)
}

// tapsBody reports whether tidemark sees the response itself: it comes anyway, or tidemark may ask for it, which Envoy lets it
// do unless the request is in full duplex. The headers say how to read it.
func tapsBody(f *filter, mode *yaml.Node) bool {
	if scalar(get(mode, "response_header_mode")) == "SKIP" {
		return false
	}
	if body := scalar(get(mode, "response_body_mode")); body != "" && body != "NONE" { // then tidemark cannot ask
		return !holdsBack(body)
	}
	allowed := items(get(f.node, "allowed_override_modes"))
	return isTrue(get(f.node, "allow_mode_override")) && bodyMode(mode) == buffered &&
		(len(allowed) == 0 || slices.ContainsFunc(allowed, func(m *yaml.Node) bool { return scalar(get(m, "response_body_mode")) == "STREAMED" }))
}

// judgePolicyUsage is judgeUsage for a policy of Envoy Gateway, which sends no headers of a response that it says nothing of.
func (c *checker) judgePolicyUsage(p *policy) {
	what, mode := c.needsUsage(), get(p.node, "processingMode")
	body, response := scalar(get(mode, "request", "body")), get(mode, "response")
	seen := scalar(get(response, "body"))
	asked := isTrue(get(mode, "allowModeOverride")) && response != nil && body == "Buffered" && seen == ""
	if what == "" || body != "Buffered" && body != "FullDuplexStreamed" || seen != "" && !holdsBack(seen) || asked {
		return
	}
	c.found(p.doc, or(mode, p.node), Warning, Usage, "processingMode: {allowModeOverride: true, response: {}}, or response: {body: Streamed}", untapped, what)
}

// tapsTrailers reports whether ai_protocol_manager reads the usage and tells it with the trailers. A filter whose chain is not
// known has one.
func tapsTrailers(f *filter, mode *yaml.Node) bool {
	if scalar(get(mode, "response_trailer_mode")) != "SEND" || !lists(get(f.node, "metadata_options", "forwarding_namespaces", "typed"), usageNamespace) {
		return false
	}
	return f.hcm == nil || slices.ContainsFunc(items(get(f.hcm, "http_filters")), func(e *yaml.Node) bool {
		name, config := typed(get(e, "typed_config"))
		return name == aiManagerType && scalar(get(config, "response_handling", "token_usage", "usage_signal")) == "SYNTHESIZE_TRAILERS"
	})
}

// judgeSilentTap looks at whether ai_protocol_manager, where only that tells the usage, can read the responses of a route: it must
// know the provider's API, and reads nothing compressed. levels are the route, last, and the mappings around it.
func (c *checker) judgeSilentTap(d *document, levels []*yaml.Node, f *filter, mode *yaml.Node) {
	what, m := c.needsUsage(), bodyMode(mode)
	if what == "" || m != buffered && m != fullDuplex || tapsBody(f, mode) || !tapsTrailers(f, mode) {
		return
	}
	route := levels[len(levels)-1]
	if !slices.ContainsFunc(levels, namesProtocol) && !managerNamesProtocol(f) {
		c.found(d, route, Warning, Usage, "AiProtocolManagerPerRoute with response: {llm_protocol: ANTHROPIC_MESSAGES} on the route",
			untapped+": ai_protocol_manager is not told the API of this route", what)
	}
	if !slices.ContainsFunc(levels, refusesCompression) && !slices.ContainsFunc(items(get(f.hcm, "http_filters")), decompresses) {
		c.found(d, route, Warning, Usage, "request_headers_to_remove: [accept-encoding] on the route, or a decompressor in the chain",
			untapped+": ai_protocol_manager reads no compressed response", what)
	}
}

// namesProtocol reports whether a route, or what holds it, tells ai_protocol_manager which API the provider speaks.
func namesProtocol(m *yaml.Node) bool {
	for _, v := range pairs(get(m, "typed_per_filter_config")) {
		if kind, config := typed(v); kind == aiPerRouteType && scalar(get(config, "response", "llm_protocol")) != "" {
			return true
		}
	}
	return false
}

// managerNamesProtocol reports whether the chain's ai_protocol_manager has a protocol for routes that name none. A chain that is
// not known may.
func managerNamesProtocol(f *filter) bool {
	return f.hcm == nil || slices.ContainsFunc(items(get(f.hcm, "http_filters")), func(e *yaml.Node) bool {
		name, config := typed(get(e, "typed_config"))
		return name == aiManagerType && scalar(get(config, "response_handling", "token_usage", "default_llm_protocol")) != ""
	})
}

// refusesCompression reports whether a route, or what holds it, keeps providers from compressing responses.
func refusesCompression(m *yaml.Node) bool {
	return slices.ContainsFunc(items(get(m, "request_headers_to_remove")), func(e *yaml.Node) bool {
		return strings.EqualFold(scalar(e), "accept-encoding")
	})
}

// decompresses reports whether an element of a chain undoes compression, or does something about the header that asks for it.
func decompresses(e *yaml.Node) bool {
	name, _ := typed(get(e, "typed_config"))
	return name == decompressType || mentions(e, "accept-encoding")
}
