package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/eventlog"
)

// events reports whether what is to be replayed are files of events. Those are reported as they are: no flag changes what
// happened.
func (c *replayCommand) events() (bool, error) {
	n, empty := 0, 0
	for _, name := range c.Sessions {
		if eventlog.Is(name) {
			n++
		} else if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 { // the newest, on a full disk
			empty++
		}
	}
	switch {
	case n == 0:
		return false, nil
	case n+empty < len(c.Sessions):
		return false, errors.New("some files hold events and some do not; give one kind")
	case len(c.Compare) > 0 || c.Route != "" || c.Bodies != "" || c.SVG != "" || c.Score != "":
		return false, errors.New("files of events say what happened; only --json goes with them")
	}
	return true, nil
}

// logged reports what files of events hold.
func (c *replayCommand) logged(context.Context) error {
	s, err := eventlog.Summarize(c.Sessions)
	if err != nil {
		return err
	}
	if c.JSON != "" {
		if err := writeJSONFile(c.JSON, s); err != nil {
			return err
		}
	}
	if c.JSON != "-" {
		printSummary(os.Stdout, s)
	}
	return nil
}

// printSummary shows the sessions, worst first, and what came of all together.
func printSummary(w io.Writer, s *eventlog.Summary) {
	t := &s.Total
	fmt.Fprintf(w, "%d events from %s to %s: %d requests, %d of them side traffic, in %d sessions\n",
		s.Events, moment(s.From), moment(s.To), t.Requests, t.Side, len(s.Sessions))
	printUnread(w, s.Unread)
	printSessions(w, s)
	printObserved(w, t)
	printModelled(w, s)
	printEstimated(w, t)
	printLosses(w, t)
	printMoves(w, t)
	if len(t.Gates) > 0 {
		fmt.Fprintf(w, "why nothing was done, most frequent first: %s\n", printable(counts(t.Gates, idleGates)))
	}
	if t.Undeclared+t.Desync > 0 {
		fmt.Fprintf(w, "FAULTS: %d requests lost bytes of a live cache entry without a declared move, %d may have lost what was in force\n", t.Undeclared, t.Desync)
	}
}

func printUnread(w io.Writer, u *eventlog.Unread) {
	if u.Later > 0 {
		fmt.Fprintf(w, "%d lines are of a later version and were passed over\n", u.Later)
	}
	if u.Broken > 0 {
		fmt.Fprintf(w, "%d lines cannot be read\n", u.Broken)
	}
	for _, f := range u.Faults {
		fmt.Fprintf(w, "  %s: %s\n", printable(f.File), printable(f.Error))
	}
}

// printSessions shows one line a session. What is observed and what is modelled stand under heads of their own.
func printSessions(w io.Writer, s *eventlog.Summary) {
	t := newTable(w)
	t.AppendHeader(table.Row{"", "", "", "observed", "observed", "observed", "modelled", "modelled", "modelled", "modelled", "modelled", "", ""}, table.RowConfig{AutoMerge: true})
	t.AppendHeader(table.Row{"session", "requests", "turns", "prompt", "read", "USD", "as it came", "removal", "levers", "reuse", "net", "moves", "losses"})
	row := func(name string, turns any, f *eventlog.Figures) table.Row {
		o, m := &f.Observed, &f.Modelled
		return table.Row{
			name, f.Requests, turns, units(float64(o.Prompt())), share(float64(o.Read), float64(o.Prompt())), usd(o.Cost), usd(m.Baseline), usd(m.Removal), usd(m.Levers),
			usd(-m.Reuse), usd(m.Net) + " " + share(m.Net, m.Baseline), len(f.Moves), lossCounts(f),
		}
	}
	for _, one := range s.Sessions {
		t.AppendRow(row(cmp.Or(printable(one.Session), "(none)"), one.Turns, &one.Figures))
	}
	t.AppendFooter(row("all", "", &s.Total))
	t.Render()
	fmt.Fprintln(w, "read is the share of the prompt's tokens that was read from the cache; net is relative to what the bodies as they came would have cost")
}

func lossCounts(f *eventlog.Figures) string {
	n := map[string]int{}
	for _, l := range f.Losses {
		n[cause(l)] += l.Times
	}
	return printable(counts(n, 3))
}

func cause(l *eventlog.Loss) string {
	if l.Filter == "" {
		return l.Cause
	}
	return l.Cause + ":" + l.Filter
}

func printObserved(w io.Writer, f *eventlog.Figures) {
	o := &f.Observed
	of := func(n int) string { return fmt.Sprintf("%d (%s)", n, share(float64(n), float64(o.Prompt()))) }
	merged := ""
	if o.Merged {
		merged = "; not every provider told the two lives apart"
	}
	fmt.Fprintf(w, "observed   %d responses, %s: of %d prompt tokens, read %s, written 5m %s, 1h %s, uncached %s; output %d%s\n",
		o.Responses, dollar(o.Cost), o.Prompt(), of(o.Read), of(o.Write5m), of(o.Write1h), of(o.Input), o.Output, merged)
}

