// Package openai is a stand-in for OpenAI's Chat Completions and Responses, also under their Azure paths: a real HTTP server
// that refuses what the provider refuses and bills its prompt cache as the provider documents it.
//
// It is an independent judge. It shares no code with the rest of tidemark but what all simulators share (simkit), and what is
// cached is decided by values, not by bytes. A prompt is settings (model, reasoning, output format) → tools → instructions →
// messages or items. String content equals a list of one text part; ids and states of items, breakpoints, annotations and
// members that are null are no part of it; of sealed items only encrypted_content is. The order of members counts in tools,
// calls and arguments. A token is 3.6 bytes of the names, strings and literals in a block, each with one byte more, rounded up
// per block; an image weighs 6000 bytes.
//
// Models before GPT-5.6 read what was sent before in steps of 128 tokens (2,048 on GPT-5.5) from 1,024 tokens on, and write
// free of charge. Later ones read and write at breakpoints, explicit ones and one at the end of the latest message of the user
// or run of tool outputs; more than four are no fault, the latest are written. What the documentation leaves open is a
// [Policy]. [Units] and [Bill] say what a request costs.
//
// Kept on the server are answers of Responses with store (previous_response_id, item_reference) and conversations (POST
// /v1/conversations); what continues them is checked, billed and cached as the whole conversation. Not modelled are
// cache diagnostics, server-side compaction at a threshold, background answers, WebSockets, and that old models forget
// reasoning at a new turn of the user.
//
// [Sim] is the server; [Sim.Call] is one request without HTTP. Time comes with the request: from Options.Now, or from the
// header x-sim-now. Further headers steer one request, see simkit for their limits:
//
//	x-sim-now     arrival, RFC 3339 with nanoseconds (HTTP only)
//	x-sim-status  answer with this status and an error, and touch no cache
//	x-sim-reply   the answer: of Responses a JSON list of output items, of Chat the message; ids and encrypted_content that
//	              are missing are made, and so is encrypted_content that does not begin with "gAAAAtidemark-sim."
//	x-sim-delay   time to the first byte, at most 5s; the cache entries that the request writes can be read from then on
//	x-sim-pieces  write the answer in pieces of so many bytes, each flushed (HTTP only)
//
// Request bodies may be compressed (gzip, br, zstd); over HTTP answers are compressed as Accept-Encoding asks (gzip, br, zstd),
// streams flushed event by event. A Sim is safe for concurrent use. Bodies are kept and must not be changed after a call.
package openai

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Options are the settings of a simulator; the zero value is fit for use.
type Options struct {
	Now     func() time.Time // clock of requests without x-sim-now; nil is the wall clock
	Policy  Policy           // what the provider leaves open
	Foreign bool             // take encrypted content of others, and reasoning without any, as it is: for recorded sessions
	NoLog   bool             // keep no log: bodies are not held, and Requests is empty

	// Reply answers requests without x-sim-reply. Its content has the form that the header has.
	Reply simkit.Script

	// CharsPerToken is how many bytes make a token, to fit a recorded session; 0 or less is 3.6.
	CharsPerToken float64
}

const defaultCharsPerToken = 3.6

// Sim simulates the provider for any number of organizations; an API key names one.
type Sim struct {
	opts Options

	mu            sync.Mutex
	now           time.Time // arrival of the request that is being answered
	parser        *parser
	accounts      map[string]*account
	issued        map[string]issue  // by encrypted content
	needs         map[string]string // by the id of an item, that of the reasoning which it followed
	known         map[string]*item  // stored items of answers, by id
	answers       *simkit.Shelf[*stored]
	conversations map[string]*conversation
	log           simkit.Log[Received]
	requests      int // so far; ids are made of it
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

// Reset forgets everything: cache, answers, conversations and log. Ids stay unique.
func (s *Sim) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parser = newParser(s.opts.CharsPerToken)
	s.accounts, s.issued, s.needs = map[string]*account{}, map[string]issue{}, map[string]string{}
	s.known, s.conversations = map[string]*item{}, map[string]*conversation{}
	s.answers = simkit.NewShelf[*stored](keptAnswers)
	s.log = simkit.Log[Received]{}
}

