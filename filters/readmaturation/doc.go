// Package readmaturation holds fresh reads of files out of the provider's cache while their file is in use, and replaces them
// once it is not: only the marker is ever cached.
//
// The rule: a read of at least min_size_bytes may be held when it is first forwarded. It stays verbatim and out of the cache
// while quiet < quiesce_turns and age < max_hold_turns; then it matures into a marker. Quiet is the newest turn less the turn
// of the last call on the file, age is the newest turn less the turn of the read's own call. Any call on the file counts,
// answered or not, whatever the tool does: a read, edit, write or search that names the path, or an access in a shell
// command. A read without a path is touched by its own turn alone. Whether a read is held is decided once, at first sight;
// matured is final, for a decision in force is no candidate. Paths are compared exactly after lexical cleaning.
//
// # Keys
//
//	enabled         true   false stops new decisions; what is in force is replayed
//	min_tokens      0      smallest read, in estimated tokens, that is held; min_size_bytes alone decides by default
//	marker_mode     full   full: restorable; summary: marker without id, lossy; off: meter only, nothing is held
//	tools           []     globs of tool names; one that starts with ! excludes; none means all
//	quiesce_turns   3      turns without a call on the file after which a held read matures
//	max_hold_turns  8      turns after which a held read matures however busy its file is
//	min_size_bytes  2048   smallest read that is held, in bytes of its unescaped UTF-8 text
//	hold            economic  hold where that is cheaper than caching; always: every read that may be held; never: none
//
// A hold costs: whatever stands behind the held read is not cached either. With economic the planner compares, by the price
// table and the calls that it expects, holding the read with caching it for good and with caching it until the next cold
// moment; that pays late in long sessions alone, and only with usage to learn from. A read that was
// held before the key was set to never still matures.
//
// # Gates
//
//	disabled           enabled is false
//	ambiguous_id       the call id stands twice, or the result answers no call
//	tool_excluded      tools leaves the tool out
//	nested_breakpoint  a breakpoint stands inside the result, or at or after the read
//	non_text_blocks    the result holds something that is no text
//	failed_result      errors are never touched
//	held               it is held and its file is in use
//	hold_declined      it was forwarded before without being held, or its turns are over at first sight
//	not_a_read         the filter looks at reads of files alone; a client's stub is none
//	below_min_size     smaller than min_size_bytes
//	below_min_tokens   smaller than min_tokens, or without content
//	hold_never         hold is never
//	hold_uneconomic    hold is economic, and caching the read is cheaper or nothing is known of prices
//	prefix_bound       the model binds its thinking to the exact prefix
//	automatic_caching  the provider places the breakpoint itself
//	delta_body         history is not in the body
//	no_breakpoint      no breakpoint to move, or nowhere to move it to
//	meter_only         marker_mode is off: it would have been held
//
// It never touches a read that the provider may have cached, an error, or anything that is not a read, and moves no
// breakpoint itself.
package readmaturation
