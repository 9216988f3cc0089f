package filters

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Filter decides what may be done to results.
type Filter interface {
	// Name is the name in config, events and metrics.
	Name() string
	// Propose returns exactly one proposal for every candidate of the view that is Open, in any order.
	Propose(v *View) []Proposal
}

// Zone says how the provider's cache relates to a result.
type Zone uint8

// Zones.
const (
	Covered   Zone = iota // a live entry holds it
	Uncovered             // forwarded before, beyond every live entry
	Fresh                 // after the last assistant message, never forwarded
)

// Candidate is a result without a decision in force.
type Candidate struct {
	Result int32 // index into View.Index.Results
	Zone   Zone
	Held   bool // held out of the cache now
	Open   bool // a proposal for it could be admitted in this request
}

// View is what a filter sees of one request: the client's transcript and which results are still undecided.
type View struct {
	Index      *transcript.Index
	Candidates []Candidate
	Turn       int32 // number of the newest assistant turn
	// HoldGate says why no result can be held in this request, empty if one can.
	HoldGate Gate
	// HoldAt says why this result cannot be held; nil stands for a function that returns no gate.
	HoldAt func(result int32) Gate
	// HoldPays reports whether it is cheaper to hold this result for so many turns than to let it be cached, now or until the
	// next cold moment; nil where nothing is known of prices.
	HoldPays func(result int32, turns int) bool
	// Filled is the share of the model's window that this request fills if nothing new is decided; 0 where the window is not
	// known.
	Filled float64
	// CutGate says why nothing can be cut out of the transcript in this request, empty if it can.
	CutGate Gate
	// Cut is the cut in force, nil if there is none: what it leaves out is not forwarded, and its results are no candidates.
	Cut *Cut
	// Size is about how many tokens of a message are forwarded, with what is in force and with what the filters before this one
	// propose; nil stands for all of it, by [transcript.Index.EstMessage].
	Size func(msg int32) int
	// Memo keeps what a filter has worked out of the transcript until the branch's next request; nil: nothing is kept. grow
	// gets what it returned before, if this transcript begins with the same messages, else nil. It may change what it gets,
	// and what it returns is the filter's until Propose returns. Proposals must be the same with a memo and without one.
	Memo func(filter string, grow func(kept Memo) Memo) Memo
	// Summary returns the summary of a result if one is ready, else the gate that says why there is none: no_summary, or
	// attempts_spent once so many attempts were begun on the branch since its last move. To ask is to want one: it is prepared
	// for a later request, of the results asked for first before others. A filter may ask for results that are not open, which
	// changes nothing but this. The answer stays the same for one request. Nil: nothing can be summarised.
	Summary func(result int32, by *Summarizer, attempts int) (text string, gate Gate)
}

// Memo is what a filter knows of the first messages of a transcript. It may depend on nothing else, and on nothing of them
// that [transcript.Index.Digest] leaves out: not on breakpoints, thinking, numbers of blocks or the form of a text.
type Memo interface {
	// Messages is how many of the messages it stands for.
	Messages() int32
	// Size is about how many bytes it holds.
	Size() int
}

// Action is what a proposal asks for.
type Action uint8

// Actions.
const (
	None    Action = iota // nothing; Gate says why
	Replace               // a marker in place of the content
	Hold                  // verbatim, and out of the cache
	Drop                  // a span of whole exchanges goes, and a stub stands for it; see Cut
)

// Policy says under which conditions a Replace may be admitted.
type Policy struct {
	// Cold: it may take part in a cold move, where nothing cached is lost.
	Cold bool
	// Warm: it may take part in a warm move, where the loss is priced.
	Warm bool
	// MinBatchFrac is the smallest share of the request's tokens that the filter's proposals must leave out together to cause a
	// warm move. It is not asked of a move that fires anyway: a cold one, or one that another filter's proposals cause.
	MinBatchFrac float64
	// RewriteBudget is after how many warm moves of the branch, those of what it forked from included, the proposal takes no
	// more part in one; 0: only the route's own budget counts.
	RewriteBudget int
	// BreakEven: the move must pay by the planner's sum. Without it a batch of at least MinBatchFrac fires whatever it costs.
	BreakEven bool
}

