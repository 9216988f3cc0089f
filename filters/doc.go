// Package filters is the contract between the pipeline and what decides which results may be shortened.
//
// A [Filter] is a pure function of a [View] and its config: the same view gives the same proposals, the view is not
// changed, and nothing else is looked at (no clock, no store, no environment). For every candidate it returns a proposal
// or a [Gate], never silence. It says what it wants and why; the planner alone decides when, the splicer writes the bytes.
//
// To write a filter, start from docs/new-filter.md.
package filters
