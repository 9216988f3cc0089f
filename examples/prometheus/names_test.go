package prometheus_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/observe"
)

// expression is one that stands somewhere in the dashboards or the rules.
type expression struct{ where, expr string }

// rules are the rules of this folder.
func rules(t *testing.T) (list []rule) {
	t.Helper()
	b, err := os.ReadFile("tidemark.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// panels are the queries of the dashboards, with Grafana's variables filled in.
func panels(t *testing.T) (list []expression) {
	t.Helper()
	files, err := filepath.Glob("../grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "5m", "$route", ".*")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range gjson.GetBytes(b, "panels").Array() {
			for _, q := range p.Get("targets.#.expr").Array() {
				e := variables.Replace(q.Str)
				if strings.Contains(e, "$") {
					t.Errorf("%s: %s: a variable is not known", f, q.Str)
				}
				list = append(list, expression{p.Get("title").Str, e})
			}
		}
	}
	return list
}

func expressions(t *testing.T) []expression {
	t.Helper()
	list := panels(t)
	for _, r := range rules(t) {
		list = append(list, expression{r.Alert + r.Record, r.Expr})
	}
	return list
}

var (
	selector = regexp.MustCompile(`\b(tidemark_[a-z0-9_]+)(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
	describe = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
)

// metrics are those of a server.
func metrics() *observe.Metrics {
	m := observe.NewMetrics("v1.2.3")
	m.Active(func() (sessions, lineages int) { return 2, 3 })
	m.Stored(func() map[string]int64 { return map[string]int64{"disk": 4096} }, func() int64 { return 0 })
	return m
}

// registered are the labels of every metric that tidemark has, by name.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	out, descs := map[string][]string{}, make(chan *prometheus.Desc)
	go func() {
		metrics().Registry.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		m := describe.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not understood: %s", d)
		}
		out[m[1]] = append([]string{"instance", "job"}, strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return out
}

// TestNames: every metric that a panel or a rule asks for exists, with the labels that it names.
func TestNames(t *testing.T) {
	known := registered(t)
	recorded := map[string]bool{}
	for _, r := range rules(t) {
		recorded[r.Record] = true
	}
	for _, e := range expressions(t) {
		plain := regexp.MustCompile(`\w+:[\w:]+`).ReplaceAllStringFunc(e.expr, func(name string) string {
			if !recorded[name] {
				t.Errorf("%s: nothing records %s", e.where, name)
			}
			return "_"
		})
		allowed := []string{"le", "cause", "route", "instance"} // of what is recorded, and of Envoy's
		for _, m := range selector.FindAllStringSubmatch(plain, -1) {
			labels, ok := known[m[1]]
			if !ok {
				base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
				if labels, ok = known[base]; !ok {
					t.Errorf("%s: there is no metric %s", e.where, m[1])
					continue
				}
				labels = append(labels, "le")
			}
			allowed = append(allowed, labels...)
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s: %s has no label %s", e.where, m[1], l[1])
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(plain, -1) {
			for l := range strings.SplitSeq(g[1], ",") {
				if l = strings.TrimSpace(l); !slices.Contains(allowed, l) {
					t.Errorf("%s: none of its metrics has the label %s", e.where, l)
				}
			}
		}
	}
}

// TestRunbooks: every alert has a severity that somebody reads, leads to an entry of the runbook, and has tests in which it fires
// and in which it is silent.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/dashboards.md")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("tidemark.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name string      `yaml:"alertname"`
				Want []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Want) > 0
			silent[a.Name] = silent[a.Name] || len(a.Want) == 0
		}
	}
	anchors := anchors(string(page))
	alerts := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "docs/dashboards.md#")
		if !anchors[anchor] {
			t.Errorf("%s: docs/dashboards.md has no %q", r.Alert, anchor)
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: no test in which it fires, or none in which it does not", r.Alert)
		}
	}
	if alerts == 0 {
		t.Error("no alerts")
	}
}

// anchors are those of a page's headings.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			heading = strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
			out[strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(heading, ""), " ", "-")] = true
		}
	}
	return out
}