// Proposal is what a filter says of one candidate.
type Proposal struct {
	Result  int32 // Transcript with Drop
	Action  Action
	Gate    Gate   // why Action is None
	Verdict string // a word of the filter for its reason, for events and metrics
	Verb    string // of the marker
	Hint    Hint   // how to get the content back, for the marker
	Extra   string // what follows the marker: an excerpt, a summary, facts of the call; empty: nothing
	Mode    MarkerMode
	Policy  Policy
	// Lesser is why a replacement is not the one that the filter would rather make; empty if it is. It is counted like a gate.
	Lesser Gate
	// Cut is what a Drop leaves out. Extra is then what of it stays, word for word, behind the marker.
	Cut *Cut
}

// Common are the config keys that every filter has. A filter's own config embeds it with the tag `config:",squash"`, so that
// its keys stand beside the filter's own.
type Common struct {
	Enabled    bool       `config:"enabled" doc:"false stops new decisions of this filter; what is in force is replayed"`
	MinTokens  int        `config:"min_tokens" doc:"smallest result, in estimated tokens, that is replaced"`
	MarkerMode MarkerMode `config:"marker_mode" doc:"full: the original is kept and can be restored; summary: marker without id, lossy; off: meter only"`
	Tools      Globs      `config:"tools" doc:"globs of tool names; one that starts with ! excludes; none means all"`
}

// Globs selects names. Patterns that start with ! exclude; without any other pattern everything else is included.
type Globs []string

// Match reports whether the name is selected.
func (g Globs) Match(name string) bool {
	included, listed := false, false
	for _, p := range g {
		if p != "" && p[0] == '!' {
			if ok, err := path.Match(p[1:], name); ok && err == nil {
				return false
			}
			continue
		}
		listed = true
		if ok, err := path.Match(p, name); ok && err == nil {
			included = true
		}
	}
	return included || !listed
}

// Validate checks the values of the common keys. The error names the key, the value and what is accepted.
func (c *Common) Validate() error {
	if c.MinTokens < 0 {
		return fmt.Errorf("min_tokens: %d is negative", c.MinTokens)
	}
	switch c.MarkerMode {
	case Full, Summary, Meter:
	default:
		return fmt.Errorf("marker_mode: %q is not known; accepted: %s, %s, %s", c.MarkerMode, Full, Summary, Meter)
	}
	if err := c.Tools.validate(); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	return nil
}

func (g Globs) validate() error {
	for _, p := range g {
		name := strings.TrimPrefix(p, "!")
		if name == "" {
			return errors.New("a pattern is empty")
		}
		if _, err := path.Match(name, ""); err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
	}
	return nil
}

// Barred returns the gate of the common keys that keeps the filter from replacing a result, empty if there is none. The
// size is not looked at: see Small.
func (c *Common) Barred(ix *transcript.Index, r *transcript.Result) Gate {
	switch {
	case !c.Enabled:
		return Disabled
	case r.Call < 0 || r.Ambiguous:
		return AmbiguousID
	case len(c.Tools) > 0 && !c.Tools.Match(ix.ToolName(&ix.Calls[r.Call])):
		return ToolExcluded
	case r.NestedMarker:
		return NestedBreakpoint
	case r.Form == transcript.MixedForm || r.Form == transcript.StrangeForm:
		return NonTextBlocks
	case r.Form == transcript.NoContent:
		return BelowMinTokens
	case ix.ResultOutcome(r) == transcript.Failed:
		return FailedResult
	}
	return ""
}

// Small returns BelowMinTokens if the result is under min_tokens.
func (c *Common) Small(ix *transcript.Index, r *transcript.Result) Gate {
	if c.MinTokens > 0 && !ix.Reaches(r, c.MinTokens) {
		return BelowMinTokens
	}
	return ""
}
