package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/demo"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

type demoCommand struct {
	Envoy string `help:"Envoy binary, 1.40 or later ($$ENVOY_BIN)." env:"ENVOY_BIN" default:"envoy" placeholder:"FILE"`
}

// Run plays the demo. It exits with 1 if something that it shows does not hold, with 2 if it cannot be played.
func (c *demoCommand) Run() error {
	// A reader that goes away (demo | head) must not leave Envoy and the filter behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("find this program: %w", err)}
	}
	err = demo.Run(ctx, demo.Options{Out: os.Stdout, Envoy: c.Envoy, Self: self, Color: colors()})
	switch {
	case errors.Is(err, demo.ErrClaim):
		return err
	case err != nil:
		return &exitError{exitUsage, err}
	}
	return nil
}

// colors reports whether standard output takes them.
func colors() bool {
	_, off := os.LookupEnv("NO_COLOR")
	return !off && term.IsTerminal(int(os.Stdout.Fd()))
}

// demoFilterCommand is serve on the demo's clock.
type demoFilterCommand struct {
	configFlags

	Clock string `required:"" help:"File that holds the time." type:"path"`
}

// Run serves until it is told to stop.
func (c *demoFilterCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, c.sources(), demo.Clock(c.Clock))
}

// demoProviderCommand serves the provider simulator, for the compose demo.
type demoProviderCommand struct {
	Listen string `default:"127.0.0.1:8080" help:"Address."`
}

// Run serves until it is told to stop.
func (c *demoProviderCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	srv := &http.Server{Addr: c.Listen, Handler: demo.Provider(simprovider.New(simprovider.Options{})), ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve provider: %w", err)
	}
	return nil
}

// demoClientCommand plays the session against an Envoy that runs already, for the compose demo.
type demoClientCommand struct {
	URL   string `arg:"" name:"url" help:"Envoy's address."`
	Clock string `required:"" help:"File that the filter reads the time from." type:"path"`
}

// Run plays the session once.
func (c *demoClientCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return demo.Play(ctx, &demo.Stage{URL: c.URL, Clock: c.Clock, Out: os.Stdout, Color: colors()})
}
