package replay

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tidemark-dev/tidemark/filters/coref"
)

// Measures of the picture of a score, in pixels.
const (
	scoreHeight = 560
	scoreTop    = 120 // title and legend
	scoreBase   = 500
	scoreRight  = 1060
)

const scoreStyle = `.line{fill:none;stroke-width:1.5}.rate{stroke:#888;stroke-dasharray:6 4}.ring{fill:none;stroke:#333;stroke-width:1.5}` +
	`.min_later_turns{stroke:#3182bd;fill:#3182bd}.min_tokens{stroke:#31a354;fill:#31a354}.closed_dist{stroke:#e6550d;fill:#e6550d}` +
	`.open_reps{stroke:#756bb1;fill:#756bb1}.cold{fill:#d62728}`

// curve is one key that is changed, with what it does to the cuts of one verdict.
type curve struct{ key, verdict string }

// Curves are the parts of the grid that say something: what closes a result says nothing of those that were never used.
func (s *Score) Curves() (rows []ScoreRow) {
	for _, c := range scoreCurves {
		rows = append(rows, s.curve(c)...)
	}
	return rows
}

var scoreCurves = []curve{
	{"min_later_turns", coref.Unreferenced},
	{"min_tokens", coref.Unreferenced},
	{"min_later_turns", coref.Closed},
	{"min_tokens", coref.Closed},
	{"closed_dist", coref.Closed},
	{"open_reps", coref.Closed},
}

func (s *Score) curve(c curve) (rows []ScoreRow) {
	for _, r := range s.Grid {
		if r.Key == c.key && r.Verdict == c.verdict {
			rows = append(rows, r)
		}
	}
	return rows
}

// plot draws rates over yields.
type plot struct {
	bytes.Buffer
	yield, rate float64 // at the ends of the scales
}

