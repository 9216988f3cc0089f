package restore

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// Store is what is needed of a [state.Store].
type Store interface {
	Original(ctx context.Context, id string) (*state.Original, error)
	Owner(ctx context.Context, id string) (state.SessionKey, error)
	Originals(ctx context.Context, key state.SessionKey) ([]state.Original, error)
	Seal(ctx context.Context, id string, sealed bool) error
	Withdraw(ctx context.Context, key state.SessionKey) (int, error)
}

// Options of a [Server]. All but Tenant must be there.
type Options struct {
	Store Store
	// Session is the key of a tenant's session, of the tenant's material as package identity makes it and of the id that the
	// client gave the session.
	Session func(tenant, session string) state.SessionKey
	// Tenant is the material of the tenant that sends a request, and false if it cannot be told. If it is set, only the tenant
	// whose original it is gets it, and tenants may list and withdraw sessions of theirs. nil: the id alone decides.
	Tenant   func(r *http.Request) (material string, ok bool)
	Observer Observer
	Log      *slog.Logger
}

// Bounds of what is in memory at a time.
const (
	maxLooking = 16 // originals that are looked up
	maxHeld    = 16 // large originals that are being written to readers, who may be slow
)

// Server gives originals back.
type Server struct {
	o     Options
	mcp   http.Handler
	cross *http.CrossOriginProtection

	looking, held chan struct{} // full: no more at the moment
}

// New returns a server. It starts nothing and needs no Close.
func New(o Options) *Server {
	s := &Server{o: o, cross: http.NewCrossOriginProtection(), looking: make(chan struct{}, maxLooking), held: make(chan struct{}, maxHeld)}
	s.mcp = s.newMCP()
	return s
}

// Handler returns what the restore listener serves:
//
//	GET    /v1/originals/{id}           the text of an original, or a part of it
//	GET    /v1/originals/{id}/siblings  what else of the same session there is, as JSON
//	POST   /mcp                         the MCP server
//	GET    /v1/sessions/{id}/originals  what there is of a session of the caller's tenant, if Options.Tenant is set
//	DELETE /v1/sessions/{id}            withdraws it, if Options.Tenant is set
func (s *Server) Handler() http.Handler {
	return s.guarded(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() == "/mcp" {
			s.mcp.ServeHTTP(w, r)
			return
		}
		switch kind, id, sub := route(r); {
		case kind == "originals" && sub == "":
			s.original(w, r, id)
		case kind == "originals" && sub == "siblings":
			s.siblings(w, r, id)
		case kind == "sessions" && s.o.Tenant != nil:
			s.session(w, r, id, sub, s.o.Tenant)
		default:
			missing(w)
		}
	})
}

// Operator returns what the admin listener serves under /v1/. Sessions are addressed by the client's id for them, and the tenant by
// headers: see [OperatorTenant].
//
//	GET    /v1/sessions/{id}/originals  what there is of a session, as JSON and without content
//	DELETE /v1/sessions/{id}            withdraws all originals of a session
//	POST   /v1/originals/{id}/seal      seals an original
//	DELETE /v1/originals/{id}/seal      lifts the seal
func (s *Server) Operator() http.Handler {
	return s.guarded(func(w http.ResponseWriter, r *http.Request) {
		switch kind, id, sub := route(r); {
		case kind == "sessions":
			s.session(w, r, id, sub, OperatorTenant)
		case kind == "originals" && sub == "seal":
			s.seal(w, r, id)
		default:
			missing(w)
		}
	})
}

// guarded keeps browsers of other sites out, and contains panics.
func (s *Server) guarded(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		defer func() {
			if v := recover(); v != nil {
				s.logPanic(r.Context(), v)
				say(w, http.StatusInternalServerError, "something went wrong")
			}
		}()
		if !ownHost(r) || s.cross.Check(r) != nil {
			say(w, http.StatusForbidden, "pages of other sites are not answered")
			return
		}
		serve(w, r)
	})
}

