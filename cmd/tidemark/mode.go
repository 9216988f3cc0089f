package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Bounds of what operators may say of routes.
const (
	maxNarrowed = 1000 // routes
	maxRoute    = 256  // bytes of a route's name
)

// switches narrow modes while the server runs. They are lost with the process.
type switches struct {
	mu     sync.RWMutex
	all    pipeline.Mode
	routes map[string]pipeline.Mode // without those that are active
}

// mode is how far a route may go at most.
func (s *switches) mode(route string) pipeline.Mode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return max(s.all, s.routes[route])
}

var errFull = errors.New("modes of too many routes are narrowed already")

// set narrows one route, or all for an empty name. [pipeline.Active] takes that back.
func (s *switches) set(route string, m pipeline.Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, known := s.routes[route]; {
	case route == "":
		s.all = m
	case m == pipeline.Active:
		delete(s.routes, route)
	case !known && len(s.routes) >= maxNarrowed:
		return errFull
	case s.routes == nil:
		s.routes = map[string]pipeline.Mode{route: m}
	default:
		s.routes[route] = m
	}
	return nil
}

// narrowed is a route's config with the narrowest of the modes that the config and operators name for it.
func (a *admission) narrowed(l *serverconfig.Loaded, route string, c *pipeline.Config) *pipeline.Config {
	m := max(c.Mode, a.switches.mode(route))
	if slices.Contains(l.OffRoutes, route) {
		m = pipeline.Off
	}
	if m == c.Mode {
		return c
	}
	n := *c
	n.Mode = m
	return &n
}

// modes is what /v1/mode shows.
type modes struct {
	Mode   string            `json:"mode"`   // of routes that nothing else is said of
	Config string            `json:"config"` // its part of that
	Set    string            `json:"set"`    // the operator's part of it
	Routes map[string]string `json:"routes"` // set for routes
	Off    []string          `json:"off_routes"`
	Lasts  string            `json:"lasts"`
}

// lasts says how long a mode that was set here stays.
const lasts = "until this process ends, and in this replica alone; what must last belongs into the config's mode and off_routes"

func (s *server) getMode(w http.ResponseWriter, _ *http.Request) {
	l, k := s.admission.loaded.Load(), &s.admission.switches
	k.mu.RLock()
	v := modes{
		Mode: max(l.Mode, k.all).String(), Config: l.Mode.String(), Set: k.all.String(), Routes: map[string]string{},
		Off: append([]string{}, l.OffRoutes...), Lasts: lasts,
	}
	for route, m := range maps.All(k.routes) {
		v.Routes[route] = m.String()
	}
	k.mu.RUnlock()
	b, err := json.Marshal(&v)
	if err != nil {
		access.Refuse(w, http.StatusInternalServerError, access.Internal, "the modes cannot be written")
		return
	}
	_ = access.Write(w, http.StatusOK, append(b, '\n')) // the client went away
}

// putMode sets the mode that {"mode": "off", "route": "name"} names; without a route that of all.
func (s *server) putMode(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Mode  string  `json:"mode"`
		Route *string `json:"route"`
	}
	const invalid = "invalid_request"
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&asked)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	m, known := routeconfig.ParseMode(asked.Mode)
	switch {
	case err != nil:
		access.Refuse(w, http.StatusBadRequest, invalid, `the body must be {"mode": "active|shadow|off"}, with "route": "name" for one route`)
		return
	case !known:
		access.Refuse(w, http.StatusBadRequest, invalid, "mode must be active, shadow or off")
		return
	case asked.Route != nil && *asked.Route == "": // a variable of a script that was not set must not mean all routes
		access.Refuse(w, http.StatusBadRequest, invalid, "route must be the name of a route; leave it out for all")
		return
	case asked.Route != nil && len(*asked.Route) > maxRoute:
		access.Refuse(w, http.StatusBadRequest, invalid, "the name of the route is too long")
		return
	}
	var route string
	if asked.Route != nil {
		route = *asked.Route
	}
	if err := s.admission.switches.set(route, m); err != nil {
		access.Refuse(w, http.StatusConflict, "too_many", err.Error())
		return
	}
	s.log.WarnContext(r.Context(), "mode was set by an operator", "mode", m.String(), "route", route)
	s.getMode(w, r)
}
