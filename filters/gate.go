package filters

// Gate is a named reason for not acting. The list is closed: a gate is the same word in metrics, events, logs and docs. A
// filter may declare gates of its own, as constants of its package.
type Gate string

// Gates of a result.
const (
	BelowMinTokens   Gate = "below_min_tokens"  // the result is smaller than min_tokens
	FailedResult     Gate = "failed_result"     // errors are never touched
	NonTextBlocks    Gate = "non_text_blocks"   // the result holds something that is no text
	NestedBreakpoint Gate = "nested_breakpoint" // a breakpoint stands inside the result, or at or after a read to be held
	AmbiguousID      Gate = "ambiguous_id"      // the call id stands twice, or the result answers no call
	MarkerNoGain     Gate = "marker_no_gain"    // a marker would save less than 20 tokens
	CachedPrefix     Gate = "cached_prefix"     // the provider may hold it: wait until it is cold
	PrefixBound      Gate = "prefix_bound"      // the model binds its thinking to the exact prefix
	StoreUnavailable Gate = "store_unavailable" // originals cannot be kept now
	StoreFull        Gate = "store_full"        // the tenant's originals fill max_original_bytes, and all that is kept may be asked for
	FilterError      Gate = "filter_error"      // the filter broke its contract or panicked; its other words are not used either
	MeterOnly        Gate = "meter_only"        // marker_mode is off
	ToolExcluded     Gate = "tool_excluded"     // the tools key leaves the tool out
	ColdOff          Gate = "cold_off"          // the filter does not take part in cold moves
	Outranked        Gate = "outranked"         // another filter decided on the result first
	KeptVerbatim     Gate = "kept_verbatim"     // it was given back: what a model asked for again is never shortened again
	AlreadyMarked    Gate = "already_marked"    // it is a marker, as a whole
	SmallPrompt      Gate = "small_prompt"      // what is left could be too small for the provider to cache
	Disabled         Gate = "disabled"          // the filter's enabled key is false
	ColdMisjudged    Gate = "cold_misjudged"    // on this route the provider held more than the clock said: no cold moves until restart
	BreakEven        Gate = "break_even"        // a warm move would not save enough over the calls that are expected
	RewriteBudget    Gate = "rewrite_budget"    // the branch has had its warm moves
	MoveSpacing      Gate = "move_spacing"      // fewer than min_turns_between_moves since the last warm move
	WindowShort      Gate = "window_short"      // what could be left out does not bring the prompt down to 0.6 of the window
)

// Gates of readlifecycle and readmaturation.
const (
	NoFileReads      Gate = "no_file_reads"     // nothing that could be decided now is a read of a file
	FreshRead        Gate = "fresh_read"        // nothing happened to the file since that the filter acts on
	NotARead         Gate = "not_a_read"        // the filter looks at file reads alone
	Held             Gate = "held"              // still held: its file is in use
	HoldDeclined     Gate = "hold_declined"     // it was forwarded before without being held, or is too old to be held now
	HoldNever        Gate = "hold_never"        // hold: never
	HoldUneconomic   Gate = "hold_uneconomic"   // hold: economic, and caching it now is cheaper
	BelowMinSize     Gate = "below_min_size"    // smaller than min_size_bytes
	NoBreakpoint     Gate = "no_breakpoint"     // no breakpoint to move, or nowhere to move it to
	AutomaticCaching Gate = "automatic_caching" // the provider places the breakpoint itself
)

// Gates of tiered.
const (
	WorkingSet   Gate = "working_set"   // fewer than window later turns have results
	Floor        Gate = "floor"         // the role of its tool keeps an excerpt, which would be all of it
	ShortSession Gate = "short_session" // fewer turns than window have results
)

// Gates of summaries. They do not stop a replacement: an excerpt takes the place of the summary.
const (
	NoSummary     Gate = "no_summary"     // no summary is ready: it was never begun, is not done, failed, or was refused
	AttemptsSpent Gate = "attempts_spent" // no summary is ready, and the branch has begun its attempts since the last move
	SummaryExempt Gate = "summary_exempt" // its tool's results are never summarised
)

