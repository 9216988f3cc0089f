// Package readlifecycle replaces reads of files whose content a later call has outdated or shown again.
//
// The rule: events are calls that were answered and succeeded. A read is stale if an edit, write, multi-edit or notebook
// edit of a strictly later turn touched the same path; it is superseded if a read of a strictly later turn asked for the
// same path and the same range; else it is fresh. Stale wins. Calls of one turn are never later than each other. Paths
// are compared exactly after lexical cleaning; a relative and an absolute form of one file are two files, and so are equal
// paths of another server, host or revision, and relative ones in shell commands with a possible cd between them. A read without
// range arguments and one with explicit ones have different ranges, whatever they cover. A failed, unanswered or empty
// call is no event, nor is a stub by which a client refers to what it sent before: it supersedes nothing and is itself no
// read. A call that names several files edits each of them, but is no read of any. Events only accumulate, so a verdict
// never goes back to fresh as a transcript with unique call ids grows.
//
// # Keys
//
//	enabled         true   false stops new decisions; what is in force is replayed
//	min_tokens      100    smallest read, in estimated tokens, that is replaced
//	marker_mode     full   full: restorable; summary: marker without id, lossy; off: meter only
//	tools           []     globs of tool names; one that starts with ! excludes; none means all
//	stale           true   replace reads of files that were modified later
//	superseded      true   replace reads that were made again later
//	bash_edits      false  count >, >>, tee, sed -i, patch and truncate in shell commands as edits
//	bash_reads      true   count cat, sed -n, head, tail and nl of one file in shell commands as reads
//	stale_at_depth  false  let stale reads take part in warm moves, where the loss of cache is priced
//	cold_cache      true   take part in cold moves, where nothing cached is lost
//
// # Gates
//
//	disabled           enabled is false
//	ambiguous_id       the call id stands twice, or the result answers no call
//	tool_excluded      tools leaves the tool out
//	nested_breakpoint  a breakpoint stands inside the result
//	non_text_blocks    the result holds something that is no text
//	failed_result      errors are never touched
//	no_file_reads      nothing that could be decided now is a read of a file
//	not_a_read         this result is not a read of a file with a path, but another one is
//	fresh_read         nothing happened to the file since, as far as stale, superseded, bash_edits and bash_reads count it
//	below_min_tokens   stale or superseded, but smaller than min_tokens, or without content
//
// It never touches the call that made the read, the newest turn, errors, images or anything that is not a read, never reads
// the files themselves, and never guesses what git apply, a script or make wrote.
package readlifecycle
