package grafana

import (
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// kind is how a panel shows its queries.
type kind int

const (
	number kind = iota // one value over the chosen range
	lines              // values over time
	bars               // one value per series over the chosen range, largest first
)

// Units, by Grafana's ids.
const (
	usd     = "currencyUSD"
	tokens  = "short"
	percent = "percentunit"
	seconds = "s"
	bytes   = "decbytes"
	count   = "none"
	perSec  = "reqps"
)

// scale says which values are bad.
type scale int

const (
	plain    scale = iota
	net            // red below zero, green above
	mustBe0        // red above zero
	badAbove       // orange above zero
)

// panel is one panel of a dashboard.
type panel struct {
	title, says string // says is the description: what to make of it
	kind        kind
	unit        string
	scale       scale
	width       uint32 // of 24
	queries     []query
	id          uint32 // within the dashboard; links to a panel name it
}

// query is one query of a panel. $range stands for the range that the panel looks back: the whole one that is chosen, or in lines
// the one that suits the distance of points.
type query struct{ expr, legend string }

// row is a row of panels under one question.
type row struct {
	title  string
	panels []panel
}

var datasource = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

func (p *panel) build() cog.Builder[dashboard.Panel] {
	switch p.kind {
	case lines:
		return p.lines()
	case bars:
		return p.bars()
	default:
		return p.number()
	}
}

func (p *panel) number() cog.Builder[dashboard.Panel] {
	b := stat.NewPanelBuilder().Title(p.title).Description(p.says).Datasource(datasource).Unit(p.unit).Span(p.width).Height(5).
		Thresholds(p.thresholds()).ReduceOptions(last()).NoValue("no data").GraphMode(common.BigValueGraphModeNone).
		Orientation(common.VizOrientationAuto).Id(p.id)
	if p.scale != plain {
		b.ColorMode(common.BigValueColorModeBackground)
	}
	for i := range p.queries {
		b.WithTarget(p.target(i))
	}
	return b
}

func (p *panel) bars() cog.Builder[dashboard.Panel] {
	b := bargauge.NewPanelBuilder().Title(p.title).Description(p.says).Datasource(datasource).Unit(p.unit).Span(p.width).Height(9).
		Thresholds(p.thresholds()).ReduceOptions(last()).NoValue("none").Orientation(common.VizOrientationHorizontal).
		DisplayMode(common.BarGaugeDisplayModeBasic).Id(p.id)
	for i := range p.queries {
		b.WithTarget(p.target(i))
	}
	return b
}

func (p *panel) lines() cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.says).Datasource(datasource).Unit(p.unit).Span(p.width).Height(8).
		Thresholds(p.thresholds()).FillOpacity(10).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Id(p.id)
	if p.scale == net {
		b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeArea))
	}
	for i := range p.queries {
		b.WithTarget(p.target(i))
	}
	return b
}

func last() cog.Builder[common.ReduceDataOptions] {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})
}

func (p *panel) target(i int) cog.Builder[variants.Dataquery] {
	b := prometheus.NewDataqueryBuilder().Datasource(datasource).Expr(p.queries[i].expr).LegendFormat(p.queries[i].legend).
		RefId("Q" + strconv.Itoa(i+1)).EditorMode(prometheus.QueryEditorModeCode)
	if p.kind == lines {
		return b.Range()
	}
	return b.Instant()
}

// thresholds colour values; the first step has no lower end.
func (p *panel) thresholds() cog.Builder[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "text"}}
	switch p.scale {
	case net:
		steps = []dashboard.Threshold{{Color: "red"}, {Value: new(0.0), Color: "green"}}
	case mustBe0:
		steps = []dashboard.Threshold{{Color: "green"}, {Value: new(1e-9), Color: "red"}}
	case badAbove:
		steps = []dashboard.Threshold{{Color: "green"}, {Value: new(1e-9), Color: "orange"}}
	case plain:
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}
