package pipeline

import "time"

// Usage is what the provider billed for a request, in tokens. The prompt is the sum of all but Output. A response may take several
// samplings, each with a prompt of its own: the usage is then that of the first, whose prompt is what was forwarded.
type Usage struct {
	Input   int // neither read from the cache nor written to it
	Read    int
	Write5m int
	Write1h int
	Output  int
	Merged  bool   // nobody told the two lifetimes apart: all that was written stands in Write5m
	Bill    *Usage // what was billed in all, where that is more than this one prompt; nil: the same. It has no Bill itself
}

// Prompt is the number of tokens of the whole prompt.
func (u *Usage) Prompt() int { return u.Input + u.Read + u.Write5m + u.Write1h }

// Billed is what the provider billed in all.
func (u *Usage) Billed() *Usage {
	if u.Bill != nil {
		return u.Bill
	}
	return u
}

// Response is what became of a forwarded request. The zero value says that nothing is known: the client went away, the
// connection broke, or no response was looked at.
type Response struct {
	Status  int           // HTTP status, 0 if none was seen
	Usage   *Usage        // nil if the provider did not say, or nobody looked
	Message string        // the provider's id of the message
	Model   string        // that answered
	Miss    string        // the provider's own reason for a cache miss (diagnostics), empty without one
	After   time.Duration // from the request's arrival to the first byte of the response
	Unclear bool          // Usage is good for a price only: it may be the sum over several prompts
}

// Cause is why less was read from the cache than a session without changes would have read.
type Cause string

// Causes. Every loss has one.
const (
	CauseFirst         Cause = "first"          // nothing was written yet
	CauseTTL           Cause = "ttl"            // the entries had lapsed
	CauseClientSystem  Cause = "client_system"  // the client changed its system prompt,
	CauseClientTools   Cause = "client_tools"   // its tools,
	CauseClientModel   Cause = "client_model"   // the model,
	CauseClientHistory Cause = "client_history" // or messages that it had sent
	CauseProvider      Cause = "provider"       // the entries should have been there
	CauseTidemark      Cause = "tidemark"       // a move, or a hold
	CauseUnknown       Cause = "unknown"
)

// Loss is what one request paid for again although the session had paid for it before.
type Loss struct {
	Cause       Cause
	Filter      string // whose move it was, with CauseTidemark
	Message     int32  // first message that the client changed, with CauseClientHistory
	Tokens      int
	Diagnostics bool // the provider named the cause itself
}

// Net is what tidemark saved with a request in USD, negative where it cost money. What tidemark spends itself is not in it.
func (ob *Observation) Net() float64 {
	net := ob.Baseline - ob.Cost
	if ob.Account != nil {
		net -= ob.Account.Reuse
	}
	return net
}

// Observation is what a response says of what was forwarded.
type Observation struct {
	Usage         *Usage   // nil: nothing is known
	Model         string   // as in the price table, "_other" for one that is not in it
	Expected      int      // tokens that the known entries let expect to be read; 0 also where nothing can be said
	Loss          *Loss    // nil if nothing was lost
	Cost          float64  // USD, by the price table
	Baseline      float64  // USD, modelled: what the body as it came would have cost
	Provider      float64  // USD, modelled: what the provider's cache saved of what was forwarded, against a world without one
	Account       *Account // nil where nothing can be said of a counterfactual; then Baseline is Cost
	ColdMisjudged bool     // what was believed lapsed was read
	LiftMisjudged bool     // a lift to one hour did not do what it was done for
	Ineffective   bool     // the outbound shrank, and the provider was billed for the old size
	Braked        bool     // the branch decides nothing new from now on
	Move          *Move    // that is billed here: the request's own, or of one before it that was answered with an error
	Moved         string   // key of the outcome whose move it is
	MoveForecast  float64  // USD that the move was to save over the horizon, 0 without one
}
