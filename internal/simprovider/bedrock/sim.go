// Package bedrock is a stand-in for Anthropic's models on Amazon Bedrock: a real HTTP server for InvokeModel and Converse, and
// for their streams, that refuses what Bedrock refuses and bills the prompt cache as Bedrock does.
//
// It is an independent judge. It shares no code with the rest of tidemark but the other simulators: what a body says is put into
// Anthropic's form, and [simprovider.Sim] holds the model's law, its cache and its signatures, so that what both APIs say alike
// is cached alike and weighs what Anthropic's form of it weighs. Bedrock's own are the checks of Converse with their texts, the
// errors (a message, and the type in x-amzn-errortype), the minimum that a model caches, lifetimes that only later models know,
// and that every block is a position of the lookback. Errors of the model come in Converse behind "The model returned the
// following errors: ".
//
// A cachePoint of Converse marks the block before it in the same list. toolResult content that is json is a text of that JSON.
// Unknown members are ignored in Converse and refused in InvokeModel as far as they belong to Anthropic's own API (threads,
// diagnostics, automatic caching). Not modelled are guardrails, prompts by ARN, application inference profiles, videos, and
// regions that answer in place of another.
//
// [Sim] is the server; [Sim.Call] is one request without HTTP. An access key and its region, or a bearer token, name the account
// whose cache it is; signatures are not checked. Further headers steer one request, see simkit for their limits:
//
//	x-sim-now     arrival, RFC 3339 with nanoseconds (HTTP only)
//	x-sim-status  answer with this status and an error, and touch no cache
//	x-sim-reply   JSON list of the content blocks to answer, in the form of the API that is asked; ids that are missing are made,
//	              and so are signatures that do not begin with "tidemark-sim."
//	x-sim-delay   time to the first byte, at most 5s; the cache entries that the request writes can be read from then on
//	x-sim-pieces  write the answer in pieces of so many bytes, each flushed (HTTP only)
//
// A Sim is safe for concurrent use. Bodies are kept and must not be changed after a call.
package bedrock

import (
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Options are the settings of a simulator; the zero value is fit for use.
type Options struct {
	Now    func() time.Time   // clock of requests without x-sim-now; nil is the wall clock
	Policy simprovider.Policy // what the documentation leaves open about the cache
	NoLog  bool               // keep no log: bodies are not held, and Requests is empty

	// Reply answers requests without x-sim-reply. Its content has the form that the header has.
	Reply simkit.Script

	// CharsPerToken is how many characters make a token, to fit a recorded session; 0 or less is 3.6.
	CharsPerToken float64
}

// Sim simulates Bedrock for any number of accounts.
type Sim struct {
	opts  Options
	model *simprovider.Sim

	mu       sync.Mutex
	messages map[string]*message // of Converse, by their bytes
	size     int                 // of the bytes
	log      simkit.Log[Received]
	requests int // so far; ids are made of it
}

// New returns a simulator with an empty cache.
func New(opts Options) *Sim {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	inner := simprovider.Options{
		Now: opts.Now, Policy: opts.Policy, NoThreads: true, NoLog: true, CharsPerToken: opts.CharsPerToken,
		Platform: simprovider.Platform{Minimum: minimums, EachBlock: true},
	}
	s := &Sim{opts: opts, model: simprovider.New(inner)}
	s.Reset()
	return s
}

// Reset forgets everything: cache, signatures and log. Ids stay unique.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Reset()
	s.messages, s.size = map[string]*message{}, 0
	s.log = simkit.Log[Received]{}
}

// maxBody is the largest body that is taken, in bytes.
const maxBody = 25_000_000

// Call answers a POST of a body to one of Bedrock's paths, escaped or not, that arrives at the given time. The headers may be
// nil; x-sim-now has no meaning here, and a delay moves the time of the first byte without waiting.
func (s *Sim) Call(path string, body []byte, h http.Header, at time.Time) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	res := Result{Status: http.StatusOK, ID: s.id(), First: at}
	if err := s.answer(&res, path, body, h, at); err != nil {
		res = Result{Status: err.Status, Err: err, ID: res.ID, Model: res.Model, First: res.First, Stream: res.Stream, api: res.api}
	}
	s.record(&res, path, body, h, at)
	return res
}

// answer fills in the result of a request.
func (s *Sim) answer(res *Result, path string, body []byte, h http.Header, at time.Time) *Error {
	delay, err := simkit.Delay(h)
	if err != nil {
		return invalid("%s: %v", simkit.HeaderDelay, err)
	}
	res.First = at.Add(delay)
	e, ok := endpointOf(path)
	if !ok {
		return unknownOperation()
	}
	res.api, res.Model, res.Stream = e.api, e.id, e.stream
	if f := scripted(h); f != nil {
		return f
	}
	asked, f := s.read(e, body, h)
	if f != nil {
		return f
	}
	script, f := s.script(e, path, body, h)
	if f != nil {
		return f
	}
	inner := asked.header(h)
	if script != "" {
		inner.Set(simkit.HeaderReply, script)
	}
	if text := h.Get(simkit.HeaderDelay); text != "" {
		inner.Set(simkit.HeaderDelay, text)
	}
	res.inner = s.model.Call(asked.body, inner, at)
	if res.inner.Err != nil {
		return e.modelError(res.inner.Err)
	}
	res.Content, res.StopReason, res.Usage = res.inner.Content, res.inner.StopReason, res.inner.Usage
	res.Prompt, res.Transformations = res.inner.Prompt, res.inner.Transformations
	if e.api == converse {
		res.Content = converseBlocks(res.inner.Content)
	}
	return nil
}

// asked is a request in Anthropic's form.
type asked struct {
	body  []byte
	betas []string
}

// header makes the headers for the model out of those of the request.
func (a *asked) header(h http.Header) http.Header {
	out := http.Header{"X-Api-Key": {account(h)}}
	for _, beta := range a.betas {
		out.Add("Anthropic-Beta", beta)
	}
	return out
}

// read puts a body into Anthropic's form.
func (s *Sim) read(e endpoint, body []byte, h http.Header) (*asked, *Error) {
	if len(body) > maxBody {
		return nil, tooLarge()
	}
	body, err := simkit.Expand(body, h.Get("Content-Encoding"), maxBody+1)
	switch {
	case err != nil:
		return nil, e.syntax()
	case len(body) > maxBody:
		return nil, tooLarge()
	case e.name == "" || !served(e.name):
		return nil, invalid("The provided model identifier is invalid.")
	case e.api == converse:
		return s.readConverse(e, body)
	}
	return readInvoke(e, body)
}

// Cached returns how many tokens a request with this body would read from the cache then, for the account where it would read
// most; 0 if the body would be refused. It changes nothing.
func (s *Sim) Cached(path string, body []byte, at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := endpointOf(path)
	if !ok {
		return 0
	}
	asked, f := s.read(e, body, nil)
	if f != nil {
		return 0
	}
	return s.model.Cached(asked.body, at)
}

// Holds reports whether an entry that is live then contains this exact text: of a text block, of a tool's result or input, of
// thinking, or any other string value. Entries of all accounts count, and those that cannot be read yet.
func (s *Sim) Holds(text string, at time.Time) bool { return s.model.Holds(text, at) }
