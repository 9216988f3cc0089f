// Package check reads configuration before it is deployed: tidemark's own server config, and Envoy's wherever it says
// something about tidemark.
//
// It finds every route config for tidemark in any YAML or JSON document (a bootstrap, a listener, a route fragment, an
// Envoy Gateway or Istio resource, a ConfigMap that holds one of them), validates it by the same code that the server
// runs, and looks at the ext_proc filter for what is known to go wrong (see [Rule]). Envoy's own validation is not
// repeated.
//
// [Files] reads files and nothing else, [Sources] not even those; references between them are not followed. What it needs of the server (deadline,
// largest body, names of pipelines) comes from a server config among the files, else from the defaults.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// Severity says whether a finding must be mended.
type Severity string

// Severities.
const (
	Error   Severity = "error"   // requests fail, state is lost, or what was configured does not happen
	Warning Severity = "warning" // it works until a known case comes
)

// Rule names what a finding is about.
type Rule string

// Rules.
const (
	RouteConfig     Rule = "route-config"         // a route config that the server could not use
	ServerConfig    Rule = "server-config"        // the same of the server's config
	FilterOrder     Rule = "filter-order"         // a filter on the wrong side of ext_proc
	BodyRewrite     Rule = "body-rewrite"         // another filter writes the body anew
	BodyMode        Rule = "body-mode"            // bodies that tidemark never sees, or cannot change
	HeaderMode      Rule = "header-mode"          // BUFFERED without headers
	TrailerMode     Rule = "trailer-mode"         // FULL_DUPLEX_STREAMED without trailers
	Timeout         Rule = "message-timeout"      // Envoy gives up before tidemark does
	FailureMode     Rule = "failure-mode"         // requests fail when tidemark does, always or in full duplex
	BufferLimit     Rule = "buffer-limit"         // big bodies are refused
	Forwarding      Rule = "forwarding-namespace" // the route config does not reach tidemark
	Receiving       Rule = "receiving-namespace"  // results do not reach the access log
	RetryDuplex     Rule = "retry-duplex"         // retries send the body twice
	Upgrade         Rule = "upgrade"              // upgrades wait for a body that never ends
	RouteName       Rule = "route-name"           // routes that the server's config names cannot be told
	Usage           Rule = "usage"                // what tidemark does cannot be checked by what the provider bills
	ClusterProtocol Rule = "cluster-protocol"     // Envoy speaks no gRPC to tidemark
	Stickiness      Rule = "stickiness"           // the requests of a session go to several replicas
)

// Finding is one thing that was found.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Col      int      `json:"col"`
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`
}

// String is the finding on one line, in the form that editors and CI systems read.
func (f *Finding) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: %s: %s", f.File, f.Line, f.Col, f.Severity, f.Rule, f.Message)
	if f.Fix != "" {
		s += " (fix: " + f.Fix + ")"
	}
	return s
}

// Report is what was found in all files.
type Report struct {
	Servers  int        `json:"server_configs"`
	Routes   int        `json:"route_configs"`
	Filters  int        `json:"ext_proc_filters"`
	Findings []*Finding `json:"findings"` // by file, line and column
}

// Errors is the number of findings that must be mended.
func (r *Report) Errors() (n int) {
	for _, f := range r.Findings {
		if f.Severity == Error {
			n++
		}
	}
	return n
}

// ErrNothing says that no file holds anything about tidemark.
var ErrNothing = errors.New("nothing about tidemark found")

// Source is a text to check, in YAML or JSON, and the name that findings give it as their file.
type Source struct {
	Name string
	Data []byte
}

// Files checks files together. The error says that a file could not be read at all, or is [ErrNothing].
func Files(paths []string, filters []routeconfig.Filter) (*Report, error) {
	sources := make([]Source, len(paths))
	for i, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("read file: %w", err)
		}
		sources[i] = Source{p, data}
	}
	return Sources(sources, filters)
}

// Sources is Files for texts that are no files, such as what a running Envoy says of its config.
func Sources(sources []Source, filters []routeconfig.Filter) (*Report, error) {
	c := &checker{report: &Report{Findings: []*Finding{}}, defaults: serverconfig.Defaults()}
	for _, s := range sources {
		docs, err := read(s)
		if err != nil {
			return nil, err
		}
		c.docs = append(c.docs, docs...)
	}
	if err := c.servers(filters); err != nil {
		return nil, err
	}
	c.collect()
	c.judge()
	r := c.report
	if r.Servers+r.Routes+r.Filters == 0 {
		return nil, ErrNothing
	}
	slices.SortStableFunc(r.Findings, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Rule, b.Rule))
	})
	r.Findings = slices.CompactFunc(r.Findings, func(a, b *Finding) bool { return *a == *b })
	return r, nil
}

// checker holds what was read and what was found.
type checker struct {
	docs     []*document
	report   *Report
	defaults serverconfig.Config
	routes   *routeconfig.Resolver // of the server config, or of the defaults
	server   *serverconfig.Config  // nil without a server config
	inventory
}

func (c *checker) deadline() time.Duration { return c.config().Deadline }

func (c *checker) config() *serverconfig.Config {
	if c.server != nil {
		return c.server
	}
	return &c.defaults
}

// servers validates the server configs. The first one without faults is what routes are checked against.
func (c *checker) servers(filters []routeconfig.Filter) error {
	for _, d := range c.docs {
		if !d.server {
			continue
		}
		c.report.Servers++
		l, faults := serverconfig.FromNode(d.root, serverconfig.Sources{File: d.file, Filters: filters})
		for _, f := range faults {
			c.report.Findings = append(c.report.Findings, &Finding{
				File: d.file, Line: f.Line + d.lines, Col: f.Col + d.cols, Severity: Error, Rule: ServerConfig, Message: f.Problem.String(),
			})
		}
		if len(faults) == 0 && c.server == nil {
			c.server, c.routes = &l.Config, l.Routes
		}
	}
	if c.routes == nil {
		routes, problems := routeconfig.New(routeconfig.Options{Filters: filters})
		if err := problems.Err(); err != nil {
			return fmt.Errorf("compile defaults: %w", err)
		}
		c.routes = routes
	}
	return nil
}

// found notes a finding at a node.
func (c *checker) found(d *document, n *yaml.Node, s Severity, r Rule, fix, format string, args ...any) {
	line, col := d.place(n)
	c.report.Findings = append(c.report.Findings, &Finding{
		File: d.file, Line: line, Col: col, Severity: s, Rule: r, Message: fmt.Sprintf(format, args...), Fix: fix,
	})
}