// maxBody is the largest body that is taken, in bytes after its content coding is undone.
const maxBody = 64 << 20

// Call answers a POST of a body to one of the provider's paths that arrives at the given time. The headers may be nil;
// x-sim-now has no meaning here, and a delay moves the time of the first byte without waiting.
func (s *Sim) Call(path string, body []byte, h http.Header, at time.Time) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	res := Result{Status: http.StatusOK, ID: s.id("resp"), First: at, Created: at.Unix()}
	plain, err := s.answer(&res, path, body, h, at)
	if err != nil {
		res = Result{Status: err.Status, Err: err, ID: res.ID, Model: res.Model, First: res.First, Created: res.Created, Stream: res.Stream, api: res.api}
	}
	s.record(&res, path, plain, h, at)
	return res
}

// id makes an id of the request.
func (s *Sim) id(prefix string) string { return fmt.Sprintf("%s_sim%012d", prefix, s.requests) }

// answer fills in the result of a request, and returns the body without its content coding.
func (s *Sim) answer(res *Result, path string, body []byte, h http.Header, at time.Time) ([]byte, *Error) {
	delay, err := simkit.Delay(h)
	if err != nil {
		return body, refuse("", "", "%s: %v", simkit.HeaderDelay, err)
	}
	res.First, s.now = at.Add(delay), at
	which, deployment, ok := endpoint(path)
	if !ok {
		return body, noSuchPath(path)
	}
	res.api = which
	if which == chat {
		res.ID = s.id("chatcmpl")
	}
	if f := scripted(h); f != nil {
		return body, f
	}
	plain, err := simkit.Expand(body, h.Get("Content-Encoding"), maxBody+1)
	if err != nil {
		return body, notJSON()
	}
	r, f := s.read(which, deployment, plain, h)
	if r != nil {
		res.Model, res.Stream, res.tally = r.model, r.stream, r.tally
	}
	if f != nil {
		return plain, f
	}
	r.path = path
	return plain, s.serve(res, r, plain, h, at)
}

// serve answers a request that the provider accepts.
func (s *Sim) serve(res *Result, r *request, body []byte, h http.Header, at time.Time) *Error {
	p := s.prompt(r)
	res.Prompt = p.total()
	if p.total() > r.facts.window {
		if r.api == chat {
			return refuse("messages", "context_length_exceeded", "This model's maximum context length is %d tokens. However, your messages "+
				"resulted in %d tokens. Please reduce the length of the messages.", r.facts.window, p.total())
		}
		return refuse("input", "context_length_exceeded",
			"Your input exceeds the context window of this model. Please adjust your input and try again.")
	}
	answer, reasoning, err := s.reply(res, r, body, h)
	if err != nil {
		return refuse("", "", "%s: %v", simkit.HeaderReply, err)
	}
	output := 0
	for _, it := range answer {
		for _, b := range it.blocks {
			output += b.tokens
		}
	}
	res.Usage = s.bill(r, p, at, res.First)
	res.Usage.Output, res.Usage.Reasoning = output, reasoning
	s.keep(r, res, answer)
	return nil
}

// bill reads and writes the cache for a prompt.
func (s *Sim) bill(r *request, p *prompt, at, first time.Time) Usage {
	policy := s.opts.Policy
	a := s.account(r.account)
	if policy.Evicted != nil {
		if tokens, evicted := policy.Evicted(s.requests); evicted {
			a.evict(tokens)
		}
	}
	if policy.Misrouted != nil && policy.Misrouted(s.requests) {
		a = newAccount()
	}
	v := r.visit(a, policy, at, first)
	defer a.sweep(at)
	if r.facts.points {
		return v.points(p, r.explicit)
	}
	return v.walk(p, r.facts.step)
}

