// Package pipeline turns the body of one request into what is forwarded.
//
// [Engine.Request] is the whole way, top-down: parse, load, match, replay, zones, propose, plan, breakpoints, splice,
// proof, commit. Filters propose, the planner in this package admits, the splicer writes bytes, the store persists.
//
// The one rule is the fallback ladder. Whatever goes wrong, the request is answered by replay (exactly the edits in force
// on its branch) or, if nothing is in force or the replay itself cannot be proven, by the original. Request returns no
// error: a gate in the [Outcome] names the reason.
//
// An Engine is safe for concurrent use. Requests of one session wait for each other for milliseconds; bodies are read and
// hashed before that. The body belongs to the caller and is not changed; Outcome.Body is the caller's to keep.
package pipeline
