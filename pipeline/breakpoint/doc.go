// Package breakpoint decides where an outbound's cache_control markers stand.
//
// [Decide] starts from the client's markers and changes only presence: a hold strips the markers that would cache a held
// result and anchors one before it; keep-previous bridges a gap wider than the provider looks back. The law is its last
// pass: at most four, never more than the client's count and one, every 1h before every 5m, none on a block that may not
// carry one. Where a plan would break it, Decide returns [ErrLaw] and the caller replays without new edits.
//
// The result is edits of bytes; the splicer applies them. The package is pure and imports only the transcript.
package breakpoint
