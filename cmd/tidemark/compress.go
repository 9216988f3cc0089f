package main

import (
	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// route is a [compress.Route].
func (a *admission) route(name string) (*pipeline.Config, *identity.Settings) {
	l := a.loaded.Load()
	route := l.Routes.Resolve(compress.RouteName, routeconfig.Sources{Name: name})
	return a.narrowed(l, compress.RouteName, route.Config), &route.Identity
}
