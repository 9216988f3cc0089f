// Package tiered shortens results with age: an excerpt first, then nothing but facts of the call.
//
// The rule: the distance of a result is the number of later turns that have results; calls of one turn have one distance.
// Below window it is left alone. Below stub_distance it keeps an excerpt, its head and its tail (verdict tier2); from there
// on the tool, the first 100 characters of the arguments, size, lines and outcome (verdict tier1). Tools whose output is the reason of
// the call, those with a role of floor, keep an excerpt at any distance, each result for itself. Of what browser tools
// show, the newest browser_window observations are kept and older ones become one line (verdict browser), at any distance and whatever the floor;
// a page fetched by its address is a document and no observation. The first decision on a result is final: an excerpt
// never becomes facts of the call. What the model has not answered yet is never touched, nor is anything in a session of fewer
// turns than window.
//
// With a summarizer, a result of more than summary_min_chars characters keeps a summary instead of an excerpt (verdict
// tier2_summary), clipped to 800 characters, if one is ready when its decision is made. It is asked for from two turns before
// window on, the newest results first, and prepared in the background while the provider holds the result: no request waits for
// it, and what is not ready by then keeps an excerpt for good. Results with a floor, thoughts, and reports of other agents are
// never summarised.
//
// Age says nothing of whether a result is outdated, so proposals take part in cold moves alone, where nothing cached is lost.
//
// # Keys
//
//	enabled         true                         false stops new decisions; what is in force is replayed
//	min_tokens      100                          smallest result, in estimated tokens, that is shortened
//	marker_mode     full                         full: restorable; summary: marker without id, lossy; off: meter only
//	tools           [!AskUserQuestion !ExitPlanMode]  globs of tool names; one that starts with ! excludes; none means all
//	window          8                            a result is left alone while fewer later turns have results
//	stub_distance   20                           from as many later turns on nothing of a result is kept but facts of its call
//	max_chars       300                          characters of an excerpt, three quarters from the head and one from the tail; 0 keeps none
//	browser_window  3                            newest browser observations that are kept; older ones become one line; 0: no window of their own
//	floor           [read search list browser]   roles of tools whose results keep an excerpt at any distance
//	summary_min_chars      2000  a result of more characters keeps a summary in place of an excerpt, if one is ready
//	max_attempts_per_pass  2  summaries that are begun on a branch between two moves, whatever becomes of them
//	summarizer      {url: "", api: openai, model: "", timeout: 30s, max_input_tokens: 16000}  model that writes summaries; without url there are none
//
// # Gates
//
//	disabled           enabled is false
//	ambiguous_id       the call id stands twice, or the result answers no call
//	tool_excluded      tools leaves the tool out
//	nested_breakpoint  a breakpoint stands inside the result
//	non_text_blocks    the result holds something that is no text
//	failed_result      errors are never touched
//	short_session      fewer turns than window have results
//	working_set        fewer than window later turns have results, or the model has not seen it
//	below_min_tokens   old enough, but smaller than min_tokens, or without content
//	floor              old enough for facts of the call, but its role keeps an excerpt, and that would be all of it
//	marker_no_gain     the excerpt would be all of it, or a summary would save too little and an excerpt takes its place
//	no_summary         no summary is ready: an excerpt takes its place
//	attempts_spent     nor is one begun before the next move: an excerpt takes its place
//	summary_exempt     its role has a floor, or it is a thought or another agent's report: an excerpt takes the summary's place
//
// It never touches a call, errors, images, or a result twice.
package tiered
