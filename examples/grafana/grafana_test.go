package grafana_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/examples/grafana"
)

// classic is the form of dashboards that all Grafanas in use read.
type classic = dashboard.Dashboard //nolint:staticcheck // the SDK would rather have its successor, which needs Grafana 12

var update = flag.Bool("update", false, "write the dashboards anew")

// TestDashboards: the files are what the code makes.
func TestDashboards(t *testing.T) {
	made, err := grafana.Dashboards()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		path := filepath.Join("dashboards", name)
		if *update {
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(got), string(want)); d != "" {
			t.Errorf("%s differs: make dashboards\n%s", name, d)
		}
	}
	files, err := filepath.Glob("dashboards/*")
	if err != nil || len(files) != len(made) {
		t.Errorf("%d files for %d dashboards, %v", len(files), len(made), err)
	}
}

// load decodes a file as the SDK's types have it; an unknown key is an error. The SDK knows the query language of a panel by a
// plugin that must be registered.
func load(t *testing.T, path string) *classic {
	t.Helper()
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
	cog.NewRuntime().RegisterPanelcfgVariant(stat.VariantConfig())
	cog.NewRuntime().RegisterPanelcfgVariant(timeseries.VariantConfig())
	cog.NewRuntime().RegisterPanelcfgVariant(bargauge.VariantConfig())
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decode(b)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if _, err := decode(bytes.Replace(b, []byte(`"description"`), []byte(`"unknown"`), 1)); err == nil {
		t.Errorf("%s: an unknown key is taken", path)
	}
	return d
}

// decode is the SDK's strict decoding, whose error may hold a list without elements.
func decode(b []byte) (*classic, error) {
	d := &classic{}
	if err := d.UnmarshalJSONStrict(b); err != nil && err.Error() != "" {
		return nil, err
	}
	return d, nil
}

// TestPanels: every panel says what it means, has a place and a query, and a percent names its denominator in the title. Titles
// of money and tokens say where the figure comes from.
func TestPanels(t *testing.T) {
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	uids := map[string]bool{}
	for _, f := range files {
		d := load(t, f)
		if d.Uid == nil || uids[*d.Uid] {
			t.Errorf("%s: uid missing or used twice", f)
			continue
		}
		uids[*d.Uid] = true
		titles := map[string]bool{}
		for _, p := range d.Panels {
			if p.Panel == nil {
				continue
			}
			title := *p.Panel.Title
			if titles[title] {
				t.Errorf("%s: two panels %q", f, title)
			}
			titles[title] = true
			if p.Panel.Description == nil || !strings.HasSuffix(*p.Panel.Description, ".") || p.Panel.GridPos == nil || len(p.Panel.Targets) == 0 {
				t.Errorf("%s: %q lacks a description, a place or a query", f, title)
			}
			judgeTitle(t, f, title, *p.Panel.FieldConfig.Defaults.Unit)
			for _, q := range p.Panel.Targets {
				if q, ok := q.(prometheus.Dataquery); !ok || q.Expr == "" || strings.Contains(q.Expr, "{R}") {
					t.Errorf("%s: %q: no query of Prometheus: %#v", f, title, q)
				}
			}
		}
	}
}

func judgeTitle(t *testing.T, file, title, unit string) {
	t.Helper()
	switch {
	case unit == "percentunit" && !strings.Contains(title, "% of ") && !strings.Contains(title, "÷"):
		t.Errorf("%s: %q: per cent of what?", file, title)
	case unit == "currencyUSD" && !containsAny(title, "observed", "modelled", "shadow"):
		t.Errorf("%s: %q: is that observed or modelled?", file, title)
	}
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// TestProvisioning decodes what Grafana reads at its start; a key that it does not know is an error.
func TestProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name      string `yaml:"name"`
			Type      string `yaml:"type"`
			UID       string `yaml:"uid"`
			Access    string `yaml:"access"`
			URL       string `yaml:"url"`
			IsDefault bool   `yaml:"isDefault"`
			JSONData  struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	strict(t, "provisioning/datasources/tidemark.yaml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.APIVersion != 1 {
		t.Errorf("%+v", sources)
	}
	var boards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name    string `yaml:"name"`
			Folder  string `yaml:"folder"`
			Type    string `yaml:"type"`
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	strict(t, "provisioning/dashboards/tidemark.yaml", &boards)
	if len(boards.Providers) != 1 || boards.Providers[0].Type != "file" || boards.APIVersion != 1 {
		t.Fatalf("%+v", boards)
	}
	compose, err := os.ReadFile("../compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if mount := "../grafana/dashboards:" + boards.Providers[0].Options.Path + ":ro"; !bytes.Contains(compose, []byte(mount)) {
		t.Errorf("compose.yaml does not mount %s", mount)
	}
}

func strict(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := yaml.NewLoader(bytes.NewReader(b), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Load(v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