func (r *request) visit(a *account, policy Policy, at, first time.Time) *visit {
	v := &visit{account: a, key: r.key, policy: policy, at: at, first: first}
	if policy.AnyKey {
		v.key = ""
	}
	switch {
	case r.facts.points:
		v.life = lifePoint + policy.Beyond
	case r.memory:
		v.life = max(policy.Memory, lifeMemory)
	default:
		v.life = lifeDay
		if policy.Day > 0 {
			v.life = policy.Day
		}
	}
	return v
}

func newAccount() *account { return &account{entries: map[place]*entry{}} }

func (s *Sim) account(key string) *account {
	if s.accounts[key] == nil {
		s.accounts[key] = newAccount()
	}
	return s.accounts[key]
}

// read parses and checks a body. The request is nil if the body has no shape.
func (s *Sim) read(which api, deployment string, body []byte, h http.Header) (*request, *Error) {
	if len(body) > maxBody {
		f := refuse("", "", "Request body too large. Maximum size is %d bytes.", maxBody)
		f.Status = http.StatusRequestEntityTooLarge
		return nil, f
	}
	parsed, err := s.parser.parse(which, body)
	if err != nil {
		if at := simkit.Blank(body, 0); errors.Is(err, simkit.ErrSyntax) && at < len(body) && body[at] != '{' && simkit.Sound(body) == nil {
			return nil, refuse("", codeType, "Invalid type for request body: expected an object.")
		}
		return nil, notJSON()
	}
	r, f := s.shape(which, deployment, parsed, h)
	if f == nil {
		f = s.check(r)
	}
	return r, f
}

func notJSON() *Error {
	return refuse("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "+
		"library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you have trouble "+
		"figuring out how to fix this, please contact us through our help center at help.openai.com.)")
}

func noSuchPath(path string) *Error {
	f := refuse("", "", "Invalid URL (POST %s)", path)
	f.Status = http.StatusNotFound
	return f
}

// scripted is the error that x-sim-status asks for, nil without the header.
func scripted(h http.Header) *Error {
	status, err := simkit.Status(h)
	if err != nil {
		return refuse("", "", "%s: %v", simkit.HeaderStatus, err)
	}
	e := &Error{Status: status, Type: "server_error", Message: "The server had an error while processing your request. Sorry about that!"}
	switch status {
	case 0:
		return nil
	case 400:
		e.Type, e.Message = "invalid_request_error", "Invalid request."
	case 401:
		e.Type, e.Code, e.Message = "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
	case 403:
		e.Type, e.Message = "invalid_request_error", "You have insufficient permissions for this operation."
	case 404:
		e.Type, e.Message = "invalid_request_error", "Not found."
	case 429:
		e.Type, e.Code, e.Message = "tokens", "rate_limit_exceeded", "Rate limit reached. Please try again later."
	case 503:
		e.Message = "The engine is currently overloaded, please try again later."
	}
	return e
}

// Cached returns how many tokens a request with this body would read from the cache then, for the account where it would read
// most; 0 if the body would be refused. It changes nothing.
func (s *Sim) Cached(path string, body []byte, at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	which, deployment, ok := endpoint(path)
	if !ok {
		return 0
	}
	most := 0
	for key, a := range s.accounts {
		s.now = at
		r, f := s.read(which, deployment, body, http.Header{"Api-Key": {key}})
		if f != nil {
			continue
		}
		p, v := s.prompt(r), r.visit(a, s.opts.Policy, at, at)
		n := 0
		if r.facts.points {
			if hit := v.hit(p, r.explicit); hit >= 0 {
				n = p.size[hit]
			}
		} else if n = v.covered(p) * r.facts.step; n < minimum {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// Holds reports whether an entry that is live then contains this exact text: of a content part, of a call's arguments or
// output, or any other string value. Entries of all accounts count, and those that cannot be read yet.
func (s *Sim) Holds(text string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.holds(text, at) {
			return true
		}
	}
	return false
}