// ownHost reports whether a request that comes in on the loopback is for the loopback. A page whose name was made to point here says
// its own name (DNS rebinding).
func ownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// route takes a path apart: /v1/<kind>/<id> or /v1/<kind>/<id>/<sub>. Only the id of a session may be escaped. kind is empty for what
// is no such path, or has an id that none can be.
func route(r *http.Request) (kind, id, sub string) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v1/")
	if !ok {
		return "", "", ""
	}
	kind, rest, _ = strings.Cut(rest, "/")
	id, sub, more := strings.Cut(rest, "/")
	switch {
	case more && sub == "":
		return "", "", ""
	case kind == "originals" && part.ValidID(id):
		return kind, id, sub
	case kind == "sessions":
		if session, err := url.PathUnescape(id); err == nil && validSession(session) {
			return kind, session, sub
		}
	}
	return "", "", ""
}

// owns reports whether a request may have what belongs to a session, as far as tenants go.
func (s *Server) owns(r *http.Request, owner state.SessionKey) bool {
	material, ok := s.o.Tenant(r)
	tenant := s.o.Session(material, "").Tenant
	return subtle.ConstantTimeCompare(tenant[:], owner.Tenant[:]) == 1 && ok
}

var (
	errSealed = errors.New("restore: the original is sealed")
	errBusy   = errors.New("restore: too much is looked up")
)

// owner is the session of an original, for whoever may have that. For all others there is none: what is not theirs is not read, so
// that they are answered as fast as if it did not exist.
func (s *Server) owner(r *http.Request, id string) (state.SessionKey, error) {
	owner, err := s.o.Store.Owner(r.Context(), id)
	switch {
	case err != nil:
		return owner, fmt.Errorf("find the owner of an original: %w", err)
	case s.o.Tenant != nil && !s.owns(r, owner):
		return owner, state.ErrNotFound
	}
	return owner, nil
}

// find looks an original up for whoever may have it, whatever its fate is. Of all others it says ErrNotFound.
func (s *Server) find(r *http.Request, id string) (*state.Original, error) {
	owner, err := s.owner(r, id)
	if err != nil {
		return nil, err
	}
	o, err := s.o.Store.Original(r.Context(), id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read an original: %w", err)
	case o.Session.Tenant != owner.Tenant: // it is another one by now
		return nil, state.ErrNotFound
	}
	return o, nil
}

// take is find for what is given back: with its content.
func (s *Server) take(r *http.Request, id string) (*state.Original, error) {
	o, err := s.find(r, id)
	switch {
	case err != nil:
		return nil, err
	case o.Fate == state.Withdrawn:
		return nil, state.ErrWithdrawn
	case o.Fate == state.Sealed:
		return nil, errSealed
	}
	return o, nil
}

// why is the result, the status and the words for an original that is not given back. Whatever is wrong with the store is logged.
func (s *Server) why(ctx context.Context, id string, err error) (result Result, status int, text string) {
	switch {
	case errors.Is(err, state.ErrNotFound):
		return Miss, http.StatusNotFound, part.Missing
	case errors.Is(err, state.ErrWithdrawn):
		return Withdrawn, http.StatusGone, part.Withdrawn
	case errors.Is(err, errSealed):
		return Sealed, http.StatusForbidden, part.Sealed
	}
	if ctx.Err() == nil { // else the client went away
		s.o.Log.ErrorContext(ctx, "original not read", "id", short(id), "error", err)
	}
	return Refused, http.StatusServiceUnavailable, part.Unavailable
}

// short is what logs say of an id.
func short(id string) string { return id[:min(len(id), 6)] }

// logPanic logs where a panic came from, and not what it says, which may quote content.
func (s *Server) logPanic(ctx context.Context, v any) {
	s.o.Log.ErrorContext(ctx, "panic", "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
}
