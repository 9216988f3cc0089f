// Package simagent plays a random coding agent: the requests that its client sends, the answers that the provider gives,
// and what happens around them (retries, forks, rewinds, subagents, side calls, compaction, model switches, pauses, aborts,
// restarts of tidemark, a second replica, a store that fails, config pushes).
//
// [Play] makes a list of timed events from a seed. Bodies never depend on what a filter does with them, so the same list
// runs with and without one, and the two bills can be compared.
package simagent
