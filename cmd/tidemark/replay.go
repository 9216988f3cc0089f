package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/replay"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// policyFlags say under which config sessions are played.
type policyFlags struct {
	Pipeline []string `help:"Filters, in order." default:"readlifecycle"`
	Route    string   `help:"Route config as JSON, as a route would carry it; --pipeline is not used then." placeholder:"JSON"`
	NoLift   bool     `help:"Play against a provider that does not lift what is cached to a longer life."`

	AutoTTL time.Duration `name:"auto-ttl" help:"How long the provider keeps what it caches by itself, as with OpenAI; tidemark is told so too. Without it, as documented." placeholder:"DURATION"`
}

func (f *policyFlags) provider() replay.Provider {
	return replay.Provider{NoLift: f.NoLift, AutoTTL: f.AutoTTL}
}

type replayCommand struct {
	Sessions []string `arg:"" name:"session" help:"Session files, or folders of captured requests; or files of events that a server wrote." type:"path"`
	policyFlags
	Compare  []string `help:"Names of pipelines, presets too; each session is played under each of them, and --pipeline and --route are not used." placeholder:"NAME"`
	Bodies   string   `help:"Write every body before and after into this folder; with --compare into one folder for each pipeline." placeholder:"DIR" type:"path"`
	JSON     string   `name:"json" help:"Write the report as JSON; - is standard output." placeholder:"FILE"`
	SVG      string   `name:"svg" help:"Draw the session, request by request; for a single one, except with --score." placeholder:"FILE" type:"path"`
	Score    string   `help:"Instead of bills, count how often this filter cuts what is used later, by verdict and threshold; only coref has verdicts to count. The pipeline is the filter alone without --compare and --route." enum:",coref" default:"" placeholder:"coref"`
	Parallel int      `help:"Sessions at a time; 0 is one for each core."`
}

// Run replays every session, or says what files of events hold. It exits with 2 if one cannot be read; sessions of other wire
// formats are named and left out.
func (c *replayCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	act := c.bill
	events, err := c.events()
	switch {
	case err != nil:
		return &exitError{exitUsage, err}
	case events:
		act = c.logged
	case c.Score != "":
		act = c.score
	}
	if err := act(ctx); err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

var errNoSession = errors.New("no session of a wire format that is read")

// bill plays the sessions under every policy.
func (c *replayCommand) bill(ctx context.Context) error {
	if c.SVG != "" && len(c.Sessions) != 1 {
		return errors.New("--svg draws a single session")
	}
	policies, err := c.policies(c.Compare)
	if err != nil {
		return err
	}
	reports, skipped, err := each(ctx, c, func(ctx context.Context, rec *replay.Recording) ([]*replay.Report, error) {
		return replay.Run(ctx, rec, replay.Options{Policies: policies, Bodies: c.Bodies, Provider: c.provider()})
	})
	if err != nil {
		return err
	}
	if err := c.write(replayResults(policies, reports, skipped)); err != nil {
		return err
	}
	if len(reports) == 0 {
		return errNoSession
	}
	return nil
}

// policies compiles the configs that sessions are played under: the named ones, or else that of the flags.
func (f *policyFlags) policies(names []string) ([]replay.Policy, error) {
	if len(names) == 0 {
		raw, name := map[string]any{"pipeline": anys(f.Pipeline)}, strings.Join(f.Pipeline, "+")
		if f.Route != "" {
			raw, name = nil, "--route"
			if err := json.Unmarshal([]byte(f.Route), &raw); err != nil {
				return nil, fmt.Errorf("read --route: %w", err)
			}
		}
		resolver, problems := routeconfig.New(routeconfig.Options{Filters: knownFilters(), Default: raw})
		if err := problems.Err(); err != nil {
			return nil, err
		}
		return []replay.Policy{policy(name, resolver.Default())}, nil
	}
	var bad error
	resolver, problems := routeconfig.New(routeconfig.Options{
		Filters: knownFilters(), OnError: func(_ string, _ routeconfig.Source, err error) { bad = errors.Join(bad, err) },
	})
	policies := make([]replay.Policy, 0, len(names))
	for _, name := range names {
		if slices.ContainsFunc(policies, func(p replay.Policy) bool { return p.Name == name }) {
			return nil, fmt.Errorf("--compare names %s twice", name)
		}
		policies = append(policies, policy(name, resolver.Resolve("replay", routeconfig.Sources{Name: name})))
	}
	return policies, errors.Join(problems.Err(), bad)
}

func policy(name string, r *routeconfig.Route) replay.Policy {
	return replay.Policy{Name: name, Config: r.Config, Identity: r.Identity}
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// each does something with every session, in parallel, and returns what came of it, in the order of the arguments. Sessions
// of other wire formats are named instead.
func each[T any](ctx context.Context, c *replayCommand, do func(context.Context, *replay.Recording) (T, error)) ([]T, []string, error) {
	bar := progressBar(len(c.Sessions))
	defer bar.Stop()
	all := make([]*T, len(c.Sessions))
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
			one, err := do(ctx, rec)
			all[i] = &one
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	slices.Sort(skipped)
	var done []T
	for _, one := range all {
		if one != nil {
			done = append(done, *one)
		}
	}
	return done, skipped, nil
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

// write writes what was asked for: tables unless the JSON goes to standard output.
func (c *replayCommand) write(r *results) error {
	if c.JSON != "" {
		if err := writeJSONFile(c.JSON, r); err != nil {
			return err
		}
	}
	if c.JSON != "-" {
		r.print(os.Stdout)
	}
	if c.SVG != "" && len(r.Sessions) > 0 {
		if err := drawFile(c.SVG, func(w io.Writer) error { return replay.SVG(w, r.Sessions) }); err != nil {
			return err
		}
	}
	leftOut(r.Skipped)
	return nil
}

func leftOut(sessions []string) {
	for _, s := range sessions {
		fmt.Fprintln(os.Stderr, "left out:", printable(s))
	}
}

func drawFile(name string, draw func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return draw(f)
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
