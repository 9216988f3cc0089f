package main

import (
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

// tenantOf returns how the tenant of a restore request is told, as the key restore.tenant says: the material of the tenant's key
// as that of LLM requests, or false if the request does not name one. Nil: whoever has an id may have its original.
func tenantOf(by string) func(*http.Request) (material string, ok bool) {
	if by == serverconfig.TenantByID {
		return nil
	}
	var settings identity.Settings
	if name, ok := strings.CutPrefix(by, serverconfig.TenantByHeader); ok {
		settings.TenantHeader = strings.ToLower(name)
	}
	return func(r *http.Request) (string, bool) {
		get := func(name string) string { return strings.Join(r.Header.Values(name), ",") }
		if settings.TenantHeader != "" && get(settings.TenantHeader) == "" {
			return "", false // not the credential in its place
		}
		material := identity.Of(get, &settings).Tenant
		return material, material != identity.Of(func(string) string { return "" }, &settings).Tenant
	}
}

// restores makes what gives originals back, on both listeners that do.
func (s *server) restores() *restore.Server {
	return restore.New(restore.Options{
		Store: s.store, Session: s.engine.SessionKey, Tenant: tenantOf(s.config.Restore.Tenant), Observer: s.observer(), Log: s.log,
	})
}

// Restored implements [restore.Observer].
func (o observer) Restored(e restore.Event) {
	o.Metrics.Restored(string(e.Path), string(e.Result), e.Filter, e.Tokens)
	if len(o.takers) > 0 {
		o.tell([]event.Event{observe.RestoreEvent(string(e.Path), string(e.Result), e.Filter, e.Tokens, o.now())})
	}
}
