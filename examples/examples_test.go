// Package examples_test loads every example: Envoy configs by Envoy itself, Kubernetes resources by strict decoding, and
// the Envoy config inside of them by Envoy's own types and by an Envoy that runs it.
package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3" // types inside of Any
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

func TestEnvoyConfigs(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, file := range []string{"envoy-static/envoy.yaml", "../envoy/bootstrap.yaml"} {
		if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-c", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// kubernetes are the folders whose YAML files are Kubernetes resources.
var kubernetes = []string{"envoy-gateway", "istio", "ai-gateway"}

func TestKubernetesResources(t *testing.T) {
	for _, folder := range kubernetes {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", folder, err)
		}
		for _, file := range files {
			for _, r := range resources(t, file) {
				if r.Metadata.Name == "" || r.Metadata.Namespace == "" {
					t.Errorf("%s: a %s without name or namespace", file, r.Kind)
				}
				for _, p := range r.patches(t) {
					if err := p.check(); err != nil {
						t.Errorf("%s: %s %s: %v", file, r.Kind, p.what, err)
					}
				}
			}
		}
	}
}

func TestEveryExampleHasAReadme(t *testing.T) {
	for _, folder := range append([]string{"envoy-static"}, kubernetes...) {
		b, err := os.ReadFile(filepath.Join(folder, "README.md"))
		if err != nil {
			t.Error(err)
		}
		for _, part := range []string{"Limits:", "What to see:"} {
			if !bytes.Contains(b, []byte(part)) {
				t.Errorf("%s: the README has no part %q", folder, part)
			}
		}
	}
}

// TestCheckFindsNothing: what tidemark check says of the examples, it would say of their copies.
func TestCheckFindsNothing(t *testing.T) {
	var known []routeconfig.Filter
	for _, s := range all.Specs() {
		known = append(known, routeconfig.Filter(s))
	}
	for _, folder := range append([]string{"envoy-static"}, kubernetes...) {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		report, err := check.Files(append(files, "tidemark.yaml"), known)
		if err != nil {
			t.Fatal(err)
		}
		if report.Servers != 1 || report.Filters == 0 {
			t.Errorf("%s: %d server configs and %d filters were looked at", folder, report.Servers, report.Filters)
		}
		for _, f := range report.Findings {
			t.Error(f)
		}
	}
}

// resource is a Kubernetes resource of an example.
type resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec yaml.Node `yaml:"spec"`

	spec any // decoded, of the type that specs has for the kind
}

// specs are the parts of the resources' schemas that the examples use: any other key is a slip.
var specs = map[string]func() any{
	"gateway.networking.k8s.io/v1 HTTPRoute":              func() any { return new(httpRoute) },
	"gateway.envoyproxy.io/v1alpha1 EnvoyExtensionPolicy": func() any { return new(extensionPolicy) },
	"gateway.envoyproxy.io/v1alpha1 ClientTrafficPolicy":  func() any { return new(clientTrafficPolicy) },
	"gateway.envoyproxy.io/v1alpha1 EnvoyPatchPolicy":     func() any { return new(patchPolicy) },
	"networking.istio.io/v1 VirtualService":               func() any { return new(virtualService) },
	"networking.istio.io/v1 DestinationRule":              func() any { return new(destinationRule) },
	"networking.istio.io/v1alpha3 EnvoyFilter":            func() any { return new(envoyFilter) },
}

func resources(t *testing.T, file string) []*resource {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*resource
	for d := strict(t, b); ; {
		r := &resource{}
		switch err := d.Load(r); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		}
		spec, ok := specs[r.APIVersion+" "+r.Kind]
		if !ok {
			t.Fatalf("%s: no such resource: %s %s", file, r.APIVersion, r.Kind)
		}
		text, err := yaml.Dump(&r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		r.spec = spec()
		if err := strict(t, text).Load(r.spec); err != nil {
			t.Fatalf("%s: %s %s: %v", file, r.Kind, r.Metadata.Name, err)
		}
		all = append(all, r)
	}
}

func strict(t *testing.T, b []byte) *yaml.Loader {
	t.Helper()
	d, err := yaml.NewLoader(bytes.NewReader(b), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// patch is a piece of Envoy config inside of a resource.
type patch struct {
	what    string
	value   any
	message proto.Message // of the type that it must be
}

// patches are the pieces of a resource, with the types that their places demand.
func (r *resource) patches(t *testing.T) []patch {
	t.Helper()
	var all []patch
	switch spec := r.spec.(type) {
	case *patchPolicy:
		for _, p := range spec.JSONPatches {
			kind := p.Type[strings.LastIndexByte(p.Type, '.')+1:]
			all = append(all, patch{kind, p.Operation.Value, map[string]proto.Message{
				"Listener /default_filter_chain/filters/0/typed_config/http_filters/0":       &hcmv3.HttpFilter{},
				"RouteConfiguration typed_per_filter_config/envoy.filters.http.set_metadata": &anypb.Any{},
				"Cluster ": &clusterv3.Cluster{},
			}[kind+" "+p.Operation.Path]})
		}
	case *envoyFilter:
		for _, p := range spec.ConfigPatches {
			all = append(all, patch{p.ApplyTo, p.Patch.Value, map[string]proto.Message{
				"HTTP_FILTER INSERT_BEFORE": &hcmv3.HttpFilter{}, "HTTP_ROUTE MERGE": &routev3.Route{},
			}[p.ApplyTo+" "+p.Patch.Operation]})
		}
	}
	return all
}

// check decodes the piece strictly and holds it to the constraints of its type.
func (p patch) check() error {
	if p.message == nil {
		return errors.New("nothing is known of this place")
	}
	b, err := json.Marshal(p.value)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(b, p.message); err != nil {
		return err
	}
	if v, ok := p.message.(interface{ ValidateAll() error }); ok && p.message.ProtoReflect().Descriptor().Name() != "Route" {
		return v.ValidateAll() // a piece of a Route has no match: the rest of it is there already
	}
	return nil
}
