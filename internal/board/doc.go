// Package board is the page that people look at, and what is behind it: recent sessions in memory, a JSON API, and files that a
// browser runs.
//
// The one rule: what it costs is bounded and paid by nobody's request. [Board.Take] does a constant amount of work under one lock
// and never waits for a reader; readers copy small summaries under that lock and write JSON after it. What is kept is bounded by
// sessions, by conversations of a session, by requests and results of a conversation, and by bytes in all; the least recently
// active go first, and of them requests and results before sums. Totals count since the start and include what has gone. Nothing
// is written to disk: a restart begins anew.
//
// Figures keep their origin: what the provider said stands in objects named observed, what would have been without tidemark in
// modelled, what bytes suggest in estimated, what mode active would have done in shadow. A ratio is called by what it divides:
// read_of_prompt, net_of_baseline. Requests of other origins are never added to one another.
//
// Content is shown only where [Options.Content] gives it. All strings may come from a hostile client: they are cut to bounded
// lengths here, and the page shows them as text.
//
// A [Board] is safe for concurrent use. Start reading at [Board.Take], then [Board.Handler]; web/ holds the page.
package board
