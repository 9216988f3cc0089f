// Package simprovider is a stand-in for the Anthropic Messages API: a real HTTP server that refuses what the provider
// refuses and bills its prompt cache as the provider documents it. Tests and the compose demo put it behind tidemark.
//
// It is an independent judge. It shares no code with the rest of tidemark but what all simulators share (simkit):
// encoding/json decodes every value, and what is cached is decided by values, not by bytes. Two prompts are equal if their
// tools, system and messages decode to the same values in the same order, with cache_control left out, string content equal
// to one text block, and neighbouring messages of one role taken as one. The order of members counts for the cache, as it reaches the model; it does not count
// for signatures.
//
// Left out of the prompt are Claude Code's attribution block in system and tools with defer_loading, until a tool_reference
// names them. A token is 3.6 characters of the names, strings and literals in a block, rounded up per block; an image
// weighs 6000 characters. Not modelled are server-side context editing and compaction, and that old models forget thinking
// at a new user turn.
//
// A message thread (member thread, behind its beta) keeps a conversation for five minutes after its last answer; its
// continuations are checked, billed and cached as the whole conversation. A request with the member diagnostics is told by
// how it differs from the one whose answer it names: the answer, and message_start of a stream, has
//
//	"diagnostics": null                                  nothing was missed, or no answer was named
//	"diagnostics": {"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 1200}}
//
// and no such member where the request had none. Only requests with the member can be named later. A diagnosis is never
// pending. [Units] and [Bill] say what a request costs.
//
// [Sim] is the server; [Sim.Call] is one request without HTTP. Time comes with the request: from Options.Now, or from the
// header x-sim-now. Further headers steer one request:
//
//	x-sim-now     arrival, RFC 3339 with nanoseconds (HTTP only)
//	x-sim-status  answer with this status and an error, and touch no cache
//	x-sim-reply   JSON list of the content blocks to answer; ids that are missing are made, and so are signatures
//	              that do not begin with "tidemark-sim."
//	x-sim-delay   time to the first byte, at most 5s; the cache entries that the request writes can be read from then on
//	x-sim-pieces  write the answer in pieces of so many bytes, each flushed (HTTP only)
//
// Over HTTP bodies may be compressed (gzip, br, zstd), answers are as Accept-Encoding asks, streams flushed event by event.
//
// A Call costs about 1 ms per MB that the last body began with, 3 ms per MB of messages sent before it, and 50 ms per MB of new
// ones. A Sim is safe for concurrent use. Bodies are kept and must not be changed after a call.
package simprovider

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Options are the settings of a simulator; the zero value is fit for use.
type Options struct {
	Now        func() time.Time // clock of requests without x-sim-now; nil is the wall clock
	Policy     Policy           // what the provider leaves open
	OldAccount bool             // the account is older than prefix binding: on most models it is told, not refused
	NoThreads  bool             // the account has no message threads: they are refused as unsupported
	NoLog      bool             // keep no log: bodies are not held, and Requests is empty

	// Reply answers requests without x-sim-reply. Its content has the form that the header has.
	Reply simkit.Script

	// CharsPerToken is how many characters make a token, to fit a recorded session; 0 or less is 3.6.
	CharsPerToken float64

	// Platform says what differs where others serve the models; the zero value is the provider's own API.
	Platform Platform
}

// Platform is what the caching of a cloud's API has of its own.
type Platform struct {
	Minimum   map[string]int // by model, the tokens that a prefix needs to be cached, where they are others
	EachBlock bool           // every block is a position of the lookback: runs of calls and of results are many
}

const defaultCharsPerToken = 3.6

// Sim simulates the provider for any number of workspaces; an API key names a workspace.
type Sim struct {
	opts Options

	mu       sync.Mutex
	parser   *parser
	spaces   map[string]*workspace
	issued   map[string]issue // by signature
	opened   map[string]bool  // tool_use ids of answers that began with thinking
	threads  *simkit.Shelf[*thread]
	prints   *simkit.Shelf[*fingerprint]
	log      simkit.Log[Received]
	requests int // so far; ids are made of it
}

// New returns a simulator with an empty cache.
func New(opts Options) *Sim {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.CharsPerToken <= 0 {
		opts.CharsPerToken = defaultCharsPerToken
	}
	s := &Sim{opts: opts}
	s.Reset()
	return s
}

// Reset forgets everything: cache, signatures, threads, fingerprints and log. Ids stay unique.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parser = newParser()
	s.spaces, s.issued, s.opened = map[string]*workspace{}, map[string]issue{}, map[string]bool{}
	s.threads, s.prints = simkit.NewShelf[*thread](keptThreads), simkit.NewShelf[*fingerprint](keptBlocks)
	s.log = simkit.Log[Received]{}
}

// maxBody is the provider's limit on a body.
const maxBody = 32 << 20

// Paths of the API.
const (
	pathMessages = "/v1/messages"
	pathCount    = "/v1/messages/count_tokens"
)

// Call answers a POST /v1/messages that arrives at the given time. The headers may be nil; x-sim-now has no meaning here, and a delay
// moves the time of the first byte without waiting.
func (s *Sim) Call(body []byte, h http.Header, at time.Time) Result {
	return s.serve(pathMessages, body, h, at)
}

// serve answers one request and logs it.
func (s *Sim) serve(path string, body []byte, h http.Header, at time.Time) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	res := Result{Status: http.StatusOK, ID: fmt.Sprintf("msg_sim%012d", s.requests), First: at}
	if err := s.answer(&res, path, body, h, at); err != nil {
		res = Result{Status: err.Status, Err: err, ID: res.ID, Model: res.Model, First: res.First}
	}
	s.record(&res, path, body, h, at)
	return res
}

