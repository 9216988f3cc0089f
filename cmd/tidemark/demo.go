package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/tidemark-dev/tidemark/internal/demo"
)

type demoCommand struct {
	Envoy string `help:"Envoy binary, 1.39 or later ($$ENVOY_BIN)." env:"ENVOY_BIN" default:"envoy" placeholder:"FILE"`
}

// Run plays the demo. It exits with 1 if something that it shows does not hold, with 2 if it cannot be played.
func (c *demoCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
