// Package gemini is a stand-in for Google's Gemini models, behind the Gemini API and behind Vertex AI: a real HTTP server for
// generateContent, streamGenerateContent and countTokens that refuses what Google refuses and bills its implicit cache.
//
// It is an independent judge. It shares no code with the rest of tidemark but what all simulators share (simkit), and what is
// cached is decided by values, not by bytes. A prompt is model → tools → system instruction → contents; names in snake_case are
// names in camelCase, one part equals a list of one, members that are null are not there, and the order of members does not
// count. A token is 3.6 characters of the names, strings and literals in a part, rounded up per part; what is inline or in a
// file weighs 258 tokens.
//
// The cache is a property of parts: every request leaves its beginnings, each at the end of a part, and reads the longest that it
// shares with an earlier one of its account, from the model's minimum on. Writing is free. How long a beginning lives and
// whether a request reads what it could are nowhere promised: they are a [Policy]. [Units] and [Bill] say what a request costs.
// Explicit caches (cachedContents) are not modelled and not found.
//
// Models from Gemini 3 on sign their answers: the first of the function calls, or else the last part. In the turn that is going
// on (behind the last content of the user that is more than function responses) the first function call of each content needs a
// signature, of whomever. A signature of this simulator vouches for its part and for the thoughts before it: those may be left
// out, and texts may be cut in pieces as a stream does, but nothing may be changed. Not modelled are several candidates, safety,
// schemas, and what agents on Google's side do.
//
// [Sim] is the server; [Sim.Call] is one request without HTTP. An API key names the account, on Vertex the project. Further headers
// steer one request, see simkit for their limits:
//
//	x-sim-now     arrival, RFC 3339 with nanoseconds (HTTP only)
//	x-sim-status  answer with this status and an error, and touch no cache
//	x-sim-reply   JSON list of the parts to answer; signatures that are missing are made, and so are those of others
//	x-sim-delay   time to the first byte, at most 5s; what the request leaves can be read from then on
//	x-sim-pieces  write the answer in pieces of so many bytes, each flushed (HTTP only)
//
// Request bodies may be compressed (gzip, br, zstd); over HTTP answers are compressed as Accept-Encoding asks (gzip, br, zstd),
// streams flushed chunk by chunk. A Sim is safe for concurrent use. Bodies are kept and must not be changed after a call.
package gemini

import (
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Options are the settings of a simulator; the zero value is fit for use.
type Options struct {
	Now    func() time.Time // clock of requests without x-sim-now; nil is the wall clock
	Policy Policy           // what the provider leaves open
	NoLog  bool             // keep no log: bodies are not held, and Requests is empty

	// Reply answers requests without x-sim-reply. Its content has the form that the header has.
	Reply simkit.Script

	// CharsPerToken is how many characters make a token, to fit a recorded session; 0 or less is 3.6.
	CharsPerToken float64
}

const defaultCharsPerToken = 3.6

// Sim simulates the provider for any number of accounts.
type Sim struct {
	opts Options

	mu       sync.Mutex
	parser   *parser
	accounts map[string]*account
	issued   map[string]issue // by signature
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

// Reset forgets everything: cache, signatures and log. Ids stay unique.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parser = newParser(s.opts.CharsPerToken)
	s.accounts, s.issued = map[string]*account{}, map[string]issue{}
	s.log = simkit.Log[Received]{}
}

// maxBody is the largest body that is taken, in bytes after its content coding is undone.
const maxBody = 32 << 20

// Call answers a POST of a body to one of the provider's paths, with its query if it has one, that arrives at the given time.
// The headers may be nil; x-sim-now has no meaning here, and a delay moves the time of the first byte without waiting.
func (s *Sim) Call(path string, body []byte, h http.Header, at time.Time) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	res := Result{Status: http.StatusOK, ID: s.id(), First: at}
	plain, err := s.answer(&res, path, body, h, at)
	if err != nil {
		res = Result{Status: err.Status, Err: err, ID: res.ID, Model: res.Model, First: res.First, Stream: res.Stream, SSE: res.SSE}
	}
	s.record(&res, path, plain, h, at)
	return res
}

// answer fills in the result of a request, and returns the body without its content coding.
func (s *Sim) answer(res *Result, path string, body []byte, h http.Header, at time.Time) ([]byte, *Error) {
	delay, err := simkit.Delay(h)
	if err != nil {
		return body, refuse("%s: %v", simkit.HeaderDelay, err)
	}
	res.First = at.Add(delay)
	e, ok := endpointOf(path)
	if !ok {
		return body, notFound()
	}
	res.Model, res.Stream, res.SSE, res.Vertex, res.counts = e.model, e.method == methodStream, e.sse, e.vertex, e.method == methodCount
	if f := scripted(h); f != nil {
		return body, f
	}
	body, f := expand(body, h)
	if f != nil {
		return body, f
	}
	r, f := s.read(e, body)
	if f != nil {
		return body, f
	}
	p := s.prompt(r)
	res.Prompt = p.total()
	if e.method == methodCount {
		return body, nil
	}
	if p.total() > r.facts.window {
		return body, refuse("The input token count (%d) exceeds the maximum number of tokens allowed (%d).", p.total(), r.facts.window)
	}
	if err := s.reply(res, r, path, body, h); err != nil {
		return body, refuse("%s: %v", simkit.HeaderReply, err)
	}
	read := s.account(e.account(h)).visit(p, r.facts.minimum, s.opts.Policy, s.requests, at, res.First)
	res.Usage.Read, res.Usage.Input = read, p.total()-read
	return body, nil
}

func expand(body []byte, h http.Header) ([]byte, *Error) {
	plain, err := simkit.Expand(body, h.Get("Content-Encoding"), maxBody+1)
	if err != nil {
		return body, notJSON()
	}
	if len(plain) > maxBody {
		return body, &Error{Status: http.StatusBadRequest, Message: "Request payload size exceeds the limit: 33554432 bytes."}
	}
	return plain, nil
}

// read parses and checks a body.
func (s *Sim) read(e endpoint, body []byte) (*request, *Error) {
	facts, known := lookup(e.model)
	if !known {
		return nil, e.noSuchModel()
	}
	parsed, err := s.parser.parse(body)
	if err != nil {
		return nil, notJSON()
	}
	r := &request{endpoint: e, facts: facts}
	if f := s.parser.shape(r, parsed); f != nil {
		return nil, f
	}
	if e.method == methodCount {
		return r, nil
	}
	for _, check := range []func(*request) *Error{checkEmpty, checkTurns, checkMissing, s.checkSignatures} {
		if f := check(r); f != nil {
			return nil, f
		}
	}
	return r, nil
}

// Cached returns how many tokens a request with this body would read from the cache then, for the account where it would read
// most, if it reads what it can; 0 if the body would be refused. It changes nothing.
func (s *Sim) Cached(path string, body []byte, at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := endpointOf(path)
	if !ok {
		return 0
	}
	r, f := s.read(e, body)
	if f != nil {
		return 0
	}
	p, most := s.prompt(r), 0
	for _, a := range s.accounts {
		most = max(most, a.covered(p, s.opts.Policy, at))
	}
	return most
}

// Holds reports whether a beginning that is live then contains this exact text: of a part, of a call's arguments or a response,
// or any other string value. Those of all accounts count, and those that cannot be read yet.
func (s *Sim) Holds(text string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.holds(text, s.opts.Policy, at) {
			return true
		}
	}
	return false
}

func (s *Sim) account(key string) *account {
	if s.accounts[key] == nil {
		s.accounts[key] = &account{entries: map[simkit.Digest]*entry{}}
	}
	return s.accounts[key]
}
