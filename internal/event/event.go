// Package event is what tidemark tells of single requests: typed records, of which the page, the terminal view, the JSONL file
// and everything that reads that file back are made.
//
// A record holds no content and no raw name of a session: sessions, tenants, lineages and paths are hashes. What only operators
// may see (the path of a file, the text of a marker) stands in fields that are never written ([Decision.What],
// [Decision.Marker]).
//
// Figures of different origin stand in different objects, so that none is ever added to another: what the provider said is
// observed, what would have been without tidemark is modelled, what the byte count suggests is estimated (calibrated, once the
// provider has counted the conversation), and what mode active would have done is shadow.
package event

import "time"

// Version is the version of the records' shape. It grows when a field changes its meaning or goes away.
const Version = 1

// Names of events.
const (
	NameRequest  = "request"
	NameDecision = "decision"
	NameMove     = "move"
	NameUsage    = "usage"
	NameLoss     = "loss"
	NameRestore  = "restore"
	NameReuse    = "reuse"
	NameSpend    = "spend"
	NameConfig   = "config"
)

// Event is one record.
type Event interface {
	// Of is what all records have.
	Of() *Head
}

// Head is what all records have. What does not apply is empty: of config and spend events all but the first three.
type Head struct {
	V         int       `json:"v"`                    // of the shape, see Version
	Time      time.Time `json:"ts"`                   // of the request's arrival; of others when it happened
	Event     string    `json:"event"`                // name of the event
	Key       string    `json:"key,omitempty"`        // of the request, unique: all its events have the same
	RequestID string    `json:"request_id,omitempty"` // Envoy's x-request-id
	TraceID   string    `json:"trace_id,omitempty"`   // of W3C trace context
	Tenant    string    `json:"tenant,omitempty"`     // hash
	Session   string    `json:"session,omitempty"`    // hash
	Lineage   string    `json:"lineage,omitempty"`    // the conversation within the session: hash
	Turn      int       `json:"turn"`                 // user turns of the transcript so far; several requests belong to one
	N         int       `json:"n"`                    // requests of the lineage before this one, side traffic not counted
	Route     string    `json:"route,omitempty"`      // as Envoy calls it
	Format    string    `json:"format,omitempty"`     // wire format: anthropic.messages, openai.chat, openai.responses, bedrock.converse, gemini.generate
	Model     string    `json:"model,omitempty"`      // as in the price table, _other for one that is not in it
	Mode      string    `json:"mode,omitempty"`       // active, shadow or off
	Config    string    `json:"config,omitempty"`     // hash of the route's config
}

// Of implements [Event].
func (h *Head) Of() *Head { return h }

// Gate is a named reason why nothing was done, and how many results it kept.
type Gate struct {
	Filter string `json:"filter,omitempty"` // empty: of the request as a whole
	Gate   string `json:"gate"`             // its name, docs/gates.md
	N      int    `json:"n,omitempty"`      // results that it kept
}

// Request says what became of the body of a request.
type Request struct {
	Head

	Kind       string           `json:"kind"`                  // how the body continues what is known: new, continue, retry, fork, rekey, none
	Parent     string           `json:"parent,omitempty"`      // lineage that this one was forked from in this request
	Outcome    string           `json:"outcome"`               // identity, replayed, fresh, moved, bypassed, error
	Gate       string           `json:"gate,omitempty"`        // why nothing new could be decided
	Gates      []Gate           `json:"gates,omitempty"`       // what kept filters from results
	Pipeline   string           `json:"pipeline,omitempty"`    // name of the route's config
	Group      string           `json:"group,omitempty"`       // of rollout and holdout
	Cache      string           `json:"cache"`                 // what the provider was believed to hold: first, warm, cold
	Messages   int              `json:"messages"`              // of the body as it came
	BytesIn    int              `json:"bytes_in"`              // of the body as it came
	BytesOut   int              `json:"bytes_out"`             // of what was forwarded
	PrefixHash string           `json:"prefix_hash,omitempty"` // of the outbound through its last breakpoint
	Undeclared bool             `json:"undeclared,omitempty"`  // the outbound lost bytes of a live cache entry without a declared move
	Desync     bool             `json:"desync,omitempty"`      // something in force may not have been replayed
	Side       bool             `json:"side,omitempty"`        // side traffic, or a token count: it belongs to no turn
	Compacted  bool             `json:"compacted,omitempty"`   // what was forwarded is a shortened view of the conversation
	Held       int              `json:"held,omitempty"`        // results held out of the cache
	Replays    int              `json:"replays,omitempty"`     // decisions in force that were replayed
	Filters    []string         `json:"filters,omitempty"`     // whose decisions stand in the outbound
	Breakpoint map[string]int   `json:"breakpoints,omitempty"` // changes: held, anchored, bridged, placed, ttl_raised, ttl_lowered
	Sizes      Sizes            `json:"sizes"`                 // of the parts of what was forwarded, and of what was left out
	Shadow     *Shadow          `json:"shadow,omitempty"`      // in mode shadow
	Duration   int64            `json:"duration_us"`           // of the whole, in microseconds
	Stages     map[string]int64 `json:"stages_us,omitempty"`   // of its parts, in microseconds
}

