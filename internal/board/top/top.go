// Package top is the page in a terminal: it asks a server's admin listener what the page asks, and writes it as text.
//
// Figures keep their origin and percents their denominator, as on the page: see package board. What sessions and models are called
// comes from clients; only what can be printed of it reaches the terminal, so that no name can move the cursor. [Text] is pure;
// [Client] is safe for concurrent use.
package top

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tidemark-dev/tidemark/internal/board"
)

// Size is the size of a terminal, in cells. A Height of 0 has no end. A Width of 0 is not known, as on serial lines and in some
// containers: the usual one is taken.
type Size struct{ Width, Height int }

const usual = 80

// Widths from which more columns are shown.
const (
	narrow = 64
	wide   = 100
)

// shownGates and shownLosses are how many lines these take at most.
const (
	shownGates  = 6
	shownLosses = 5
)

// screen writes text in a size.
type screen struct {
	Size
	colour bool
	lines  []string
}

// Text returns lines that show a page of sessions, each no wider than the terminal, and no more of them than it is high. The last
// one ends with a newline.
func Text(p *board.Sessions, size Size, colour bool) string {
	if size.Width <= 0 {
		size.Width = usual
	}
	s := &screen{Size: size, colour: colour}
	s.totals(p)
	below := &screen{Size: size, colour: colour}
	below.losses(p.Totals.Losses)
	below.gates(p.Gates)
	room := math.MaxInt
	if size.Height > 0 {
		room = max(5, size.Height-len(s.lines)-len(below.lines)-1)
	}
	s.sessions(p, room)
	s.lines = append(s.lines, below.lines...)
	if size.Height > 0 && len(s.lines) > size.Height-1 {
		s.lines = s.lines[:max(1, size.Height-1)]
	}
	return strings.Join(s.lines, "\n") + "\n"
}

// say adds a line, cut to the width.
func (s *screen) say(line string) { s.lines = append(s.lines, text.Trim(line, s.Width)) }

// paint colours a text: words say the same, for those who see no colours.
func (s *screen) paint(c text.Color, t string) string {
	if !s.colour {
		return t
	}
	return c.EscapeSeq() + t + text.EscapeReset
}

func (s *screen) bold(t string) string { return s.paint(text.Bold, t) }

func (s *screen) totals(p *board.Sessions) {
	o, m, e, shadow := &p.Totals.Observed, &p.Totals.Modelled, &p.Totals.Estimated, &p.Totals.Shadow
	if p.Since.IsZero() {
		s.say(s.bold("No request yet.") + " If agents are at work: tidemark doctor says why.")
		return
	}
	s.say(s.bold("net       ") + s.net(m, p.Spend.USD) + "  modelled")
	s.say(s.bold("bill      ") + fmt.Sprintf("%s for %d answers of %d requests  observed", usd(o.Cost), o.Answers, p.Totals.Requests))
	prompt := o.Input + o.Read + o.Write5m + o.Write1h
	read := cmp.Or(strings.TrimPrefix(share(float64(o.Read), float64(prompt), " of ", count(prompt)+" prompt tokens read"), ", "), "no answer yet")
	s.say(s.bold("cache     ") + read + "  observed")
	left := fmt.Sprintf("%s tokens, %s needed again, %s given back  estimated", count(e.Removed), count(e.Reused), count(e.Restored))
	s.say(s.bold("left out  ") + left)
	if shadow.Requests > 0 {
		s.say(s.bold("shadow    ") + fmt.Sprintf("would leave out %s tokens in %d requests  shadow", count(shadow.Removed), shadow.Requests))
	}
	if p.Totals.Undeclared > 0 {
		s.say(s.paint(text.FgRed, s.bold(fmt.Sprintf("FAULT     %d prefix changes without a move: please report it", p.Totals.Undeclared))))
	}
	if p.Config != nil && p.Config.Result == "error" {
		s.say(s.paint(text.FgRed, "CONFIG    could not be loaded at "+p.Config.Time.Format(time.TimeOnly)+", the last good one is in use"))
	}
	s.say("")
}

// net is what is left once tidemark's own calls are paid.
func (s *screen) net(m *board.Modelled, spent float64) string {
	if m.Answers == 0 && spent == 0 {
		return "no answer was priced yet"
	}
	net := m.Net - spent
	return s.tone(net, fmt.Sprintf("%s %s", word(net), usd(math.Abs(net)))) + share(math.Abs(net), m.Baseline, " of ", usd(m.Baseline)+" without tidemark")
}

// tone colours a text by the sign of a figure.
func (s *screen) tone(v float64, t string) string {
	switch {
	case v < 0:
		return s.paint(text.FgRed, t)
	case v > 0:
		return s.paint(text.FgGreen, t)
	}
	return t
}

