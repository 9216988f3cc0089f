package observe_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Writes docs/metrics.md:
//
//	go test ./internal/observe -run TestMetricsPage -update
var update = flag.Bool("update", false, "write docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// metricsIntro stands before the table.
const metricsIntro = `# Metrics

At ` + "`/metrics`" + ` on the admin port, with those of the Go runtime and of the process. This page is generated from the registry
(` + "`go test ./internal/observe -run TestMetricsPage -update`" + `). Until 1.0 names may change in a minor release; the changelog says so.

- **Observed** is what the provider said: ` + "`billed_tokens_total`, `cost_usd_total{basis=\"observed\"}`, `observed_cached_tokens_total`" + `. Tokens are counted once: tier
  ` + "`input`" + ` are those that were neither read from the cache nor written to it. Add the four input tiers for the whole prompt.
- **Modelled** is a counterfactual: the baseline (the body as it came, on a provider that keeps its documented rules), everything named ` + "`saved`, `reuse`, `removed_usd`, `realised`, `predicted`" + `.
  ` + "`net_saved_usd`" + ` = baseline − observed − reuse; the route ` + "`_own`" + ` holds what tidemark spends itself (less than zero), so the sum over routes is the whole.
- **Estimated** are token counts from bytes (` + "`basis=\"estimated\"`" + `); *calibrated* ones follow the provider's own count of the conversation. ` + "`removed_tokens_total`" + ` counts at the
  first removal, ` + "`replayed_tokens_total`" + ` on every later request; they are never added.
- **Shadow** is what mode active would have done (` + "`shadow_removed_tokens_total`" + `), and is in no other figure.

Every share needs its denominator: tidemark's share of a bill is ` + "`net_saved_usd / cost_usd_total{basis=\"baseline\"}`" + `; the provider's discount is
` + "`provider_saved_usd_total / (provider_saved_usd_total + cost_usd_total{basis=\"observed\"})`" + `, and no part of it is tidemark's; a hit rate is
` + "`billed_tokens_total{tier=\"cache_read\"}`" + ` over the four input tiers. A share of a counter since the start mixes deploys: use ` + "`increase()`" + `.

Labels are bounded: ` + "`route`" + ` takes the first 200 values, later ones are ` + "`_other`" + `, none is ` + "`_none`" + `; ` + "`model`" + ` is what the [table of prices](prices.md) lists, else ` + "`_other`" + `;
` + "`filter`" + ` and ` + "`gate`" + ` are [closed lists](gates.md), as are all others. Sessions, tenants, calls, paths and users are never labels: they are in [events](events.md)
and [access logs](access-logs.md), as hashes. The same metrics go by OTLP where that is [switched on](tracing.md); queries and alerts are in [dashboards](dashboards.md).

| metric | type | labels | what it counts |
|---|---|---|---|
`

// TestMetricsPage keeps the page from drifting: every metric that there is, by what the registry says of it.
func TestMetricsPage(t *testing.T) {
	m := everything()
	m.Active(func() (sessions, lineages int) { return 1, 1 })
	m.Stored(func() map[string]int64 { return map[string]int64{"index": 1} }, func() int64 { return 0 })
	m.Finished("chat", 0.1)
	m.Events("written", 1)
	m.Decoded("gzip")
	m.Observed(request(), &pipeline.Outcome{}, saving(pipeline.Priced{Read: 1, USD: 1}, pipeline.Priced{}, 0, 1))
	m.Request(request(), &pipeline.Outcome{Again: []pipeline.Reused{{Filter: "tiered", Kind: pipeline.Rerun, Tokens: 40}}})
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tidemark_") {
			continue
		}
		labels := map[string]bool{}
		var names []string
		for _, x := range f.GetMetric() {
			for _, l := range x.GetLabel() {
				if !labels[l.GetName()] {
					labels[l.GetName()] = true
					names = append(names, l.GetName())
				}
			}
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), kindName(f.GetType()), strings.Join(names, ", "), f.GetHelp())
	}
	want := b.String()
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody.
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(metricsPage)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what the registry says (%v): run go test ./internal/observe -run TestMetricsPage -update", metricsPage, err)
	}
	registered(t, m, want)
}

func kindName(k dto.MetricType) string { return strings.ToLower(k.String()) }

// registered demands that a sample of every metric was made, so that none is missing on the page.
func registered(t *testing.T, m *observe.Metrics, page string) {
	t.Helper()
	all := make(chan *prometheus.Desc, 1000)
	m.Registry.Describe(all)
	close(all)
	for d := range all {
		name := described.FindStringSubmatch(d.String())[1]
		if strings.HasPrefix(name, "tidemark_") && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s is registered, and on no page: have the test make a sample of it", name)
		}
	}
}

var described = regexp.MustCompile(`fqName: "([^"]+)"`)
