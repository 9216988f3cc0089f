package restore

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// TenantHeader names the tenant whose session an operator means.
const TenantHeader = "X-Tidemark-Tenant"

// OperatorTenant is the tenant that an operator means, by the headers of the request: a name that a route's config gives
// (X-Tidemark-Tenant: acme); what a route's tenant_header said (header:acme); an access key id of AWS (sigv4:AKIA…); else a key that
// the tenant's clients send, in the header that Anthropic, Azure or Google take it in, wherever clients send it; else the one tenant
// of requests that name none. Authorization is the operator's own and says nothing.
func OperatorTenant(r *http.Request) (material string, ok bool) {
	if names := r.Header.Values(TenantHeader); len(names) > 0 {
		name := names[0]
		switch {
		case len(names) > 1 || name == "":
			return "", false
		case strings.HasPrefix(name, "route:"), strings.HasPrefix(name, "header:"), strings.HasPrefix(name, "sigv4:"):
			return name, true
		}
		return "route:" + name, true
	}
	return identity.Of(func(name string) string {
		if strings.HasSuffix(name, "-api-key") || name == "api-key" {
			return r.Header.Get(name)
		}
		return ""
	}, &identity.Settings{}).Tenant, true
}

// validSession reports whether an id is one that a request can have named its session by: see package identity.
func validSession(id string) bool {
	if id == "" || len(id) > identity.MaxID || strings.TrimSpace(id) != id {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' })
}

// session answers GET /v1/sessions/{id}/originals and DELETE /v1/sessions/{id}. A session that nobody knows has no originals.
func (s *Server) session(w http.ResponseWriter, r *http.Request, id, sub string, tenant func(*http.Request) (string, bool)) {
	if sub != "" && sub != "originals" {
		missing(w)
		return
	}
	material, ok := tenant(r)
	if !ok {
		missing(w)
		return
	}
	key := s.o.Session(material, id)
	if sub == "" {
		s.withdraw(w, r, key)
		return
	}
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	list, err := s.o.Store.Originals(r.Context(), key)
	if err != nil {
		s.down(w, r, "list originals", err)
		return
	}
	answer(w, struct {
		Spans []span `json:"spans"`
	}{spans(list)})
}

// withdraw makes tombstones of a session's originals.
func (s *Server) withdraw(w http.ResponseWriter, r *http.Request, key state.SessionKey) {
	if !allow(w, r, http.MethodDelete) {
		return
	}
	n, err := s.o.Store.Withdraw(r.Context(), key)
	if err != nil {
		s.down(w, r, "withdraw a session", err)
		return
	}
	s.o.Log.InfoContext(r.Context(), "session withdrawn", "originals", n)
	answer(w, struct {
		Withdrawn int `json:"withdrawn"`
	}{n})
}

// seal answers POST and DELETE /v1/originals/{id}/seal.
func (s *Server) seal(w http.ResponseWriter, r *http.Request, id string) {
	if !allow(w, r, http.MethodPost, http.MethodDelete) {
		return
	}
	sealed := r.Method == http.MethodPost
	switch err := s.o.Store.Seal(r.Context(), id, sealed); {
	case err == nil:
		s.o.Log.InfoContext(r.Context(), "original sealed or unsealed", "id", short(id), "sealed", sealed)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, state.ErrNotFound):
		missing(w)
	case errors.Is(err, state.ErrWithdrawn):
		say(w, http.StatusGone, part.Withdrawn)
	default:
		s.down(w, r, "seal an original", err)
	}
}

// down says that the store is.
func (s *Server) down(w http.ResponseWriter, r *http.Request, doing string, err error) {
	s.o.Log.ErrorContext(r.Context(), "store failed", "doing", doing, "error", err)
	say(w, http.StatusServiceUnavailable, part.Unavailable)
}
