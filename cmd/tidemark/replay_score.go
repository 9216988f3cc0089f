package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/internal/replay"
)

// scoreResults are what a score found out.
type scoreResults struct {
	*replay.Score
	FirstUseTurns any      `json:"first_use_turns"`
	Skipped       []string `json:"skipped,omitempty"`
}

// score scores the filter's verdicts instead of billing sessions.
func (c *replayCommand) score(ctx context.Context) error {
	if c.Route == "" {
		c.Pipeline = []string{coref.Name}
	}
	if c.Bodies != "" {
		return errors.New("--score writes no bodies")
	}
	policies, err := c.policies(c.Compare)
	if err != nil {
		return err
	}
	scores, skipped, err := each(ctx, c, func(ctx context.Context, rec *replay.Recording) (*replay.Score, error) {
		return replay.ScoreSession(ctx, rec, replay.Options{Policies: policies, Provider: c.provider()})
	})
	if err != nil {
		return err
	}
	if len(scores) == 0 {
		return errNoSession
	}
	r := &scoreResults{replay.SumScores(scores), replay.FirstUseTurns(), skipped}
	if c.JSON != "" {
		if err := writeJSONFile(c.JSON, r); err != nil {
			return err
		}
	}
	if c.JSON != "-" {
		r.print(os.Stdout)
	}
	leftOut(skipped)
	if c.SVG == "" {
		return nil
	}
	return drawFile(c.SVG, func(w io.Writer) error { return replay.ScoreSVG(w, r.Score) })
}

// print shows each point, what the keys do at all points together, and the cold moments.
func (r *scoreResults) print(w io.Writer) {
	fmt.Fprintf(w, "coref at held-out points of %d sessions, by the share of turns before them\n", r.Sessions)
	t := scoreTable(w, "point")
	for i := range r.Points {
		row := &r.Points[i]
		appendScore(t, fmt.Sprintf("%d %%", row.Point), row.Verdict, &row.Tally)
	}
	t.Render()
	fmt.Fprintln(w, "the same points together, one key changed at a time")
	t = scoreTable(w, "key")
	for i := range r.Grid {
		if row := &r.Grid[i]; row.Key == "" {
			appendScore(t, "defaults", row.Verdict, &row.Tally)
		}
	}
	before := ""
	for _, row := range r.Curves() {
		if group := row.Key + row.Verdict; group != before {
			t.AppendSeparator()
			before = group
		}
		appendScore(t, fmt.Sprintf("%s %d", row.Key, row.Value), row.Verdict, &row.Tally)
	}
	t.Render()
	for i := range r.Cold {
		printCold(w, &r.Cold[i])
	}
	r.printFirstUse(w)
}

func scoreTable(w io.Writer, first string) table.Writer {
	t := newTable(w)
	t.AppendHeader(table.Row{first, "verdict", "candidates", "used later", "cut", "tokens", "yield", "false drops", "rate", "missed", "rate", "used and kept"})
	return t
}

func appendScore(t table.Writer, first, verdict string, s *replay.Tally) {
	t.AppendRow(table.Row{
		first, verdict, s.Candidates, s.Used, s.Cut, units(float64(s.Tokens)), fine(s.Yield), s.FalseDrops, percent(s.FalseDropRate), s.Missed, percent(s.MissedRate),
		percent(s.UsedKept),
	})
}

// fine is a share of which a hundredth of a percent counts.
func fine(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

func printCold(w io.Writer, c *replay.ColdScore) {
	moments := c.Rows[0].Moments
	fmt.Fprintf(w, "at %d cold moments under %s\n", moments, printable(c.Policy))
	t := newTable(w)
	t.AppendHeader(table.Row{"verdict", "candidates", "used later", "cut", "tokens", "yield", "false drops", "rate", "missed", "rate", "again", "rate", "reread", "referenced"})
	for i := range c.Rows {
		s := &c.Rows[i]
		row := table.Row{s.Verdict, s.Candidates, s.Used, s.Cut, units(float64(s.Tokens)), fine(s.Yield), s.FalseDrops, percent(s.FalseDropRate)}
		if s.Verdict != replay.Everything {
			row = append(row, s.Missed, percent(s.MissedRate), s.Again, percent(s.AgainRate), s.Reread, s.Referenced)
		}
		t.AppendRow(row)
	}
	t.Render()
}

// printFirstUse says how long after the point false drops are first used.
func (r *scoreResults) printFirstUse(w io.Writer) {
	for i := range r.Grid {
		row := &r.Grid[i]
		if row.Key != "" || row.FalseDrops == 0 {
			continue
		}
		classes := replay.FirstUseTurns()
		parts := make([]string, 0, len(classes))
		for k, turns := range classes {
			parts = append(parts, fmt.Sprintf("%s: %s", turns, percent(float64(row.FirstUse[k])/float64(row.FalseDrops))))
		}
		fmt.Fprintf(w, "turns to the first use, %s: %s\n", row.Verdict, strings.Join(parts, ", "))
	}
}
