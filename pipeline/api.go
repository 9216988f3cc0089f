package pipeline

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Mode says how far tidemark may go on a route.
type Mode uint8

// Modes.
const (
	Active Mode = iota
	Shadow      // bytes are not touched beyond what is already in force; what would have been done is metered
	Off         // nothing is read, nothing is replayed
)

var modeNames = [...]string{"active", "shadow", "off"}

func (m Mode) String() string { return modeNames[m] }

// Config is the compiled config of a route. It is immutable and shared by requests.
type Config struct {
	Name          string // for metrics: name of the pipeline, or its filters
	Hash          string // of the canonical config
	Filters       []filters.Filter
	Mode          Mode
	LegacyBinding bool // binding: legacy: the account's models accept edits
	Bad           bool // the route's config could not be used: replay only
	Levers        Levers
	Moves         Moves
	Withheld      float64               // share of sessions that the rollout has not reached: nothing new is decided, and they are metered as in mode shadow
	Holdout       float64               // share of sessions on which nothing ever is, whatever the rollout: the others are compared with them
	Inline        bool                  // conversations are offered a tool that gives originals back
	Diagnostics   float64               // share of sessions whose requests ask the provider why it missed
	Roles         *transcript.RoleTable // what the route says of tools; nil: nothing
}

// Levers change breakpoints and nothing else.
type Levers struct {
	TTL    TTL
	Regret float64 // premium for lifts that may be open on a branch, as a share of its bill at five minutes
	Place  bool    // set breakpoints where the client sets none at all
}

// on reports whether any lever acts.
func (l *Levers) on() bool { return l.TTL != KeepTTL || l.Place }

// TTL says which lifetimes breakpoints ask for.
type TTL uint8

// TTLs.
const (
	KeepTTL TTL = iota // as the client asks
	HourTTL            // one hour
	AutoTTL            // five minutes, lifted to one hour where that is affordable
	LiftTTL            // AutoTTL, also where the client asks for one hour: big increments are written for five minutes
)

var ttlNames = [...]string{"keep", "1h", "auto", "lift"}

func (t TTL) String() string { return ttlNames[t] }

// Moves says when covered bytes may change.
type Moves struct {
	Warm         bool
	MinGain      float64 // smallest gain of a warm move, as a share of the price of the whole prompt
	Budget       int     // warm moves of one branch
	Spacing      int     // turns between two warm moves
	Horizon      int     // calls that are expected to follow; 0: half of those that were seen
	RawGuard     bool    // near the window decide nothing, so that the client compacts
	BeyondWindow bool    // near the window move whatever it costs
	Brake        bool    // stop deciding on a branch whose reads fall short
}

// Request is one request as the adapter saw it.
type Request struct {
	ID           string // for logs
	Route        string // for metrics
	Format       transcript.Format
	Model        string // from the path; empty: the body names it
	Place        cache.Place
	Body         []byte
	Tenant       string // material of the tenant's key; hashed at once, kept nowhere
	Session      string // from a header; empty: the body may name it
	Agent        string // from a header; part of the key
	Now          time.Time
	Config       *Config
	CountTokens  bool // a count_tokens request: replay, no state
	Auxiliary    bool // the request's class says auxiliary or compaction
	Bypass       bool // x-tidemark-bypass: replay only
	ClientSigned bool // the client signed the body: it must not change
	Anonymous    bool // where nothing names the session, the way its conversation begins does (anonymous: prefix)
	Unsure       bool // the path hides whose model it is: the body is Anthropic's only if it has anthropic_version
	Explain      Explain
	Trace        string // W3C traceparent that the request came with, for spans and events; empty without one
	Unbridged    bool   // no breakpoint is added to bridge a gap: the body is a part of what is sent, and the rest has its own
}

// Explain says of which results an outcome tells what became of them.
type Explain uint8

// What is explained.
const (
	ExplainNothing Explain = iota
	ExplainNew             // results that are new, that filters were asked about, or that something was decided on
	ExplainAll             // every result; costs time, for people who ask
)

// Level says which rung of the fallback ladder answered.
type Level uint8

// Levels.
const (
	Original Level = iota // the body as it came
	Replayed              // the edits in force, nothing new
	Decided               // something new
)

var levelNames = [...]string{"original", "replayed", "decided"}

func (l Level) String() string { return levelNames[l] }