// Sizes are tokens of a request as far as bytes tell them.
type Sizes struct {
	Basis    string `json:"basis"`           // estimated, or calibrated by what the provider counted before
	Cached   int    `json:"cached"`          // of the outbound: that the provider was believed to hold
	Sent     int    `json:"sent"`            // of the outbound: that were sent before and that it was not believed to hold
	Fresh    int    `json:"fresh"`           // of the outbound: that were never sent before
	Removed  int    `json:"removed"`         // left out for the first time, net of markers
	Replayed int    `json:"replayed"`        // left out again, as earlier decisions stand; never added to the former
	Expected int    `json:"expected_cached"` // that certain cache entries let expect to be read
}

// Shadow is what mode active would have done.
type Shadow struct {
	Outcome string `json:"outcome"`         // as of a request
	Removed int    `json:"removed"`         // estimated tokens, for the first time
	Gates   []Gate `json:"gates,omitempty"` // what would keep filters from results
}

// Decision says what was decided on one tool result, or why nothing was. It is told when something was decided, and else once,
// when the result was first looked at, and whenever filters were asked again.
type Decision struct {
	Head

	Call         string   `json:"call_id,omitempty"`       // as the provider named it
	Calls        []string `json:"calls,omitempty"`         // of a cut: those whose results go for the first time
	Tool         string   `json:"tool,omitempty"`          // that was called
	PathHash     string   `json:"path_hash,omitempty"`     // of the file that the call names
	Path         string   `json:"path,omitempty"`          // only with events.paths
	Message      int      `json:"message"`                 // that holds the result
	ResultTurn   int      `json:"result_turn"`             // turn that brought the result
	Zone         string   `json:"zone,omitempty"`          // covered, uncovered, fresh
	Held         bool     `json:"held,omitempty"`          // out of the cache
	Filter       string   `json:"filter,omitempty"`        // whose decision it is; empty: it goes verbatim
	Verb         string   `json:"verb,omitempty"`          // the filter's own word for what it did
	First        bool     `json:"first,omitempty"`         // made by this request
	Gates        []Gate   `json:"gates,omitempty"`         // what kept each filter from it
	Tokens       int      `json:"tokens"`                  // estimated, of the result
	MarkerTokens int      `json:"marker_tokens,omitempty"` // estimated, of what stands in its place
	ID           string   `json:"id,omitempty"`            // under which the original is given back
	SHA256       string   `json:"sha256,omitempty"`        // of the original
	Sum          string   `json:"sum,omitempty"`           // the planner's sum, where it made one

	What   string `json:"-"` // path and range, or the start of the call's arguments
	Marker string `json:"-"` // what was forwarded in the result's place
}

// Move is a moment at which covered bytes changed.
type Move struct {
	Head

	Kind      string  `json:"kind"`             // cold, warm, …
	Filter    string  `json:"filter,omitempty"` // that removes most
	Message   int     `json:"from_message"`     // the first that changed
	Removed   int     `json:"removed"`          // estimated tokens
	Decisions int     `json:"decisions"`        // that it applied
	Sum       string  `json:"sum"`              // why it pays, in the planner's words
	Predicted float64 `json:"predicted_usd"`    // modelled gain over the horizon; 0 for moves that nothing speaks against
}

// Usage is what the provider billed for a request, and what that is worth.
type Usage struct {
	Head

	Observed Billed   `json:"observed"`                  // what the provider said
	Modelled *Account `json:"modelled,omitempty"`        // nil where nothing can be said, as of side traffic
	Expected int      `json:"expected_cached,omitempty"` // calibrated: what certain entries let expect to be read
	Moved    string   `json:"moved,omitempty"`           // key of the request whose move is billed here, if it is another one, which was answered with an error
}