// sessions adds a table of at most so many lines.
func (s *screen) sessions(p *board.Sessions, lines int) {
	if len(p.List) == 0 || lines < 5 {
		return
	}
	head, t := table.Row{"SESSION", "NET", "OF BASELINE"}, plain()
	if s.Width >= narrow {
		head = append(head, "READ OF PROMPT", "LOSSES")
	}
	if s.Width >= wide {
		head = append(head, "BILL", "REQUESTS", "ROUTE, MODEL")
	}
	t.AppendHeader(head)
	for i := range p.List[:min(len(p.List), max(1, lines-3))] {
		t.AppendRow(s.row(&p.List[i]))
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight}, {Number: 7, Align: text.AlignRight}})
	s.say(s.bold(fmt.Sprintf("SESSIONS  %d of %d, %s", min(len(p.List), max(1, lines-3)), p.Kept, map[string]string{
		"worst": "worst net first", "recent": "most recent first", "cost": "dearest first", "losses": "most lost first",
	}[p.Sort])))
	s.render(t)
}

func (s *screen) row(one *board.Session) table.Row {
	m := &one.Modelled
	net, of := "-", "not priced"
	if m.Answers > 0 {
		net, of = s.tone(m.Net, fmt.Sprintf("%+.4f", m.Net)), word(m.Net)
		if m.NetOfBaseline != nil && m.Net != 0 {
			of = s.tone(m.Net, of+" "+percent(math.Abs(*m.NetOfBaseline)))
		}
	}
	row := table.Row{printable(brief(one.Session)), net, of}
	if s.Width >= narrow {
		read := "-"
		if one.Observed.ReadOfPrompt != nil {
			read = percent(*one.Observed.ReadOfPrompt)
		}
		losses := make([]string, 0, len(one.Losses))
		for _, l := range one.Losses {
			losses = append(losses, printable(l.Cause)+" "+strconv.Itoa(l.N))
		}
		row = append(row, read, cmp.Or(strings.Join(losses, ", "), "none"))
	}
	if s.Width >= wide {
		name := one.Route + " " + one.Model
		if one.Mode != "active" {
			name += " " + one.Mode
		}
		row = append(row, usd(one.Observed.Cost), one.Requests, printable(strings.TrimSpace(name)))
	}
	return row
}

func (s *screen) losses(losses []board.Loss) {
	if len(losses) == 0 {
		return
	}
	t := plain()
	t.AppendHeader(table.Row{"CAUSE", "TIMES", "TOKENS", "ABOVE READING"})
	for i := range losses[:min(len(losses), shownLosses)] {
		l := &losses[i]
		t.AppendRow(table.Row{printable(l.Cause), l.N, count(l.Tokens), usd(l.USD)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight}})
	s.say("")
	s.say(s.bold("CACHE LOSSES  observed"))
	s.render(t)
}

func (s *screen) gates(gates []board.Gate) {
	if len(gates) == 0 {
		return
	}
	t := plain()
	t.AppendHeader(table.Row{"GATE", "OF", "RESULTS", "REQUESTS"})
	for i := range gates[:min(len(gates), shownGates)] {
		g := &gates[i]
		results := "-"
		if g.Filter != "" {
			results = count(g.N)
		}
		t.AppendRow(table.Row{printable(g.Gate), printable(cmp.Or(g.Filter, "the request")), results, count(g.Requests)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, Align: text.AlignRight}, {Number: 4, Align: text.AlignRight}})
	s.say("")
	s.say(s.bold("WHY RESULTS STAYED AS THEY WERE"))
	s.render(t)
}

// plain is a table of columns without lines.
func plain() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options, style.Format = table.OptionsNoBordersAndSeparators, table.FormatOptions{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	return t
}

func (s *screen) render(t table.Writer) {
	for line := range strings.SplitSeq(t.Render(), "\n") {
		s.say(strings.TrimRight(line, " "))
	}
}

func word(net float64) string {
	switch {
	case net > 0:
		return "saved"
	case net < 0:
		return "cost more"
	}
	return "even"
}

// share is ", 12 % of <what>", or nothing where there is nothing to divide by.
func share(a, b float64, of, what string) string {
	if b <= 0 {
		return ""
	}
	return ", " + percent(a/b) + of + what
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// usd is a sum without a sign.
func usd(v float64) string {
	if v != 0 && math.Abs(v) < 0.1 {
		return fmt.Sprintf("$%.4f", v)
	}
	return fmt.Sprintf("$%.2f", v)
}

// count is a number of three digits or so.
func count(n int) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return strconv.Itoa(n)
}

// brief is the start of a hash, as people compare them.
func brief(hash string) string {
	r := []rune(hash)
	return string(r[:min(len(r), 8)])
}

// printable replaces what a terminal might take for more than text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
