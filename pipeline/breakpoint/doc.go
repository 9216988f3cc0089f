// Package breakpoint decides where an outbound's markers (cache_control, in Bedrock Converse cachePoint) stand and for how long
// they ask. Where the provider caches by itself it changes none.
//
// [Decide] starts from the client's markers and changes only presence and ttl, in this order:
//   - hold strips the markers that would cache a held result and anchors one before it;
//   - place sets two where the client sets none at all: one on system, or tools, and one on the tail; in Converse only for models
//     that are known to take them everywhere;
//   - keep-previous bridges a gap wider than the provider looks back;
//   - ttl makes every marker ask for the same time, unless one of them cannot be judged or the model may take none ([CanSetTTL]).
//
// The law is its last pass: at most four, never more than the client's count and one (those placed count as the client's),
// every 1h before every 5m, none on a block that may not carry one. Where a plan would break it, Decide returns [ErrLaw] and
// the caller replays without new edits. Decided again, an outbound does not change.
//
// The result is edits of bytes; the splicer applies them, and [IsEdit] proves each one from the index alone. The package is
// pure, and of this module it imports only the transcript.
package breakpoint
