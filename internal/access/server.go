package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
)

// Limits of every listener.
const (
	maxHeader   = 64 << 10 // bytes
	maxConns    = 1024     // open at a time; more wait
	headTimeout = 5 * time.Second
	bodyTimeout = 30 * time.Second // for reading a request; its answer has as long again
	idleTimeout = 2 * time.Minute
)

// Options of a [Server]. Name, Handler and Log must be there.
type Options struct {
	Name         string        // of the listener, in logs, errors and metrics: admin, compress, restore
	Handler      http.Handler  // sees the requests that come in; of the tokens it sees none
	Tokens       *Tokens       // one of which a request must bear; nil: none
	Certificates *Certificates // nil: no TLS
	// Open reports whether a path is answered without a credential: container probes have none. Nil: none is. With it, a client
	// need not show a certificate for the handshake, but for the other paths.
	Open func(path string) bool
	// Loopback says that the listener is on the loopback and no unix socket. Without a credential, the requests of browsers for
	// pages of other names are refused then.
	Loopback bool
	Rate     float64                // requests per second of one client; 0: as many as come
	MaxBody  int64                  // bytes of a request's body; reading more is a *http.MaxBytesError
	Refused  func(name, why string) // is told of requests that were refused, with Name and one of the reasons below; nil: nobody is
	Log      *slog.Logger
}

// Reasons for which a request is refused, a closed list.
const (
	Unauthorized = "unauthorized" // no token, a wrong one, or no certificate
	RateLimited  = "rate_limited" // the client's own rate, or that of all
	Foreign      = "foreign"      // a browser sent it from a page of somebody else's
)

// Server serves one HTTP listener.
type Server struct {
	o      Options
	limits *limits // nil: none
	cross  *http.CrossOriginProtection
}

// NewServer returns a server. Nothing runs before Serve.
func NewServer(o Options) *Server {
	s := &Server{o: o, cross: http.NewCrossOriginProtection()}
	if o.Rate > 0 {
		s.limits = newLimits(o.Rate)
	}
	return s
}

// Serve serves until ctx ends, then waits for requests under way, for at most drain, and cuts what is left. It owns l.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headTimeout, ReadTimeout: bodyTimeout, WriteTimeout: 2 * bodyTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	stopped, over := make(chan error, 1), make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		stopped <- h.Shutdown(last)
	}()
	err := s.serve(h, netutil.LimitListener(l, maxConns))
	close(over)
	late := <-stopped
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.o.Name, err)
	}
	if late != nil {
		return h.Close()
	}
	return nil
}

func (s *Server) serve(h *http.Server, l net.Listener) error {
	if s.o.Certificates == nil {
		return h.Serve(l)
	}
	h.TLSConfig = s.o.Certificates.http(s.o.Open != nil)
	return h.ServeTLS(l, "", "")
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w}
	defer s.contain(a)
	r = r.Clone(r.Context()) // its headers lose the token
	if s.foreign(r) {
		s.refuse(a, http.StatusForbidden, Foreign, "pages of other hosts may not ask this one")
		return
	}
	if s.limits != nil && s.late(a, s.limits.own(r, time.Now())) {
		return
	}
	if !s.admits(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.refuse(a, http.StatusUnauthorized, Unauthorized, "the bearer token or the client certificate is missing or wrong")
		return
	}
	if s.limits != nil && s.late(a, s.limits.shared(time.Now())) {
		return
	}
	if s.o.MaxBody > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, s.o.MaxBody)
	}
	s.o.Handler.ServeHTTP(a, r)
}

// late refuses a request that would have to wait, and reports whether it has.
func (s *Server) late(w http.ResponseWriter, wait time.Duration) bool {
	if wait <= 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	s.refuse(w, http.StatusTooManyRequests, RateLimited, "too many requests at once")
	return true
}

// admits reports whether a request has what the listener asks for, and takes the token out of its headers.
func (s *Server) admits(r *http.Request) bool {
	bears := s.o.Tokens == nil || s.o.Tokens.bear(r.Header)
	shows := s.o.Certificates == nil || !s.o.Certificates.mutual || certified(r)
	return bears && shows || s.o.Open != nil && s.o.Open(r.URL.Path)
}

// foreign reports whether a browser sends a request for a page that has no business here.
func (s *Server) foreign(r *http.Request) bool {
	asks := s.o.Tokens != nil || s.o.Certificates != nil && s.o.Certificates.mutual
	return s.o.Loopback && !asks && r.Host != "" && foreign(r.Host) || s.cross.Check(r) != nil
}

func (s *Server) refuse(w http.ResponseWriter, status int, why, message string) {
	if s.o.Refused != nil {
		s.o.Refused(s.o.Name, why)
	}
	Refuse(w, status, why, message)
}

// contain ends a request whose handler panicked. What it says is not logged: it may quote the request.
func (s *Server) contain(a *answer) {
	v := recover()
	if v == nil {
		return
	}
	s.o.Log.Error("panic", "during", s.o.Name, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
	if !a.began {
		Refuse(a, http.StatusInternalServerError, Internal, "something went wrong")
		return
	}
	// Half an answer must not look like a whole one: nothing can be written any more, not even its end.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0)) // a writer without deadlines is a test's
}
