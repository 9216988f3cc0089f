package main

import (
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// admission says of a request's headers what the engine needs to know. The config that routes are resolved by can be
// exchanged at any time.
type admission struct {
	loaded   atomic.Pointer[serverconfig.Loaded]
	switches switches
	explain  pipeline.Explain // what is said of results, for those who are told of events
}

// use makes l the config of the requests that come.
func (a *admission) use(l *serverconfig.Loaded) { a.loaded.Store(l) }

// admit is an [extproc.Admit].
func (a *admission) admit(h *extproc.Head) (r *pipeline.Request, reason string) {
	get := h.Headers.Get
	wire := identity.Format(get(":path"), get(":method"), get("content-type"), get("content-encoding"))
	if wire.Reason != identity.Ours {
		return nil, string(wire.Reason)
	}
	l := a.loaded.Load()
	route := l.Routes.Resolve(h.Config.Route, routeconfig.Sources{
		Metadata: h.Config.Metadata, JSON: h.Config.JSON, Name: h.Config.Pipeline,
	})
	id := identity.Of(get, &route.Identity)
	return &pipeline.Request{
		Route:        h.Config.Route,
		Format:       wire.Format,
		Model:        wire.Model,
		Place:        wire.Place,
		Tenant:       id.Tenant,
		Session:      id.Session,
		Agent:        id.Agent,
		Config:       a.narrowed(l, h.Config.Route, route.Config),
		CountTokens:  wire.CountTokens,
		Auxiliary:    id.Auxiliary || wire.Auxiliary,
		Bypass:       id.Bypass,
		ClientSigned: id.ClientSigned,
		Anonymous:    route.Identity.Anonymous,
		Unsure:       wire.Unsure,
		Explain:      a.explain,
	}, ""
}
