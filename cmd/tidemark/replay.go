package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/replay"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

type replayCommand struct {
	Sessions []string `arg:"" name:"session" help:"Session files, or folders of captured requests." type:"path"`
	Pipeline []string `help:"Filters, in order." default:"readlifecycle"`
	Route    string   `help:"Route config as JSON, as a route would carry it; --pipeline is not used then." placeholder:"JSON"`
	Bodies   string   `help:"Write every body before and after into this folder." placeholder:"DIR" type:"path"`
	JSON     string   `name:"json" help:"Write the report as JSON; - is standard output." placeholder:"FILE"`
	Parallel int      `help:"Sessions at a time; 0 is one for each core."`
}

// Run replays every session. It exits with 2 if one cannot be read; sessions of other wire formats are named and left out.
func (c *replayCommand) Run() error {
	route, err := c.route()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	reports, skipped, err := c.replay(ctx, route)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := c.write(reports, skipped); err != nil {
		return &exitError{exitUsage, err}
	}
	if len(reports) == 0 {
		return &exitError{exitUsage, errors.New("no session of a wire format that is read")}
	}
	return nil
}

// route compiles the config that all requests are played with.
func (c *replayCommand) route() (*routeconfig.Route, error) {
	raw := map[string]any{"pipeline": anys(c.Pipeline)}
	if c.Route != "" {
		raw = nil
		if err := json.Unmarshal([]byte(c.Route), &raw); err != nil {
			return nil, fmt.Errorf("read --route: %w", err)
		}
	}
	resolver, problems := routeconfig.New(routeconfig.Options{Filters: knownFilters(), Default: raw})
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return resolver.Resolve("replay", routeconfig.Sources{}), nil
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// replay plays the sessions in parallel and returns their reports in the order of the arguments.
func (c *replayCommand) replay(ctx context.Context, route *routeconfig.Route) ([]*replay.Report, []string, error) {
	bar := progressBar(len(c.Sessions))
	defer bar.Stop()
	all := make([]*replay.Report, len(c.Sessions))
	var mu sync.Mutex
	var skipped []string
	g, ctx := errgroup.WithContext(ctx)
	n := c.Parallel
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	g.SetLimit(n)
	for i, name := range c.Sessions {
		g.Go(func() error {
			defer bar.step()
			rec, err := replay.Open(name)
			if errors.Is(err, replay.ErrFormat) {
				mu.Lock()
				defer mu.Unlock()
				skipped = append(skipped, err.Error())
				return nil
			}
			if err != nil {
				return err
			}
			all[i], err = replay.Run(ctx, rec, replay.Options{Config: route.Config, Identity: route.Identity, Bodies: c.Bodies})
			return err
		})
	}
	err := g.Wait()
	slices.Sort(skipped)
	return slices.DeleteFunc(all, func(r *replay.Report) bool { return r == nil }), skipped, err
}

// bar shows progress on a terminal, and nothing anywhere else.
type bar struct {
	w progress.Writer
	t *progress.Tracker
}

func progressBar(n int) *bar {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return &bar{}
	}
	b := &bar{w: progress.NewWriter(), t: &progress.Tracker{Message: "replay", Total: int64(n)}}
	b.w.SetOutputWriter(os.Stderr)
	b.w.AppendTracker(b.t)
	go b.w.Render()
	return b
}

func (b *bar) step() {
	if b.t != nil {
		b.t.Increment(1)
	}
}

func (b *bar) Stop() {
	if b.w != nil {
		b.w.Stop()
	}
}

func (c *replayCommand) write(reports []*replay.Report, skipped []string) error {
	total := replay.Sum(reports)
	if c.JSON != "" {
		out := struct {
			Total    *replay.Report   `json:"total"`
			Sessions []*replay.Report `json:"sessions"`
			Skipped  []string         `json:"skipped,omitempty"`
		}{total, reports, skipped}
		if err := writeJSONFile(c.JSON, out); err != nil {
			return err
		}
	}
	if c.JSON != "-" {
		printReports(os.Stdout, append(slices.Clone(reports), total))
	}
	for _, s := range skipped {
		fmt.Fprintln(os.Stderr, "left out:", s)
	}
	return nil
}

func writeJSONFile(name string, v any) (err error) {
	w := io.WriteCloser(os.Stdout)
	if name != "-" {
		if w, err = os.Create(name); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	return writeJSON(w, v)
}

// printReports shows one line a session; the last report is the total.
func printReports(w io.Writer, reports []*replay.Report) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"session", "requests", "tokens in", "tokens out", "decisions", "moves", "holds", "matured", "gates"})
	for i, r := range reports {
		row := table.Row{r.Session, r.Requests, r.TokensIn, r.TokensOut, counts(r.Decisions, 3), r.Moves, r.Holds, r.Matured, counts(r.Gates, 3)}
		if i == len(reports)-1 {
			t.AppendFooter(row)
		} else {
			t.AppendRow(row)
		}
	}
	t.Render()
}

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
	text := ""
	for i, k := range keys {
		if i == n {
			return text + " …"
		}
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s %d", k, m[k])
	}
	return text
}