// Billed are the provider's numbers. Tokens are counted once: Input are those that were neither read from the cache nor written
// to it.
type Billed struct {
	Input   int     `json:"input"`            // tokens at the full price
	Read    int     `json:"cache_read"`       // tokens read from the cache
	Write5m int     `json:"cache_write_5m"`   // tokens written for five minutes
	Write1h int     `json:"cache_write_1h"`   // tokens written for an hour
	Output  int     `json:"output"`           // tokens of the answer
	Merged  bool    `json:"merged,omitempty"` // nobody told the two lifetimes apart
	Cost    float64 `json:"cost_usd"`         // by the price table
}

// Prompt is the whole prompt.
func (b *Billed) Prompt() int { return b.Input + b.Read + b.Write5m + b.Write1h }

// Account says in USD what tidemark came to in one request: Baseline - Observed.Cost = Removal + Levers, and
// Net = Baseline - Observed.Cost - Reuse. All of it is modelled, as is Provider, which is not tidemark's: what the provider's
// cache saved, against a world without one.
type Account struct {
	Baseline float64 `json:"baseline_usd"` // what the body as it came would have cost
	Removal  float64 `json:"removal_usd"`  // what was left out, less what a move had to write again
	Levers   float64 `json:"levers_usd"`   // what breakpoints did
	Reuse    float64 `json:"reuse_usd"`    // what was left out and needed again: a call, and the tokens once more
	Net      float64 `json:"net_usd"`      // negative where tidemark cost money
	Provider float64 `json:"provider_usd"` // tokens read, at the difference between input's price and theirs
	First    Priced  `json:"first"`        // what this request left out for the first time
	Again    Priced  `json:"again"`        // what earlier requests had left out and this one would have sent again
}

// Priced are tokens that were left out, by what they would have been billed as. Basis is CACHE_READ_MARGINAL, FULL_INPUT,
// CACHE_WRITE_MARGINAL or, of several, BLENDED_MARGINAL; empty for none.
type Priced struct {
	Basis   string  `json:"basis,omitempty"`   // how it is priced
	Read    int     `json:"read,omitempty"`    // tokens that would have been read from the cache
	Written int     `json:"written,omitempty"` // tokens that would have been written to it
	Input   int     `json:"input,omitempty"`   // tokens at the full price
	USD     float64 `json:"usd"`               // what all of them would have cost
}

// Loss says that a request paid again for what its lineage had paid for.
type Loss struct {
	Head

	Cause    string  `json:"cause"`             // first, ttl, client_system, client_tools, client_model, client_history, provider, tidemark or unknown
	Filter   string  `json:"filter,omitempty"`  // of cause tidemark
	Source   string  `json:"source"`            // ledger, or diagnostics: the provider said it
	Message  int     `json:"message,omitempty"` // of client_history: the first that changed
	Tokens   int     `json:"lost_tokens"`       // that were expected to be read, and were not
	Observed int     `json:"observed"`          // tokens that were read
	USD      float64 `json:"lost_usd"`          // what that cost more
}

// Restore is an attempt to get an original back.
type Restore struct {
	Head

	Path   string `json:"path"`             // http, mcp, inline
	Result string `json:"result"`           // ok, miss, sealed, withdrawn, refused
	Filter string `json:"filter,omitempty"` // that had left it out
	Tokens int    `json:"tokens"`           // estimated, that were given back
}

// Reuse says that the model needed again what had been left out.
type Reuse struct {
	Head

	Call   string `json:"call_id,omitempty"` // that brings it back
	Filter string `json:"filter"`            // that had left it out
	Kind   string `json:"kind"`              // reread, rerun, restored
	Tokens int    `json:"tokens"`            // estimated
	Later  int    `json:"turns_later"`       // turns since it was left out
}

// Spend is a call that tidemark made itself.
type Spend struct {
	Head

	Purpose string  `json:"purpose"` // summary
	Input   int     `json:"input"`   // tokens, as the model asked said
	Output  int     `json:"output"`  // tokens, as the model asked said
	USD     float64 `json:"usd"`     // by the price table
}

// Config says that the server's config was loaded, or could not be.
type Config struct {
	Head

	Result string   `json:"result"`           // ok, error
	Errors []string `json:"errors,omitempty"` // what is wrong with it
}