// ScoreSVG draws the grid of a score: the false-drop rate over the yield, one line for each key that is changed. Each
// policy's cuts at cold moments are a point.
func ScoreSVG(w io.Writer, s *Score) error {
	p := &plot{yield: 0.01, rate: 0.1}
	for _, r := range s.Curves() {
		p.stretch(&r.Tally)
	}
	for i := range s.Cold {
		p.stretch(&s.Cold[i].last().Tally)
	}
	all := s.defaults(Everything)
	p.rate = max(p.rate, all.FalseDropRate)
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"><style>%s%s</style>`+"\n", svgWidth, scoreHeight, svgStyle, scoreStyle)
	fmt.Fprintf(p, `<rect width="100%%" height="100%%" fill="#fff"/><text class="title" x="%d" y="24">coref at %d held-out points of %d sessions</text>`+"\n",
		svgLeft, all.Moments, s.Sessions)
	p.scales()
	fmt.Fprintf(p, `<path class="rate" d="M%d %.1fH%d"/><text class="small" x="%[3]d" y="%.1f" text-anchor="end">everything: %.1f %%</text>`+"\n",
		svgLeft, p.y(all.FalseDropRate), scoreRight, p.y(all.FalseDropRate)-4, 100*all.FalseDropRate)
	for i, c := range scoreCurves {
		p.curve(i, c, s.curve(c))
	}
	fmt.Fprintf(p, `<circle class="ring" cx="%d" cy="84" r="6"/><text x="%d" y="88">defaults</text>`, svgLeft+13, svgLeft+32)
	fmt.Fprintf(p, `<path class="cold" d="M%d 78l6 6 -6 6 -6 -6z"/><text x="%d" y="88">cut at cold moments, all verdicts</text>`+"\n", svgLeft+343, svgLeft+362)
	for _, verdict := range []string{coref.Unreferenced, coref.Closed} {
		r := s.defaults(verdict)
		fmt.Fprintf(p, `<circle class="ring" cx="%.1f" cy="%.1f" r="7"><title>defaults, %s</title></circle>`, p.x(r.Yield), p.y(r.FalseDropRate), verdict)
	}
	for i := range s.Cold {
		p.cold(&s.Cold[i])
	}
	p.WriteString("</svg>\n")
	if _, err := w.Write(p.Bytes()); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// defaults is the grid's row of a verdict under the defaults.
func (s *Score) defaults(verdict string) *ScoreRow {
	for i := range s.Grid {
		if r := &s.Grid[i]; r.Key == "" && r.Verdict == verdict {
			return r
		}
	}
	return &ScoreRow{}
}

// last is the row of all cuts.
func (c *ColdScore) last() *ColdRow { return &c.Rows[len(c.Rows)-1] }

func (p *plot) stretch(t *Tally) {
	p.yield, p.rate = max(p.yield, t.Yield), max(p.rate, t.FalseDropRate)
}

func (p *plot) x(yield float64) float64 {
	return svgLeft + yield/(1.05*p.yield)*(scoreRight-svgLeft)
}

func (p *plot) y(rate float64) float64 { return scoreBase - rate/(1.1*p.rate)*(scoreBase-scoreTop) }

// scales draws the axes. Steps are in hundredths of a percent, so that small shares have round steps too.
func (p *plot) scales() {
	const fine = 1e4
	for v, step := 0, tick(int(math.Ceil(p.rate*fine)), 6); float64(v) <= 1.1*p.rate*fine; v += step {
		y := p.y(float64(v) / fine)
		fmt.Fprintf(p, `<path class="grid" d="M%d %.1fH%d"/><text class="small" x="%d" y="%.1f" text-anchor="end">%g %%</text>`,
			svgLeft, y, scoreRight, svgLeft-6, y+3, float64(v)/100)
	}
	for v, step := 0, tick(int(math.Ceil(p.yield*fine)), 8); float64(v) <= 1.05*p.yield*fine; v += step {
		fmt.Fprintf(p, `<text class="small" x="%.1f" y="%d" text-anchor="middle">%g %%</text>`, p.x(float64(v)/fine), scoreBase+16, float64(v)/100)
	}
	fmt.Fprintf(p, `<path class="axis" d="M%d %dV%dH%d"/>`, svgLeft, scoreTop, scoreBase, scoreRight)
	fmt.Fprintf(p, `<text class="small" transform="translate(16 %d) rotate(-90)" text-anchor="middle">false drops, of the results cut</text>`, (scoreTop+scoreBase)/2)
	fmt.Fprintf(p, `<text x="%d" y="%d" text-anchor="middle">yield: tokens cut, of the requests' tokens</text>`+"\n", svgWidth/2, scoreBase+42)
}

// curve draws one key, with a dot for each value. Cuts of closed results are dashed.
func (p *plot) curve(i int, c curve, rows []ScoreRow) {
	dash := ""
	if c.verdict == coref.Closed {
		dash = ` stroke-dasharray="3 3"`
	}
	x, y := svgLeft+i%3*330, 44+i/3*20
	fmt.Fprintf(p, `<path class="line %s" d="M%d %dh26"%s/><text x="%d" y="%d">%s by %[1]s</text>`, c.key, x, y, dash, x+32, y+4, c.verdict)
	var d strings.Builder
	move := "M"
	for _, r := range rows {
		if r.Cut == 0 {
			continue
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", move, p.x(r.Yield), p.y(r.FalseDropRate))
		move = "L"
		fmt.Fprintf(p, `<circle class="%s" cx="%.1f" cy="%.1f" r="2.5"><title>%s %d, %s: %d of %d cuts used later</title></circle>`,
			c.key, p.x(r.Yield), p.y(r.FalseDropRate), c.key, r.Value, c.verdict, r.FalseDrops, r.Cut)
		fmt.Fprintf(p, `<text class="small" x="%.1f" y="%.1f">%d</text>`, p.x(r.Yield)+4, p.y(r.FalseDropRate)-5, r.Value)
	}
	if d.Len() > 0 {
		fmt.Fprintf(p, `<path class="line %s" style="fill:none" d="%s"%s/>`, c.key, d.String(), dash)
	}
	p.WriteByte('\n')
}

// cold draws what one policy cut at cold moments.
func (p *plot) cold(c *ColdScore) {
	r := c.last()
	if r.Cut == 0 {
		return
	}
	x, y := p.x(r.Yield), p.y(r.FalseDropRate)
	fmt.Fprintf(p, `<path class="cold" d="M%.1f %.1fl6 6 -6 6 -6 -6z"/><text x="%.1f" y="%.1f">%s</text>`+"\n", x, y-6, x+10, y+4, escape(c.Policy))
}
