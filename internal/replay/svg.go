package replay

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Measures of the picture, in pixels.
const (
	svgWidth  = 1100
	svgLeft   = 70
	svgRight  = 20
	svgTop    = 70 // title and legend
	svgPanel  = 210
	svgGap    = 52 // between panels: caption and marks
	svgBottom = 40
)

// longPause is a pause that is marked: the shortest life of a cache entry.
const longPause = 5 * time.Minute

// part is one layer of a bar, from the bottom up.
type part struct{ class, name string }

var parts = []part{
	{"read", "read from the cache"},
	{"w5m", "written for 5 minutes"},
	{"w1h", "written for 1 hour"},
	{"input", "input, not cached"},
	{"gone", "removed"},
}

const svgStyle = `text{font:12px sans-serif;fill:#333}.small{font-size:10px;fill:#666}.title{font-size:15px;font-weight:bold}` +
	`.read{fill:#9ecae1}.w5m{fill:#fdae6b}.w1h{fill:#e6550d}.input{fill:#756bb1}.gone{fill:#f4f4f4;stroke:#bbb;stroke-width:.4}` +
	`.grid{stroke:#e4e4e4}.axis{fill:none;stroke:#666}.pause{stroke:#888;stroke-dasharray:3 3}.move{fill:#31a354}.refused{fill:#d62728}`

// picture draws panels of one session below each other.
type picture struct {
	bytes.Buffer
	turns int
	top   int     // prompt at the top of the scale
	bar   float64 // width of one request
}

// SVG writes a picture of one session, request by request: the bodies as they came above, and each report's below. The
// reports are of the same session.
func SVG(w io.Writer, reports []*Report) error {
	first := reports[0]
	p := &picture{turns: len(first.Turns), top: 1}
	for _, r := range reports {
		for i := range r.Turns {
			for _, u := range []*pipeline.Usage{r.Turns[i].Sent, r.Turns[i].Paid} {
				if u != nil {
					p.top = max(p.top, u.Prompt())
				}
			}
		}
	}
	p.bar = float64(svgWidth-svgLeft-svgRight) / float64(max(p.turns, 1))
	height := svgTop + (len(reports)+1)*(svgPanel+svgGap) + svgBottom
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"><style>%s</style>`+"\n", svgWidth, height, svgStyle)
	fmt.Fprintf(p, `<rect width="100%%" height="100%%" fill="#fff"/><text class="title" x="%d" y="24">%s · %s</text>`+"\n",
		svgLeft, escape(first.Session), escape(first.Model))
	p.legend()
	p.panel(svgTop, "pass-through", &first.PassThrough, nil, first.Turns)
	for i, r := range reports {
		caption := fmt.Sprintf("%s · %.1f %% of pass-through", cmp.Or(r.Policy, "policy"), 100*r.Ratio)
		p.panel(svgTop+(i+1)*(svgPanel+svgGap), caption, &r.Bill, r, r.Turns)
	}
	fmt.Fprintf(p, `<text x="%d" y="%d" text-anchor="middle">request</text></svg>`+"\n", svgWidth/2, height-8)
	if _, err := w.Write(p.Bytes()); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

func (p *picture) legend() {
	x := svgLeft
	for _, l := range parts {
		fmt.Fprintf(p, `<rect class="%s" x="%d" y="36" width="12" height="12"/><text x="%d" y="46">%s</text>`, l.class, x, x+16, l.name)
		x += 34 + 7*len(l.name)
	}
	fmt.Fprintf(p, `<path class="move" d="M%d 48l5 -10 5 10z"/><text x="%d" y="46">move</text>`, x, x+14)
	fmt.Fprintf(p, `<path class="pause" d="M%d 36v12"/><text x="%d" y="46">pause over 5 minutes</text>`+"\n", x+60, x+66)
}

// panel draws one way to treat the session; rep is nil for pass-through.
func (p *picture) panel(top int, caption string, b *bill.Bill, rep *Report, turns []Turn) {
	base := top + 20 + svgPanel - 20
	fmt.Fprintf(p, `<text x="%d" y="%d">%s · %s units · $%.2f · %.1f %% read</text>`+"\n",
		svgLeft, top+12, escape(caption), short(b.Units), b.USD, 100*b.ReadShare())
	p.axes(top+20, base)
	for i := range turns {
		t := &turns[i]
		x := svgLeft + float64(i)*p.bar
		if i > 0 && t.At.Sub(turns[i-1].At) > longPause {
			fmt.Fprintf(p, `<path class="pause" d="M%.1f %dV%d"><title>%s</title></path>`, x, top+20, base, t.At.Sub(turns[i-1].At).Round(time.Second))
		}
		u, gone := t.Sent, 0
		if rep != nil {
			u, gone = t.Paid, max(t.Removed, 0)
		}
		p.stack(x, base, i, u, gone)
		if rep != nil && t.Move != "" {
			fmt.Fprintf(p, `<path class="move" d="M%.1f %dl5 -10 5 10z"><title>%s move</title></path>`, x+p.bar/2-5, base+14, t.Move)
		}
	}
	p.WriteByte('\n')
}

// stack draws one request.
func (p *picture) stack(x float64, base, n int, u *pipeline.Usage, gone int) {
	if u == nil {
		fmt.Fprintf(p, `<rect class="refused" x="%.1f" y="%d" width="%.1f" height="3"><title>%d: refused</title></rect>`, x, base-3, p.bar*0.9, n)
		return
	}
	fmt.Fprintf(p, `<g><title>%d: read %d, 5m %d, 1h %d, input %d, removed %d</title>`, n, u.Read, u.Write5m, u.Write1h, u.Input, gone)
	y := float64(base)
	for i, size := range []int{u.Read, u.Write5m, u.Write1h, u.Input, gone} {
		if size <= 0 {
			continue
		}
		h := float64(size) / float64(p.top) * (svgPanel - 20)
		y -= h
		fmt.Fprintf(p, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, parts[i].class, x, y, p.bar*0.9, h)
	}
	p.WriteString(`</g>`)
}

// axes draws the scales of a panel.
func (p *picture) axes(top, base int) {
	for v := 0; v <= p.top; v += tick(p.top, 4) {
		y := float64(base) - float64(v)/float64(p.top)*float64(base-top)
		fmt.Fprintf(p, `<path class="grid" d="M%d %.1fH%d"/><text class="small" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			svgLeft, y, svgWidth-svgRight, svgLeft-6, y+3, short(float64(v)))
	}
	for n := 0; n < p.turns; n += tick(p.turns, 12) {
		fmt.Fprintf(p, `<text class="small" x="%.1f" y="%d" text-anchor="middle">%d</text>`, svgLeft+(float64(n)+0.45)*p.bar, base+26, n)
	}
	fmt.Fprintf(p, `<path class="axis" d="M%d %dV%dH%d"/>`, svgLeft, top, base, svgWidth-svgRight)
	fmt.Fprintf(p, `<text class="small" transform="translate(16 %d) rotate(-90)" text-anchor="middle">prompt tokens</text>`+"\n", (top+base)/2)
}

// escape is text as XML holds it. A character that XML 1.0 forbids becomes the one for what is unknown.
func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // writing to memory does not fail
	return b.String()
}

// tick is a round step that divides a scale into about n parts.
func tick(top, n int) int {
	raw := float64(top) / float64(n)
	scale := math.Pow(10, math.Floor(math.Log10(max(raw, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*scale >= raw {
			return int(m * scale)
		}
	}
	return int(10 * scale)
}

// short writes a number in few digits.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}
