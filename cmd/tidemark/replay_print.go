package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/internal/replay"
)

// results are what a replay found out. Sessions lists one report for each session and policy, policy by policy in each.
type results struct {
	Total     *replay.Report   `json:"total,omitempty"` // of the only policy
	Policies  []policyResult   `json:"policies"`
	Agreement *agreement       `json:"agreement,omitempty"` // nil where no session has recorded usage
	Sessions  []*replay.Report `json:"sessions"`
	Skipped   []string         `json:"skipped,omitempty"`
}

// policyResult is one policy over all sessions.
type policyResult struct {
	Policy string         `json:"policy"`
	Total  *replay.Report `json:"total"`
	Ratios *bill.Spread   `json:"ratios,omitempty"` // best, median and worst session

	reports []*replay.Report
}

// agreement is how far modelled bills of pass-through lie from the recorded ones, as a share of these.
type agreement struct {
	Signed *bill.Spread `json:"signed"`
	Size   *bill.Spread `json:"size"`
}

func replayResults(policies []replay.Policy, sessions [][]*replay.Report, skipped []string) *results {
	r := &results{Sessions: slices.Concat(sessions...), Skipped: skipped}
	if r.Sessions == nil {
		r.Sessions = []*replay.Report{}
	}
	for i := range policies {
		reports := make([]*replay.Report, len(sessions))
		for s := range sessions {
			reports[s] = sessions[s][i]
		}
		total := replay.Sum(reports)
		total.Policy = policies[i].Name
		r.Policies = append(r.Policies, policyResult{policies[i].Name, total, replay.Spread(reports), reports})
	}
	first := &r.Policies[0]
	if signed, size := replay.Errors(first.reports); signed != nil {
		r.Agreement = &agreement{signed, size}
	}
	if len(r.Policies) == 1 {
		r.Total = first.Total
	}
	return r
}

// print shows what was done with one policy, or the bills of several side by side, then each policy in a line; nothing without sessions.
func (r *results) print(w io.Writer) {
	if len(r.Sessions) == 0 {
		return
	}
	if r.Total != nil {
		r.printDone(w)
	} else {
		r.printBills(w)
	}
	r.printPolicies(w)
	r.printIdle(w)
	if r.Agreement != nil {
		s, a := r.Agreement.Signed, r.Agreement.Size
		fmt.Fprintf(w, "modelled against recorded bill of pass-through, %d sessions: error %.1f %% (median), %.1f %% (p90), %.1f %% (%s); signed %+.1f %% (p10), %+.1f %% (median), %+.1f %% (p90)\n",
			a.Points, 100*a.Median.Value, 100*a.P90, 100*a.Most.Value, printable(a.Most.Session), 100*s.P10, 100*s.Median.Value, 100*s.P90)
	}
}

func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Format.Footer = text.FormatDefault
	return t
}

// printDone shows one line a session and the total.
func (r *results) printDone(w io.Writer) {
	t := newTable(w)
	t.AppendHeader(table.Row{"session", "requests", "tokens in", "tokens out", "decisions", "moves", "holds", "matured", "bill", "gates"})
	for _, s := range append(slices.Clone(r.Sessions), r.Total) {
		row := table.Row{printable(s.Session), s.Requests, s.TokensIn, s.TokensOut, counts(s.Decisions, 3), s.Moves, s.Holds, s.Matured, percent(s.Ratio), counts(s.Gates, 3)}
		if s == r.Total {
			t.AppendFooter(row)
		} else {
			t.AppendRow(row)
		}
	}
	t.Render()
}

// billColumns are the columns of printBills before those of the policies.
const billColumns = 5

// printBills shows one line a session: the bill of pass-through, and what every policy makes of it.
func (r *results) printBills(w io.Writer) {
	t := newTable(w)
	width := billColumns + 4*len(r.Policies)
	top := append(make(table.Row, 0, width), "", "", "pass-through", "pass-through", "pass-through")
	head := append(make(table.Row, 0, width), "session", "requests", "units", "read", "error")
	for _, p := range r.Policies {
		top = append(top, p.Policy, p.Policy, p.Policy, p.Policy)
		head = append(head, "bill", "read", "moves", "again")
	}
	t.AppendHeader(top, table.RowConfig{AutoMerge: true})
	t.AppendHeader(head)
	for i := range r.Policies[0].reports {
		row := r.billRow(func(p *policyResult) *replay.Report { return p.reports[i] })
		t.AppendRow(row)
	}
	t.AppendFooter(r.billRow(func(p *policyResult) *replay.Report { return p.Total }))
	t.Render()
}