// Outcome is what becomes of a request.
type Outcome struct {
	Body    []byte // what to forward; nil: the body as it came
	Level   Level
	Gate    filters.Gate // why nothing new was decided for the request as a whole; empty if it could have been
	Kind    Kind         // how the body continues what is known
	Branch  uint64       // branch that it belongs to, 0 if none
	Parent  uint64       // branch that this one was forked from in this request
	Desync  bool         // something may be in force that could not be replayed
	Bound   bool
	Held    int            // results held out of the cache
	Replays int            // decisions in force that were replayed
	Applied []string       // filters whose decisions or cut stand in the outbound, each once
	Cut     int            // messages that the cut in force leaves out
	Again   []Reused       // what it brings of what earlier requests had left out
	Reused  map[string]int // by filter: Est of turns that its cut left out and of which the newest one uses what stands nowhere else
	Tokens  int            // Est of what decisions and cut leave out
	New     []DecisionMade // decisions made by this request
	Gates   map[FilterGate]int
	Move    *Move
	Cache   CacheState
	// Undeclared is set if the outbound lost bytes that a live entry covers without a declared move.
	Undeclared  bool
	Breakpoints BreakpointChanges
	BytesIn     int
	BytesOut    int
	Messages    int
	Turn        int32
	Format      transcript.Format
	Session     string // hash, for logs and access logs
	Tenant      string // the same
	Key         string // unique to the request
	N           int    // requests of the branch before this one
	Model       string // as in the price table, "_other" for one that is not in it; empty if the body was not read
	Side        bool   // side traffic: the branch, if there is one, does not go on with it
	Sizes       Sizes
	Prefix      string // hash of the outbound through its last breakpoint, empty without one
	Duration    time.Duration
	Stages      Stages
	Group       string     // of the session, see GroupActive; empty on routes without groups
	Restored    []Restored // originals that were asked for inline in this request
	Shadow      *Outcome   // in shadow mode: what would have been done
	Explain     []Verdict  // of every result, in order, if the request asked for it

	undo func(context.Context) // see Dropped
	sent *sent                 // what the response will be compared with, see Engine.Observe
}

// FilterGate counts gates by filter; the request's own gates have no filter.
type FilterGate struct {
	Filter string
	Gate   filters.Gate
}

// DecisionMade describes one new decision or hold for events and metrics.
type DecisionMade struct {
	Filter, Verdict, Tool, ID, Call string
	Msg                             int32
	Hold                            bool
	Drop                            bool     // a cut: messages behind Msg go, and there is no call
	Calls                           []string // of a cut: those whose results go for the first time
	Matured                         bool     // a held read that became a marker: no covered byte changed
	Tokens, MarkerTokens            int
	Calibrated                      int    // tokens that it leaves out as the provider counts this conversation, 0 before it has
	SHA256                          string // of the original, in hex; empty if none is kept
}

// Move is the one kind of moment at which covered bytes may change.
type Move struct {
	From   int32 // first message that changes
	Kind   string
	Filter string    // that removes most
	Tokens int       // removed for the first time
	Sum    cache.Sum // why it pays
	// Predicted is what it is to save over the horizon, in USD by what the request is estimated to hold.
	Predicted float64

	by map[string]int // tokens by filter
}

// Cold is the kind of moves in which no live entry is lost.
const Cold = "cold"

// CacheState is what the provider is believed to hold of a body.
type CacheState uint8

// Cache states.
const (
	CacheFirst CacheState = iota // never seen
	CacheWarm
	CacheCold
)

var cacheNames = [...]string{"first", "warm", "cold"}

func (c CacheState) String() string { return cacheNames[c] }

// BreakpointChanges counts what was done to breakpoints.
type BreakpointChanges struct{ Stripped, Anchored, Kept, Placed, Raised, Lowered int }

// Stage is a part of a request's way.
type Stage uint8

// Stages.
const (
	StageParse Stage = iota
	StageLoad
	StageReplay
	StagePropose
	StagePlan
	StageSplice
	StageProof
	StageCommit
	stages
)

var stageNames = [...]string{"parse", "load", "replay", "propose", "plan", "splice", "proof", "commit"}

func (s Stage) String() string { return stageNames[s] }

// Stages is where the time of a request went.
type Stages [stages]time.Duration

// Kind says how a body continues what is known of its session.
type Kind uint8

// Kinds of continuation.
const (
	KindNone Kind = iota // no branch was looked for, or none was found
	KindNew
	KindContinue
	KindRetry // also a rewind to an earlier body
	KindFork
	KindRekey
)

var kindNames = [...]string{"none", "new", "continue", "retry", "fork", "rekey"}

func (k Kind) String() string { return kindNames[k] }

// Class is the outcome as metrics label it: identity, replayed, fresh, moved, bypassed or error.
func (o *Outcome) Class() string {
	switch {
	case o.Gate == filters.Bypass:
		return "bypassed"
	case o.Gate == filters.Panic || o.Gate == filters.ProofFailed || o.Desync:
		return "error"
	case o.Move != nil:
		return "moved"
	case o.Level == Decided:
		return "fresh"
	case o.Body != nil:
		return "replayed"
	}
	return "identity"
}
