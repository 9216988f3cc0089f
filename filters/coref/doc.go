// Package coref replaces results that nothing referred back to.
//
// The rule: a result introduces an identifier that stands in no earlier text, call or result of the messages, nor in a
// result or a text of its own turn's answers, and that is not furniture of the session: in no more than five results, or in
// no more than a quarter of them. A reference is a later assistant turn whose text or call arguments use one of them; what
// users write, what results show and what the model thinks are none. The verdicts, in this order:
//
//	opaque        it introduced nothing: nothing can show whether it was used, so it stays
//	open          fewer than min_later_turns assistant turns followed
//	unreferenced  no turn referred to it
//	open          open_reps turns or more referred to it, or the last did less than closed_dist messages before the newest
//	closed        it was used, and that is over
//
// Candidates for identifiers are, the leftmost first: a letter or underscore with 2 to 63 of A-Z a-z 0-9 _ . / : -; a word of
// three digits or more; a word of 7 to 40 digits and letters a to f. They are trimmed of . _ : - / and kept if four bytes are
// left and they tell one thing from another: a number needs five digits or a separator, all else a separator, a digit, or a
// capital after a small letter.
//
// The index is read from the transcript as the client sends it, up to the last assistant message: what follows cannot have
// been used yet. It grows by new messages where the view keeps a memo and is read anew where it does not; the proposals are
// the same. Later evidence never brings back what was replaced, and a verdict is not final before its decision is: a result
// that is unreferenced now may be open when the next move comes. No exact use is not no use: a value that the model reworded
// or summed up leaves no trace here. So a marker never says that its content is not needed: it tells the shape of JSON, or
// how the content begins.
//
// It takes part in cold moves always and in warm moves up to rewrite_budget. Whether a warm move is made is the planner's
// business, by the keys min_batch_frac, rewrite_budget and break_even and the gates batch_too_small, rewrite_budget and
// break_even.
//
// # Keys
//
//	enabled           true                     false stops new decisions; what is in force is replayed
//	min_tokens        300                      smallest result, in estimated tokens, that is replaced
//	marker_mode       full                     full: restorable; summary: marker without id, lossy; off: meter only
//	tools             []                       globs of tool names; one that starts with ! excludes; none means all
//	cut_unreferenced  true                     replace unreferenced results
//	cut_closed        false                    replace closed results
//	min_later_turns   8                        assistant turns that must have followed a result
//	open_reps         3                        references from which on a result stays open, however old they are
//	closed_dist       12                       messages from the last reference to the newest message from which on a result is closed
//	keep_head_chars   96                       characters of the beginning that a marker shows, if it is no JSON; 0: none
//	min_batch_frac    0.05                     smallest batch that causes a warm move, as a share of the request's tokens
//	rewrite_budget    3                        warm moves of a branch in which the filter takes part; 0: none
//	break_even        true                     a warm move must pay
//	trigger           {min_request_frac: 0}    share of the model's window from which on the filter acts; above 0 never where the window is not known
//
// # Gates
//
//	disabled           enabled is false
//	ambiguous_id       the call id stands twice, or the result answers no call
//	tool_excluded      tools leaves the tool out
//	nested_breakpoint  a breakpoint stands inside the result
//	non_text_blocks    the result holds something that is no text
//	failed_result      errors are never touched
//	trigger            the request does not fill the window as far as trigger asks
//	not_indexed        it stands after the last assistant message
//	opaque             it introduced nothing
//	open               it is in use, or may yet be
//	closed             it was used, and cut_closed is false
//	unreferenced       it was not used, and cut_unreferenced is false
//	below_min_tokens   to be cut, but smaller than min_tokens, or without content
//
// It never touches calls, texts, the newest turn, errors or images, and never guesses what a model meant.
package coref
