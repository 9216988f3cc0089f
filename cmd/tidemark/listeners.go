package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/tidemark-dev/tidemark/extproc"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/compress"
	"github.com/tidemark-dev/tidemark/internal/observe"
)

// maxAsked bounds what is asked of an operator's listener and of the restore listener, in bytes.
const maxAsked = 1 << 20

// listener is one HTTP listener that is open.
type listener struct {
	net.Listener

	name   string
	server *access.Server
}

// listening are the keys that every HTTP listener has.
type listening struct {
	listen, tokenFile string
	tls               access.TLS
}

// open opens an HTTP listener whose handler, name and limits o has, and logs how it is guarded. It does not serve yet.
func (s *server) open(ctx context.Context, k listening, o access.Options) (_ *listener, err error) {
	o.Refused, o.Log = s.metrics.Refused, s.log
	o.Loopback = access.Local(k.listen) && !isSocket(k.listen)
	if k.tokenFile != "" {
		if o.Tokens, err = access.NewTokens(k.tokenFile, s.log); err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Name, err)
		}
	}
	if k.tls.On() {
		if o.Certificates, err = access.NewCertificates(k.tls, s.log); err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Name, err)
		}
	}
	l, err := extproc.Listen(ctx, k.listen)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Name, err)
	}
	announce(ctx, s.log, o.Name, l, &k)
	return &listener{l, o.Name, access.NewServer(o)}, nil
}

func isSocket(listen string) bool { return strings.HasPrefix(listen, "unix:") }

// announce logs who can come in at a listener.
func announce(ctx context.Context, log *slog.Logger, name string, l net.Listener, k *listening) {
	kind := "none"
	switch {
	case k.tls.Mutual():
		kind = "mutual"
	case k.tls.On():
		kind = "server"
	}
	log.InfoContext(ctx, "listening", "name", name, "listen", l.Addr().String(), "local", access.Local(k.listen), "token", k.tokenFile != "", "tls", kind)
}

// doors are the listeners of a server.
type doors struct {
	extproc     net.Listener
	credentials credentials.TransportCredentials // of ext_proc; nil: no TLS
	admin       *listener
	others      []*listener
	compress    *compress.Server // nil: there is none
}

// openDoors opens all listeners, or none.
func (s *server) openDoors(ctx context.Context) (_ *doors, err error) {
	d := &doors{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := s.openExtproc(ctx, d); err != nil {
		return nil, fmt.Errorf("open ext_proc: %w", err)
	}
	a, r, c := &s.config.Admin, &s.config.Restore, &s.config.Compress
	originals := s.restores()
	admin, err := s.admin(originals.Operator())
	if err != nil {
		return nil, err
	}
	d.admin, err = s.open(ctx, listening{a.Listen, a.TokenFile, a.TLS}, access.Options{Name: "admin", Handler: admin, Open: s.openPath, MaxBody: maxAsked})
	if err != nil {
		return nil, err
	}
	if r.Listen != "" {
		l, err := s.open(ctx, listening{r.Listen, r.TokenFile, r.TLS}, access.Options{Name: "restore", Handler: originals.Handler(), Rate: r.Rate, MaxBody: maxAsked})
		if err != nil {
			return nil, err
		}
		d.others = append(d.others, l)
	}
	if c.Listen != "" {
		d.compress = compress.New(compress.Options{
			Engine: s.engine, Route: s.admission.route, Observer: s.observer(), Deadline: s.config.Deadline, Now: s.now, Log: s.log,
		})
		l, err := s.open(ctx, listening{c.Listen, c.TokenFile, c.TLS}, access.Options{Name: "compress", Handler: d.compress}) // it bounds bodies itself
		if err != nil {
			return nil, err
		}
		d.others = append(d.others, l)
	}
	return d, nil
}

// close closes what is open.
func (d *doors) close() (err error) {
	if d.extproc != nil {
		err = d.extproc.Close()
	}
	for _, l := range append(d.others, d.admin) {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

func (s *server) openExtproc(ctx context.Context, d *doors) error {
	k := listening{listen: s.config.Listen, tls: s.config.TLS}
	if k.tls.On() {
		c, err := access.NewCertificates(k.tls, s.log)
		if err != nil {
			return err
		}
		d.credentials = credentials.NewTLS(c.GRPC())
	}
	l, err := extproc.Listen(ctx, k.listen)
	if err != nil {
		return err
	}
	d.extproc = l
	announce(ctx, s.log, "ext_proc", l, &k)
	return nil
}

// operated reports whether what changes sessions, or says something of them, may be had on the admin listener: nobody but this
// machine or those with a credential may ask.
func (s *server) operated() bool {
	a := &s.config.Admin
	return a.TokenFile != "" || a.TLS.Mutual() || access.Local(a.Listen)
}

// openPath reports whether a path of the admin listener needs no credential: probes, and the files of the page, which hold no data.
func (s *server) openPath(path string) bool {
	return observe.Probe(path) || s.operated() && board.IsPage(path)
}

// admin is the handler of the admin listener. What operators may do with originals is below /v1/ too, by paths that must come to it
// as they are: a session's id may hold a slash.
func (s *server) admin(originals http.Handler) (http.Handler, error) {
	open, operators := s.metrics.Admin(s.report, s.checks()...), http.NewServeMux()
	operators.HandleFunc("GET /v1/mode", s.getMode)
	operators.HandleFunc("PUT /v1/mode", s.putMode)
	if !s.operated() {
		return open, nil
	}
	return s.withPage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case !strings.HasPrefix(path, "/v1/"):
			open.ServeHTTP(w, r)
		case path == "/v1/mode":
			operators.ServeHTTP(w, r)
		default:
			originals.ServeHTTP(w, r)
		}
	}))
}
