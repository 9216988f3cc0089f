package grafana

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Dashboards returns the dashboards as the JSON that Grafana provisions, by their file's name.
func Dashboards() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, d := range []struct {
		uid, title, says string
		rows             []row
	}{
		{"tidemark-worth", "tidemark: Is it worth it", "What tidemark saves and what it costs, by what the provider billed.", worth()},
		{"tidemark-healthy", "tidemark: Is it healthy", "Whether tidemark works, and why it does nothing where it does nothing.", healthy()},
	} {
		b, err := build(d.uid, d.title, d.says, d.rows)
		if err != nil {
			return nil, fmt.Errorf("build dashboard %s: %w", d.uid, err)
		}
		out[d.uid+".json"] = b
	}
	return out, nil
}

func build(uid, title, says string, rows []row) ([]byte, error) {
	//nolint:staticcheck // the SDK would rather have its successor, which needs Grafana 12; all Grafanas in use read this form
	b := dashboard.NewDashboardBuilder(title).Uid(uid).Description(says).Tags([]string{"tidemark", "llm"}).Timezone("browser").
		Time("now-24h", "now").Refresh("1m").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(routes()).
		Link(dashboard.NewDashboardLinkBuilder("tidemark").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"tidemark"}).KeepTime(true).IncludeVars(true))
	id := uint32(0)
	for _, r := range rows {
		b.WithRow(dashboard.NewRowBuilder(r.title))
		for i := range r.panels {
			p := &r.panels[i]
			id++
			p.id = id
			p.expand()
			b.WithPanel(p.build())
		}
	}
	d, err := b.Build()
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

// routes is the variable by which routes are chosen.
func routes() cog.Builder[dashboard.VariableModel] {
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	text := dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}
	return dashboard.NewQueryVariableBuilder("route").Label("Route").Datasource(datasource).
		Query(dashboard.StringOrMap{String: new("label_values(tidemark_requests_total, route)")}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{Selected: new(true), Text: text, Value: all})
}

// expand writes out what panels abbreviate: {R} the matcher of the chosen routes, $range the range to look back.
func (p *panel) expand() {
	window := "$__range"
	if p.kind == lines {
		window = "$__rate_interval"
	}
	for i := range p.queries {
		e := strings.ReplaceAll(p.queries[i].expr, "$range", window)
		p.queries[i].expr = strings.ReplaceAll(e, "{R}", `route=~"$route"`)
	}
}
