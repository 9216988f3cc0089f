package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// printer writes what a person reads.
type printer struct {
	w     io.Writer
	color bool
}

const (
	bold  = "1"
	green = "32"
	red   = "31"
)

func (p *printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p *printer) intro(turns, ways int) {
	p.printf("%s\n", p.paint(bold, fmt.Sprintf("One coding session of %d turns, billed at 5 minutes, played %d ways through the same Envoy", turns, ways)))
	p.printf("The session is made up; its pauses pass on a clock of its own. A simulated provider keeps Anthropic's published cache rules, at\n")
	p.printf("the prices of %s: USD %g per million input tokens, %g read from the cache, %g written to it for 5 minutes, %g for an hour.\n\n",
		model, dollarsPerMT, dollarsPerMT*readRate, dollarsPerMT*shortRate, dollarsPerMT*longRate)
}

// margin is where the columns of the picture begin.
const margin = 16

// picture draws what every turn wrote, a column each: a token written costs at least twelve times a token read.
func (p *printer) picture(turns []turn, ws []*way) {
	p.printf("Tokens that each turn had to write, a column each. Pauses are in minutes: after 5 the cache is gone, after 60 where an hour was asked for.\n\n")
	var labels strings.Builder
	column := margin
	for i := range turns {
		if turns[i].pause > 0 {
			fmt.Fprintf(&labels, "%*s%s", max(0, column-labels.Len()), "", minutes(turns[i].pause))
			column++
		}
		column++
	}
	p.printf("%s\n", labels.String())
	most := 1
	for _, w := range ws {
		for _, r := range w.turns {
			most = max(most, r.written())
		}
	}
	for _, w := range ws {
		p.printf("  %-*s", margin-2, w.name)
		for i, r := range w.turns {
			if turns[i].pause > 0 {
				p.printf("│")
			}
			p.printf("%s", p.column(r, most))
		}
		p.printf("\n")
	}
	p.printf("\n")
}

// heights of a column.
var heights = []rune("▁▂▃▄▅▆▇█")

func (p *printer) column(r *reading, most int) string {
	c := string(heights[r.written()*(len(heights)-1)/most])
	if !r.kept {
		return p.paint(red, c)
	}
	return c
}

func minutes(d time.Duration) string { return fmt.Sprintf("%.0fm", d.Minutes()) }

func (p *printer) table(ws []*way) {
	t := table.NewWriter()
	t.SetOutputMirror(p.w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"", "input bill", "of pass-through", "read from cache", "prefix broken", "tokens left out", "lifts to 1h"})
	plain := ws[0].total()
	for _, w := range ws {
		all := w.total()
		t.AppendRow(table.Row{
			w.name, fmt.Sprintf("$%.3f", dollars(all.cost)), percent(all.cost, plain.cost), percent(all.read, all.prompt),
			all.broken, plain.prompt - all.prompt, all.lifts,
		})
	}
	t.Render()
}

func (p *printer) heading(text string) { p.printf("\n%s\n", p.paint(bold, text)) }

func (p *printer) claim(holds bool, text string) {
	mark := p.paint(green, "✓")
	if !holds {
		mark = p.paint(red, "✗")
	}
	p.printf("  %s %s\n", mark, text)
}
