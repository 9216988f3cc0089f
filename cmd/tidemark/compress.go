package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// route is a [compress.Route].
func (a *admission) route(name string) (*pipeline.Config, *identity.Settings) {
	route := a.loaded.Load().Routes.Resolve(compress.RouteName, routeconfig.Sources{Name: name})
	return route.Config, &route.Identity
}

// second opens the second door, if the config has one; else both are nil.
func (s *server) second(ctx context.Context) (*compress.Server, net.Listener, error) {
	c := &s.config.Compress
	if c.Listen == "" {
		return nil, nil, nil
	}
	token, err := readToken(c.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	l, err := extproc.Listen(ctx, c.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("compress: %w", err)
	}
	return compress.New(compress.Options{
		Engine: s.engine, Route: s.admission.route, Observer: observer{s.metrics, s.log}, Token: token, Deadline: s.config.Deadline, Now: s.now, Log: s.log,
	}), l, nil
}

// readToken reads the token that requests must bear; without a file there is none.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", errors.New("read token: the file is empty")
	}
	return token, nil
}