func printModelled(w io.Writer, s *eventlog.Summary) {
	m := &s.Total.Modelled
	fmt.Fprintf(w, "modelled   %d of these responses: %s as the bodies came, less %s that they cost = %s by removal and %s by levers; less %s for what was needed again: net %s, %s of %s\n",
		m.Responses, dollar(m.Baseline), dollar(m.Cost), dollar(m.Removal), dollar(m.Levers), dollar(m.Reuse), dollar(m.Net), share(m.Net, m.Baseline), dollar(m.Baseline))
	for _, p := range []struct {
		what string
		v    event.Priced
	}{{"left out first", m.First}, {"left out again", m.Again}} {
		if p.v.Basis != "" {
			fmt.Fprintf(w, "           %s: %d tokens worth %s (%s): %d would have been read, %d written, %d uncached\n",
				p.what, p.v.Read+p.v.Written+p.v.Input, dollar(p.v.USD), printable(p.v.Basis), p.v.Read, p.v.Written, p.v.Input)
		}
	}
	if s.Spend.Calls > 0 {
		fmt.Fprintf(w, "           tidemark's own %d calls cost %s (observed): net %s, %s of %s\n", s.Spend.Calls, dollar(s.Spend.USD), dollar(s.Net), share(s.Net, m.Baseline), dollar(m.Baseline))
	}
	fmt.Fprintf(w, "           the provider's cache, which is not tidemark's doing: %s against a world without one\n", dollar(m.Provider))
}

func printEstimated(w io.Writer, f *eventlog.Figures) {
	e := &f.Estimated
	fmt.Fprintf(w, "estimated  %d tokens left out for the first time (%s), %d again; %d given back (%s), %d needed again (%s)\n",
		e.Removed, cmp.Or(printable(counts(e.ByFilter, len(e.ByFilter))), "none"), e.Replayed,
		e.Restored, cmp.Or(printable(counts(e.Restores, len(e.Restores))), "none asked for"), e.Reused, cmp.Or(printable(counts(e.Reuses, len(e.Reuses))), "none"))
	if s := f.Shadow; s != nil {
		fmt.Fprintf(w, "shadow     in %d requests mode active would have left out %d tokens for the first time: %s\n", s.Requests, s.Removed, printable(counts(s.Outcomes, len(s.Outcomes))))
	}
}

func printLosses(w io.Writer, f *eventlog.Figures) {
	if len(f.Losses) == 0 {
		return
	}
	t := newTable(w)
	t.AppendHeader(table.Row{"loss of cache", "times", "told by provider", "tokens", "USD", "of all losses"})
	var all eventlog.Loss
	for _, l := range f.Losses {
		all.Times, all.Diagnostics, all.Tokens, all.USD = all.Times+l.Times, all.Diagnostics+l.Diagnostics, all.Tokens+l.Tokens, all.USD+l.USD
	}
	for _, l := range f.Losses {
		t.AppendRow(table.Row{printable(cause(l)), l.Times, l.Diagnostics, l.Tokens, usd(l.USD), share(l.USD, all.USD)})
	}
	t.AppendFooter(table.Row{"all", all.Times, all.Diagnostics, all.Tokens, usd(all.USD), share(all.USD, f.Observed.Cost) + " of the cost"})
	t.Render()
}

// maxMoves are the moves that are shown; the JSON has all.
const maxMoves = 20

func printMoves(w io.Writer, f *eventlog.Figures) {
	if len(f.Moves) == 0 {
		return
	}
	t := newTable(w)
	t.AppendHeader(table.Row{"move at", "session", "request", "kind", "filter", "from", "tokens", "forecast", "so far", "requests", "sum"})
	var forecast, realised float64
	for i, m := range f.Moves {
		forecast, realised = forecast+m.Predicted, realised+m.Realised
		if i >= len(f.Moves)-maxMoves {
			t.AppendRow(table.Row{moment(m.Time), printable(m.Session), m.N, printable(m.Kind), printable(m.Filter), m.Message, m.Removed, usd(m.Predicted), usd(m.Realised), m.Requests, printable(m.Sum)})
		}
	}
	t.AppendFooter(table.Row{"all", "", fmt.Sprintf("%d moves", len(f.Moves)), "", "", "", "", usd(forecast), usd(realised), "", ""})
	t.Render()
	if n := len(f.Moves) - maxMoves; n > 0 {
		fmt.Fprintf(w, "%d earlier moves are not shown\n", n)
	}
}

// usd writes an amount so that its first digits are seen: net figures of one session are often below a cent.
func usd(v float64) string {
	if v == 0 {
		v = 0 // no -0.0000
	}
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// dollar is an amount in running text.
func dollar(v float64) string {
	if v < 0 {
		return "-$" + usd(-v)
	}
	return "$" + usd(v)
}

// share is a part in percent of something, nothing where there is nothing.
func share(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	return percent(part / whole)
}

// gateNames are the gates of a result.
func gateNames(gates []event.Gate) string {
	names := map[string]bool{}
	for _, g := range gates {
		names[strings.TrimPrefix(g.Filter+"."+g.Gate, ".")] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
