// Package shed cuts the stale middle out of a transcript that has outgrown its budget.
//
// When the messages exceed budget, whole exchanges behind the head go, from the oldest on: as many quanta of their tokens as
// bring the rest back within budget, never one of the newest keep_recent_turns. The head is everything through the first message
// of a human. An exchange is what the assistant said and called with all the results that answer it, so no call is parted from
// its result. What humans said in between stays in its place with what it answers, or goes too if keep_human is false: then
// texts with a pin are kept word for word in the stub, and without any it quotes the first words.
//
// A cut is decided once and then stands still: it is found again by the last message of the head and the first message behind
// it, whatever the client changes behind that. A later cut goes further and adds a line to the stub. Only a move makes one:
// where nothing behind the head is cached, or where the route allows warm moves and the sum pays.
//
// # Keys
//
//	enabled            true    false stops new cuts; the one in force is replayed
//	marker_mode        full    full: restorable; summary: stub without id, lossy; off: meter only
//	budget             96000   estimated tokens of messages above which a span is cut; 0: never
//	quantum            48000   a cut leaves out as many whole quanta as bring the messages back within budget
//	keep_recent_turns  6       newest assistant turns that are never cut
//	keep_human         true    what humans said in the span stays in its place, with what they answered
//	pins               [[tidemark:goal] [fak:goal]]  starts of lines; a human's text with one is kept in the stub where keep_human is false
//
// # Gates
//
//	disabled          enabled is false, or budget is 0
//	prefix_bound      the model binds its thinking to the exact prefix
//	cached_prefix     the provider may hold what stands behind the head
//	cut_lost          the client took the ends of the cut away, and the provider may hold what stands behind the head
//	no_messages       no human speaks anywhere, so nothing is a head
//	no_breakpoint     the body has no breakpoint at all, so nothing of it is cached
//	too_few_messages  no more turns than keep_recent_turns follow the head
//	ambiguous_id      a call id stands twice, so that no message is like no other
//	under_budget      the messages are within budget
//	nothing_to_drop   no exchange behind the head may go, or less than a quantum of them
//	open_pair         every boundary that would do parts a call from its result
//	pin_refused       what is pinned in the span is above a quarter of budget
//	in_cut            the result lies in the span that is cut
//	beyond_cut        a span is cut, and the result lies outside
//
// It never edits a message, and never touches what stands before the end of the head but by the stub.
package shed
