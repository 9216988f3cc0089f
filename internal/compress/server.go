package compress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/coding"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// RouteName is the route of the requests that come through this door, in metrics, logs and what the engine learns of routes.
const RouteName = "compress"

// PipelineHeader names one of the server's pipelines for a request. Through Envoy no client can say that; here the client is the
// gateway.
const PipelineHeader = "x-tidemark-pipeline"

// maxBody bounds a request, in its content coding and without it: the largest that providers accept, in bytes.
const maxBody = 32 << 20

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

// Options of a [Server]. All must be there.
type Options struct {
	Engine   Engine
	Route    Route
	Observer Observer
	Deadline time.Duration // of the engine, per request
	Now      func() time.Time
	Log      *slog.Logger
}

// Server is the door, as a handler. Who may come in is decided before it, by package access.
type Server struct {
	o     Options
	sent  *sent
	calls sync.WaitGroup // engine calls, also those that nobody waits for
}

// New returns a server.
func New(o Options) *Server { return &Server{o: o, sent: newSent()} }

// Wait returns when no engine call runs any more. No request may come after it was called.
func (s *Server) Wait() { s.calls.Wait() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var serve func(http.ResponseWriter, *http.Request)
	switch r.URL.Path {
	case "/v1/compress":
		serve = s.compress
	case "/v1/usage":
		serve = s.usage
	default:
		access.Refuse(w, http.StatusNotFound, typeNotFound, "there are /v1/compress and /v1/usage")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		access.Refuse(w, http.StatusMethodNotAllowed, typeMethod, "the method must be POST")
		return
	}
	serve(w, r)
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
	access.Refuse(w, status, kind, message)
}

// logPanic logs where a panic came from, and not what it says, which may quote a body.
func (s *Server) logPanic(during string, v any) {
	s.o.Log.Error("panic", "during", during, "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
}
