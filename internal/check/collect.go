package check

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// Names that tidemark is told its route config by.
const (
	namespace       = "tidemark"
	resultNamespace = "tidemark.result"
	routeKey        = "x-tidemark-route"
	pipelineKey     = "x-tidemark-pipeline"
)

// Envoy's types, without their prefix.
const (
	extProcType     = "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"
	perRouteType    = "envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
	setMetadataType = "envoy.extensions.filters.http.set_metadata.v3.Config"
	awsSigningType  = "envoy.extensions.filters.http.aws_request_signing.v3.AwsRequestSigning"
	routerType      = "envoy.extensions.filters.http.router.v3.Router"
	aiPerRouteType  = "envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManagerPerRoute"
	decompressType  = "envoy.extensions.filters.http.decompressor.v3.Decompressor"
	aiManagerType   = "envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManager"
)

// inventory is what the documents hold of tidemark.
type inventory struct {
	filters     []*filter // ext_proc filters; once all is collected, tidemark's alone
	policies    []*policy // Envoy Gateway's way to say the same
	clusters    map[string]location
	viaSet      []*location // route configs by set_metadata
	viaRoute    []*location // route configs by route metadata
	limits      int         // buffer limits anywhere
	gwLimits    int         // buffer limits of Envoy Gateway
	copiesRoute bool        // some filter sends the route metadata as x-tidemark-route
	unchecked   string      // what some route does that only usage can check
}

type location struct {
	doc  *document
	node *yaml.Node
}

// filter is one ext_proc filter.
type filter struct {
	location            // its config
	hcm      *yaml.Node // what holds its chain, nil if it stands alone
	listener *yaml.Node // what holds that, nil if it is not there
	ours     bool       // it says tidemark somewhere
}

// policy is one extProc entry of an EnvoyExtensionPolicy.
type policy struct{ location }

// collect finds everything that speaks of tidemark and validates route configs on the way.
func (c *checker) collect() {
	c.clusters = map[string]location{}
	for _, d := range c.docs {
		if d.server {
			continue
		}
		walk(d.root, func(m *yaml.Node, up []*yaml.Node) {
			c.collectFilter(d, m, up)
			c.collectRouteConfig(d, m)
			if name := scalar(get(m, "name")); name != "" && isCluster(m) {
				c.clusters[name] = location{d, m}
			}
			if limited(m) {
				c.limits++
			}
		})
		c.collectGateway(d)
	}
	c.claim()
	c.report.Filters = len(c.filters) + len(c.policies)
}

func (c *checker) collectFilter(d *document, m *yaml.Node, up []*yaml.Node) {
	name, config := typed(m)
	if name != extProcType || config == nil {
		return
	}
	f := &filter{location: location{d, config}}
	around := m
	for _, u := range slices.Backward(up) {
		switch {
		case f.hcm == nil && get(u, "http_filters") != nil:
			f.hcm = u
		case f.hcm != nil && get(u, "filter_chains") != nil && f.listener == nil:
			f.listener = u
		}
	}
	if len(up) > 0 && get(up[len(up)-1], "typed_config") == m {
		around = up[len(up)-1] // with the filter's name
	}
	f.ours = mentions(around, namespace)
	c.filters = append(c.filters, f)
}

// claim decides which ext_proc filters are tidemark's: those that say so, or the only one there is if routes speak of
// tidemark.
func (c *checker) claim() {
	var ours []*filter
	for _, f := range c.filters {
		if f.ours {
			ours = append(ours, f)
		}
	}
	if len(ours) == 0 && len(c.filters) == 1 && c.report.Routes > 0 {
		ours = c.filters
	}
	c.filters = ours
}

// collectRouteConfig validates the route configs that a mapping holds.
func (c *checker) collectRouteConfig(d *document, m *yaml.Node) {
	if scalar(get(m, "metadata_namespace")) == namespace {
		value := get(m, "value")
		switch {
		case value != nil:
			c.viaSet = append(c.viaSet, &location{d, m})
			c.routeConfig(d, value)
		case get(m, "typed_value") != nil:
			c.found(d, m, Error, RouteConfig, "value: {…}", "typed_value is not read, only value is")
		}
	}
	if value := get(m, "filter_metadata", namespace); value != nil {
		c.viaRoute = append(c.viaRoute, &location{d, m})
		c.routeConfig(d, value)
	}
	value := get(m, "value")
	switch strings.ToLower(scalar(get(m, "key"))) {
	case routeKey:
		c.routeText(d, value)
	case pipelineKey:
		if name := scalar(value); name != "" && !strings.Contains(name, "%") {
			route, problems := c.routes.Check(map[string]any{"pipeline": name})
			c.compiled(d, value, nil, route, problems)
		}
	}
}

// routeConfig validates a route config that is written as YAML. What Envoy's reader takes for booleans is one.
func (c *checker) routeConfig(d *document, value *yaml.Node) {
	raw, err := routeconfig.FromYAML(withBooleans(value, map[*yaml.Node]*yaml.Node{}))
	if err != nil {
		c.report.Routes++
		c.found(d, value, Error, RouteConfig, "", "%v", err)
		return
	}
	route, problems := c.routes.Check(raw)
	c.compiled(d, value, value, route, problems)
}

// routeText validates a route config that is written as JSON in a string. Envoy reads the string as a format, in which a
// percent sign is doubled.
func (c *checker) routeText(d *document, value *yaml.Node) {
	text := scalar(value)
	if strings.Contains(text, "%METADATA(ROUTE:"+namespace+")%") {
		c.copiesRoute = true
		return
	}
	plain := strings.ReplaceAll(text, "%%", "")
	if text == "" || strings.Contains(plain, "%") {
		return // what it will be is known at run time alone
	}
	route, problems := c.routes.CheckJSON(strings.ReplaceAll(text, "%%", "%"))
	c.compiled(d, value, nil, route, problems)
}

// compiled notes a route config, and what is wrong with it: at the keys of tree, or at one node if they are inside a string.
func (c *checker) compiled(d *document, at, tree *yaml.Node, route *routeconfig.Route, ps routeconfig.Problems) {
	c.report.Routes++
	if what := unchecked(route); what != "" && c.unchecked == "" {
		line, _ := d.place(at)
		c.unchecked = fmt.Sprintf("%s (%s:%d)", what, filepath.Base(d.file), line)
	}
	for _, p := range ps {
		n, severity, text := at, Error, p.String()
		if tree != nil {
			n = routeconfig.Locate(tree, p.Path)
		}
		if p.Unknown && c.server == nil {
			severity, text = Warning, p.Place()+": the name of a pipeline can only be checked together with the server's config"
		}
		c.found(d, n, severity, RouteConfig, "", "%s", text)
	}
}
