package examples_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

type object = map[string]any

// TestPatchesOnEnvoy puts the pieces of the examples into a plain config, as the mesh would, and looks at the route's config
// that reaches tidemark, at the body that reaches the provider, and at the usage that comes back.
func TestPatchesOnEnvoy(t *testing.T) {
	for name, c := range map[string]struct {
		file, want string
		apply      func(pieces map[string]object, config *plain)
	}{
		"envoy-gateway": {
			file: "envoy-gateway/per-route.yaml",
			want: `metadata {"components":{"readlifecycle":{"min_tokens":200}},"pipeline":["readlifecycle"],"ttl":"auto"}`,
			apply: func(pieces map[string]object, config *plain) {
				config.filters[0] = pieces["Listener"]
				tapAs(t, config.filters[1].(object)["typed_config"].(object), "envoy-gateway/tidemark.yaml")
				config.route["typed_per_filter_config"] = object{"envoy.filters.http.set_metadata": pieces["RouteConfiguration"]}
			},
		},
		"istio": {
			file: "istio/tidemark.yaml",
			want: `json {"components":{"readlifecycle":{"min_tokens":200}},"pipeline":["readlifecycle"],"ttl":"auto"}`,
			apply: func(pieces map[string]object, config *plain) {
				config.filters[1] = pieces["HTTP_FILTER"]
				maps.Copy(config.route, pieces["HTTP_ROUTE"])
				config.clusters[0].(object)["name"] = "outbound|9002||tidemark.tidemark.svc.cluster.local"
			},
		},
		"ai-gateway": {
			file: "ai-gateway/tidemark.yaml",
			want: `pipeline default`,
			apply: func(pieces map[string]object, config *plain) {
				config.filters[0], config.filters[1] = pieces["Listener"], config.filters[0]
				pieces["Cluster"]["load_assignment"] = config.clusters[0].(object)["load_assignment"] // the test's own address
				config.clusters[0] = pieces["Cluster"]
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pieces := map[string]object{}
			for _, r := range resources(t, c.file) {
				for _, p := range r.patches(t) {
					pieces[p.what] = p.value.(object)
				}
			}
			edit := func(text string) string {
				config := parsePlain(t, text)
				c.apply(pieces, config)
				return config.text(t)
			}
			got, response := exchange(t, edit)
			if got != c.want {
				t.Errorf("tidemark was told %s, want %s", got, c.want)
			}
			want := &pipeline.Usage{Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 50}
			if d := cmp.Diff(want, response.Usage); d != "" {
				t.Errorf("what was billed, -want +got:\n%s", d)
			}
		})
	}
}

// tapAs gives a filter the response side that Envoy Gateway makes of a policy: headers come if the policy speaks of responses.
func tapAs(t *testing.T, filter object, file string) {
	t.Helper()
	for _, r := range resources(t, file) {
		if spec, ok := r.spec.(*extensionPolicy); ok {
			mode := object{"request_header_mode": "SEND", "request_body_mode": "BUFFERED", "response_header_mode": "SKIP"}
			if policy := spec.ExtProc[0].ProcessingMode; policy.Response != nil {
				mode["response_header_mode"] = "SEND"
				filter["allow_mode_override"] = policy.AllowModeOverride
			}
			filter["processing_mode"] = mode
			return
		}
	}
	t.Fatalf("%s has no policy", file)
}

// answer is what the provider says, and what it bills.
const answer = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],"usage":{"input_tokens":12,` +
	`"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":50}}`

// exchange sends a request through an Envoy with an edited config. It returns the body as the provider sees it, which is what
// tidemark was told of the route, and what tidemark was told of the response.
func exchange(t *testing.T, edit func(string) string) (outbound string, response *pipeline.Response) {
	t.Helper()
	engine := tell{responses: make(chan *pipeline.Response, 1)}
	env := envoytest.Start(t, envoytest.Options{
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("x-outbound", string(b))
			w.Header().Set("content-type", "application/json")
			_, _ = io.WriteString(w, answer)
		}),
		Server: &extproc.Options{Engine: engine, Admit: admit, Result: observe.Result, Account: observe.Account, Observer: quiet{}, Deadline: 2 * time.Second},
		Edit:   edit,
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, env.URL("/v1/messages"), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := envoytest.Client(t, false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(b) != answer {
		t.Fatalf("status %d, %v: %s", res.StatusCode, err, b)
	}
	return res.Header.Get("x-outbound"), <-engine.responses
}

// tell is an engine that forwards the name of the route's config, and tells what it hears of responses.
type tell struct{ responses chan *pipeline.Response }

func (tell) Request(_ context.Context, r *pipeline.Request) *pipeline.Outcome {
	return &pipeline.Outcome{Body: []byte(r.Config.Name)}
}

func (e tell) Observe(_ context.Context, _ *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation {
	e.responses <- r
	return &pipeline.Observation{}
}

// admit takes everything, and makes the whole config of the route its name.
func admit(h *extproc.Head) (*pipeline.Request, string) {
	name := "json " + h.Config.JSON
	switch {
	case h.Config.Metadata != nil:
		b, err := json.Marshal(h.Config.Metadata.AsMap())
		if err != nil {
			return nil, "metadata"
		}
		name = "metadata " + string(b)
	case h.Config.Pipeline != "":
		name = "pipeline " + h.Config.Pipeline
	}
	return &pipeline.Request{Format: transcript.Anthropic, Config: &pipeline.Config{Name: name}}, ""
}

// quiet is an observer that nobody asks.
type quiet struct{}

func (quiet) Began()                                        {}
func (quiet) Ended(time.Duration, codes.Code)               {}
func (quiet) Passed(string)                                 {}
func (quiet) Decoded(string)                                {}
func (quiet) Answered(*pipeline.Request, *pipeline.Outcome) {}

func (quiet) Observed(*pipeline.Request, *pipeline.Outcome, *pipeline.Observation) {}

// plain is envoy/bootstrap.yaml, with the places that patches go to: its filters are set_metadata, ext_proc and router.
type plain struct {
	all      object
	filters  []any
	route    object // of /v1/messages
	clusters []any  // tidemark comes first
}

func parsePlain(t *testing.T, text string) *plain {
	t.Helper()
	p := &plain{}
	if err := yaml.Load([]byte(text), &p.all); err != nil {
		t.Fatal(err)
	}
	resources := p.all["static_resources"].(object)
	chain := resources["listeners"].([]any)[0].(object)["filter_chains"].([]any)[0].(object)
	manager := chain["filters"].([]any)[0].(object)["typed_config"].(object)
	p.filters = manager["http_filters"].([]any)
	p.clusters = resources["clusters"].([]any)
	routes := manager["route_config"].(object)["virtual_hosts"].([]any)[0].(object)
	routes["routes"] = routes["routes"].([]any)[:1] // the others speak to filters that a patch replaces
	p.route = routes["routes"].([]any)[0].(object)
	delete(p.route, "typed_per_filter_config")
	return p
}

func (p *plain) text(t *testing.T) string {
	t.Helper()
	b, err := json.Marshal(p.all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