// answer fills in the result of a request.
func (s *Sim) answer(res *Result, path string, body []byte, h http.Header, at time.Time) *Error {
	delay, err := simkit.Delay(h)
	if err != nil {
		return refuse("%s: %v", simkit.HeaderDelay, err)
	}
	res.First = at.Add(delay)
	if f := scripted(h); f != nil {
		return f
	}
	r, f := s.read(path, body, h, at)
	if f != nil {
		return f
	}
	res.Model, res.Stream = r.model, r.stream
	if f := s.checkOpening(r); f != nil {
		return f
	}
	p, f := s.prompt(r)
	if f != nil {
		return f
	}
	res.Prompt, res.Transformations = p.total(), p.changes
	if path == pathCount {
		return nil
	}
	if p.total() > r.facts.window {
		return refuse("prompt is too long: %d tokens > %d maximum", p.total(), r.facts.window)
	}
	reply, err := s.reply(r, p, s.script(path, body, h))
	if err != nil {
		return refuse("%s: %v", simkit.HeaderReply, err)
	}
	res.Usage = s.space(h).call(p, s.minimum(r), s.opts.Policy, at, res.First)
	if r.diagnose.wanted {
		res.Diagnosed, res.Miss = true, s.diagnose(r, fingerprintOf(r, p, res.Usage, h), res.ID, at)
	}
	res.Content, res.StopReason, res.Usage.Output = reply.content, reply.stop, reply.tokens
	if r.thread != nil {
		if err := s.keep(r, res); err != nil {
			return refuse("%s: %v", simkit.HeaderReply, err)
		}
	}
	return nil
}

// minimum is how many tokens a prefix needs to be cached.
func (s *Sim) minimum(r *request) int {
	if n, ok := s.opts.Platform.Minimum[r.model]; ok {
		return n
	}
	return r.facts.minimum
}

// read parses and checks a body that arrives at the time at.
func (s *Sim) read(path string, body []byte, h http.Header, at time.Time) (*request, *Error) {
	if len(body) > maxBody {
		return nil, &Error{Status: 413, Type: "request_too_large", Message: "Request exceeds the maximum size"}
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, invalidJSON(fmt.Errorf("unsupported content-encoding %q", coding))
	}
	parsed, err := s.parser.parse(body)
	if err != nil {
		if errors.Is(err, simkit.ErrSyntax) && !startsObject(body) {
			if err = simkit.Sound(body); err == nil {
				return nil, refuse(notObject)
			}
		}
		return nil, invalidJSON(err)
	}
	thread, f := s.thread(parsed, h, at)
	if f != nil {
		return nil, f
	}
	beta := func(name string) bool { return hasBeta(h, name) }
	r, f := shape(parsed, beta, path == pathCount)
	if f == nil {
		r.thread = thread
		f = r.check()
	}
	return r, f
}

func startsObject(body []byte) bool {
	at := simkit.Blank(body, 0)
	return at < len(body) && body[at] == '{'
}

func invalidJSON(err error) *Error { return refuse("The request body is not valid JSON: %v", err) }

func hasBeta(h http.Header, name string) bool { return slices.Contains(betas(h), name) }

// betas returns the set of betas that a request names, sorted.
func betas(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Anthropic-Beta") {
		for beta := range strings.SplitSeq(line, ",") {
			if beta = strings.TrimSpace(beta); beta != "" {
				out = append(out, beta)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scripted is the error that x-sim-status asks for, nil without the header.
func scripted(h http.Header) *Error {
	status, err := simkit.Status(h)
	switch {
	case err != nil:
		return refuse("%s: %v", simkit.HeaderStatus, err)
	case status == 0:
		return nil
	}
	e := &Error{Status: status, Type: "api_error", Message: "Internal server error"}
	switch status {
	case 400:
		e.Type, e.Message = "invalid_request_error", "Invalid request"
	case 401:
		e.Type, e.Message = "authentication_error", "invalid x-api-key"
	case 403:
		e.Type, e.Message = "permission_error", "Your API key does not have permission to use the specified resource."
	case 404:
		e.Type, e.Message = "not_found_error", "Not found"
	case 413:
		e.Type, e.Message = "request_too_large", "Request exceeds the maximum size"
	case 429:
		e.Type, e.Message = "rate_limit_error", "This request would exceed your rate limit."
	case 504:
		e.Type, e.Message = "timeout_error", "Request timed out"
	case 529:
		e.Type, e.Message = "overloaded_error", "Overloaded"
	}
	return e
}

func apiKey(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

// space is the workspace that the request's API key names.
func (s *Sim) space(h http.Header) *workspace {
	key := apiKey(h)
	if s.spaces[key] == nil {
		s.spaces[key] = &workspace{entries: map[digest]*entry{}}
	}
	return s.spaces[key]
}

// Cached returns how many tokens a request with this body would read from the cache then, in the workspace where it would
// read most; 0 if the body would be refused or continues a thread. It changes nothing.
func (s *Sim) Cached(body []byte, at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := http.Header{"Anthropic-Beta": {betaBinding, betaScope, betaThreads}}
	r, f := s.read(pathMessages, body, every, at)
	if f != nil || r.thread != nil && r.thread.previous != nil {
		return 0
	}
	p, f := s.prompt(r)
	if f != nil {
		return 0
	}
	most := 0
	for _, w := range s.spaces {
		if i := w.hit(p, at); i >= 0 {
			most = max(most, p.size[i])
		}
	}
	return most
}

// Holds reports whether an entry that is live then contains this exact text: of a text block, of a tool's result or input, of
// thinking, or any other string value. Entries of all workspaces count, and those that cannot be read yet.
func (s *Sim) Holds(text string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.spaces {
		if w.holds(text, at) {
			return true
		}
	}
	return false
}
