package extproc

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Defaults of [Options].
const (
	DefaultDeadline     = 150 * time.Millisecond // Envoy's default message_timeout is 200 ms
	DefaultMaxBody      = 33 << 20               // bytes; just above the largest body that providers accept
	DefaultDrainDelay   = 5 * time.Second        // two health checks of Envoy's usual interval
	DefaultDrainTimeout = 20 * time.Second       // with the delay below Kubernetes' default grace period of 30 s
)

// grace is how long after the deadline an engine that works its way back is still waited for.
const grace = 25 * time.Millisecond

// Engine decides what becomes of a body; [pipeline.Engine] is one. Each call has a goroutine of its own and must return soon
// after ctx ends.
type Engine interface {
	// Request is called once per request.
	Request(ctx context.Context, r *pipeline.Request) *pipeline.Outcome
	// Observe is called once per outcome that was answered, after the last byte of the response or when no more can be known of
	// it. It is not called for outcomes that were dropped, but for what was forwarded in their place.
	Observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) *pipeline.Observation
}

// Admit looks at the headers of a request and returns what the engine needs to know of it, without Body, ID and Now, or nil
// and the reason, a word of a closed list, why the request is not tidemark's.
type Admit func(h *Head) (r *pipeline.Request, reason string)

// Result describes an outcome for access logs, as flat scalars.
type Result func(o *pipeline.Outcome, r *pipeline.Request) *structpb.Struct

// Account describes an observation for access logs, as flat scalars that are added to those of the outcome.
type Account func(v *pipeline.Observation) *structpb.Struct

// Observer is told what happens. Its methods are called from many goroutines, after the answer has been sent.
type Observer interface {
	// Began says that Envoy opened a stream.
	Began()
	// Ended says how long a stream lived. The code is OK or Canceled in normal life.
	Ended(lived time.Duration, code codes.Code)
	// Passed says that a request went on without the engine seeing its body. The reason is one of this package or of Admit.
	Passed(reason string)
	// Answered says what became of a request that the engine was asked about.
	Answered(r *pipeline.Request, o *pipeline.Outcome)
	// Decoded says that the body of such a request came in a content coding, by its name, besides Answered.
	Decoded(coding string)
	// Observed says what the response to such a request came to; nil if the engine panicked over it.
	Observed(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation)
}

// Options of a [Server]. The first five must be there.
type Options struct {
	Engine       Engine
	Admit        Admit
	Result       Result
	Account      Account
	Observer     Observer
	Log          *slog.Logger     // nil: nothing is logged
	Deadline     time.Duration    // of the engine, per body; 0: DefaultDeadline
	MaxBody      int              // bytes; larger bodies pass untouched; 0: DefaultMaxBody
	DrainDelay   time.Duration    // between NOT_SERVING and the end of accepting; 0: DefaultDrainDelay
	Now          func() time.Time // when a request arrives; nil: time.Now. Demos and tests play hours in seconds
	DrainTimeout time.Duration    // for streams to end after that; 0: DefaultDrainTimeout
	// Credentials are what the server shows to Envoy and asks of it; nil: streams come in plain text.
	Credentials credentials.TransportCredentials
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.DrainDelay == 0 {
		o.DrainDelay = DefaultDrainDelay
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	return o
}

// Reasons for which a request goes on without the engine seeing its body, besides those of [Admit]. They are words of
// metrics and access logs.
const (
	NoBody          = "no_body"          // the request ends with its headers
	NoHeaders       = "no_headers"       // the stream began without them: a local reply, or request_header_mode SKIP
	UnsupportedMode = "unsupported_mode" // STREAMED, BUFFERED_PARTIAL, NONE, or a processor that does not tell its mode
	TooLarge        = "too_large"        // more than Options.MaxBody
	Observability   = "observability"    // Envoy does not listen to answers
	Encoded         = "content_encoding" // a coding that is not read, or more than one
	EncodedInvalid  = "encoded_invalid"  // the body is not what its content-encoding says, or more than one of it
	EncodedLimit    = "encoded_limit"    // the body decodes to too much: 64 MiB, 200 times its size, or a window of zstd above 8 MiB
	Fault           = "fault"            // a panic of tidemark's own before the engine was asked
)
