package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/internal/summarize"
	"github.com/tidemark-dev/tidemark/internal/telemetry"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
)

type serveCommand struct{ configFlags }

// closing is how long writing what is pending may take once no request runs any more.
const closing = 5 * time.Second

// Run serves until SIGINT or SIGTERM, then drains.
func (c *serveCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, c.sources(), time.Now)
}

// server is what a running tidemark is made of.
type server struct {
	sources   serverconfig.Sources
	now       func() time.Time     // when a request arrives
	config    *serverconfig.Loaded // as it was at the start: some keys count until the end
	log       *slog.Logger
	level     *slog.LevelVar
	metrics   *observe.Metrics
	store     state.Store
	engine    *pipeline.Engine
	admission *admission
	extproc   *extproc.Server
	takers    []taker // of events
	telemetry *telemetry.Telemetry
	board     *board.Board
}

// serve runs a server until ctx ends. now is the clock of requests.
func serve(ctx context.Context, sources serverconfig.Sources, now func() time.Time) error {
	s := &server{sources: sources, now: now, level: new(slog.LevelVar), metrics: observe.NewMetrics(version()), admission: &admission{}}
	s.log = slog.New(slog.DiscardHandler)
	s.sources.OnRouteError = s.routeFailed
	l, err := serverconfig.Load(s.sources)
	s.metrics.ConfigLoaded(hashOf(l), err, time.Now())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	s.config = l
	s.log = observe.NewLogger(os.Stderr, s.level, l.Log.Format)
	s.apply(l)
	if s.store, err = openStore(&l.Config, s.metrics); err != nil {
		return err
	}
	err = s.run(ctx)
	return errors.Join(err, s.store.Close())
}

// routeFailed reports a route config that cannot be used.
func (s *server) routeFailed(route string, from routeconfig.Source, err error) {
	s.metrics.RouteConfigFailed(string(from))
	s.log.Error("route config cannot be used, its route replays only", "route", route, "source", string(from), "error", err)
}

// run serves with the store open. When it returns, no request runs and what was pending is written.
func (s *server) run(ctx context.Context) (err error) {
	stopTelemetry, err := s.startTelemetry(ctx)
	if err != nil {
		return err
	}
	defer stopTelemetry()
	s.board = s.newBoard(s.metrics.Finished)
	s.takers = append(s.takers, s.board)
	s.admission.explain = pipeline.ExplainNew
	defer s.recordEvents()()
	s.observer().tell([]event.Event{observe.ConfigEvent(s.config.Hash, nil, s.now())}) // metrics counted it when it was loaded
	summaries := summarize.New(summarize.Options{
		Credential: s.credential(), Prices: s.config.PriceTable, Now: s.now, Report: s.observer().Summarized, Log: s.log,
	})
	defer summaries.Close()
	s.engine, err = pipeline.New(ctx, s.store, pipeline.Options{Log: s.log, Start: s.now(), Prices: s.config.PriceTable, Summaries: summaries})
	if err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	s.metrics.PriceTable(s.config.PriceTable)
	s.metrics.Active(func() (sessions, lineages int) { return s.engine.Active(s.now()) })
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		err = errors.Join(err, s.engine.Close(last))
	}()
	return s.listen(ctx)
}

// listen opens the listeners and serves until ctx ends.
func (s *server) listen(ctx context.Context) error {
	d, err := s.openDoors(ctx)
	if err != nil {
		return err
	}
	s.extproc = extproc.New(extproc.Options{
		Engine: s.engine, Admit: s.admission.admit, Result: observe.Result, Account: observe.Account, Observer: s.observer(), Log: s.log,
		Now: s.now, Deadline: s.config.Deadline, MaxBody: s.config.MaxBodyBytes, Credentials: d.credentials,
		DrainDelay: max(s.config.DrainDelay, 1), DrainTimeout: max(s.config.DrainTimeout, 1), // 0 would mean their defaults
	})
	s.log.InfoContext(ctx, "serving", "listen", d.extproc.Addr().String(), "admin", d.admin.Addr().String(), "state", s.config.Redacted()["state"],
		"encrypted", encrypted(&s.config.Config), "config", s.config.Hash)
	return s.together(ctx, d)
}

// credentialEnv names the variable that holds the credential of the models that write summaries. It is no key of the config, so
// that it is in no file and is never shown.
const credentialEnv = "TIDEMARK_SUMMARIZER_KEY"

// credential is what summarizers are asked with, empty if there is none.
func (s *server) credential() string {
	if s.sources.Env == nil {
		return ""
	}
	v, _ := s.sources.Env(credentialEnv)
	return strings.TrimSpace(v)
}

// together runs the parts until ctx ends or one of them fails. The admin endpoints stay up while the others drain.
func (s *server) together(ctx context.Context, d *doors) error {
	g, ctx := errgroup.WithContext(ctx)
	drained, drain := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer drain()
		return s.extproc.Serve(ctx, d.extproc)
	})
	g.Go(func() error { return d.admin.server.Serve(drained, d.admin, time.Second) })
	for _, l := range d.others {
		g.Go(func() error { return l.server.Serve(ctx, l, s.config.DrainTimeout) })
	}
	if s.sources.File != "" {
		loaded := s.config.Content
		g.Go(func() error { return s.watch(ctx, loaded) })
	}
	err := g.Wait()
	if d.compress != nil {
		d.compress.Wait()
	}
	s.log.InfoContext(ctx, "stopped")
	return err
}

// watch takes over changes of the config file.
func (s *server) watch(ctx context.Context, loaded serverconfig.Digest) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return serverconfig.Watch(ctx, s.sources.File, loaded, hup, s.reload)
}

// reload loads the config again. If it cannot be used, the one in use stays.
func (s *server) reload() {
	l, err := serverconfig.Load(s.sources)
	if err != nil {
		s.observer().configLoaded("", err)
		s.log.Error("config cannot be used, the last good one stays", "error", err)
		return
	}
	if keys := serverconfig.NeedsRestart(&s.config.Config, &l.Config); len(keys) > 0 {
		s.log.Warn("some changed keys need a restart", "keys", keys)
	}
	l = l.InUse(s.config)
	s.apply(l)
	s.observer().configLoaded(l.Hash, nil)
	s.log.Info("config loaded", "config", l.Hash)
}

// apply takes over what can change while the server runs.
func (s *server) apply(l *serverconfig.Loaded) {
	s.level.Set(l.Log.SlogLevel())
	s.admission.use(l)
}

func hashOf(l *serverconfig.Loaded) string {
	if l == nil {
		return ""
	}
	return l.Hash
}

// report is what /config shows.
func (s *server) report() any {
	l := s.admission.loaded.Load()
	return map[string]any{"hash": l.Hash, "settings": l.Settings()}
}

// checks are what /readyz asks.
func (s *server) checks() []observe.Check {
	return []observe.Check{
		{Name: "ext_proc", Probe: func(context.Context) error {
			if !s.extproc.Ready() {
				return errors.New("takes no new streams")
			}
			return nil
		}},
		{Name: "store", Probe: func(ctx context.Context) error {
			_, err := s.store.Stamp(ctx, state.SessionKey{})
			return err
		}},
	}
}
