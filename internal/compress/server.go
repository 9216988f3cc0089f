package compress

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// RouteName is the route of the requests that come through this door, in metrics, logs and what the engine learns of routes.
const RouteName = "compress"

// PipelineHeader names one of the server's pipelines for a request. Through Envoy no client can say that; here the client is the
// gateway.
const PipelineHeader = "x-tidemark-pipeline"

// Limits of a request.
const (
	maxBody     = 32 << 20 // bytes, in its content coding and without it: the largest request that providers accept
	maxHeader   = 64 << 10 // bytes
	headTimeout = 5 * time.Second
	bodyTimeout = 30 * time.Second // for reading a request, and for writing its answer
	idleTimeout = 2 * time.Minute
)

// Reasons for which the engine is not asked. Together with the types of errors they are a closed list: labels of metrics.
const (
	NoModel        = "no_model"        // what the provider caches, and whether it binds thinking, depends on the model
	RepeatedMember = "repeated_member" // readers disagree on which one counts
	UnknownFormat  = "format"          // none of those that come through this door
)

// Engine decides what becomes of a body; [pipeline.Engine] is one. Calls must return soon after ctx ends.
type Engine interface {
	Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome
	Observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation
}

// Route is the config of the pipeline that a request names, or of the server's default for an empty name.
type Route func(name string) (*pipeline.Config, *identity.Settings)

// Observer is told what happens, from many goroutines.
type Observer interface {
	// Passed says that the engine was not asked about a request.
	Passed(reason string)
	// Answered says what became of a request that the engine was asked about.
	Answered(r *pipeline.Request, o *pipeline.Outcome)
	// Decoded says that such a request came in a content coding, by its name, besides Answered.
	Decoded(coding string)
	// Observed says what the answer came to that a gateway told of.
	Observed(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation)
}

// Options of a [Server]. All but Token must be there.
type Options struct {
	Engine   Engine
	Route    Route
	Observer Observer
	Token    string        // that requests must bear; empty: none
	Deadline time.Duration // of the engine, per request
	Now      func() time.Time
	Log      *slog.Logger
}

// Server is the door.
type Server struct {
	o     Options
	token [sha256.Size]byte
	sent  *sent
	calls sync.WaitGroup // engine calls, also those that nobody waits for
}

// New returns a server. Nothing runs before Serve.
func New(o Options) *Server {
	return &Server{o: o, token: sha256.Sum256([]byte(o.Token)), sent: newSent()}
}

// Serve serves until ctx ends, then waits for requests under way, for at most drain. When it returns, no engine call runs.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headTimeout, ReadTimeout: bodyTimeout, WriteTimeout: 2 * bodyTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	defer s.calls.Wait()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		stopped <- h.Shutdown(last)
	}()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve compress: %w", err)
	}
	if <-stopped != nil {
		return h.Close() //nolint:wrapcheck // it was asked to stop, and has
	}
	return nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			s.logPanic("answer", v)
			refuse(w, http.StatusInternalServerError, typeInternal, "something went wrong")
		}
	}()
	var serve func(http.ResponseWriter, *http.Request)
	switch r.URL.Path {
	case "/v1/compress":
		serve = s.compress
	case "/v1/usage":
		serve = s.usage
	default:
		refuse(w, http.StatusNotFound, typeNotFound, "there are /v1/compress and /v1/usage")
		return
	}
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, typeMethod, "the method must be POST")
	case !s.authorized(r):
		s.o.Observer.Passed(typeUnauthorized)
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, typeUnauthorized, "the bearer token is missing or wrong")
	default:
		serve(w, r)
	}
}

// authorized compares the token in constant time.
func (s *Server) authorized(r *http.Request) bool {
	if s.o.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 && strings.EqualFold(scheme, "bearer")
}

// body reads the body of a request without its content coding. It is false if the request was refused.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (body []byte, c coding.Coding, ok bool) {
	c, legible := coding.Of(strings.Join(r.Header.Values("Content-Encoding"), ","))
	if !legible || !isJSON(r.Header.Get("Content-Type")) {
		s.fail(w, http.StatusUnsupportedMediaType, typeMedia, "the body must be JSON, plain or in gzip, br or zstd")
		return nil, c, false
	}
	sent, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.fail(w, http.StatusRequestEntityTooLarge, typeTooLarge, "the body is over the limit of 32 MiB")
		return nil, c, false
	}
	if err == nil {
		body, err = c.Decode(r.Context(), sent)
	}
	switch {
	case errors.Is(err, coding.ErrLimit) || len(body) > maxBody:
		s.fail(w, http.StatusRequestEntityTooLarge, typeTooLarge, "the body is over the limit of 32 MiB")
	case err != nil:
		s.fail(w, http.StatusBadRequest, typeInvalid, "the body could not be read")
	default:
		return body, c, true
	}
	return nil, c, false
}

// isJSON reports whether a content type is that of JSON, or is not said. Others are refused: pages of the web may send them to a
// server on the loopback without asking it.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// fail refuses a request that would have been compressed.
func (s *Server) fail(w http.ResponseWriter, status int, kind, message string) {
	s.o.Observer.Passed(kind)
	refuse(w, status, kind, message)
}

// logPanic logs where a panic came from, and not what it says, which may quote a body.
func (s *Server) logPanic(during string, v any) {
	s.o.Log.Error("panic", "during", during, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
}
