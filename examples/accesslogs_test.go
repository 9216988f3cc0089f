package examples_test

import (
	"errors"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

type (
	port struct {
		Service string `yaml:"service"`
		Port    int    `yaml:"port"`
	}
	named struct {
		Name string `yaml:"name"`
	}
	logFormat struct {
		Labels map[string]string `yaml:"labels"`
	}
	serviceRef struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
		Port      int    `yaml:"port"`
	}

	// envoyProxy is api/v1alpha1 of Envoy Gateway 1.9, as far as it is used.
	envoyProxy struct {
		Telemetry struct {
			AccessLog struct {
				Settings []struct {
					Format struct {
						Type string            `yaml:"type"`
						JSON map[string]string `yaml:"json"`
					} `yaml:"format"`
					Sinks []struct {
						Type string `yaml:"type"`
						File *struct {
							Path string `yaml:"path"`
						} `yaml:"file"`
						OpenTelemetry *struct {
							BackendRefs []serviceRef      `yaml:"backendRefs"`
							Resources   map[string]string `yaml:"resources"`
						} `yaml:"openTelemetry"`
					} `yaml:"sinks"`
				} `yaml:"settings"`
			} `yaml:"accessLog"`
			Tracing struct {
				SamplingRate int `yaml:"samplingRate"`
				Provider     struct {
					Type        string       `yaml:"type"`
					BackendRefs []serviceRef `yaml:"backendRefs"`
				} `yaml:"provider"`
			} `yaml:"tracing"`
		} `yaml:"telemetry"`
	}

	// istioOperator is the mesh config of Istio as it is installed, as far as it is used.
	istioOperator struct {
		MeshConfig struct {
			EnableTracing      bool `yaml:"enableTracing"`
			ExtensionProviders []struct {
				Name               string `yaml:"name"`
				EnvoyFileAccessLog *struct {
					Path      string    `yaml:"path"`
					LogFormat logFormat `yaml:"logFormat"`
				} `yaml:"envoyFileAccessLog"`
				EnvoyOtelAls *struct {
					port      `yaml:",inline"`
					LogFormat logFormat `yaml:"logFormat"`
				} `yaml:"envoyOtelAls"`
				OpenTelemetry *port `yaml:"opentelemetry"`
			} `yaml:"extensionProviders"`
		} `yaml:"meshConfig"`
	}

	// telemetry is telemetry.istio.io/v1, as far as it is used.
	telemetry struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		AccessLogging []struct {
			Providers []named `yaml:"providers"`
		} `yaml:"accessLogging"`
		Tracing []struct {
			Providers                []named `yaml:"providers"`
			RandomSamplingPercentage float64 `yaml:"randomSamplingPercentage"`
			CustomTags               map[string]struct {
				Formatter struct {
					Value string `yaml:"value"`
				} `yaml:"formatter"`
			} `yaml:"customTags"`
		} `yaml:"tracing"`
	}
)

// loadAll decodes the resources of a file strictly, each into the spec for its kind.
func loadAll(t *testing.T, file string, specs map[string]any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := strict(t, b); ; n++ {
		r := &resource{}
		switch err := d.Load(r); {
		case errors.Is(err, io.EOF):
			if n != len(specs) {
				t.Errorf("%s has %d resources, want %d", file, n, len(specs))
			}
			return
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		}
		spec, ok := specs[r.APIVersion+" "+r.Kind]
		if !ok || r.Metadata.Name == "" || r.Metadata.Namespace == "" {
			t.Fatalf("%s: %s %s %+v", file, r.APIVersion, r.Kind, r.Metadata)
		}
		text, err := yaml.Dump(&r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := strict(t, text).Load(spec); err != nil {
			t.Fatalf("%s: %s: %v", file, r.Kind, err)
		}
	}
}

// jsonFields are the fields of the JSON recipe, which a real Envoy runs in the end-to-end tests.
func jsonFields(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("access-logs/json.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		AccessLog []struct {
			TypedConfig struct {
				LogFormat struct {
					JSON map[string]string `yaml:"json_format"`
				} `yaml:"log_format"`
			} `yaml:"typed_config"`
		} `yaml:"access_log"`
	}
	if err := yaml.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	fields := r.AccessLog[0].TypedConfig.LogFormat.JSON
	if len(fields) < 40 {
		t.Fatalf("the JSON recipe has %d fields", len(fields))
	}
	return fields
}

// TestAccessLogsOfEnvoyGateway: the resource has keys that there are, each sink what its type demands, and the fields of the recipe.
func TestAccessLogsOfEnvoyGateway(t *testing.T) {
	var p envoyProxy
	loadAll(t, "access-logs/envoy-gateway.yaml", map[string]any{"gateway.envoyproxy.io/v1alpha1 EnvoyProxy": &p})
	s := p.Telemetry.AccessLog.Settings[0]
	if d := cmp.Diff(jsonFields(t), s.Format.JSON); d != "" || s.Format.Type != "JSON" {
		t.Error(d)
	}
	for _, sink := range s.Sinks {
		if (sink.File != nil) != (sink.Type == "File") || (sink.OpenTelemetry != nil) != (sink.Type == "OpenTelemetry") {
			t.Errorf("a sink %s: %+v", sink.Type, sink)
		}
	}
	if pr := p.Telemetry.Tracing.Provider; pr.Type != "OpenTelemetry" || len(pr.BackendRefs) != 1 {
		t.Errorf("tracing by %+v", pr)
	}
	policy, err := os.ReadFile("envoy-gateway/tidemark.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`writableNamespaces: \[tidemark\.result\]`).Match(policy) {
		t.Error("the policy does not let tidemark write what is logged")
	}
}

// TestAccessLogsOfIstio: what the Telemetry resource turns on is there, with the fields of the recipe.
func TestAccessLogsOfIstio(t *testing.T) {
	var mesh istioOperator
	var tel telemetry
	loadAll(t, "access-logs/istio.yaml", map[string]any{"install.istio.io/v1alpha1 IstioOperator": &mesh, "telemetry.istio.io/v1 Telemetry": &tel})
	providers := map[string]map[string]string{}
	for _, p := range mesh.MeshConfig.ExtensionProviders {
		switch {
		case p.EnvoyFileAccessLog != nil:
			providers[p.Name] = p.EnvoyFileAccessLog.LogFormat.Labels
		case p.EnvoyOtelAls != nil && p.EnvoyOtelAls.Port == 4317:
			providers[p.Name] = p.EnvoyOtelAls.LogFormat.Labels
		case p.OpenTelemetry != nil && p.OpenTelemetry.Port == 4317:
			providers[p.Name] = nil
		}
	}
	for _, p := range tel.AccessLogging[0].Providers {
		if d := cmp.Diff(jsonFields(t), providers[p.Name]); d != "" {
			t.Errorf("%s: %s", p.Name, d)
		}
	}
	for _, p := range tel.Tracing[0].Providers {
		if fields, there := providers[p.Name]; !there || fields != nil {
			t.Errorf("%s is no tracer", p.Name)
		}
	}
	fields := jsonFields(t)
	for tag, v := range tel.Tracing[0].CustomTags {
		if v.Formatter.Value != fields[tag] {
			t.Errorf("%s is %q, in the log %q", tag, v.Formatter.Value, fields[tag])
		}
	}
}