func (r *results) billRow(of func(*policyResult) *replay.Report) table.Row {
	s := of(&r.Policies[0])
	off := ""
	if s.Recorded != nil {
		off = fmt.Sprintf("%+.1f %%", 100*s.Recorded.Error)
	}
	row := append(make(table.Row, 0, billColumns+4*len(r.Policies)),
		printable(s.Session), s.Requests, units(s.PassThrough.Units), percent(s.PassThrough.ReadShare()), off)
	for i := range r.Policies {
		s := of(&r.Policies[i])
		row = append(row, percent(s.Ratio), percent(s.Bill.ReadShare()), s.Moves, fmt.Sprintf("%d/%d", s.Reuse.Again, s.Reuse.Removed))
	}
	return row
}

// printPolicies shows one line a policy, and pass-through first.
func (r *results) printPolicies(w io.Writer) {
	t := newTable(w)
	t.AppendHeader(table.Row{"policy", "units", "USD", "bill", "net", "read", "5m", "1h", "moves", "forecast", "outcome", "used again", "best", "median", "worst"})
	pass := &r.Policies[0].Total.PassThrough
	t.AppendRow(table.Row{"pass-through", units(pass.Units), dollars(pass.USD), percent(1), "", percent(pass.ReadShare()), units(float64(pass.Write5m)), units(float64(pass.Write1h))})
	refused(t, pass)
	for i := range r.Policies {
		p := &r.Policies[i]
		s, b := p.Total, &p.Total.Bill
		forecast, outcome := 0.0, 0.0
		for _, rep := range p.reports {
			for _, m := range rep.MoveList {
				forecast, outcome = forecast+m.Forecast, outcome+m.Outcome
			}
		}
		row := table.Row{
			p.Policy, units(b.Units), dollars(b.USD), percent(s.Ratio), percent(s.NetRatio), percent(b.ReadShare()), units(float64(b.Write5m)), units(float64(b.Write1h)),
			s.Moves, dollars(forecast), dollars(outcome), fmt.Sprintf("%d of %d", s.Reuse.Again, s.Reuse.Removed),
		}
		if p.Ratios != nil {
			row = append(row, point(p.Ratios.Least), point(p.Ratios.Median), point(p.Ratios.Most))
		}
		t.AppendRow(row)
		refused(t, b)
	}
	t.Render()
}

// idleGates are the gates that are named of a policy that decided nothing.
const idleGates = 6

// printIdle says why nothing was done: what kept policies from every decision, and what sessions have that keeps all of them.
func (r *results) printIdle(w io.Writer) {
	for i := range r.Policies {
		if t := r.Policies[i].Total; len(t.Decisions)+t.Holds == 0 && len(t.Gates) > 0 {
			fmt.Fprintf(w, "%s decided nothing: %s\n", printable(r.Policies[i].Policy), counts(t.Gates, idleGates))
		}
	}
	for _, why := range []struct {
		of   func(*replay.Report) bool
		text string
	}{
		{(*replay.Report).Untouched, "forwarded as they came: every request is side traffic, as those without tools are"},
		{func(s *replay.Report) bool { return s.Unbounded && !s.Untouched() }, "no upper bound is known for how long the provider keeps what it caches, so nothing at depth is ever cold; --auto-ttl tells"},
		{func(s *replay.Report) bool { return s.BilledAs != "" }, "the model has no known prices: units are those of another, and USD are proportions"},
	} {
		models, n := map[string]int{}, 0
		for _, s := range r.Policies[0].reports {
			if why.of(s) {
				n++
				models[s.Model]++
			}
		}
		if n > 0 {
			fmt.Fprintf(w, "%d sessions (%s): %s\n", n, printable(counts(models, idleGates)), why.text)
		}
	}
}

// refused adds a line for what the provider refused, if there is any: it is on no bill.
func refused(t table.Writer, b *bill.Bill) {
	if b.Refused > 0 {
		t.AppendRow(table.Row{"", fmt.Sprintf("%d requests refused", b.Refused)})
	}
}

// printable is text of a recording, without what a terminal would take for orders.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func dollars(v float64) string { return fmt.Sprintf("%.2f", v) }

func point(p bill.Point) string { return percent(p.Value) + " " + printable(p.Session) }

// units writes tokens, or units of one token, in thousands.
func units(v float64) string { return fmt.Sprintf("%.0fk", v/1000) }

// counts shows the n largest of several counts.
func counts(m map[string]int, n int) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		if a < b {
			return -1
		}
		return 1
	})
	line := ""
	for i, k := range keys {
		if i == n {
			return line + " …"
		}
		if i > 0 {
			line += " "
		}
		line += fmt.Sprintf("%s %d", k, m[k])
	}
	return line
}