// Gates of shed.
const (
	NoMessages     Gate = "no_messages"      // no human speaks anywhere, so nothing is a head
	TooFewMessages Gate = "too_few_messages" // no more turns than keep_recent_turns follow the head
	UnderBudget    Gate = "under_budget"     // the messages are within budget
	OpenPair       Gate = "open_pair"        // every boundary that would do parts a call from its result
	NothingToDrop  Gate = "nothing_to_drop"  // no exchange behind the head may go, or what may go is too little
	Unprofitable   Gate = "unprofitable"     // the stub would be as large as what it stands for
	PinRefused     Gate = "pin_refused"      // what is pinned in the span is above a quarter of budget
	CutLost        Gate = "cut_lost"         // the client took the ends of the cut away: all is sent, and nothing cut until it is cold
	InCut          Gate = "in_cut"           // it lies in the span that is cut
	BeyondCut      Gate = "beyond_cut"       // a span is cut, and it lies outside
	PrefixMismatch Gate = "prefix_mismatch"  // the proof of a cut found the head changed
	MalformedBody  Gate = "malformed_body"   // the proof of a cut found a body that is not what was planned
)

// Gates of coref.
const (
	TriggerNotMet      Gate = "trigger"         // the request fills less of the window than trigger asks for, or the window is not known
	NotIndexed         Gate = "not_indexed"     // after the last assistant message, or in a transcript with too many identifiers
	OpaqueResult       Gate = "opaque"          // it brought no identifier into the transcript, so nothing shows whether it was used
	OpenResult         Gate = "open"            // used often or lately, or too few turns followed
	ClosedResult       Gate = "closed"          // used, but not lately, and cut_closed is false
	UnreferencedResult Gate = "unreferenced"    // never used again, and cut_unreferenced is false
	BatchTooSmall      Gate = "batch_too_small" // what could be left out is less than min_batch_frac of the request, or than the step by which the provider bills reads
)

// Gates of a whole request.
const (
	NoSession       Gate = "no_session"        // nothing names the session
	StringHead      Gate = "string_head"       // the first human message is a string, and nobody knows whether the server takes a list in its place
	ClientSigned    Gate = "client_signed"     // a signature or a digest of the client covers the body
	DeltaBody       Gate = "delta_body"        // history is not in the body
	Bypass          Gate = "bypass"            // x-tidemark-bypass
	SideRequest     Gate = "side_request"      // token counts, titles, probes, compaction
	TooManyBranches Gate = "too_many_branches" // 64 branches of the session are alive
	Unparsed        Gate = "unparsed"          // the body could not be read without doubt
	Retry           Gate = "retry"             // a body that was seen before
	Shadow          Gate = "shadow"            // mode: shadow
	Rollout         Gate = "rollout"           // the session is not in the share that rollout asks for
	Holdout         Gate = "holdout"           // the session is one of those that the others are compared with
	Off             Gate = "off"               // mode: off
	BadConfig       Gate = "bad_config"        // the route's config could not be used
	Deadline        Gate = "deadline"          // no time left to decide
	Busy            Gate = "busy"              // another request of the session held the lock too long
	Panic           Gate = "panic"             // a fault of tidemark's own, contained
	ProofFailed     Gate = "proof_failed"      // new edits could not be proven
	Law             Gate = "breakpoint_law"    // breakpoints would have become unlawful
	Conflict        Gate = "conflict"          // another replica decided first
	NoPipeline      Gate = "no_pipeline"       // the route has no filters
	Brake           Gate = "brake"             // the branch's reads fell short twice: nothing new until it forks
	RawGuard        Gate = "raw_guard"         // the body is near the window: the client should compact, and sees its own size
)

// Gates returns every gate of this package, in the order of the docs.
func Gates() []Gate {
	return []Gate{
		BelowMinTokens, FailedResult, NonTextBlocks, NestedBreakpoint, AmbiguousID, MarkerNoGain, CachedPrefix,
		PrefixBound, StoreUnavailable, StoreFull, FilterError, MeterOnly, ToolExcluded, ColdOff, Outranked, KeptVerbatim, AlreadyMarked, SmallPrompt, Disabled,
		ColdMisjudged, BreakEven, RewriteBudget, MoveSpacing, WindowShort,
		NoFileReads, FreshRead, NotARead, Held, HoldDeclined, HoldNever, HoldUneconomic, BelowMinSize, NoBreakpoint, AutomaticCaching,
		WorkingSet, Floor, ShortSession, NoSummary, AttemptsSpent, SummaryExempt,
		NoMessages, TooFewMessages, UnderBudget, OpenPair, NothingToDrop, Unprofitable, PinRefused, CutLost, InCut, BeyondCut,
		PrefixMismatch, MalformedBody,
		TriggerNotMet, NotIndexed, OpaqueResult, OpenResult, ClosedResult, UnreferencedResult, BatchTooSmall,
		NoSession, StringHead, ClientSigned, DeltaBody, Bypass, SideRequest, TooManyBranches, Unparsed, Retry, Shadow, Rollout, Holdout, Off, BadConfig, Deadline,
		Busy, Panic, ProofFailed, Law, Conflict, NoPipeline, Brake, RawGuard,
	}
}
