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
	dim   = "2"
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

func (p *printer) intro(turns int) {
	p.printf("%s\n", p.paint(bold, "One coding session, three ways through the same Envoy"))
	p.printf("A made-up session of %d turns. A simulated provider with Anthropic's published cache rules and the prices of %s\n", turns, model)
	p.printf("(input $%.0f per million tokens, cache read 0.1, write 1.25; table of 2026-11-29). Figures are a model's, not a bill.\n\n", dollarsPerMT)
	p.printf("each turn:  ░ read from cache   ▓ written   · removed      ✓ what was cached is read   ✗ it was lost\n\n")
	p.printf("%4s", "")
	for _, w := range ways() {
		p.printf("  %-43s", w.name)
	}
	p.printf("\n")
}

// width of a bar, and tokens that one cell of it stands for.
const (
	width = 22
	cell  = 5000
)

func (p *printer) turn(n int, ws []*way, row []*reading) {
	p.printf("%4d", n)
	for i, r := range row {
		mark := p.paint(green, "✓")
		if !r.kept {
			mark = p.paint(red, "✗")
		}
		share := 100 * float64(r.Read) / float64(max(1, r.prompt()))
		p.printf("  %s %s %3.0f %%  $%.3f%s", bar(r), mark, share, dollars(ws[i].cost), strings.Repeat(" ", 5))
	}
	p.printf("\n")
}

func bar(r *reading) string {
	read := (r.Read + cell/2) / cell
	written := (r.prompt()+cell/2)/cell - read
	removed := (max(0, r.removed) + cell/2) / cell
	text := strings.Repeat("░", read) + strings.Repeat("▓", max(0, written)) + strings.Repeat("·", removed)
	if n := len([]rune(text)); n < width {
		text += strings.Repeat(" ", width-n)
	}
	return text
}

func (p *printer) pause(d time.Duration, removed int) {
	p.printf("%s\n", p.paint(dim, fmt.Sprintf("      %v pass on the session's clock: the cache is cold and everything is written anew. tidemark left out %d tokens of stale reads for free.",
		d, removed)))
}

func (p *printer) heading(text string) { p.printf("\n%s\n", p.paint(bold, text)) }

func (p *printer) claim(holds bool, text string) {
	mark := p.paint(green, "✓")
	if !holds {
		mark = p.paint(red, "✗")
	}
	p.printf("  %s %s\n", mark, text)
}

func (p *printer) table(ws []*way) {
	p.printf("\n")
	t := table.NewWriter()
	t.SetOutputMirror(p.w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"", "tokens sent", "read from cache", "written", "longest prompt", "prefix broken", "input cost"})
	for _, w := range ws {
		t.AppendRow(table.Row{w.name, w.prompt, percent(w.read, w.prompt), w.written, w.longest, w.broken, fmt.Sprintf("$%.3f", dollars(w.cost))})
	}
	t.Render()
}
